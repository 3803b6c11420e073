//! A Lua state with the sandbox in it. Scripts and functions have one each, with different globals.

use bstr::BStr;
use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{
    Error as LuaError, Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState,
};

use super::budget::{Fatal, INSTRUCTIONS_PER_CHECK, NO_MEMORY, Place, limit_memory, spend};
use super::convert::to_reply;
use super::library::JsonConfig;
use super::native::natives;
use super::random::Lrand48;
use super::{Host, Rules, ScriptBudget};
use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::Reply;

const SANDBOX: &str = include_str!("sandbox.lua");
pub(super) const SANDBOX_NAME: &str = "=sandbox";
/// The first byte of a compiled chunk.
const BINARY_CHUNK: u8 = 27;

/// The kind of code that a Lua state runs. It determines the globals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sandbox {
    Scripts,
    Functions,
}

impl Sandbox {
    /// The name of the code in errors.
    fn chunk_name(self) -> &'static str {
        match self {
            Sandbox::Scripts => "@user_script",
            Sandbox::Functions => "@user_function",
        }
    }
}

pub(super) struct Vm {
    pub(super) lua: Lua,
    kind: Sandbox,
    /// The function of the sandbox that calls a script or a function with its keys and arguments.
    /// It returns the place of an error.
    run: Function,
    /// The function of the sandbox that runs the code of a library.
    load: Function,
    /// Lua's own `loadstring`. It is used because an error message of the compiler need not be
    /// UTF-8.
    compile: Function,
    /// The settings of `cjson` that scripts have made.
    pub(super) json: JsonConfig,
    budget: ScriptBudget,
}

/// A script or function to run, with its name in errors.
pub(super) struct Callable<'a> {
    pub function: &'a Function,
    pub name: &'a [u8],
    pub is_read_only: bool,
}

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
    /// The functions that a library has registered so far, while it is loaded.
    pub loading: Option<IndexMap<Bytes, Registered, Hasher>>,
}

/// A function that a library has registered.
pub(super) struct Registered {
    pub description: Option<Bytes>,
    pub flags: Vec<&'static str>,
    pub callback: Function,
}

impl Running {
    fn new(budget: ScriptBudget, host: Option<Box<dyn Host>>, rules: Rules) -> Running {
        Running {
            host,
            rules,
            random: Lrand48::default(),
            budget,
            instructions: 0,
            instructions_unchecked: 0,
            commands: 0,
            fatal: None,
            loading: None,
        }
    }

    /// Whether the script has no limit of time.
    pub fn may_be_busy(&self) -> bool {
        self.host.as_ref().is_some_and(|host| host.may_be_busy())
    }
}

impl Vm {
    pub(super) fn new(kind: Sandbox, budget: ScriptBudget) -> mlua::Result<Vm> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(Running::new(budget, None, Rules::default()));
        let json = JsonConfig::default();
        let native = natives(&lua, &json)?;
        let sandbox: Function = lua.load(SANDBOX).set_name(SANDBOX_NAME).into_function()?;
        let is_of_functions = kind == Sandbox::Functions;
        let (globals, run, load, compile): (Table, Function, Function, Function) =
            sandbox.call((native, is_of_functions))?;
        lua.set_globals(globals)?;
        let mut vm = Vm { lua, kind, run, load, compile, json, budget };
        vm.set_budget(budget)?;
        Ok(vm)
    }

    pub(super) fn set_budget(&mut self, budget: ScriptBudget) -> mlua::Result<()> {
        self.budget = budget;
        let every = INSTRUCTIONS_PER_CHECK.min(budget.instructions_max.max(1));
        let triggers = HookTriggers::new().every_nth_instruction(every as u32);
        self.lua.set_global_hook(triggers, move |lua, _| {
            spend(lua, every)?;
            Ok(VmState::Continue)
        })
    }

    /// Compiles code. The error is the message of the compiler.
    pub(super) fn compile(&self, code: &[u8]) -> Result<Function, Vec<u8>> {
        let chunk_name = self.kind.chunk_name();
        // Redis's compiler accepts only source text, and refuses compiled chunks with this error.
        if code.first() == Some(&BINARY_CHUNK) {
            return Err(format!("{}:1: unexpected symbol near 'char(27)'", &chunk_name[1..]).into());
        }
        let compile =
            || self.compile.call::<(Option<Function>, Option<LuaString>)>((BStr::new(code), chunk_name));
        match self.limited(compile) {
            Ok((Some(function), _)) => Ok(function),
            Ok((None, message)) => {
                Err(message.map(|message| message.as_bytes().to_vec()).unwrap_or_default())
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    pub(super) fn run(
        &self,
        callable: &Callable<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<dyn Host>,
    ) -> (Box<dyn Host>, Reply) {
        let rules = Rules { is_read_only: callable.is_read_only, ..Rules::default() };
        *running(&self.lua) = Running::new(self.budget, Some(host), rules);
        let outcome = (|| {
            let (keys, args) = (self.strings(keys)?, self.strings(args)?);
            self.limited(|| self.run.call::<(bool, Value)>((callable.function, keys, args)))
        })();
        let mut running = running(&self.lua);
        let host = running.host.take().expect("nobody else takes it");
        let reply = match (running.fatal.take(), outcome) {
            (Some(Fatal { error, place }), _) => {
                Reply::Error(describe(callable.name, error.as_bytes(), place))
            }
            (None, Ok((true, value))) => to_reply(&value, running.rules.protocol),
            (None, Ok((false, Value::Table(error)))) => {
                Reply::Error(describe(callable.name, &err(&error), noted_place(&error)))
            }
            (None, Ok((false, other))) => {
                Reply::Error(failure(callable.name, other.to_string().unwrap_or_default().as_bytes()))
            }
            (None, Err(LuaError::MemoryError(_))) => {
                Reply::Error(failure(callable.name, NO_MEMORY.as_bytes()))
            }
            (None, Err(error)) => Reply::Error(failure(callable.name, error.to_string().as_bytes())),
        };
        drop(running);
        self.collect_garbage();
        (host, reply)
    }

    /// Runs `act` within the limit of Lua's memory.
    fn limited<R>(&self, act: impl FnOnce() -> R) -> R {
        limit_memory(&self.lua, self.budget.memory_bytes_max);
        let done = act();
        limit_memory(&self.lua, 0);
        done
    }

    /// Frees the garbage of a script, if it is much. Lua would free it only when it allocates
    /// again.
    fn collect_garbage(&self) {
        if self.lua.used_memory() > self.budget.memory_bytes_max / 2 {
            // Only a finalizer can cause an error, and scripts cannot create finalizers.
            _ = self.lua.gc_collect();
        }
    }

    /// The table for `KEYS` or `ARGV`.
    ///
    /// Redis inserts the items one by one into an empty table, which grows to the next power of
    /// two. Scripts can observe this size when they leave holes.
    fn strings(&self, items: &[&[u8]]) -> mlua::Result<Table> {
        let len = if items.is_empty() { 0 } else { items.len().next_power_of_two() };
        let padding = std::iter::repeat_n(None, len - items.len());
        self.lua.create_sequence_from(items.iter().map(|item| Some(BStr::new(item))).chain(padding))
    }

    /// Runs the code of a library, and returns the functions that it registers.
    ///
    /// # Errors
    /// The error that the code raises.
    pub(super) fn load(&self, code: &Function) -> Result<IndexMap<Bytes, Registered, Hasher>, Error> {
        let begun = Running {
            loading: Some(IndexMap::default()),
            ..Running::new(self.budget, None, Rules::default())
        };
        *running(&self.lua) = begun;
        let outcome = self.limited(|| self.load.call::<(bool, Value)>(code));
        let mut running = running(&self.lua);
        let registered = running.loading.take().unwrap_or_default();
        match (running.fatal.take(), outcome) {
            (Some(Fatal { error, .. }), _) => Err(error),
            (None, Ok((true, _))) => Ok(registered),
            (None, Ok((false, Value::Table(error)))) => Err(Error::new(err(&error))),
            (None, Ok((false, other))) => Err(Error::new(other.to_string().unwrap_or_default())),
            (None, Err(error)) => Err(Error::new(error.to_string())),
        }
    }
}

pub(super) fn running(lua: &Lua) -> mlua::AppDataRefMut<'_, Running> {
    lua.app_data_mut().expect("set when the state was made")
}

/// `ERR … script: <sha or name>, on @user_script:3.`
fn describe(name: &[u8], message: &[u8], place: Option<Place>) -> Error {
    let mut text = message.to_vec();
    if let Some(Place { source, line }) = place {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name);
        text.extend_from_slice(format!(", on {source}:{line}.").as_bytes());
    }
    Error::new(text)
}

/// The error for a script whose Lua error is no table, because its message handler could not run.
fn failure(name: &[u8], message: &[u8]) -> Error {
    Error::new([b"ERR Error running script ", name, b", ", message].concat())
}

/// The place of the error that the message handler recorded.
fn noted_place(error: &Table) -> Option<Place> {
    let (source, line) = (error.raw_get("source").ok()?, error.raw_get("line").ok()?);
    Some(Place { source, line })
}

fn err(error: &Table) -> Vec<u8> {
    error.raw_get::<LuaString>("err").map(|text| text.as_bytes().to_vec()).unwrap_or_default()
}
