//! Lua 5.1 as Redis 7.0 embeds it: the sandbox, the conversions both ways, the error texts.
//!
//! Knows no command: a [`Host`] is handed over for the time that a script runs, and runs the commands that it calls.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/>

use std::marker::PhantomData;

use bytes::Bytes;
use indexmap::IndexMap;
use mlua::{
    Error as LuaError, ExternalError as _, Function, HookTriggers, Lua, LuaOptions, LuaString, MultiValue,
    StdLib, Table, Value, VmState,
};
use smallvec::SmallVec;

use crate::error::Error;
use crate::keyspace::Hasher;
use crate::reply::{Reply, format_double};

/// Instructions that one script may take: about a second. An endless loop is an error and not a hang.
const INSTRUCTIONS_MAX: u32 = 100_000_000;
/// How often the budget is looked at.
const INSTRUCTIONS_PER_CHECK: u32 = 100_000;
/// Deepest nesting of a table that a script may return.
const REPLY_DEPTH_MAX: usize = 200;

const SANDBOX: &str = include_str!("sandbox.lua");
const CHUNK_NAME: &str = "@user_script";

/// What runs the commands that a script calls.
pub trait Host: Send + 'static {
    /// Runs one command and gives its reply; refuses what scripts may not call.
    fn call(&mut self, argv: &[&[u8]]) -> Reply;
}

/// The scripts that one server knows, by SHA1, and the Lua state that runs them.
pub struct Scripts<H> {
    known: IndexMap<Sha, Bytes, Hasher>,
    /// Made when the first script runs: a Lua state costs more than many whole executions of a test.
    vm: Option<Vm>,
    host: PhantomData<fn(H)>,
}

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

    /// Forgets every script. What was compiled stays with the Lua state, where no client can see it.
    pub fn flush(&mut self) {
        self.known.clear();
    }

    /// Runs a known script, and gives the host back with what the script returned.
    pub fn run(&mut self, sha: &Sha, keys: &[&[u8]], args: &[&[u8]], host: H) -> (H, Reply) {
        let source = self.known.get(sha).cloned().unwrap_or_default();
        self.vm().run(sha, &source, keys, args, host)
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
    /// The table behind the read-only globals.
    globals: Table,
    /// `xpcall` with the handler that says where an error happened.
    call_protected: Function,
    compiled: IndexMap<Sha, Function, Hasher>,
}

/// What Rust keeps beside the Lua state while a script runs.
struct Running<H> {
    host: Option<H>,
    random: Random,
    instructions: u32,
}

impl Vm {
    fn new<H: Host>() -> mlua::Result<Vm> {
        let libs = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libs, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(Running::<H> { host: None, random: Random::default(), instructions: 0 });
        let native = natives::<H>(&lua)?;
        let sandbox: Function = lua.load(SANDBOX).set_name("=sandbox").into_function()?;
        let (globals, read_only, call_protected): (Table, Table, Function) = sandbox.call(native)?;
        lua.set_globals(read_only)?;
        let every = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
        lua.set_global_hook(every, |lua, _| {
            let mut running = lua.app_data_mut::<Running<H>>().expect("set when the state was made");
            running.instructions = running.instructions.saturating_add(INSTRUCTIONS_PER_CHECK);
            if running.instructions > INSTRUCTIONS_MAX {
                let text = format!(
                    "ERR Error running script: it took more than {INSTRUCTIONS_MAX} instructions (an endless loop?)"
                );
                return Err(Error::new(text).into_lua_err());
            }
            Ok(VmState::Continue)
        })?;
        Ok(Vm { lua, globals, call_protected, compiled: IndexMap::default() })
    }

    fn compile(&mut self, sha: &Sha, source: &[u8]) -> Result<Function, Error> {
        if let Some(function) = self.compiled.get(sha) {
            return Ok(function.clone());
        }
        // A first line with flags is for Redis, not for Lua; blanking it keeps the line numbers.
        let body = match source.strip_prefix(b"#!") {
            Some(rest) => rest.iter().position(|&byte| byte == b'\n').map_or(&b""[..], |end| &rest[end..]),
            None => source,
        };
        let chunk = self.lua.load(body).set_name(CHUNK_NAME).set_mode(mlua::chunk::ChunkMode::Text);
        let function = chunk.into_function().map_err(|error| {
            let message = match error {
                LuaError::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            Error::new(format!("ERR Error compiling script (new function): {message}"))
        })?;
        self.compiled.insert(*sha, function.clone());
        Ok(function)
    }

    fn run<H: Host>(
        &mut self,
        sha: &Sha,
        source: &[u8],
        keys: &[&[u8]],
        args: &[&[u8]],
        host: H,
    ) -> (H, Reply) {
        let script = match self.compile(sha, source) {
            Ok(script) => script,
            Err(error) => return (host, Reply::Error(error)),
        };
        {
            let mut running = self.lua.app_data_mut::<Running<H>>().expect("set when the state was made");
            *running = Running { host: Some(host), random: Random::default(), instructions: 0 };
        }
        let reply = self.protected_call(sha, &script, keys, args);
        let mut running = self.lua.app_data_mut::<Running<H>>().expect("set when the state was made");
        let host = running.host.take().expect("every call of a command puts the host back");
        (host, reply)
    }

    fn protected_call(&self, sha: &Sha, script: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
        let outcome = (|| {
            self.globals.raw_set("KEYS", strings(&self.lua, keys)?)?;
            self.globals.raw_set("ARGV", strings(&self.lua, args)?)?;
            self.call_protected.call::<(bool, Value)>(script)
        })();
        match outcome {
            Ok((true, value)) => to_reply(&value, REPLY_DEPTH_MAX),
            Ok((false, Value::Table(error))) => Reply::Error(describe(sha, &error)),
            Ok((false, other)) => Reply::Error(Error::new(error_text(&other))),
            Err(error) => Reply::Error(Error::new(error_text(&Value::Error(Box::new(error))))),
        }
    }
}

fn strings(lua: &Lua, items: &[&[u8]]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for item in items {
        table.raw_push(lua.create_string(item)?)?;
    }
    Ok(table)
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

/// The functions behind the `redis` table, and what the sandbox itself needs.
fn natives<H: Host>(lua: &Lua) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set(
        "call",
        lua.create_function(|lua, args: MultiValue| match call_command::<H>(lua, &args) {
            Reply::Error(error) => Err(error.into_lua_err()),
            reply => to_lua(lua, &reply),
        })?,
    )?;
    native.set(
        "pcall",
        lua.create_function(|lua, args: MultiValue| {
            let reply = call_command::<H>(lua, &args);
            if let Value::Table(table) = to_lua(lua, &reply)? {
                if matches!(reply, Reply::Error(_)) {
                    table.raw_set("ignore_error_stats_update", true)?;
                }
                return Ok(Value::Table(table));
            }
            to_lua(lua, &reply)
        })?,
    )?;
    native
        .set("error_reply", lua.create_function(|lua, args: MultiValue| single_field(lua, "err", &args))?)?;
    native
        .set("status_reply", lua.create_function(|lua, args: MultiValue| single_field(lua, "ok", &args))?)?;
    native.set(
        "sha1hex",
        lua.create_function(|lua, args: MultiValue| {
            let Some(bytes) = (args.len() == 1).then(|| argument(&args[0])).flatten() else {
                return Err(Error::from_static("ERR wrong number of arguments").into_lua_err());
            };
            lua.create_string(sha1_hex(&bytes))
        })?,
    )?;
    native.set("log", lua.create_function(|_, _: MultiValue| Ok(()))?)?;
    native.set("random", lua.create_function(|lua, bounds: MultiValue| random::<H>(lua, &bounds))?)?;
    native.set(
        "randomseed",
        lua.create_function(|lua, seed: f64| {
            running::<H, _>(lua, |running| running.random = Random::from_seed(seed as i64 as u32));
            Ok(())
        })?,
    )?;
    native.set(
        "caught",
        lua.create_function(|lua, error: Value| match &error {
            Value::Error(_) => lua.create_string(error_text(&error)).map(Value::String),
            Value::Table(table) => Ok(match table.raw_get::<Value>("err")? {
                Value::Nil => error,
                text => text,
            }),
            _ => Ok(error),
        })?,
    )?;
    native.set("locate", lua.create_function(|lua, error: Value| locate(lua, &error))?)?;
    Ok(native)
}

/// The message handler of a script: makes the error a table, and notes the line that raised it.
fn locate(lua: &Lua, error: &Value) -> mlua::Result<Table> {
    let table = match error {
        Value::Table(table) => table.clone(),
        Value::Error(_) => lua.create_table_from([("err", lua.create_string(error_text(error))?)])?,
        _ => {
            let mut text = b"ERR ".to_vec();
            text.extend_from_slice(&error_text(error));
            lua.create_table_from([("err", lua.create_string(text)?)])?
        }
    };
    // Level 0 is this handler, 1 the function that raised; a function of C or Rust has no line, its caller does.
    for level in 1..=2 {
        let place = lua.inspect_stack(level, |frame| {
            (frame.source().what != "C")
                .then(|| (frame.source().source.map(std::borrow::Cow::into_owned), frame.current_line()))
        });
        if let Some(Some((Some(source), Some(line)))) = place {
            table.raw_set("source", source)?;
            table.raw_set("line", line)?;
            break;
        }
    }
    Ok(table)
}

/// The text of an error value: of a failed command its reply, of anything else what Lua would print.
fn error_text(error: &Value) -> Vec<u8> {
    match error {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Error(error) => lua_error_text(error),
        other => other.to_string().unwrap_or_default().into_bytes(),
    }
}

fn lua_error_text(error: &LuaError) -> Vec<u8> {
    match error {
        LuaError::CallbackError { cause, .. } | LuaError::BadArgument { cause, .. } => lua_error_text(cause),
        LuaError::ExternalError(external) => match external.downcast_ref::<Error>() {
            Some(error) => error.as_bytes().to_vec(),
            None => format!("ERR {external}").into_bytes(),
        },
        other => format!("ERR {other}").into_bytes(),
    }
}

fn running<H: Host, R>(lua: &Lua, f: impl FnOnce(&mut Running<H>) -> R) -> R {
    f(&mut lua.app_data_mut::<Running<H>>().expect("set when the state was made"))
}

fn call_command<H: Host>(lua: &Lua, args: &MultiValue) -> Reply {
    if args.is_empty() {
        return Reply::Error(Error::from_static(
            "ERR Please specify at least one argument for this redis lib call",
        ));
    }
    let mut argv: SmallVec<[Argument; 8]> = SmallVec::new();
    for arg in args {
        let Some(bytes) = argument(arg) else {
            return Reply::Error(Error::from_static(
                "ERR Lua redis lib command arguments must be strings or integers",
            ));
        };
        argv.push(bytes);
    }
    let argv: SmallVec<[&[u8]; 8]> = argv.iter().map(|arg| &**arg).collect();
    // The host leaves its place while the command runs: no borrow of the Lua state is held then.
    let mut host = running::<H, _>(lua, |running| running.host.take()).expect("commands run one at a time");
    let reply = host.call(&argv);
    running::<H, _>(lua, |running| running.host = Some(host));
    reply
}

/// An argument of `redis.call` as bytes.
enum Argument {
    Lua(mlua::BorrowedBytes),
    Number(String),
}

impl std::ops::Deref for Argument {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Argument::Lua(bytes) => bytes,
            Argument::Number(text) => text.as_bytes(),
        }
    }
}

/// Strings as they are, numbers as C prints them with `%.17g`; nothing else is an argument.
fn argument(value: &Value) -> Option<Argument> {
    match value {
        Value::String(text) => Some(Argument::Lua(text.as_bytes())),
        Value::Integer(n) => Some(Argument::Number(format_double(*n as f64))),
        Value::Number(n) => Some(Argument::Number(format_double(*n))),
        _ => None,
    }
}

/// `redis.error_reply` and `redis.status_reply`: a table with one field.
fn single_field(lua: &Lua, field: &str, args: &MultiValue) -> mlua::Result<Table> {
    let (field, text) = match (args.len(), args.front()) {
        (1, Some(Value::String(text))) => (field, text.as_bytes().to_vec()),
        _ => ("err", b"ERR wrong number or type of arguments".to_vec()),
    };
    let text = if field == "err" { text.strip_prefix(b"-").unwrap_or(&text) } else { &text };
    lua.create_table_from([(field, lua.create_string(text)?)])
}

/// A reply as a script sees it, under RESP2's conversions.
fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    let list = |items: &mut dyn Iterator<Item = &Reply>| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        for item in items {
            table.raw_push(to_lua(lua, item)?)?;
        }
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Integer(n) => Ok(Value::Number(*n as f64)),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Double(value) => Ok(Value::String(lua.create_string(format_double(*value))?)),
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Status(text) => Ok(Value::Table(lua.create_table_from([("ok", lua.create_string(text)?)])?)),
        Reply::Error(error) => {
            Ok(Value::Table(lua.create_table_from([("err", lua.create_string(error.as_bytes())?)])?))
        }
        Reply::Array(items) | Reply::Set(items) => list(&mut items.iter()),
        Reply::Map(pairs) => list(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
    }
}

/// What a script returned, as a reply.
fn to_reply(value: &Value, depth: usize) -> Reply {
    let Some(depth) = depth.checked_sub(1) else {
        return Reply::Error(Error::from_static("ERR reached lua stack limit"));
    };
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(n) => Reply::Integer(*n),
        Value::Number(n) => Reply::Integer(truncate(*n)),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => table_to_reply(table, depth),
        _ => Reply::Nil,
    }
}

fn table_to_reply(table: &Table, depth: usize) -> Reply {
    let text = |field| match table.raw_get(field) {
        Ok(Value::String(text)) => Some(Bytes::copy_from_slice(&text.as_bytes())),
        _ => None,
    };
    if let Some(err) = text("err") {
        return Reply::Error(Error::new(err));
    }
    if let Some(ok) = text("ok") {
        return Reply::Status(ok);
    }
    if let Ok(Value::Number(_) | Value::Integer(_)) = table.raw_get("double") {
        return Reply::Double(table.raw_get("double").unwrap_or_default());
    }
    if let Ok(Value::Table(map)) = table.raw_get("map") {
        let pairs = map.pairs::<Value, Value>().flatten();
        return Reply::Map(
            pairs.map(|(key, value)| (to_reply(&key, depth), to_reply(&value, depth))).collect(),
        );
    }
    if let Ok(Value::Table(set)) = table.raw_get("set") {
        return Reply::Set(
            set.pairs::<Value, Value>().flatten().map(|(key, _)| to_reply(&key, depth)).collect(),
        );
    }
    let items = (1..).map_while(|idx| match table.raw_get(idx) {
        Ok(Value::Nil) | Err(_) => None,
        Ok(item) => Some(to_reply(&item, depth)),
    });
    Reply::Array(items.collect())
}

/// C's conversion of a double to a 64-bit integer: towards zero, and the smallest integer for what does not fit.
fn truncate(value: f64) -> i64 {
    if value.abs() < 9_223_372_036_854_775_808.0 { value as i64 } else { i64::MIN }
}

/// `drand48`'s generator, which Redis puts behind `math.random`, seeded anew for every script.
struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random::from_seed(0)
    }
}

impl Random {
    fn from_seed(seed: u32) -> Random {
        Random(u64::from(seed) << 16 | 0x330E)
    }

    /// The next 31 bits.
    fn draw(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        (self.0 >> 17) as u32
    }
}

/// `math.random([m [, n]])`
fn random<H: Host>(lua: &Lua, bounds: &MultiValue) -> mlua::Result<f64> {
    let modulus = i32::MAX as u32;
    let drawn = running::<H, _>(lua, |running| running.random.draw());
    let fraction = f64::from(drawn % modulus) / f64::from(modulus);
    let bounds: SmallVec<[f64; 2]> = bounds
        .iter()
        .map(|bound| bound.as_f64().ok_or_else(|| argument_error("number expected")))
        .collect::<Result<_, _>>()?;
    let (low, high) = match bounds[..] {
        [] => return Ok(fraction),
        [high] => (1.0, high),
        [low, high] => (low, high),
        _ => return Err(argument_error("wrong number of arguments")),
    };
    if low > high {
        return Err(argument_error("bad argument to 'random' (interval is empty)"));
    }
    Ok((fraction * (high - low + 1.0)).floor() + low)
}

fn argument_error(text: &str) -> LuaError {
    Error::new(format!("ERR user_script: {text}")).into_lua_err()
}
