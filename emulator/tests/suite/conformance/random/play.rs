//! Plays a sequence on both servers and finds the first reply in which they differ.
//!
//! The emulator goes first. It shows at once how many replies there are, which client gets them,
//! and which clients block. Consecutive commands of one client go to the real server in one piece.
//! If the server has answered others since, a reply that did not come counts as missing.

use std::time::Duration;

use emulator::{Clock, Emulator, Timestamp};

use super::super::wire::{Emulated, Peer as _, Real, Wire, parse, request};
use super::command::{CLIENTS_MAX, Step};
use super::forms::LONG;
use super::grammar::{Argv, Word};
use super::judge::{Promise, is_about_old_error, say_the_same};
use crate::redis_server::OwnServer;

/// How far apart two times may be, because the servers' clocks differ slightly.
const TOLERANCE_MS: i64 = 150;
/// The most time for the commands between two waits. If they take longer, the test cannot tell
/// which keys have expired.
const SEGMENT_MS_MAX: u64 = 80;
/// A difference counts if this many tries show one and no try agrees. If one try agrees, timing on
/// the real server caused the difference. For example, a millisecond passed between two commands,
/// so that a key expired, or `GT` was true of equal spans.
const DIFFERENCES: usize = 10;
/// The most tries, including those that took too long.
const TRIES_MAX: usize = 5 * DIFFERENCES;
/// The databases whose keys are compared at the end: those that commands select or name.
const DATABASES: &[&str] = &["0", "1", "15"];
/// The commands that read every key at the end. A wrong-type error is compared like any reply.
const LOOKS: &[&[&str]] = &[
    &["type", "K"],
    &["pexpiretime", "K"],
    &["get", "K"],
    &["hgetall", "K"],
    &["lrange", "K", "0", "-1"],
    &["smembers", "K"],
    &["zrange", "K", "0", "-1", "withscores"],
    &["object", "encoding", "K"],
];
/// The time to wait for a reply before the test checks whether the server still runs.
const PATIENCE: Duration = Duration::from_millis(20);
/// Settings that are restored after a sequence.
const SETTINGS: &[(&str, &str)] = &[("notify-keyspace-events", "")];
/// Commands whose messages about several topics come in no fixed order.
const TOPICS: &[&str] = &["psubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "reset"];
const LAST: &str = "that was all";

/// Both servers, with a few clients of the real one.
pub struct Pair {
    server: OwnServer,
    clients: [Real; CLIENTS_MAX],
    /// Reads the state of the server and sends none of the sequence's commands.
    observer: Real,
    emulator: Emulator,
    clock: Clock,
    /// The last difference does not count. Either the commands between two waits took too long, or
    /// the real server read a stale error number.
    is_void: bool,
}

/// The first difference between the two servers.
#[derive(Debug)]
pub struct Difference {
    /// The number of steps before the difference.
    pub steps: usize,
    /// The command that showed the difference, if it was one of [`LOOKS`] at the end.
    pub look: Option<String>,
    /// The real server's replies from there on; empty if no reply came.
    pub real: Vec<Vec<u8>>,
    /// The emulator's replies from there on.
    pub emulated: Vec<Vec<u8>>,
}

/// How many commands are sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// All consecutive commands of one client.
    InRows,
    /// One command.
    OneByOne,
}

impl Pair {
    pub fn new(server: OwnServer) -> Pair {
        let clients = std::array::from_fn(|_| connect(&server));
        let observer = observer(&server);
        Pair { server, clients, observer, emulator: Emulator::new(), clock: Clock::manual(), is_void: false }
    }

    /// Plays a sequence from empty servers. If they differ, plays it again to find out whether they
    /// always differ.
    ///
    /// # Errors
    /// Returns the difference if the servers differ in every try that counts.
    pub fn play(&mut self, steps: &[Step], pace: Pace) -> Result<(), Difference> {
        let mut differences = 0;
        for _ in 0..TRIES_MAX {
            match self.play_once(steps, pace) {
                Some(Err(difference)) if differences + 1 == DIFFERENCES => return Err(difference),
                Some(Err(_)) => differences += 1,
                None if differences > 0 => {}
                Some(Ok(())) | None => break,
            }
        }
        Ok(())
    }

    /// Plays the sequence once. Returns `None` if the result does not count.
    fn play_once(&mut self, steps: &[Step], pace: Pace) -> Option<Result<(), Difference>> {
        let now = self.server_time().unwrap_or_else(|| {
            // The server crashed, and that counted as a difference.
            self.server.restart();
            self.clients = std::array::from_fn(|_| connect(&self.server));
            self.observer = observer(&self.server);
            self.server_time().expect("it has just been started")
        });
        self.clock.set(now);
        self.is_void = false;
        self.emulator.reset(self.clock.clone());
        let mut emulated = std::array::from_fn(|_| Emulated::open(&self.emulator));
        let mut result = self.take(steps, pace, &mut emulated);
        if result.is_ok() {
            result = self.look(steps.len());
        }
        if self.server_time().is_none() {
            return Some(result);
        }
        self.notice_lateness();
        let reset = self.reset(steps, &mut emulated);
        (!self.is_void).then_some(result.and(reset))
    }

    fn take(
        &mut self,
        steps: &[Step],
        pace: Pace,
        emulated: &mut [Emulated; CLIENTS_MAX],
    ) -> Result<(), Difference> {
        let mut taken = 0;
        while let Some(step) = steps.get(taken) {
            let (sender, len) = match step {
                Step::Advance(span) => {
                    self.wait(*span);
                    (0, 1)
                }
                Step::Call(client, _) => {
                    let rest = &steps[taken..];
                    let same = |step: &&Step| matches!(step, Step::Call(next, _) if next == client);
                    let len = if pace == Pace::InRows { rest.iter().take_while(same).count() } else { 1 };
                    let bytes: Vec<u8> = calls_of(*client, &rest[..len]).flat_map(request_of).collect();
                    emulated[*client].send(&bytes);
                    self.clients[*client].send(&bytes);
                    (*client, len)
                }
            };
            taken += len;
            self.compare(sender, &steps[..taken], len, emulated)?;
        }
        Ok(())
    }

    /// Moves both clocks. The real server's time really passes, until it is as late as the
    /// emulator's.
    fn wait(&mut self, span: Duration) {
        self.notice_lateness();
        self.clock.advance(span);
        self.emulator.tick();
        while self.server_time().is_some_and(|now| now < self.clock.now()) {
            // The blocking command waits without polling all the time.
            self.observer.call(&["blpop", "a key that is never there", "0.005"]);
        }
    }

    /// Records whether the commands since the last wait took too long.
    fn notice_lateness(&mut self) {
        let now = self.server_time().unwrap_or_default();
        self.is_void |= now.since(self.clock.now()) > Duration::from_millis(SEGMENT_MS_MAX);
    }

    /// The real server's time; `None` if the server no longer runs.
    fn server_time(&mut self) -> Option<Timestamp> {
        let reply = self.observer.call(&["time"]);
        let (Wire::Items(_, parts), _) = parse(&reply)? else { return None };
        let [Wire::Bulk(seconds), Wire::Bulk(micros)] = &parts[..] else { return None };
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u64>().ok();
        let since_epoch = Duration::from_secs(number(seconds)?) + Duration::from_micros(number(micros)?);
        Some(Timestamp::default() + since_epoch)
    }

    /// Compares all replies after these steps, the last `n_new` of which are new. The replies of
    /// the client that sent these come first.
    fn compare(
        &mut self,
        sender: usize,
        steps: &[Step],
        n_new: usize,
        emulated: &mut [Emulated; CLIENTS_MAX],
    ) -> Result<(), Difference> {
        // A woken client may wake others.
        while emulated.iter_mut().map(Emulated::hear).fold(false, |heard, hears| heard | hears) {}
        if !emulated[sender].has_replies() {
            self.observer.call(&["ping"]);
        }
        for client in (0..CLIENTS_MAX).map(|offset| (sender + offset) % CLIENTS_MAX) {
            let ours: Vec<_> = std::iter::from_fn(|| emulated[client].receive_at_once()).collect();
            let theirs = self.receive(client, ours.len());
            let own: Vec<&Argv> = calls_of(client, &steps[steps.len() - n_new..]).collect();
            let keeps = |idx: usize| {
                let (Some(real), Some(emulated)) = (theirs.get(idx), ours.get(idx)) else { return false };
                let alone = own.get(idx).filter(|argv| ours.len() == own.len() && argv[0] != "exec");
                let promise = match alone {
                    _ if real == emulated => Promise::Exact,
                    Some(argv) => Promise::of([*argv], has_long(steps)),
                    None => Promise::of(calls_of(client, steps), has_long(steps)),
                };
                promise.holds(real, emulated, TOLERANCE_MS)
            };
            let is_end = emulated[client].is_closing();
            let topics_have_no_order = || is_about(steps, TOPICS) && say_the_same(&theirs, &ours);
            let first = (0..ours.len()).find(|&idx| !keeps(idx)).filter(|_| !topics_have_no_order());
            // Redis closes a connection after it has written a reply. If the client has turned off
            // replies, the connection stays open until then.
            let mut stays_open =
                || !is_about(steps, &["client"]) && !self.clients[client].is_closed(&mut self.observer);
            if first.is_some() || is_end && stays_open() {
                let idx = first.unwrap_or(ours.len());
                if let (Some(real), Some(emulated)) = (theirs.get(idx), ours.get(idx)) {
                    let sent = (0..CLIENTS_MAX).flat_map(|client| calls_of(client, steps));
                    self.is_void |= is_about_old_error(real, emulated, sent);
                }
                let (real, emulated) = (theirs[idx.min(theirs.len())..].to_vec(), ours[idx..].to_vec());
                return Err(Difference { steps: steps.len(), look: None, real, emulated });
            }
            if is_end {
                emulated[client] = Emulated::open(&self.emulator);
                self.clients[client] = connect(&self.server);
            }
        }
        Ok(())
    }

    /// This many replies, or fewer if no more come.
    fn receive(&mut self, client: usize, count: usize) -> Vec<Vec<u8>> {
        (0..count).map_while(|_| self.clients[client].receive_while_alive(&mut self.observer)).collect()
    }

    /// Compares the keys of both servers at the end.
    fn look(&mut self, steps: usize) -> Result<(), Difference> {
        let mut emulated = Emulated::open(&self.emulator);
        for db in DATABASES {
            let keys: Vec<Argv> = vec![vec!["select".into(), (*db).into()], vec!["keys".into(), "*".into()]];
            let listed = self.ask(&mut emulated, &keys, steps)?;
            let Some((Wire::Items(_, keys), _)) = parse(&listed[1]) else {
                continue;
            };
            let keys = keys.iter().map(|key| key.to_string().trim_matches('"').to_owned());
            let looks = keys.flat_map(|key| {
                LOOKS.iter().map(move |look| {
                    let word = |word: &&'static str| {
                        if *word == "K" { Word::from(key.clone()) } else { (*word).into() }
                    };
                    look.iter().map(word).collect::<Argv>()
                })
            });
            self.ask(&mut emulated, &looks.collect::<Vec<_>>(), steps)?;
        }
        Ok(())
    }

    /// Sends commands to both servers and compares the replies. Returns the emulator's.
    fn ask(
        &mut self,
        emulated: &mut Emulated,
        asked: &[Argv],
        steps: usize,
    ) -> Result<Vec<Vec<u8>>, Difference> {
        self.observer.send(&asked.iter().flat_map(request_of).collect::<Vec<u8>>());
        let replies: Vec<_> = asked
            .iter()
            .map(|argv| (emulated.call(&bytes_of(argv)), self.observer.receive().unwrap_or_default()))
            .collect();
        for (argv, (emulated, real)) in asked.iter().zip(&replies) {
            let promise = Promise::of([argv], true);
            if !promise.holds(real, emulated, TOLERANCE_MS) {
                let (real, emulated) = (vec![real.clone()], vec![emulated.clone()]);
                return Err(Difference { steps, look: Some(argv.join(" ")), real, emulated });
            }
        }
        Ok(replies.into_iter().map(|(emulated, _)| emulated).collect())
    }

    /// Empties the real server and renews its clients. A reply without a request counts as a
    /// difference.
    fn reset(&mut self, steps: &[Step], emulated: &mut [Emulated; CLIENTS_MAX]) -> Result<(), Difference> {
        let mut result = Ok(());
        for (client, emulated) in emulated.iter_mut().enumerate() {
            if emulated.answers(&["reset"]) {
                self.clients[client].send(&[request(&["reset"]), request(&["echo", LAST])].concat());
                let replies =
                    std::iter::from_fn(|| self.clients[client].receive_while_alive(&mut self.observer));
                let mut real: Vec<_> =
                    replies.take_while(|reply| !reply.ends_with(b"that was all\r\n")).collect();
                if real.pop().is_some_and(|last| last == b"+RESET\r\n") {
                    if !real.is_empty() {
                        let steps = steps.len();
                        result = Err(Difference { steps, look: None, real, emulated: Vec::new() });
                    }
                    continue;
                }
            }
            self.clients[client] = connect(&self.server);
        }
        let mut commands = vec![vec!["select", "0"], vec!["flushall"]];
        if is_about(steps, &["eval", "script"]) {
            commands.push(vec!["script", "flush"]);
        }
        if is_about(steps, &["function"]) {
            commands.push(vec!["function", "flush"]);
        }
        if is_about(steps, &["config"]) {
            commands.extend(SETTINGS.iter().map(|(name, value)| vec!["config", "set", *name, *value]));
        }
        self.observer.send(&commands.iter().flat_map(|argv| request(argv)).collect::<Vec<u8>>());
        for argv in commands {
            assert_eq!(self.observer.receive().as_deref(), Some(&b"+OK\r\n"[..]), "{argv:?}");
        }
        result
    }
}

/// Whether the steps contain a command whose name begins with one of these.
fn is_about(steps: &[Step], names: &[&str]) -> bool {
    let mut calls = (0..CLIENTS_MAX).flat_map(|client| calls_of(client, steps));
    calls.any(|argv| names.iter().any(|name| argv[0].starts_with(name)))
}

fn has_long(steps: &[Step]) -> bool {
    (0..CLIENTS_MAX).any(|client| calls_of(client, steps).flatten().any(|word| word.contains(LONG)))
}

/// A connection that waits only briefly for a reply.
fn connect(server: &OwnServer) -> Real {
    let stream = server.connect();
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes this option");
    Real::over(stream)
}

fn observer(server: &OwnServer) -> Real {
    let mut observer = Real::over(server.connect());
    // Without active expiry, a key that has expired stays until a command reads it.
    observer.call(&["debug", "set-active-expire", "0"]);
    observer
}

fn calls_of(client: usize, steps: &[Step]) -> impl Iterator<Item = &Argv> {
    steps.iter().filter_map(move |step| match step {
        Step::Call(sender, argv) if *sender == client => Some(argv),
        _ => None,
    })
}

fn request_of(argv: &Argv) -> Vec<u8> {
    request(&bytes_of(argv))
}

fn bytes_of(argv: &Argv) -> Vec<&[u8]> {
    argv.iter().map(|word| word.as_bytes()).collect()
}
