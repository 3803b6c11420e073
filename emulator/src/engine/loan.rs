//! Lends the engine to a running script, and runs what other clients request of it in the meantime.

use std::any::Any;
use std::time::Duration;

use super::state::{Commands, Engine, Job, ScriptHost};
use crate::busy::{Busy, Program};
use crate::client::Client;
use crate::config::Id;
use crate::error::Error;
use crate::log::LogLevel;
use crate::reply::Reply;
use crate::script::{Host, Rules};

impl Engine {
    /// Lends the engine and the client to a script while the script runs.
    pub(crate) fn lend(
        self: &mut Box<Self>,
        client: &mut Box<Client>,
        commands: &'static dyn Commands,
        program: impl FnOnce() -> Program,
        run: impl FnOnce(Box<dyn Host>) -> (Box<dyn Host>, Reply),
    ) -> Reply {
        let busy = client.may_be_busy.then(|| self.busy.clone());
        if let Some(busy) = &busy {
            let threshold_ms = self.config.number(BUSY_REPLY_THRESHOLD);
            busy.begin(program(), Duration::from_millis(threshold_ms as u64));
            self.is_amid_script = true;
        }
        let mut host = self.host.take().unwrap_or_default();
        host.commands = Some(commands);
        std::mem::swap(self, &mut host.engine);
        std::mem::swap(client, &mut host.client);
        let (host, reply) = run(host);
        let mut host = (host as Box<dyn Any>).downcast::<ScriptHost>().expect("what was lent comes back");
        std::mem::swap(self, &mut host.engine);
        std::mem::swap(client, &mut host.client);
        self.host = Some(host);
        if let Some(busy) = busy {
            while !busy.end() {
                self.do_jobs(&busy);
            }
            self.is_amid_script = false;
        }
        reply
    }

    /// Runs the jobs that others left while the script was running.
    fn do_jobs(self: &mut Box<Self>, busy: &Busy<Job>) {
        self.close_departed();
        for job in busy.take_jobs() {
            job(self);
        }
    }
}

const BUSY_REPLY_THRESHOLD: Id = Id::of("busy-reply-threshold");

impl Host for ScriptHost {
    fn may_be_busy(&self) -> bool {
        self.client.may_be_busy
    }

    fn yield_to_clients(&mut self) -> Result<(), Error> {
        self.engine.end_requests();
        if !self.client.may_be_busy {
            return Ok(());
        }
        let busy = self.engine.busy.clone();
        busy.yield_to_clients();
        self.engine.do_jobs(&busy);
        busy.check()
    }

    fn has_footprint_over(&mut self, entries_max: usize) -> bool {
        if self.engine.footprint().len() > entries_max {
            self.engine.drop_duplicates();
        }
        self.engine.footprint().len() > entries_max
    }

    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply {
        self.client.protocol = rules.protocol;
        let commands = self.commands.expect("told when the engine was lent");
        commands.call(&mut self.engine, &mut self.client, argv, rules)
    }

    fn log(&self, level: LogLevel, text: Vec<u8>) {
        self.engine.log(level, text.into());
    }

    fn knows(&self, argv: &[&[u8]]) -> bool {
        self.commands.is_some_and(|commands| commands.knows(argv))
    }
}
