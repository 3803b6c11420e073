//! Lua 5.1 as Redis 7.0 embeds it: the sandbox, the conversions both ways, the error texts.
//!
//! Knows no command: a [`Host`] is handed over for the time that a script runs, and runs the commands that it calls.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/>

mod shebang;
mod pattern;
mod budget;
mod args;
mod convert;
mod library;
mod random;
mod vm;
mod redis;
mod register;
mod native;
mod payload;
mod functions;

use std::any::Any;

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::Function;

use crate::error::{self, Error};
use crate::keyspace::Hasher;
use crate::log::LogLevel;
use crate::reply::Reply;
use crate::resp::Protocol;

pub use budget::ScriptBudget;
pub use functions::{Functions, Libraries, Policy};
pub(crate) use payload::{dump, restore};
use shebang::{NO_WRITES, Shebang};
use vm::{Callable, Sandbox, Vm};

/// What runs the commands that a script calls.
pub trait Host: Any + Send {
    /// Runs one command and gives its reply; refuses what scripts, or this one, may not call.
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply;

    /// Whether a script may take as long as it likes.
    fn is_patient(&self) -> bool;

    /// Called now and then while a script runs: does what others want done meanwhile.
    ///
    /// # Errors
    /// The script must end now.
    fn look_up(&mut self) -> Result<(), Error>;

    /// Whether the commands so far have left more than this in the footprint.
    fn has_touched_more_than(&mut self, entries_max: usize) -> bool;

    /// Logs a line.
    fn log(&self, level: LogLevel, text: Vec<u8>);

    /// Whether there is such a command.
    fn knows(&self, argv: &[&[u8]]) -> bool;
}

/// What holds for the commands that a script calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rules {
    /// The protocol whose types the script wants to see: `redis.setresp`.
    pub protocol: Protocol,
    /// The script said of itself that it writes nothing: `#!lua flags=no-writes`.
    pub is_read_only: bool,
}

/// Who may run a script or a function, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `EVAL`, `FCALL`
    Any,
    /// `EVAL_RO`, `FCALL_RO`: nothing that may write.
    ReadOnly,
}

/// The scripts that one server knows, by SHA1, and the Lua state that runs them.
#[derive(Default)]
pub struct Scripts {
    known: Known,
    /// The SHA1 of each source that was loaded: to look it up takes a tenth of computing it.
    shas: IndexMap<Bytes, Sha, Hasher>,
    compiled: IndexMap<Sha, Compiled, Hasher>,
    /// Made when the first script runs: a Lua state costs more than many whole executions of a test.
    vm: Option<Vm>,
    budget: ScriptBudget,
}

struct Compiled {
    function: Function,
    /// Of a script whose first line tells them.
    flags: Option<Vec<&'static str>>,
}

/// The sources of scripts, by SHA1.
pub type Known = IndexMap<Sha, Bytes, Hasher>;

/// A SHA1 in lower-case hexadecimal digits.
pub type Sha = [u8; 40];

impl Scripts {
    /// Compiles a script and keeps it: a script is known once it compiled, whether or not it ever succeeds.
    ///
    /// # Errors
    /// The compiler's, as Redis words it.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha, Error> {
        let sha = self.sha(source);
        if !self.known.contains_key(&sha) {
            self.compile(&sha, source)?;
            let source = Bytes::copy_from_slice(source);
            self.known.insert(sha, source.clone());
            if self.shas.len() < SHAS_MAX {
                self.shas.insert(source, sha);
            }
        }
        Ok(sha)
    }

    /// The SHA1 by which a script is known, or would be.
    pub fn sha(&self, source: &[u8]) -> Sha {
        self.shas.get(source).copied().unwrap_or_else(|| sha1_hex(source))
    }

    /// Whether a script is known; the digits of the SHA1 may be of either case.
    pub fn lookup(&self, sha: &[u8]) -> Option<Sha> {
        let mut sha: Sha = sha.try_into().ok()?;
        sha.make_ascii_lowercase();
        self.known.contains_key(&sha).then_some(sha)
    }

    /// The scripts that clients can call by their SHA1.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Knows these scripts and no others.
    pub fn set_known(&mut self, known: &Known) {
        self.known.clone_from(known);
    }

    /// What each script may take from now on.
    pub fn set_budget(&mut self, budget: ScriptBudget) {
        self.budget = budget;
        if let Some(vm) = &mut self.vm {
            vm.set_budget(budget).expect(SANDBOX_LOADS);
        }
    }

    /// Whether nothing is left of what scripts have done, but what they did to data.
    pub fn has_default_settings(&self) -> bool {
        self.vm.as_ref().is_none_or(|vm| vm.json.is_default())
    }

    /// Forgets every script. What was compiled stays with the Lua state, where no client can see it.
    pub fn flush(&mut self) {
        self.known.clear();
        if let Some(vm) = &self.vm {
            vm.json.reset();
        }
    }

    /// Runs a known script, and gives the host back with what the script returned.
    pub fn run(
        &mut self,
        sha: &Sha,
        mode: Mode,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<dyn Host>,
    ) -> (Box<dyn Host>, Reply) {
        if !self.compiled.contains_key(sha)
            && let Some(source) = self.known.get(sha).cloned()
            && let Err(error) = self.compile(sha, &source)
        {
            return (host, Reply::Error(error));
        }
        let (Some(vm), Some(Compiled { function, flags })) = (&self.vm, self.compiled.get(sha)) else {
            return (host, Reply::Error(error::NO_SCRIPT));
        };
        match is_read_only(flags.as_deref(), mode) {
            Ok(is_read_only) => vm.run(&Callable { function, name: sha, is_read_only }, keys, args, host),
            Err(error) => (host, Reply::Error(error)),
        }
    }

    fn compile(&mut self, sha: &Sha, source: &[u8]) -> Result<(), Error> {
        if self.compiled.contains_key(sha) {
            return Ok(());
        }
        let Shebang { body, flags } = Shebang::parse(source)?;
        let vm = self.vm.get_or_insert_with(|| Vm::new(Sandbox::Scripts, self.budget).expect(SANDBOX_LOADS));
        let function = vm.compile(body).map_err(|message| {
            Error::new([b"ERR Error compiling script (new function): ", &message[..]].concat())
        })?;
        if self.compiled.len() >= COMPILED_MAX {
            self.compiled.clear();
        }
        self.compiled.insert(*sha, Compiled { function, flags });
        Ok(())
    }
}

/// How many scripts stay compiled. Each takes one of some 8,000 places that `mlua` has; one that does not fit is compiled again.
const COMPILED_MAX: usize = 1000;
/// How many sources are remembered with their SHA1.
const SHAS_MAX: usize = 1000;

const SANDBOX_LOADS: &str = "the sandbox is our own code and loads";

/// Whether writing is refused when it comes to that: by what flags say, or for want of flags by who calls.
fn is_read_only(flags: Option<&[&'static str]>, mode: Mode) -> Result<bool, Error> {
    let Some(flags) = flags else { return Ok(mode == Mode::ReadOnly) };
    let is_read_only = flags.contains(&NO_WRITES);
    if mode == Mode::ReadOnly && !is_read_only { Err(error::WRITE_FLAG_IN_RO) } else { Ok(is_read_only) }
}

/// What a script says of itself in its first line, if that is for Redis.
pub fn flags(source: &[u8]) -> Option<Vec<&'static str>> {
    Shebang::parse(source).ok()?.flags
}

/// The SHA1 by which a script is known.
pub fn sha1_hex(source: &[u8]) -> Sha {
    let digits = sha1_smol::Sha1::from(source).digest().to_string();
    digits.into_bytes().try_into().expect("a SHA1 has 40 digits")
}
