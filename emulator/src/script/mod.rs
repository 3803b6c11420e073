//! Lua 5.1 as Redis 7.0 embeds it: the sandbox, the conversions both ways, the error texts.
//!
//! Knows no command: a [`Host`] is handed over for the time that a script runs, and runs the commands that it calls.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/>

mod shebang;

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
use crate::resp::Protocol;

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
/// How far up the stack the line of an error is looked for.
const LEVELS_MAX: usize = 8;

/// What runs the commands that a script calls.
pub trait Host: Send + 'static {
    /// Runs one command and gives its reply; refuses what scripts, or this one, may not call.
    fn call(&mut self, argv: &[&[u8]], rules: Rules) -> Reply;
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
        let native = natives::<H>(&lua)?;
        let sandbox: Function = lua.load(SANDBOX).set_name(SANDBOX_NAME).into_function()?;
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
                return Err(Raised::Table(Error::new(text)).into_lua_err());
            }
            Ok(VmState::Continue)
        })?;
        Ok(Vm { lua, globals, call_protected, compiled: IndexMap::default() })
    }

    fn compile(&mut self, sha: &Sha, source: &[u8]) -> Result<Function, Error> {
        if let Some(function) = self.compiled.get(sha) {
            return Ok(function.clone());
        }
        let Shebang { body, .. } = Shebang::parse(source)?;
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
            let is_read_only = Shebang::parse(source).is_ok_and(|shebang| shebang.is_read_only);
            let rules = Rules { is_read_only, ..Rules::default() };
            *running = Running { host: Some(host), rules, random: Random::default(), instructions: 0 };
        }
        let reply = self.protected_call::<H>(sha, &script, keys, args);
        let mut running = self.lua.app_data_mut::<Running<H>>().expect("set when the state was made");
        let host = running.host.take().expect("every call of a command puts the host back");
        (host, reply)
    }

    fn protected_call<H: Host>(&self, sha: &Sha, script: &Function, keys: &[&[u8]], args: &[&[u8]]) -> Reply {
        let outcome = (|| {
            self.globals.raw_set("KEYS", strings(&self.lua, keys)?)?;
            self.globals.raw_set("ARGV", strings(&self.lua, args)?)?;
            self.call_protected.call::<(bool, Value)>(script)
        })();
        match outcome {
            Ok((true, value)) => {
                let protocol = running::<H, _>(&self.lua, |running| running.rules.protocol);
                to_reply(&value, protocol, REPLY_DEPTH_MAX)
            }
            Ok((false, Value::Table(error))) => Reply::Error(describe(sha, &error)),
            Ok((false, other)) => Reply::Error(Error::new(format!("ERR {other:?}"))),
            Err(error) => Reply::Error(Error::new(format!("ERR {error}"))),
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

/// What the sandbox cannot do itself. What may fail must stand here: a script that ends with `return redis.call(…)` leaves
/// no frame behind for a Lua function to tell the line of, but it does for one of Rust.
fn natives<H: Host>(lua: &Lua) -> mlua::Result<Table> {
    let native = lua.create_table()?;
    native.set(
        "call",
        lua.create_function(|lua, args: MultiValue| match call_command::<H>(lua, &args) {
            Reply::Error(error) => Err(Raised::Table(error).into_lua_err()),
            reply => to_lua(lua, &reply, running::<H, _>(lua, |running| running.rules.protocol)),
        })?,
    )?;
    native.set(
        "pcall",
        lua.create_function(|lua, args: MultiValue| {
            let reply = call_command::<H>(lua, &args);
            let value = to_lua(lua, &reply, running::<H, _>(lua, |running| running.rules.protocol))?;
            if let (Reply::Error(_), Value::Table(error)) = (&reply, &value) {
                error.raw_set("ignore_error_stats_update", true)?;
            }
            Ok(value)
        })?,
    )?;
    native.set(
        "sha1hex",
        lua.create_function(|lua, args: MultiValue| {
            if args.len() != 1 {
                let error = Error::from_static("ERR wrong number of arguments");
                return Err(Raised::Table(error).into_lua_err());
            }
            lua.create_string(sha1_hex(argument(&args[0]).as_deref().unwrap_or_default()))
        })?,
    )?;
    native.set(
        "setresp",
        lua.create_function(|lua, version: f64| {
            let protocol = if version == 3.0 { Protocol::Resp3 } else { Protocol::Resp2 };
            running::<H, _>(lua, |running| running.rules.protocol = protocol);
            Ok(())
        })?,
    )?;
    native.set("random", lua.create_function(|lua, bounds: MultiValue| random::<H>(lua, &bounds))?)?;
    native.set(
        "randomseed",
        lua.create_function(|lua, args: MultiValue| {
            let seed = check_int(lua, "randomseed", &args, 0)?;
            running::<H, _>(lua, |running| running.random = Random::from_seed(seed as u32));
            Ok(())
        })?,
    )?;
    native.set("unwrap", lua.create_function(unwrap)?)?;
    native.set("locate", lua.create_function(|lua, error: Value| locate(lua, error))?)?;
    Ok(native)
}

/// An error that a native function raises.
#[derive(Debug)]
enum Raised {
    /// `{err = '…'}`
    Table(Error),
    /// A string, as Lua's own functions raise it.
    Text(String),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Table(error) => error.fmt(f),
            Raised::Text(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Raised {}

/// What a script sees of an error: of one that was raised in Rust the Lua value that it stands for, of others themselves.
fn unwrap(lua: &Lua, error: Value) -> mlua::Result<Value> {
    let Value::Error(error) = &error else { return Ok(error) };
    let mut error: &LuaError = error;
    while let LuaError::CallbackError { cause, .. } | LuaError::BadArgument { cause, .. } = error {
        error = cause;
    }
    let raised = match error {
        LuaError::ExternalError(external) => external.downcast_ref::<Raised>(),
        _ => None,
    };
    match raised {
        Some(Raised::Table(error)) => {
            let err = lua.create_string(error.as_bytes())?;
            Ok(Value::Table(lua.create_table_from([("err", err)])?))
        }
        Some(Raised::Text(text)) => Ok(Value::String(lua.create_string(text)?)),
        None => Ok(Value::String(lua.create_string(error.to_string())?)),
    }
}

/// The message handler of a script: makes the error a table, and notes the line that raised it.
fn locate(lua: &Lua, error: Value) -> mlua::Result<Table> {
    let table = match unwrap(lua, error)? {
        Value::Table(table) => table,
        other => {
            let mut text = b"ERR ".to_vec();
            match &other {
                Value::String(message) => text.extend_from_slice(&message.as_bytes()),
                other => text.extend_from_slice(other.to_string()?.as_bytes()),
            }
            lua.create_table_from([("err", lua.create_string(text)?)])?
        }
    };
    // The first function that is the script's own: what raised may be C, Rust or the sandbox, and these have no line to tell.
    for level in 1..=LEVELS_MAX {
        let place = lua.inspect_stack(level, |frame| {
            let source = frame.source().source.unwrap_or_default().into_owned();
            let is_own = !matches!(frame.source().what, "C" | "tail") && source != SANDBOX_NAME;
            is_own.then(|| (source, frame.current_line()))
        });
        match place {
            None => break,
            Some(None) => {}
            Some(Some((source, line))) => {
                table.raw_set("source", source)?;
                table.raw_set("line", line.map_or(-1, |line| line as i64))?;
                break;
            }
        }
    }
    Ok(table)
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
    let (host, rules) = running::<H, _>(lua, |running| (running.host.take(), running.rules));
    let mut host = host.expect("commands run one at a time");
    let reply = host.call(&argv, rules);
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

/// A reply as a script sees it: in the types of RESP2, unless it asked for those of RESP3.
fn to_lua(lua: &Lua, reply: &Reply, protocol: Protocol) -> mlua::Result<Value> {
    let convert = |reply: &Reply| to_lua(lua, reply, protocol);
    let typed = |name: &str, value: Value| Ok(Value::Table(lua.create_table_from([(name, value)])?));
    let is_resp3 = protocol == Protocol::Resp3;
    let list = |items: &mut dyn Iterator<Item = &Reply>| -> mlua::Result<Value> {
        let table = lua.create_table()?;
        for item in items {
            table.raw_push(convert(item)?)?;
        }
        Ok(Value::Table(table))
    };
    match reply {
        Reply::Integer(n) => Ok(Value::Number(*n as f64)),
        Reply::Bulk(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
        Reply::Double(value) if is_resp3 => typed("double", Value::Number(*value)),
        Reply::Double(value) => Ok(Value::String(lua.create_string(format_double(*value))?)),
        Reply::Nil | Reply::NilArray if is_resp3 => Ok(Value::Nil),
        Reply::Nil | Reply::NilArray => Ok(Value::Boolean(false)),
        Reply::Boolean(yes) if is_resp3 => Ok(Value::Boolean(*yes)),
        Reply::Boolean(yes) => Ok(Value::Number(f64::from(u8::from(*yes)))),
        Reply::Status(text) => typed("ok", Value::String(lua.create_string(text)?)),
        Reply::Error(error) => typed("err", Value::String(lua.create_string(error.as_bytes())?)),
        Reply::Set(items) if is_resp3 => {
            let set = lua.create_table()?;
            for item in items {
                set.raw_set(convert(item)?, true)?;
            }
            typed("set", Value::Table(set))
        }
        Reply::Map(pairs) if is_resp3 => {
            let map = lua.create_table()?;
            for (key, value) in pairs {
                map.raw_set(convert(key)?, convert(value)?)?;
            }
            typed("map", Value::Table(map))
        }
        Reply::Array(items) | Reply::Set(items) => list(&mut items.iter()),
        Reply::Map(pairs) => list(&mut pairs.iter().flat_map(|(key, value)| [key, value])),
    }
}

/// What a script returned, as a reply.
fn to_reply(value: &Value, protocol: Protocol, depth: usize) -> Reply {
    let Some(depth) = depth.checked_sub(1) else {
        return Reply::Error(Error::from_static("ERR reached lua stack limit"));
    };
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes()),
        Value::Integer(n) => Reply::Integer(*n),
        Value::Number(n) => Reply::Integer(truncate(*n)),
        Value::Boolean(yes) if protocol == Protocol::Resp3 => Reply::Boolean(*yes),
        Value::Boolean(true) => Reply::Integer(1),
        Value::Table(table) => table_to_reply(table, protocol, depth),
        _ => Reply::Nil,
    }
}

fn table_to_reply(table: &Table, protocol: Protocol, depth: usize) -> Reply {
    let convert = |value: &Value| to_reply(value, protocol, depth);
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
        return Reply::Map(pairs.map(|(key, value)| (convert(&key), convert(&value))).collect());
    }
    if let Ok(Value::Table(set)) = table.raw_get("set") {
        return Reply::Set(set.pairs::<Value, Value>().flatten().map(|(key, _)| convert(&key)).collect());
    }
    if let Some(digits) = text("big_number") {
        return Reply::Bulk(digits);
    }
    if let Ok(Value::Table(verbatim)) = table.raw_get("verbatim_string")
        && let (Ok(Value::String(_)), Ok(Value::String(text))) =
            (verbatim.raw_get("format"), verbatim.raw_get("string"))
    {
        return Reply::bulk(text.as_bytes());
    }
    let items = (1..).map_while(|idx| match table.raw_get(idx) {
        Ok(Value::Nil) | Err(_) => None,
        Ok(item) => Some(convert(&item)),
    });
    Reply::Array(items.collect())
}

/// C's conversion of a double to a 64-bit integer: towards zero, and the smallest integer for what does not fit.
fn truncate(value: f64) -> i64 {
    if value.abs() < 9_223_372_036_854_775_808.0 { value as i64 } else { i64::MIN }
}

/// `drand48`'s generator, which Redis puts behind `math.random`. Here every script begins as the first one of a server does,
/// so that no script can tell what ran before it.
struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(0x1234_ABCD_330E)
    }
}

impl Random {
    fn from_seed(seed: u32) -> Random {
        Random(u64::from(seed) << 16 | 0x330E)
    }

    /// The next number from 0 up to, but not including, 1.
    fn draw(&mut self) -> f64 {
        const MODULUS: u32 = i32::MAX as u32;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        f64::from((self.0 >> 17) as u32 % MODULUS) / f64::from(MODULUS)
    }
}

/// `math.random([m [, n]])`
fn random<H: Host>(lua: &Lua, bounds: &MultiValue) -> mlua::Result<f64> {
    let drawn = running::<H, _>(lua, |running| running.random.draw());
    let (low, high) = match bounds.len() {
        0 => return Ok(drawn),
        1 => (1, check_int(lua, "random", bounds, 0)?),
        2 => (check_int(lua, "random", bounds, 0)?, check_int(lua, "random", bounds, 1)?),
        _ => return Err(raise_text(lua, "wrong number of arguments")),
    };
    if low > high {
        let text = format!("bad argument #{} to 'random' (interval is empty)", bounds.len());
        return Err(raise_text(lua, &text));
    }
    let (low, high) = (f64::from(low), f64::from(high));
    Ok((drawn * (high - low + 1.0)).floor() + low)
}

/// C's `luaL_checkint`: a number, or text that is one, cut down to 32 bits.
fn check_int(lua: &Lua, function: &str, args: &MultiValue, idx: usize) -> mlua::Result<i32> {
    let value = args.get(idx).cloned();
    let number = lua.coerce_number(value.clone().unwrap_or(Value::Nil))?;
    number.map(|number| number as i64 as i32).ok_or_else(|| {
        let got = value.map_or("no value", |value| value.type_name());
        let place = idx + 1;
        raise_text(lua, &format!("bad argument #{place} to '{function}' (number expected, got {got})"))
    })
}

/// An error with the line of the caller in front, as Lua's own functions raise it.
fn raise_text(lua: &Lua, text: &str) -> LuaError {
    let place = lua.inspect_stack(1, |frame| {
        let source = frame.source().short_src.unwrap_or_default().into_owned();
        frame.current_line().map(|line| format!("{source}:{line}: "))
    });
    Raised::Text(place.flatten().unwrap_or_default() + text).into_lua_err()
}
