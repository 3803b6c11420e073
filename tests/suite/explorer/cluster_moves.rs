//! Clients of a cluster, of which a slot moves. Brute force runs them on servers that reach each
//! other ([`Emulator::cluster`]). It runs all orders of requests, redirections and the parts of the
//! move. The explorer must have the same outcomes.
//!
//! This judge shares nothing with what it judges but the emulator's commands: its servers know of
//! each other by themselves, and it has a client of its own.

use std::collections::{BTreeMap, BTreeSet};

use emulator::{Clock, DirectConnection, Emulator, Reply, key_slot};
use harness::{Faults, Scenario};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::brute_forced::{Programs, expect_outcomes, with_programs};
use crate::bounds;

/// `a`, `{a}b` and `c` are at the second server, and `b` at the first one.
const COMMANDS: &[&str] = &[
    "INCR a",
    "SETNX a 1",
    "GET a",
    "DEL a",
    "INCR {a}b",
    "MSET a 1 {a}b 2",
    "MGET a {a}b",
    "DEL a {a}b",
    "RENAMENX a {a}b",
    "INCR b",
    "GET b",
    "MGET a b",
    "INCR c",
    "EVAL return(redis.call('INCR','a')) 0",
    "EVAL return(redis.call('INCR',KEYS[1])+redis.call('INCR','{a}b')) 1 a",
];
const KEYS: [&str; 4] = ["a", "{a}b", "b", "c"];
const RETRIES_MAX: usize = 3;
const REDIRECTIONS_MAX: usize = 5;
/// Brute force takes long.
const PROGRAMS_MAX: u64 = 60;

/// A step of brute force.
#[derive(Clone, Copy)]
enum Move {
    Client(usize),
    Begin(u16),
    End,
    /// All clients that sleep wake up.
    Time,
}

/// A client: which server has which slot, as far as it knows, and what it does next.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ClientState {
    replies: Vec<String>,
    done: usize,
    moved: BTreeMap<u16, usize>,
    retries: usize,
    redirections: usize,
    /// The server that it was sent to, and whether by `ASK`.
    sent_to: Option<(usize, bool)>,
    sleeps: bool,
    has_failed: bool,
}

/// Servers and clients after some moves.
struct World {
    servers: Vec<Emulator>,
    links: Vec<Vec<DirectConnection>>,
    clients: Vec<ClientState>,
    /// The slot that moves, and from which server.
    moving: Option<(u16, usize)>,
    /// The slot that moves or has moved.
    chosen: Option<u16>,
}

/// The keys that a command names, apart from those in a script.
fn declared_keys(command: &str) -> Vec<&'static str> {
    let words = command.split(' ').skip(if command.starts_with("EVAL") { 3 } else { 1 });
    words.filter_map(|word| KEYS.into_iter().find(|&known| known == word)).collect()
}

/// With two servers, the first has the lower half of the slots.
fn first_owner(slot: u16) -> usize {
    usize::from(slot >= 8_192)
}

impl World {
    fn new(programs: &Programs) -> World {
        let servers = Emulator::cluster(&Clock::manual(), 2, 0).unwrap();
        servers.iter().for_each(Emulator::allow_control);
        let links = programs.iter().map(|_| servers.iter().map(Emulator::connection).collect()).collect();
        let clients = vec![ClientState::default(); programs.len()];
        World { servers, links, clients, moving: None, chosen: None }
    }

    fn after(programs: &Programs, moves: &[Move]) -> World {
        let mut world = World::new(programs);
        moves.iter().for_each(|step| world.take(programs, *step));
        world
    }

    /// What distinguishes it from others.
    fn state(&self) -> impl Ord + use<> {
        let data: Vec<String> = self.servers.iter().map(|server| server.dump(0)).collect();
        (self.clients.clone(), self.moving, self.chosen, data)
    }

    fn possible(&self, programs: &Programs) -> Vec<Move> {
        let is_over = |client: usize| {
            let own = &self.clients[client];
            own.has_failed || own.done == programs[client].len()
        };
        let can_act = |client: &usize| !is_over(*client) && !self.clients[*client].sleeps;
        let mut moves: Vec<Move> = (0..programs.len()).filter(can_act).map(Move::Client).collect();
        // Without stalls, time passes only if no client that has begun has anything else to do.
        let is_idle = |client: usize| is_over(client) || self.clients[client] == ClientState::default();
        let is_asleep = |client: usize| !is_over(client) && self.clients[client].sleeps;
        if (0..programs.len()).all(|client| is_idle(client) || is_asleep(client))
            && (0..programs.len()).any(is_asleep)
        {
            moves.push(Move::Time);
        }
        match self.moving {
            Some(_) => moves.push(Move::End),
            None if self.chosen.is_some() => {}
            None => {
                let named = self.clients.iter().zip(programs).flat_map(|(own, program)| {
                    program.iter().take(own.done + 1).flat_map(|command| declared_keys(command))
                });
                let slots: BTreeSet<u16> = named.map(|key| key_slot(key.as_bytes())).collect();
                moves.extend(slots.into_iter().map(Move::Begin));
            }
        }
        moves
    }

    fn take(&mut self, programs: &Programs, step: Move) {
        match step {
            Move::Time => self.clients.iter_mut().for_each(|client| client.sleeps = false),
            Move::Begin(slot) => {
                let from = first_owner(slot);
                self.move_slot(slot, from, &["KEYS"]);
                (self.moving, self.chosen) = (Some((slot, from)), Some(slot));
            }
            Move::End => self.end_move(),
            Move::Client(client) => self.run(client, programs[client][self.clients[client].done]),
        }
    }

    fn end_move(&mut self) {
        if let Some((slot, from)) = self.moving.take() {
            self.move_slot(slot, from, &[]);
        }
    }

    fn move_slot(&self, slot: u16, from: usize, more: &[&str]) {
        let (slot, port) = (slot.to_string(), (6379 + 1 - from).to_string());
        let words = ["EMULATOR", "MOVE-SLOT", &slot, "127.0.0.1", &port];
        let argv: Vec<&[u8]> = words.iter().chain(more).map(|word| word.as_bytes()).collect();
        assert_eq!(self.servers[from].connection().execute(&argv), Reply::OK);
    }

    fn run(&mut self, client: usize, command: &str) {
        let own = &mut self.clients[client];
        let key = declared_keys(command).first().copied().unwrap_or_default();
        let slot = key_slot(key.as_bytes());
        let known = own.moved.get(&slot).copied().unwrap_or(first_owner(slot));
        let (server, asks) = own.sent_to.take().unwrap_or((if key.is_empty() { 0 } else { known }, false));
        let link = &mut self.links[client][server];
        if asks {
            link.execute(&[b"ASKING"]);
        }
        let argv: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        let reply = shown(&link.execute(&argv));
        own.replies.push(reply.clone());
        let mut words = reply.split(' ');
        let (word, of, to) = (words.next().unwrap(), words.next(), words.next());
        match (word, of, to) {
            ("MOVED" | "ASK", Some(of), Some(to)) if own.redirections < REDIRECTIONS_MAX => {
                let to = usize::from(to.ends_with("6380"));
                if word == "MOVED" {
                    own.moved.insert(of.parse().unwrap(), to);
                }
                own.sent_to = Some((to, word == "ASK"));
                own.redirections += 1;
            }
            ("TRYAGAIN", ..) if own.retries < RETRIES_MAX => {
                own.sleeps = true;
                own.retries += 1;
            }
            _ => {
                own.has_failed = word.len() > 2 && word.chars().all(|c| c.is_ascii_uppercase());
                own.done += 1;
                (own.retries, own.redirections) = (0, 0);
            }
        }
    }

    /// The replies of all clients, and the data when no slot moves any more.
    fn outcome(&mut self) -> String {
        self.end_move();
        let replies: Vec<_> = self.clients.iter().map(|client| &client.replies).collect();
        let value = |key: &&str| {
            let key = key.as_bytes();
            let value = |server: &Emulator| server.read(|data| data.get(std::str::from_utf8(key).unwrap()));
            self.servers.iter().find_map(value)
        };
        let data: Vec<String> =
            KEYS.iter().filter_map(|key| Some(format!("{key} {:?}", value(key)?))).collect();
        format!("{replies:?}\n{data:?}")
    }
}

fn shown(reply: &Reply) -> String {
    match reply {
        Reply::Integer(number) => number.to_string(),
        Reply::Bulk(text) => format!("\"{}\"", text.escape_ascii()),
        Reply::Nil => "(nil)".into(),
        Reply::Status(text) => String::from_utf8_lossy(text).into_owned(),
        Reply::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Reply::Error(error) => error.to_string(),
        other => unreachable!("{other:?}"),
    }
}

fn brute_force(programs: &Programs) -> BTreeSet<String> {
    let (mut seen, mut outcomes) = (BTreeSet::new(), BTreeSet::new());
    let mut todo: Vec<Vec<Move>> = vec![Vec::new()];
    while let Some(moves) = todo.pop() {
        let mut world = World::after(programs, &moves);
        if !seen.insert(world.state()) {
            continue;
        }
        let possible = world.possible(programs);
        if !possible.iter().any(|step| matches!(step, Move::Client(_) | Move::Time)) {
            outcomes.insert(world.outcome());
        }
        todo.extend(possible.into_iter().map(|step| [&moves[..], &[step]].concat()));
    }
    outcomes
}

fn scenario(programs: &Programs) -> Scenario {
    let scenario = Scenario::new(format!("{programs:?}")).cluster(2).faults(Faults::none().moves(1));
    let scenario = with_programs(scenario, programs, |client, _| client.cluster_connection());
    scenario.finally("the data", |client, _| async move {
        let mut link = client.cluster_connection();
        let mut data = Vec::new();
        for key in KEYS {
            let value = redis::cmd("GET").arg(key).query_async::<Option<String>>(&mut link).await?;
            data.extend(value.map(|value| format!("{key} b{value:?}")));
        }
        Err(format!("{data:?}").into())
    })
}

#[test]
fn brute_force_on_servers_that_reach_each_other_finds_the_same_outcomes() {
    let count = bounds::PROGRAMS.get().div_ceil(4).min(PROGRAMS_MAX);
    let mut outcomes = 0;
    for seed in 0..count {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let program = |rng: &mut Pcg64Mcg| {
            let commands = rng.random_range(1..=2);
            (0..commands).map(|_| COMMANDS[rng.random_range(0..COMMANDS.len())]).collect()
        };
        let programs: Programs = (0..2).map(|_| program(&mut rng)).collect();
        let all = brute_force(&programs);
        expect_outcomes(&all, &scenario(&programs), &programs);
        outcomes += all.len();
    }
    println!("{count} programs, {outcomes} outcomes");
}
