//! The explorer decides what a replica has got only when that matters. Here every write arrives in
//! a step of its own, in the order of the writes, and so does every acknowledgement. Brute force
//! runs all orders of everything. Both must have the same outcomes.
//!
//! Clients also read from replicas: a name after `@` is that of a replica.
//!
//! This judge shares nothing with what it judges but the emulator's commands: it knows no effects,
//! no footprints, and no order of steps but that in which they were taken.

use std::collections::BTreeSet;

use emulator::{Emulator, Reply};
use harness::{Faults, Scenario};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::brute_forced::{Programs, expect_outcomes, place_of, with_programs};
use crate::bounds;

/// A command writes if and only if it changes what a reader can see.
const COMMANDS: &[&str] = &[
    "INCR a",
    "INCR b",
    "APPEND a 7",
    "SETNX b 1",
    "DEL a",
    "GET a",
    "GET b",
    "EXISTS a b",
    "WAIT 1 10",
    "WAIT 2 10",
    "WAIT 1 0",
];

/// Commands for scenarios whose clients also read from replicas.
const WITH_READS: &[&str] = &[
    "WAIT 1 10",
    "INCR a",
    "INCR b",
    "APPEND a 7",
    "SETNX b 1",
    "DEL a",
    "GET a",
    "GET a @0",
    "GET b @0",
    "EXISTS a b @0",
    "EXISTS a b @1",
    "INCR a @1",
];

/// How many of its last writes a server loses that restarts with persistence.
const UNSYNCED: usize = 1;
/// What a replica says to a write.
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";

/// Brute force takes long.
const PROGRAMS_MAX: u64 = 120;

/// Executes commands on a new server. Returns the last reply, and what the server then holds.
fn executed(commands: &[&str]) -> (String, String) {
    let emulator = Emulator::new();
    let mut connection = emulator.connection();
    let mut reply = String::new();
    for command in commands {
        let argv: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
        reply = match connection.execute(&argv) {
            Reply::Integer(number) => number.to_string(),
            Reply::Bulk(text) => format!("\"{}\"", text.escape_ascii()),
            Reply::Nil => "(nil)".into(),
            other => unreachable!("{command} replies {other:?}"),
        };
    }
    (reply, emulator.dump(0))
}

/// A state of brute force.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct State {
    clients: Vec<ClientState>,
    /// What all servers hold, as the commands that led to it.
    base: Vec<&'static str>,
    /// What the primary has written since.
    log: Vec<&'static str>,
    /// How much of the log each replica has got.
    cursors: Vec<usize>,
    /// How much of it the primary knows each replica to have.
    acknowledged: Vec<usize>,
    /// The number of the replica that is the primary, and those of the replicas that follow it.
    /// `None` is the server that is the primary at first.
    primary: Option<usize>,
    followers: Vec<Option<usize>>,
    failovers: usize,
    restarts: usize,
    reloads: usize,
    /// How often time has moved. All limits are equal, so it moves by one each time.
    now: usize,
}

#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct ClientState {
    replies: Vec<String>,
    /// It waits for so many replicas, and perhaps until a time.
    waits: Option<(usize, Option<usize>)>,
    /// Where the log ended after its last write.
    wrote: usize,
    /// Its last write was before the failover, so that it cannot wait for it any more.
    wrote_before: bool,
    has_lost_its_connection: bool,
    /// It has written on a replica.
    has_failed: bool,
}

struct BruteForce {
    programs: Programs,
    behind: usize,
    seen: BTreeSet<State>,
    outcomes: BTreeSet<String>,
}

impl BruteForce {
    fn visit(&mut self, mut state: State) {
        // A client that has enough acknowledgements gets its reply.
        for client in 0..state.clients.len() {
            let acknowledged = state.acknowledged(client);
            if state.clients[client].waits.is_some_and(|(wanted, _)| wanted <= acknowledged) {
                state.clients[client].end_wait(acknowledged);
            }
        }
        if !self.seen.insert(state.clone()) {
            return;
        }
        for client in 0..state.clients.len() {
            self.move_client(&state, client);
        }
        self.move_time(&state);
        for replica in 0..state.cursors.len() {
            if state.cursors[replica] < state.log.len() {
                let mut next = state.clone();
                next.cursors[replica] += 1;
                self.visit(next);
            }
            if state.acknowledged[replica] < state.cursors[replica] {
                let mut next = state.clone();
                next.acknowledged[replica] = state.cursors[replica];
                self.visit(next);
            }
            for lost in state.losses(state.cursors[replica]) {
                let mut next = state.clone();
                next.note_restart(lost);
                let left = lost.map_or(0, |lost| state.cursors[replica] - lost);
                (next.cursors[replica], next.acknowledged[replica]) =
                    (left, left.min(state.acknowledged[replica]));
                self.visit(next);
            }
            if state.failovers > 0 && state.log.len() - state.cursors[replica] <= self.behind {
                self.visit(state.failed_over(replica));
            }
        }
        for lost in state.losses(state.log.len()) {
            self.visit(state.restarted(lost));
        }
        if state.clients.iter().zip(&self.programs).all(|(client, program)| client.is_over(program)) {
            let replies: Vec<_> = state.clients.iter().map(|client| &client.replies).collect();
            self.outcomes.insert(format!("{replies:?}\n{}", executed(&state.data()).1));
        }
    }

    /// Time passes until the next wait ends, and all that end then.
    fn move_time(&mut self, state: &State) {
        // Without stalls, it does so only if no client that has begun has anything else to do.
        let sleeps = |(client, program): (&ClientState, &Vec<_>)| {
            client.replies.is_empty() || client.waits.is_some() || client.is_over(program)
        };
        let is_over = |client: &ClientState| client.waits.is_some_and(|(_, end)| end == Some(state.now + 1));
        let is_idle = state.clients.iter().zip(&self.programs).all(sleeps);
        if is_idle && state.clients.iter().any(is_over) {
            let mut next = state.clone();
            next.now += 1;
            for client in (0..state.clients.len()).filter(|&client| is_over(&state.clients[client])) {
                next.clients[client].end_wait(state.acknowledged(client));
            }
            self.visit(next);
        }
    }

    fn move_client(&mut self, state: &State, client: usize) {
        let mut next = state.clone();
        let own = &mut next.clients[client];
        let Some(&command) = self.programs[client].get(own.replies.len()) else { return };
        if own.waits.is_some() || own.has_lost_its_connection || own.has_failed {
            return;
        }
        let (command, replica) = place_of(command);
        let is_at = |follower: &Option<usize>| replica.is_some() && *follower == replica;
        if let Some(place) = state.followers.iter().position(is_at) {
            let has = [&state.base[..], &state.log[..state.cursors[place]]].concat();
            let (reply, _) = executed(&[&has[..], &[command]].concat());
            own.has_failed = !["GET", "EXISTS"].contains(&command.split(' ').next().unwrap());
            own.replies.push(if own.has_failed { READ_ONLY.into() } else { reply });
            if state.log.len() - state.cursors[place] <= self.behind {
                self.visit(next);
            }
            return;
        }
        if let Some(words) = command.strip_prefix("WAIT ") {
            let (wanted, limit) = words.split_once(' ').unwrap();
            own.has_lost_its_connection |= own.wrote_before;
            if !own.wrote_before {
                own.waits = Some((wanted.parse().unwrap(), (limit != "0").then_some(state.now + 1)));
            }
            return self.visit(next);
        }
        let before = state.data();
        let (reply, after) = executed(&[&before[..], &[command]].concat());
        own.replies.push(reply);
        if after != executed(&before).1 {
            next.log.push(command);
            let wrote = next.log.len();
            // `WAIT` is sent on the connection that finds the primary.
            if replica.is_some() {
                return self.visit(next);
            }
            (next.clients[client].wrote, next.clients[client].wrote_before) = (wrote, false);
        }
        self.visit(next);
    }
}

impl State {
    fn data(&self) -> Vec<&'static str> {
        [&self.base[..], &self.log].concat()
    }

    fn acknowledged(&self, client: usize) -> usize {
        self.acknowledged.iter().filter(|&&cursor| self.clients[client].wrote <= cursor).count()
    }

    /// What a server with so many writes of the log can lose when it restarts: all (`None`), or so
    /// many of its last writes.
    fn losses(&self, writes: usize) -> Vec<Option<usize>> {
        let restarts = (self.restarts > 0).then_some(None);
        let reloads = (0..=writes.min(UNSYNCED)).filter(|_| self.reloads > 0).map(Some);
        restarts.into_iter().chain(reloads).collect()
    }

    /// The primary has restarted, without so many of its last writes or without any data. Its
    /// replicas copy what it has.
    fn restarted(&self, lost: Option<usize>) -> State {
        let mut next = self.clone();
        next.note_restart(lost);
        let left = lost.map(|lost| self.log.len() - lost);
        next.base.extend(next.log.drain(..).take(left.unwrap_or(0)).collect::<Vec<_>>());
        next.base.truncate(if left.is_some() { usize::MAX } else { 0 });
        next.begin_log();
        next
    }

    fn note_restart(&mut self, lost: Option<usize>) {
        match lost {
            None => self.restarts -= 1,
            Some(_) => self.reloads -= 1,
        }
    }

    /// All replicas have what the primary has. Connections to it have ended, which clients notice
    /// that wait there.
    fn begin_log(&mut self) {
        self.log.clear();
        self.cursors.fill(0);
        self.acknowledged.fill(0);
        for client in &mut self.clients {
            client.wrote_before |= client.wrote > 0;
            client.wrote = 0;
            client.has_lost_its_connection |= client.waits.take().is_some();
        }
    }

    /// A replica has taken over. The others follow it, and so does the former primary.
    fn failed_over(&self, replica: usize) -> State {
        let mut next = self.clone();
        next.base.extend(next.log.drain(..).take(self.cursors[replica]).collect::<Vec<_>>());
        std::mem::swap(&mut next.primary, &mut next.followers[replica]);
        next.failovers -= 1;
        next.begin_log();
        next
    }
}

impl ClientState {
    fn is_over(&self, program: &[&str]) -> bool {
        self.has_lost_its_connection || self.has_failed || self.replies.len() == program.len()
    }

    fn end_wait(&mut self, acknowledged: usize) {
        self.waits = None;
        self.replies.push(acknowledged.to_string());
    }
}

fn brute_force(programs: &Programs, replicas: usize, faults: Faults) -> BTreeSet<String> {
    let behind = faults.behind as usize;
    let mut brute_force =
        BruteForce { programs: programs.clone(), behind, seen: BTreeSet::new(), outcomes: BTreeSet::new() };
    brute_force.visit(State {
        clients: vec![ClientState::default(); programs.len()],
        base: Vec::new(),
        log: Vec::new(),
        cursors: vec![0; replicas],
        acknowledged: vec![0; replicas],
        primary: None,
        followers: (0..replicas).map(Some).collect(),
        failovers: faults.failovers as usize,
        restarts: faults.restarts as usize,
        reloads: faults.reloads as usize,
        now: 0,
    });
    brute_force.outcomes
}

fn scenario(programs: &Programs, replicas: usize, faults: Faults) -> Scenario {
    let name = format!("{programs:?}, {replicas} replicas, {faults}");
    let scenario = Scenario::new(name).replicas(replicas).faults(faults);
    let reads = programs.iter().flatten().any(|command| place_of(command).1.is_some());
    let scenario = if reads { scenario.read_replicas() } else { scenario };
    let scenario = with_programs(scenario, programs, |client, replica| match replica {
        Some(replica) => client.replica(0, replica),
        None => client.connection(),
    });
    scenario.finally("the data", |client, _| async move {
        let mut link = client.connection();
        let mut data = String::new();
        for key in ["a", "b"] {
            let value = redis::cmd("GET").arg(key).query_async::<Option<String>>(&mut link).await?;
            data.extend(value.map(|value| format!("{key} = \"{value}\"\n")));
        }
        Err(data.into())
    })
}

#[track_caller]
fn compare(programs: &Programs, replicas: usize, faults: Faults) -> usize {
    let all = brute_force(programs, replicas, faults);
    expect_outcomes(&all, &scenario(programs, replicas, faults), programs);
    all.len()
}

#[test]
fn brute_force_with_every_replication_step_finds_the_same_outcomes() {
    let programs = bounds::PROGRAMS.get().min(PROGRAMS_MAX);
    let mut outcomes = 0;
    for seed in 0..programs {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        // A replica that is behind by less than it could be makes a client wait in fewer orders.
        let behind = if seed.is_multiple_of(3) { 1 } else { 4 };
        let reads = seed % 2 == 1;
        // Without a lag, what is read depends on the order of the commands alone.
        let behind = if seed % 8 == 1 { 0 } else { behind };
        let known = match (reads, behind) {
            (true, 0) => &WITH_READS[1..],
            (true, _) => WITH_READS,
            (false, 1) => &COMMANDS[..8],
            (false, _) => COMMANDS,
        };
        let restarts = seed % 5 < 2;
        // Three clients and a server that restarts have too many orders.
        let clients = rng.random_range(2..=if restarts { 2 } else { 3 });
        let commands_max = if clients == 2 { 3 } else { 2 };
        let program = |rng: &mut Pcg64Mcg| {
            let commands = rng.random_range(1..=commands_max);
            (0..commands).map(|_| known[rng.random_range(0..known.len())]).collect()
        };
        let own: Programs = (0..clients).map(|_| program(&mut rng)).collect();
        let replicas = if reads { 2 } else { rng.random_range(1..=2) };
        let faults = Faults::none().failovers(1).behind(behind);
        let faults = match seed % 5 {
            0 => faults.restarts(1),
            1 => faults.reloads(1).unsynced(UNSYNCED as u32),
            _ => faults,
        };
        outcomes += compare(&own, replicas, faults);
    }
    println!("{programs} programs, {outcomes} outcomes");
}
