//! Lua 5.1 as Redis 7.0 embeds it: the sandbox, the conversions both ways, the error texts.
//!
//! Knows no command: a [`Host`] is handed over for the time that a script runs, and runs the commands that it calls.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/>

mod shebang;
mod args;
mod convert;
mod library;
mod random;
mod redis;
mod native;

use std::marker::PhantomData;

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{
    Error as LuaError, ExternalError as _, Function, HookTriggers, Lua, LuaOptions, LuaString, StdLib, Table,
    Value, VmState,
};

use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::Reply;
use crate::resp::Protocol;

use convert::to_reply;
use library::JsonConfig;
use native::{Raised, natives};
use random::Random;
use shebang::Shebang;

/// Instructions that one script may take: about a second. An endless loop is an error and not a hang.
const INSTRUCTIONS_MAX: u32 = 100_000_000;
/// How often the budget is looked at.
const INSTRUCTIONS_PER_CHECK: u32 = 100_000;
/// Deepest nesting of a table that a script may return.
const REPLY_DEPTH_MAX: usize = 200;

const SANDBOX: &str = include_str!("sandbox.lua");
const SANDBOX_NAME: &str = "=sandbox";
const CHUNK_NAME: &str = "@user_script";
/// The first byte of a compiled chunk.
const BINARY_CHUNK: u8 = 27;

/// What runs the commands that a script calls.
pub trait Host: Send + 'static {
    /// Runs one command and gives its reply; refuses what scripts, or this one, may not call.
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply;

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

/// The scripts that one server knows, by SHA1, and the Lua state that runs them.
pub struct Scripts<H> {
    known: Known,
    /// Made when the first script runs: a Lua state costs more than many whole executions of a test.
    vm: Option<Vm>,
    host: PhantomData<fn(H)>,
}

/// The sources of scripts, by SHA1.
pub type Known = IndexMap<Sha, Bytes, Hasher>;

/// A SHA1 in lower-case hexadecimal digits.
pub type Sha = [u8; 40];

impl<H> Default for Scripts<H> {
    fn default() -> Scripts<H> {
        Scripts { known: IndexMap::default(), vm: None, host: PhantomData }
    }
}

impl<H: Host> Scripts<H> {
    /// Compiles a script and keeps it: a script is known once it compiled, whether or not it ever succeeds.
    ///
    /// # Errors
    /// The compiler's, as Redis words it.
    pub fn load(&mut self, source: &[u8]) -> Result<Sha, Error> {
        let sha = sha1_hex(source);
        if !self.known.contains_key(&sha) {
            self.vm().compile(&sha, source)?;
            self.known.insert(sha, Bytes::copy_from_slice(source));
        }
        Ok(sha)
    }

    /// Whether a script is known; the digits of the SHA1 may be of either case.
    pub fn lookup(&self, sha: &[u8]) -> Option<Sha> {
        let sha: Sha = sha.to_ascii_lowercase().try_into().ok()?;
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

    /// Forgets every script. What was compiled stays with the Lua state, where no client can see it.
    pub fn flush(&mut self) {
        self.known.clear();
        if let Some(vm) = &self.vm {
            vm.json.reset();
        }
    }

    /// Runs a known script, and gives the host back with what the script returned.
    pub fn run(&mut self, sha: &Sha, keys: &[&[u8]], args: &[&[u8]], host: Box<H>) -> (Box<H>, Reply) {
        self.vm();
        let (Some(vm), Some(source)) = (&mut self.vm, self.known.get(sha)) else {
            return (host, Reply::Error(crate::error::NO_SCRIPT));
        };
        vm.run(sha, source, keys, args, host)
    }

    fn vm(&mut self) -> &mut Vm {
        self.vm.get_or_insert_with(|| Vm::new::<H>().expect("the sandbox is our own code and loads"))
    }
}

/// The SHA1 by which a script is known.
pub fn sha1_hex(source: &[u8]) -> Sha {
    let digits = sha1_smol::Sha1::from(source).digest().to_string();
    digits.into_bytes().try_into().expect("a SHA1 has 40 digits")
}

/// A Lua state with the sandbox in it.
struct Vm {
    lua: Lua,
    /// Of the sandbox: calls a script with its keys and arguments, and says where it failed.
    run_script: Function,
    compiled: IndexMap<Sha, Compiled, Hasher>,
    /// What scripts told `cjson`.
    json: JsonConfig,
}

struct Compiled {
    function: Function,
    is_read_only: bool,
}

/// What Rust keeps beside the Lua state while a script runs.
struct Running<H> {
    host: Option<Box<H>>,
    rules: Rules,
    random: Random,
    instructions: u32,
}

impl Vm {
    fn new<H: Host>() -> mlua::Result<Vm> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(Running::<H> {
            host: None,
            rules: Rules::default(),
            random: Random::default(),
            instructions: 0,
        });
        let json = JsonConfig::default();
        let native = natives::<H>(&lua, &json)?;
        let sandbox: Function = lua.load(SANDBOX).set_name(SANDBOX_NAME).into_function()?;
        let (globals, run_script): (Table, Function) = sandbox.call(native)?;
        lua.set_globals(globals)?;
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
        lua.set_global_hook(every, |lua, _| {
            let mut running = running::<H>(lua);
            running.instructions = running.instructions.saturating_add(INSTRUCTIONS_PER_CHECK);
            if running.instructions > INSTRUCTIONS_MAX {
                let text = format!(
                    "ERR Error running script: it took more than {INSTRUCTIONS_MAX} instructions (an endless loop?)"
                );
                return Err(Raised::Table(Error::new(text)).into_lua_err());
            }
            Ok(VmState::Continue)
        })?;
        Ok(Vm { lua, run_script, compiled: IndexMap::default(), json })
    }

    fn compile(&mut self, sha: &Sha, source: &[u8]) -> Result<&Compiled, Error> {
        if !self.compiled.contains_key(sha) {
            let Shebang { body, is_read_only } = Shebang::parse(source)?;
            // Redis's compiler takes text only, and says so in its own words.
            if body.first() == Some(&BINARY_CHUNK) {
                return Err(Error::from_static(
                    "ERR Error compiling script (new function): user_script:1: unexpected symbol near 'char(27)'",
                ));
            }
            let chunk = self.lua.load(body).set_name(CHUNK_NAME).set_mode(mlua::chunk::ChunkMode::Text);
            let function = chunk.into_function().map_err(|error| {
                let message = match error {
                    LuaError::SyntaxError { message, .. } => message,
                    other => other.to_string(),
                };
                Error::new(format!("ERR Error compiling script (new function): {message}"))
            })?;
            self.compiled.insert(*sha, Compiled { function, is_read_only });
        }
        Ok(&self.compiled[sha])
    }

    fn run<H: Host>(
        &mut self,
        sha: &Sha,
        source: &[u8],
        keys: &[&[u8]],
        args: &[&[u8]],
        host: Box<H>,
    ) -> (Box<H>, Reply) {
        let (function, is_read_only) = match self.compile(sha, source) {
            Ok(script) => (script.function.clone(), script.is_read_only),
            Err(error) => return (host, Reply::Error(error)),
        };
        let rules = Rules { is_read_only, ..Rules::default() };
        *running::<H>(&self.lua) =
            Running { host: Some(host), rules, random: Random::default(), instructions: 0 };
        let outcome = (|| {
            let strings = |items: &[&[u8]]| {
                let items: Result<Vec<_>, _> =
                    items.iter().map(|item| self.lua.create_string(item)).collect();
                self.lua.create_sequence_from(items?)
            };
            self.run_script.call::<(bool, Value)>((function, strings(keys)?, strings(args)?))
        })();
        let mut running = running::<H>(&self.lua);
        let host = running.host.take().expect("nobody else takes it");
        let reply = match outcome {
            Ok((true, value)) => to_reply(&value, running.rules.protocol, REPLY_DEPTH_MAX),
            Ok((false, Value::Table(error))) => Reply::Error(describe(sha, &error)),
            Ok((false, other)) => Reply::Error(Error::new(format!("ERR {other:?}"))),
            Err(error) => Reply::Error(Error::new(format!("ERR {error}"))),
        };
        (host, reply)
    }
}

fn running<H: Host>(lua: &Lua) -> mlua::AppDataRefMut<'_, Running<H>> {
    lua.app_data_mut().expect("set when the state was made")
}

/// `ERR … script: <sha>, on @user_script:3.`
fn describe(sha: &Sha, error: &Table) -> Error {
    let mut text = error.raw_get::<LuaString>("err").map(|text| text.as_bytes().to_vec()).unwrap_or_default();
    if let (Ok(source), Ok(line)) = (error.raw_get::<LuaString>("source"), error.raw_get::<i64>("line")) {
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(sha);
        text.extend_from_slice(b", on ");
        text.extend_from_slice(&source.as_bytes());
        text.extend_from_slice(format!(":{line}.").as_bytes());
    }
    Error::new(text)
}
