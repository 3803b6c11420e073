//! A Lua state with the sandbox in it. There are two: one for scripts, one for functions, which see other globals.

use bstr::BStr;
use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{
    ExternalError as _, Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState,
};

use super::convert::to_reply;
use super::library::JsonConfig;
use super::native::{Raised, natives};
use super::random::Random;
use super::{Host, Rules};
use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::Reply;

/// Instructions that one script may take: about a second. An endless loop is an error and not a hang.
const INSTRUCTIONS_MAX: u32 = 100_000_000;
/// How often the budget is looked at.
const INSTRUCTIONS_PER_CHECK: u32 = 100_000;
/// Deepest nesting of a table that a script may return.
const REPLY_DEPTH_MAX: usize = 200;

const SANDBOX: &str = include_str!("sandbox.lua");
pub(super) const SANDBOX_NAME: &str = "=sandbox";
/// The first byte of a compiled chunk.
const BINARY_CHUNK: u8 = 27;

/// Whose globals a Lua state has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    Scripts,
    Functions,
}

impl World {
    /// What errors call the code.
    fn chunk_name(self) -> &'static str {
        match self {
            World::Scripts => "@user_script",
            World::Functions => "@user_function",
        }
    }
}

pub(super) struct Vm {
    pub(super) lua: Lua,
    world: World,
    /// Of the sandbox: calls a script or a function with its keys and arguments, and says where it failed.
    run: Function,
    /// Of the sandbox: runs the code of a library.
    load: Function,
    /// Lua's own `loadstring`: what it says of code that it cannot compile need not be UTF-8.
    compile: Function,
    /// What scripts told `cjson`.
    pub(super) json: JsonConfig,
}

/// What can be run, and what Redis calls it in errors.
pub(super) struct Callable<'a> {
    pub function: &'a Function,
    pub name: &'a [u8],
    pub is_read_only: bool,
}

/// What Rust keeps beside the Lua state while a script runs.
pub(super) struct Running<H> {
    pub host: Option<Box<H>>,
    pub rules: Rules,
    pub random: Random,
    instructions: u32,
    /// The functions that a library has registered by now, while it is loaded.
    pub loading: Option<IndexMap<Bytes, Registered, Hasher>>,
}

/// A function that a library has registered.
pub(super) struct Registered {
    pub description: Option<Bytes>,
    pub flags: Vec<&'static str>,
    pub callback: Function,
}

impl<H> Default for Running<H> {
    fn default() -> Running<H> {
        let rules = Rules::default();
        Running { host: None, rules, random: Random::default(), instructions: 0, loading: None }
    }
}

impl Vm {
    pub(super) fn new<H: Host>(world: World) -> mlua::Result<Vm> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(Running::<H>::default());
        let json = JsonConfig::default();
        let native = natives::<H>(&lua, &json)?;
        let sandbox: Function = lua.load(SANDBOX).set_name(SANDBOX_NAME).into_function()?;
        let is_of_functions = world == World::Functions;
        let (globals, run, load, compile): (Table, Function, Function, Function) =
            sandbox.call((native, is_of_functions))?;
        lua.set_globals(globals)?;
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
        lua.set_global_hook(every, |lua, _| {
            let mut running = running::<H>(lua);
            running.instructions = running.instructions.saturating_add(INSTRUCTIONS_PER_CHECK);
            let is_patient = running.host.as_mut().map_or(Ok(false), |host| host.is_patient());
            if !is_patient.map_err(|error| Raised::Fatal(error).into_lua_err())?
                && running.instructions > INSTRUCTIONS_MAX
            {
                let text = format!(
                    "ERR Error running script: it took more than {INSTRUCTIONS_MAX} instructions (an endless loop?)"
                );
                return Err(Raised::Fatal(Error::new(text)).into_lua_err());
            }
            Ok(VmState::Continue)
        })?;
        Ok(Vm { lua, world, run, load, compile, json })
    }

    /// Compiles code; the error is the compiler's.
    pub(super) fn compile(&self, code: &[u8]) -> Result<Function, Vec<u8>> {
        let chunk_name = self.world.chunk_name();
        // Redis's compiler takes text only, and says so in its own words.
        if code.first() == Some(&BINARY_CHUNK) {
            return Err(format!("{}:1: unexpected symbol near 'char(27)'", &chunk_name[1..]).into());
        }
        match self.compile.call::<(Option<Function>, Option<LuaString>)>((BStr::new(code), chunk_name)) {
            Ok((Some(function), _)) => Ok(function),
            Ok((None, message)) => {
                Err(message.map(|message| message.as_bytes().to_vec()).unwrap_or_default())
            }
            Err(error) => Err(error.to_string().into()),
        }
    }

    pub(super) fn run<H: Host>(
        &self,
        callable: &Callable<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<H>,
    ) -> (Box<H>, Reply) {
        let rules = Rules { is_read_only: callable.is_read_only, ..Rules::default() };
        *running::<H>(&self.lua) = Running { host: Some(host), rules, ..Running::default() };
        let outcome = (|| {
            self.run.call::<(bool, Value)>((callable.function, self.strings(keys)?, self.strings(args)?))
        })();
        let mut running = running::<H>(&self.lua);
        let host = running.host.take().expect("nobody else takes it");
        let reply = match outcome {
            Ok((true, value)) => to_reply(&value, running.rules.protocol, REPLY_DEPTH_MAX),
            Ok((false, Value::Table(error))) => Reply::Error(describe(callable.name, &error)),
            Ok((false, other)) => Reply::Error(Error::new(format!("ERR {other:?}"))),
            Err(error) => Reply::Error(Error::new(format!("ERR {error}"))),
        };
        (host, reply)
    }

    /// Strings as `KEYS` and `ARGV` have them. Redis puts them one by one into an empty table, which grows to the next power of
    /// two: that is seen where a script leaves holes.
    fn strings(&self, items: &[&[u8]]) -> mlua::Result<Table> {
        let len = if items.is_empty() { 0 } else { items.len().next_power_of_two() };
        let padding = std::iter::repeat_n(None, len - items.len());
        self.lua.create_sequence_from(items.iter().map(|item| Some(BStr::new(item))).chain(padding))
    }

    /// Runs the code of a library, and gives the functions that it registers.
    ///
    /// # Errors
    /// What the code raises.
    pub(super) fn load<H: Host>(
        &self,
        code: &Function,
    ) -> Result<IndexMap<Bytes, Registered, Hasher>, Error> {
        *running::<H>(&self.lua) = Running { loading: Some(IndexMap::default()), ..Running::default() };
        let outcome = self.load.call::<(bool, Value)>(code);
        let registered = running::<H>(&self.lua).loading.take().unwrap_or_default();
        match outcome {
            Ok((true, _)) => Ok(registered),
            Ok((false, Value::Table(error))) => Err(Error::new(err(&error))),
            Ok((false, other)) => Err(Error::new(format!("ERR {other:?}"))),
            Err(error) => Err(Error::new(format!("ERR {error}"))),
        }
    }
}

pub(super) fn running<H: Host>(lua: &Lua) -> mlua::AppDataRefMut<'_, Running<H>> {
    lua.app_data_mut().expect("set when the state was made")
}

/// `ERR … script: <sha or name>, on @user_script:3.`
fn describe(name: &[u8], error: &Table) -> Error {
    let mut text = err(error);
    if let (Ok(source), Ok(line)) = (error.raw_get::<LuaString>("source"), error.raw_get::<i64>("line")) {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(name);
        text.extend_from_slice(b", on ");
        text.extend_from_slice(&source.as_bytes());
        text.extend_from_slice(format!(":{line}.").as_bytes());
    }
    Error::new(text)
}

fn err(error: &Table) -> Vec<u8> {
    error.raw_get::<LuaString>("err").map(|text| text.as_bytes().to_vec()).unwrap_or_default()
}
