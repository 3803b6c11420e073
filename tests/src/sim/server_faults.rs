//! Faults of servers, and the data that servers keep through them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use emulator::{Access, Emulator, Footprint, Resource};

use super::session::Session;
use super::{Server, Simulation};
use crate::actor::Actor;
use crate::fault::Faults;

impl Simulation {
    /// A server has no data and no scripts from now on. A replica has none of its log for certain.
    pub(crate) fn lose_data(&mut self, server: usize) {
        match self.forget(server, usize::MAX) {
            None => self.execute(server, &["FLUSHALL", "SCRIPT FLUSH", "FUNCTION FLUSH"]),
            Some(_) => self.execute(server, &["SCRIPT FLUSH"]),
        }
    }

    /// Undoes the last writes of a server, this many or as many as are in its log. Returns how many
    /// it undid.
    pub(crate) fn lose_writes(&mut self, server: usize, count: usize) -> usize {
        if let Some(lost) = self.forget(server, count) {
            return lost;
        }
        let entries = self.world.logs.get(server).map_or(0, VecDeque::len);
        let lost = count.min(entries.saturating_sub(1));
        if lost > 0 {
            let data = self.world.logs[server][entries - 1 - lost].clone();
            let deed = ("restore", data.digest());
            self.on_server(server, deed, |emulator| emulator.restore_data(&data));
        }
        lost
    }

    /// Closes the subscribed and blocked connections of a server. If there is an outage, the server
    /// refuses requests from now on.
    pub(crate) fn stop_server(&mut self, server: usize) {
        self.hang_up(server);
        let outage = self.config.faults.outage;
        if !outage.is_zero() {
            let until = self.world.now + outage;
            let world = &mut self.world;
            world.outages.push((server, until));
            world.recorder.server_stopped(server);
        }
    }

    /// Closes the subscribed and blocked connections of a server.
    pub(super) fn hang_up(&mut self, server: usize) {
        self.on_server(server, "hang up", Emulator::hang_up);
        if let Server::Redis(_) = self.servers[server] {
            let gates = self.world.gates.iter().filter(|gate| gate.server == server);
            gates.filter_map(|gate| gate.session.as_ref()).for_each(Session::hang_up);
            self.fetch_pushes(server);
        }
        self.close_subscriptions(server);
    }

    /// Runs commands that no client sent.
    pub(crate) fn execute(&mut self, server: usize, commands: &[&str]) {
        for command in commands {
            let argv: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
            self.on_server(server, command, |emulator| _ = emulator.connection().execute(&argv));
        }
    }

    /// How long it takes until no server refuses requests.
    pub(crate) fn outage(&self) -> Option<Duration> {
        let until = self.world.outages.iter().map(|&(_, until)| until).max()?;
        until.checked_sub(self.world.now).filter(|away| !away.is_zero())
    }

    /// Whether a server refuses the request that an actor sends now.
    pub(crate) fn refuses(&mut self, server: usize, actor: Actor) -> bool {
        let world = &mut self.world;
        let now = world.now;
        let is_gone = |&(gone, until): &(usize, _)| (gone == server).then_some(now < until);
        // After an outage, the answer depends on the time as well.
        match world.outages.iter().filter_map(is_gone).reduce(|one, other| one || other) {
            None => return false,
            Some(false) => {
                world.recorder.time_read();
                return false;
            }
            Some(true) => {
                world.recorder.time_read();
                world.recorder.server_access(server, Arc::default());
            }
        }
        world.note_fault_error(actor);
        true
    }

    /// Records what a command has just touched, and logs the server's state if the command wrote.
    pub(crate) fn note_command(&mut self, server: usize) {
        self.note_footprint(server);
        let writes = |footprint: Arc<Footprint>| {
            footprint.iter().any(|(what, access, _)| {
                access == Access::Write && matches!(what, Resource::Key { .. } | Resource::Database(_))
            })
        };
        if self.has_logs() && self.footprint(server).is_some_and(writes) {
            self.log(server);
        }
    }

    /// Begins the logs: what the servers hold now cannot be lost.
    pub(crate) fn begin_logs(&mut self) {
        (0..self.servers.len()).for_each(|server| self.begin_log(server));
    }

    pub(crate) fn begin_log(&mut self, server: usize) {
        if self.has_logs() {
            let world = &mut self.world;
            world.logs.resize_with(self.servers.len(), VecDeque::new);
            world.logs[server].clear();
            self.log(server);
        }
    }

    /// Whether the latest writes can be lost.
    fn has_logs(&self) -> bool {
        let Faults { reloads, unsynced, .. } = self.config.faults;
        reloads > 0 && unsynced > 0
    }

    /// Appends the state of a server to its log.
    fn log(&mut self, server: usize) {
        let Some(snapshot) = self.snapshot(server) else { return };
        let world = &mut self.world;
        world.recorder.log_written(server);
        // The code before the actors writes what cannot be lost: the logs begin after it.
        let Some(log) = world.logs.get_mut(server) else { return };
        log.push_back(snapshot);
        if log.len() > self.config.faults.unsynced as usize + 1 {
            log.pop_front();
        }
    }
}
