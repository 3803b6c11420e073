//! A Lua state with the sandbox in it. Scripts and functions have one each, with different globals.

use std::cell::RefCell;

use bstr::BStr;
use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{Function, HookTriggers, Lua, LuaOptions, LuaString, RegistryKey, StdLib, Table, Value, VmState};

use super::budget::{Fatal, INSTRUCTIONS_PER_CHECK, Place, ScriptBudget, limit_memory};
use super::c_api::{Ended, Entry, Input, SandboxParts};
use super::host::{Host, Rules};
use super::library::JsonConfig;
use super::native::natives;
use super::running::{Failure, Registered, Running, SANDBOX_NAME, with_running};
use super::spend::spend;
use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::Reply;

const SANDBOX: &str = include_str!("sandbox.lua");
pub(super) const SANDBOX_LOADS: &str = "the sandbox is our own code and loads";
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
    /// Calls a script or a function with its keys and arguments.
    entry: Entry,
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
    pub function: &'a RegistryKey,
    pub name: &'a [u8],
    pub is_read_only: bool,
}

impl Vm {
    pub(super) fn new(kind: Sandbox, budget: ScriptBudget) -> mlua::Result<Vm> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(RefCell::new(Running::new(budget, None, Rules::default())));
        let json = JsonConfig::default();
        let native = natives(&lua, &json)?;
        let locate: Function = native.get("locate")?;
        let sandbox: Function = lua.load(SANDBOX).set_name(SANDBOX_NAME).into_function()?;
        let is_of_functions = kind == Sandbox::Functions;
        let (world, globals, restore, load, compile): (Table, Table, Function, Function, Function) =
            sandbox.call((native, is_of_functions))?;
        lua.set_globals(world)?;
        // The first release of a key adds a field to the registry. The next ones need no memory.
        drop(lua.create_registry_value(true)?);
        lua.expire_registry_values();
        let entry = Entry::new(&lua, &SandboxParts { globals, restore, locate })?;
        let mut vm = Vm { lua, kind, entry, load, compile, json, budget };
        vm.set_budget(budget)?;
        Ok(vm)
    }

    pub(super) fn set_budget(&mut self, budget: ScriptBudget) -> mlua::Result<()> {
        self.budget = budget;
        limit_memory(&self.lua, budget.memory_bytes_max);
        let every = INSTRUCTIONS_PER_CHECK.min(budget.instructions_max.max(1));
        let triggers = HookTriggers::new().every_nth_instruction(every as u32);
        self.lua.set_global_hook(triggers, move |lua, _| {
            spend(lua, every)?;
            Ok(VmState::Continue)
        })
    }

    /// Compiles code. The error is the message of the compiler.
    pub(super) fn compile(&self, code: &[u8]) -> Result<Function, Vec<u8>> {
        // Functions whose keys have been dropped make room for the new code.
        self.lua.expire_registry_values();
        let chunk_name = self.kind.chunk_name();
        // Redis's compiler accepts only source text, and refuses compiled chunks with this error.
        if code.first() == Some(&BINARY_CHUNK) {
            return Err(format!("{}:1: unexpected symbol near 'char(27)'", &chunk_name[1..]).into());
        }
        let compile =
            || self.compile.call::<(Option<Function>, Option<LuaString>)>((BStr::new(code), chunk_name));
        match compile() {
            Ok((Some(function), _)) => Ok(function),
            Ok((None, message)) => {
                Err(message.map(|message| message.as_bytes().to_vec()).unwrap_or_default())
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// Stores compiled code in Lua's registry until the key is dropped. The error is that of Lua:
    /// there is no memory.
    pub(super) fn keep(&self, code: Function) -> Result<RegistryKey, Vec<u8>> {
        self.lua.create_registry_value(code).map_err(|error| error.to_string().into())
    }

    pub(super) fn run(
        &self,
        callable: &Callable<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<dyn Host>,
    ) -> (Box<dyn Host>, Reply) {
        let rules = Rules { is_read_only: callable.is_read_only, ..Rules::default() };
        let input = Input { keys, args, are_arguments: self.kind == Sandbox::Functions };
        let Ended { outcome, host, fatal, used_bytes } =
            self.entry.run(callable.function, input, |running| {
                *running = Running::new(self.budget, Some(host), rules);
            });
        let reply = match (fatal, outcome) {
            (Some(Fatal { error, place }), _) => {
                Reply::Error(describe(callable.name, error.as_bytes(), place))
            }
            (None, Ok(reply)) => reply,
            (None, Err(Failure { text, is_table: true, place })) => {
                Reply::Error(describe(callable.name, &text, place))
            }
            (None, Err(Failure { text, .. })) => Reply::Error(failure(callable.name, &text)),
        };
        if used_bytes > self.budget.memory_bytes_max / 2 {
            // Lua would free the garbage only when it allocates again. Only a finalizer can cause
            // an error, and scripts cannot create finalizers.
            _ = self.lua.gc_collect();
        }
        (host.expect("nobody else takes it"), reply)
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
        with_running(&self.lua, |running| *running = begun);
        let outcome = self.load.call::<(bool, Value)>(code);
        let (registered, fatal) = with_running(&self.lua, |running| {
            running.is_disturbed = true;
            (running.loading.take().unwrap_or_default(), running.fatal.take())
        });
        match (fatal, outcome) {
            (Some(Fatal { error, .. }), _) => Err(error),
            (None, Ok((true, _))) => Ok(registered),
            (None, Ok((false, Value::Table(error)))) => Err(Error::new(err(&error))),
            (None, Ok((false, other))) => Err(Error::new(other.to_string().unwrap_or_default())),
            (None, Err(error)) => Err(Error::new(error.to_string())),
        }
    }
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

fn err(error: &Table) -> Vec<u8> {
    error.raw_get::<LuaString>("err").map(|text| text.as_bytes().to_vec()).unwrap_or_default()
}
