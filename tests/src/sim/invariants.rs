//! What must hold always: it is judged on the data of the servers, after each step that may have
//! changed what the last judgement read.
//!
//! Such a step has then read what the new judgement read. So steps that change what is judged are
//! in conflict, and an exploration runs both of their orders. A judgement is a function of the
//! data, so nothing is missed: as long as nobody changes what it read, it would say the same.

use std::sync::Arc;

use emulator::{Emulator, Footprint};

use super::server::{Server, connect};
use super::server_data::{Link, ServerData};
use super::{Simulation, World};
use crate::live::within;
use crate::memo::{BeforeJudgement, Judgement};
use crate::trace::EventKind;

impl Simulation {
    /// Judges the data with which the execution begins.
    pub(crate) fn begin_judging(&mut self) {
        self.world.judged = vec![None; self.config.invariants.len()];
        (0..self.config.invariants.len()).for_each(|nth| self.judge(nth));
    }

    /// Judges what the last step may have changed.
    pub(crate) fn judge_again(&mut self) {
        for nth in 0..self.world.judged.len() {
            if self.is_due(nth) {
                self.judge(nth);
            }
        }
    }

    /// Whether the last step may have changed what this invariant reads. That is not known of a
    /// real server.
    fn is_due(&self, nth: usize) -> bool {
        let Some(last) = &self.world.judged[nth] else { return false };
        self.real_time.is_some() || self.world.may_have_changed(&last.reads)
    }

    fn judge(&mut self, nth: usize) {
        let judgement = self.judgement(nth);
        for (server, read) in &judgement.reads {
            let node = self.world.primary(*server);
            self.world.recorder.server_access_beside(node, read.clone());
        }
        self.world.judged[nth] = match &judgement.violation {
            None => Some(judgement),
            Some(what) => {
                let (name, what) = (self.config.invariants[nth].name, what.clone());
                self.world.record(EventKind::Broken { name, what });
                None
            }
        };
    }

    /// The judgement of the data as it is now. In equal states of the servers, and at equal times,
    /// it is the same.
    fn judgement(&mut self, nth: usize) -> Arc<Judgement> {
        let before = self.learned().is_some().then(|| BeforeJudgement {
            code: self.config.invariant_codes[nth],
            at: self.world.primaries().map(|node| self.clocks[node].now()).collect(),
            servers: self.world.states_of_primaries(),
        });
        let known = self
            .learned()
            .zip(before.as_ref())
            .and_then(|(learned, before)| learned.known().servers.judgement(before));
        if let Some(known) = known {
            return known;
        }
        let judgement = match self.server_data() {
            Ok(mut data) => {
                let judges = self.config.invariants[nth].judges.clone();
                let violation = match within(|| judges(&mut data)) {
                    Ok(Ok(())) => None,
                    Ok(Err(error)) => Some(error.to_string()),
                    Err(panic) => Some(panic),
                };
                Judgement { violation, reads: data.into_reads() }
            }
            Err(error) => Judgement { violation: Some(error.to_string()), reads: Vec::new() },
        };
        let judgement = Arc::new(judgement);
        if let Some((learned, before)) = self.learned().zip(before) {
            learned.known().servers.learn_judgement(before, judgement.clone());
        }
        judgement
    }

    /// A way to the data of all servers that changes nothing there.
    fn server_data(&mut self) -> redis::RedisResult<ServerData> {
        let link = |server: usize| match &self.servers[server] {
            Server::Redis(client) => Ok(Link::Redis(connect(client)?)),
            Server::Emulator(_) => {
                let copy = Emulator::with_clock(self.clocks[server].clone());
                self.snapshot(server).iter().for_each(|snapshot| copy.restore(snapshot));
                let connection = copy.connection();
                Ok(Link::Copy(copy, connection))
            }
        };
        Ok(ServerData::new(self.world.primaries().map(link).collect::<redis::RedisResult<_>>()?))
    }
}

impl World {
    /// Whether the last step may have changed what was read here.
    fn may_have_changed(&self, reads: &[(usize, Arc<Footprint>)]) -> bool {
        let Some(last) = self.history().footprints.last() else { return false };
        let moves_time = last.moves_time() || self.last_step().is_some_and(|step| step.server().is_some());
        reads.iter().any(|(server, read)| {
            let node = self.primary(*server);
            let own = last.servers.iter().filter(|&&(other, _)| other == node);
            own.into_iter().any(|(_, did)| did.conflicts_with(read)) || moves_time && read.depends_on_time()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use emulator::Clock;

    use super::super::replication::Replication;
    use super::*;
    use crate::actor::Actor;
    use crate::fault::{Fault, FaultKind, Target};
    use crate::schedule::Step;

    /// The footprint of the last of these commands.
    fn footprint(commands: &[&[&[u8]]]) -> Arc<Footprint> {
        let emulator = Emulator::with_clock(Clock::manual());
        let mut connection = emulator.connection();
        commands.iter().for_each(|command| _ = connection.execute(command));
        Arc::new(emulator.footprint())
    }

    /// The second of two servers is read.
    #[test]
    fn what_was_read_is_judged_again_when_it_may_have_changed() {
        let after = |step: Step, command: Option<(usize, &[&[u8]])>, read: &Arc<Footprint>| {
            let mut world = World { replication: Replication::of(2, 0, false), ..World::default() };
            world.recorder.begin_step(step, None);
            if let Some((server, command)) = command {
                world.recorder.server_access(server, footprint(&[command]));
            }
            if let Step::Advance(_) = step {
                world.recorder.time_moved();
            }
            world.may_have_changed(&[(1, read.clone())])
        };
        let plain = footprint(&[&[b"GET", b"a"]]);
        let timed = footprint(&[&[b"SET", b"a", b"1", b"PX", b"100"], &[b"GET", b"a"]]);
        let runs = Step::Run(Actor(0), 0);
        assert!(after(runs, Some((1, &[b"SET", b"a", b"1"])), &plain));
        assert!(!after(runs, Some((0, &[b"SET", b"a", b"1"])), &plain), "another server");
        assert!(!after(runs, Some((1, &[b"SET", b"b", b"1"])), &plain), "another key");
        assert!(!after(runs, None, &timed));
        let clock_set = Step::Fault(Fault::new(FaultKind::Skew, Target::Server(0)));
        for moves_time in [Step::Advance(Duration::from_secs(1)), clock_set] {
            assert!(after(moves_time, None, &timed) && !after(moves_time, None, &plain), "{moves_time}");
        }
        assert!(!World::default().may_have_changed(&[(1, timed)]), "nothing has happened yet");
    }
}
