//! The state of a running script, and what it has used of its budget.

use std::any::Any;
use std::cell::RefCell;
use std::ptr::NonNull;

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{Lua, RegistryKey};

use super::budget::{
    Fatal, INSTRUCTIONS_PER_CHECK, INSTRUCTIONS_PER_COMMAND, INSTRUCTIONS_PER_VALUE, Over, Place,
    ScriptBudget,
};
use super::host::{Host, Rules};
use super::lrand48::Lrand48;
use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::Reply;

pub(super) const SANDBOX_NAME: &str = "=sandbox";

/// The Rust state that belongs to a running script.
pub(super) struct Running {
    pub host: Option<Box<dyn Host>>,
    pub rules: Rules,
    pub random: Lrand48,
    pub budget: ScriptBudget,
    /// The part of the budget that has been used.
    pub instructions: u64,
    pub instructions_unchecked: u64,
    pub commands: u64,
    /// The reason why the script must end, if it must.
    pub fatal: Option<Fatal>,
    /// The outcome of the script, once it has ended.
    pub outcome: Option<Result<Reply, Failure>>,
    /// The panic that goes on when the script has ended.
    pub panic: Option<Box<dyn Any + Send>>,
    /// Whether the script may have left something in the sandbox: it has caught an error, or it has
    /// changed the collector.
    pub is_disturbed: bool,
    /// The reply of the last command while it becomes a Lua value.
    pub reply: Reply,
    /// The functions that a library has registered so far, while it is loaded.
    pub loading: Option<IndexMap<Bytes, Registered, Hasher>>,
}

/// A function that a library has registered.
pub(super) struct Registered {
    pub description: Option<Bytes>,
    pub flags: Vec<&'static str>,
    /// The function in Lua's registry: a script may register more functions than `mlua` has places
    /// for references.
    pub callback: RegistryKey,
}

/// The error of a script.
pub(super) struct Failure {
    pub text: Bytes,
    /// Whether the text is the field `err` of a table.
    pub is_table: bool,
    /// The place that the message handler recorded.
    pub place: Option<Place>,
}

impl Running {
    pub fn new(budget: ScriptBudget, host: Option<Box<dyn Host>>, rules: Rules) -> Running {
        Running {
            host,
            rules,
            random: Lrand48::default(),
            budget,
            instructions: 0,
            instructions_unchecked: 0,
            commands: 0,
            fatal: None,
            outcome: None,
            panic: None,
            is_disturbed: false,
            reply: Reply::Nil,
            loading: None,
        }
    }

    /// Whether the script has no limit of time.
    pub fn may_be_busy(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.may_be_busy())
    }

    /// Counts instructions, and checks regularly whether the script may continue.
    ///
    /// # Errors
    /// The script must end.
    pub fn spend(&mut self, instructions: u64, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        if self.fatal.is_some() {
            return Err(Over);
        }
        self.instructions = self.instructions.saturating_add(instructions);
        self.instructions_unchecked = self.instructions_unchecked.saturating_add(instructions);
        let limit = self.budget.instructions_max;
        let is_over = self.instructions > limit && !self.may_be_busy();
        if !is_over && self.instructions_unchecked < INSTRUCTIONS_PER_CHECK {
            return Ok(());
        }
        self.instructions_unchecked = 0;
        if let Some(host) = &mut self.host
            && let Err(error) = host.yield_to_clients()
        {
            return Err(self.end(error, place()));
        }
        match (is_over, &self.loading) {
            (false, _) => Ok(()),
            (true, None) => Err(self.end(too_much("took", limit, "instructions"), place())),
            // Redis's text, for a library that takes longer than 500 ms to load.
            (true, Some(_)) => Err(self.end(Error::from_static("ERR FUNCTION LOAD timeout"), None)),
        }
    }

    /// Counts values that a library reads or writes.
    ///
    /// # Errors
    /// The script must end.
    pub fn spend_values(&mut self, n: usize, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        self.spend((n as u64).saturating_mul(INSTRUCTIONS_PER_VALUE), place)
    }

    /// Counts a command that the script is about to call.
    ///
    /// # Errors
    /// There are too many commands or footprint entries: the script must end.
    pub fn spend_command(&mut self, place: impl FnOnce() -> Option<Place>) -> Result<(), Over> {
        self.commands += 1;
        self.instructions_unchecked = self.instructions_unchecked.saturating_add(INSTRUCTIONS_PER_COMMAND);
        if self.may_be_busy() {
            return Ok(());
        }
        let ScriptBudget { commands_max, footprint_entries_max, .. } = self.budget;
        let error = if self.commands > commands_max {
            too_much("called", commands_max, "commands")
        } else if self.host.as_mut().is_some_and(|host| host.has_footprint_over(footprint_entries_max)) {
            too_much("left", footprint_entries_max as u64, "footprint entries")
        } else {
            return Ok(());
        };
        Err(self.end(error, place()))
    }

    /// Ends the script because Rust code has panicked. The panic goes on when Lua has ended.
    pub fn end_with_panic(&mut self, panic: Box<dyn Any + Send>) -> Over {
        self.panic = Some(panic);
        self.end(Error::from_static("ERR the emulator has panicked"), None)
    }

    fn end(&mut self, error: Error, place: Option<Place>) -> Over {
        self.fatal = Some(Fatal { error, place });
        Over
    }
}

/// Gives access to the state of the script that is running. `act` must not run code of the script.
pub(super) fn with_running<R>(lua: &Lua, act: impl FnOnce(&mut Running) -> R) -> R {
    let cell = lua.app_data_ref::<RefCell<Running>>().expect(HAS_STATE);
    act(&mut cell.borrow_mut())
}

/// The place of the state of scripts. It stays the same as long as the Lua state exists.
pub(super) fn running_cell(lua: &Lua) -> NonNull<RefCell<Running>> {
    NonNull::from_ref(&*lua.app_data_ref::<RefCell<Running>>().expect(HAS_STATE))
}

fn too_much(verb: &str, limit: u64, what: &str) -> Error {
    Error::new(format!("ERR Error running script: it {verb} more than {limit} {what} (an endless loop?)"))
}

const HAS_STATE: &str = "set when the Lua state was made, and never replaced";
