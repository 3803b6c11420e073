//! Attacks through scripts.

use std::time::Duration;

use redis::Value;

use super::{Attack, Judge, argv, connect};
use crate::client::show;

/// After this time in a script, the server replies `BUSY` to others.
const BUSY_THRESHOLD_MS: &str = "50";
/// The most time that a script may run after it was killed.
const END_MAX: Duration = Duration::from_secs(10);

/// One script, which the table shows as its text.
fn script(judge: Judge, source: &str) -> Attack {
    named(judge, source, source)
}

fn named(judge: Judge, sent: &str, source: &str) -> Attack {
    Attack::commands(sent, judge, vec![argv(["EVAL", source, "0"])])
}

fn same(sources: &[&str]) -> Vec<Attack> {
    sources.iter().map(|source| script(Judge::Same, source)).collect()
}

fn kind(sources: &[&str]) -> Vec<Attack> {
    sources.iter().map(|source| script(Judge::Kind, source)).collect()
}

fn lives(sources: &[&str]) -> Vec<Attack> {
    sources.iter().map(|source| script(Judge::Lives, source)).collect()
}

/// Calls of the libraries with extreme arguments.
pub(super) fn libraries() -> Vec<Attack> {
    let endless = ENDLESS_CALLS.map(|source| Attack::endless(source, vec![argv(["EVAL", source, "0"])]));
    let mut attacks = kind(CALLS);
    attacks.extend(lives(LARGE_CALLS));
    attacks.extend(endless);
    attacks.extend(kind(PATTERNS));
    attacks.extend(same(BUNDLED));
    attacks.extend(lives(DEEP_VALUES));
    attacks
}

/// Calls of Lua's own libraries.
const CALLS: &[&str] = &[
    // CVE-2025-46817.
    "return {unpack({}, 0, 2^31-1)}",
    "return {unpack({}, -2^31, 2^31-1)}",
    "return {unpack({}, 2^31-2, 2^31-1)}",
    "return {unpack({}, 1, 8000)}",
    "return select('#', unpack({}, 1, 1e7))",
    "return {pcall(unpack, {}, 0, 2^31-1)}",
    "return select(-2^31, 1)",
    "return table.concat({}, 'x', 1, 2^31-1)",
    "return table.concat({}, 'x', -2^31, -2^31+1)",
    "return table.remove({}, -2^31)",
    "return table.getn(setmetatable({}, {__index=error}))",
    "return next({}, 'x')",
    "local t={} for i=1,500 do t[i]=i%7 end table.sort(t, function() return true end)",
    "table.sort({3,2,1}, function() error('x') end)",
    "table.sort({3,2,1}, coroutine.yield)",
    "local t={3,2,1} table.sort(t, function() t[1]=nil t[2]=nil return true end)",
    "return ('x'):rep(-1)",
    "return string.byte(('x'):rep(1e6), 1, -1)",
    "return string.sub('x', -2^63, 2^63)",
    "return string.char(-1)",
    "return ('%99999d'):format(1)",
    "return ('%.99999f'):format(1)",
    "return ('%99.99f'):format(-1e308)",
    "return ('%'..('0'):rep(1e5)..'d'):format(1)",
    "return ('%s'):rep(1e4):format(1)",
    "return #('%q'):format(('\\0'):rep(1e6))",
    "return ('%d'):format(2^63)",
];
/// These calls may need more memory or stack than there is.
const LARGE_CALLS: &[&str] = &[
    "table.insert({}, 2^31-1, 'x')",
    "return #('x'):rep(2^31)",
    "local t={} for i=1,10 do t[i]=('x'):rep(1e7) end return #table.concat(t)",
    // The pattern matcher is recursive.
    "return string.find(('a'):rep(5e4), ('a?'):rep(5e4))",
    "return string.match(('a'):rep(5e4), ('a?'):rep(5e4))",
    "return string.gsub(('a'):rep(5e4), ('a?'):rep(5e4), '')",
    "for _ in string.gmatch(('a'):rep(5e4), ('a?'):rep(5e4)) do end",
    "return string.find(('a'):rep(3e5), ('a?'):rep(3e5))",
    "return string.find(('a'):rep(3e5), ('a-'):rep(3e5)..'b')",
    "return string.find(('a'):rep(3e5), ('(a)'):rep(32))",
];
/// On Redis, these calls never end.
const ENDLESS_CALLS: [&str; 2] =
    ["return string.find(('a'):rep(5e4), ('a?'):rep(5e4)..'b')", "table.insert({}, -2^31, 'x')"];
/// Patterns that are incomplete, deep or slow.
const PATTERNS: &[&str] = &[
    "return string.find('x', ('('):rep(33))",
    "return string.find('x', '%')",
    "return string.find('x', '[^')",
    "return string.find('x', '%b')",
    "return string.find('x', '%1')",
    "return string.find('x', '%f')",
    "return string.gsub('x', 'x', '%9')",
    "return string.find(('('):rep(2e4), '%b()')",
    "return string.find(('a'):rep(200), ('.-'):rep(3)..'b')",
    "local function f() return (string.gsub('x', 'x', f)) end return f()",
];
/// Calls of the libraries that Redis adds to Lua.
const BUNDLED: &[&str] = &[
    // CVE-2024-31449.
    "return bit.tohex(65535, -2147483648)",
    "return bit.tohex(1, 2^31-1)",
    "return {bit.lshift(1, 2^31), bit.rol(1, -2^31), bit.tobit(2^63), bit.arshift(-1, 99)}",
    "return cjson.decode(('['):rep(1e5))",
    "return cjson.decode('[1e999999,-1e999999]')[1]",
    "return cjson.decode('['..('9'):rep(1e5)..']')[1]",
    "return cjson.decode('\"\\\\ud800\"')",
    "return cjson.decode('nul')",
    "return cjson.encode({[2^31]=1})",
    "local t={} t[1]=t return cjson.encode(t)",
    "return cjson.encode_number_precision(99)",
    "return cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "return cmsgpack.unpack('\\223\\255\\255\\255\\255')",
    "return cmsgpack.unpack('\\219\\255\\255\\255\\255')",
    "return cmsgpack.unpack('\\201\\255\\255\\255\\255')",
    "return cmsgpack.unpack_limit('\\1', -1, 0)",
    "return cmsgpack.unpack_one('\\1', 2^31-1)",
    "local t={} t[1]=t return #cmsgpack.pack(t)",
    "return cmsgpack.pack()",
    "return struct.unpack('s4', 'abc')",
    "return struct.unpack('c2147483647', 'x')",
    "return struct.unpack('!2147483647', 'x')",
    "return struct.unpack('i99', 'x')",
    "return struct.pack('i99', 1)",
    "return struct.pack('c2147483647', 'x')",
    "return struct.unpack('c0', 'x')",
    "return struct.unpack('B', 'abc', -1)",
    "return struct.unpack('B', 'abc', 2^31-1)",
    "return struct.unpack('i4', 'abc', 2^31-4)",
    "return struct.unpack('Bc0', '\\255')",
    "return struct.size('!3i')",
    "return #{struct.unpack(('B'):rep(1e5), ('x'):rep(1e5))}",
];
/// Values that are nested deeply, for the same libraries.
const DEEP_VALUES: &[&str] = &[
    "cjson.decode_max_depth(1e9) return cjson.decode(('['):rep(1e6))",
    "cjson.encode_max_depth(1e9) local t={} for i=1,1e6 do t={t} end return cjson.encode(t)",
    "return cmsgpack.unpack(('\\145'):rep(1e6))",
    "local t={} for i=1,1e6 do t={t} end return #cmsgpack.pack(t)",
];

/// Input that is nested too deeply for the parser or for the stack.
pub(super) fn parser() -> Vec<Attack> {
    let deep = |open: &&str| {
        let source = format!("return type((loadstring(('{open}'):rep(100000))))");
        script(Judge::Kind, &source)
    };
    let mut attacks: Vec<_> = OPENINGS.iter().map(deep).collect();
    for open in ["(", "{", "a.."] {
        let source = format!("return {}", open.repeat(100_000));
        attacks.push(named(Judge::Kind, &format!("EVAL of 'return ' and 100000 times {open}"), &source));
    }
    attacks.extend(kind(CHUNKS));
    attacks.extend(same(RESULTS));
    attacks
}

/// Text that opens one more level when it is repeated.
const OPENINGS: &[&str] = &[
    "return (",
    "return {",
    "return -",
    "return not ",
    "x=a..",
    "x=a^",
    "x=f(",
    "x=a[",
    "do ",
    "if x then ",
    "while x do ",
    "repeat ",
    "for i=1,2 do ",
    "x=function() ",
    "function f() ",
    "a.",
    "a=",
    "x={{{",
    "else",
    "local a;",
];
/// Large chunks, and functions that call each other without an end.
const CHUNKS: &[&str] = &[
    "return type((loadstring('x={'..('1,'):rep(1e6)..'}')))",
    "local t={} for i=1,3e5 do t[i]='x='..i..'.5' end return type((loadstring(table.concat(t,' '))))",
    "local t={} for i=1,300 do t[i]='local a'..i end return type((loadstring(table.concat(t,' '))))",
    "return type((loadstring('if a then '..('elseif a then '):rep(1e4)..'end')))",
    // CVE-2025-46819.
    "return type((loadstring('['..('='):rep(1e6)..'[')))",
    "return type((loadstring('--['..('='):rep(1e6)..'[ ]')))",
    "return type((loadstring('[=[x]'..('='):rep(1e6))))",
    // CVE-2025-49844: the garbage collector runs while a chunk is parsed.
    "collectgarbage('setpause', 0) for i=1,2e4 do loadstring('x='..i..'.5', ('n'):rep(99)..i) end return 1",
    "for i=1,2e3 do load(function() collectgarbage() return nil end, ('n'):rep(99)..i) end return 1",
    "local function f() return 1+f() end return f()",
    "local function f() return pcall(f) end return type(f())",
    "local function f() return f() end return pcall(string.rep)",
    "local function f() return xpcall(f, f) end return type(f())",
    "local function f() coroutine.wrap(f)() end return f()",
    "local function f() return coroutine.resume(coroutine.create(f)) end return type(f())",
    "local function h() error({}) end return {xpcall(h, h)}",
    "return tostring(setmetatable({}, {__tostring=function() return 1 end}))",
    "return tostring(setmetatable({}, {__tostring=function(t) return tostring(t) end}))",
    "local a,b={},{} setmetatable(a,{__index=b}) setmetatable(b,{__index=a}) return a.x",
    "local t=setmetatable({}, {}) getmetatable(t).__index=function(t,k) return t[k] end return t.x",
    "local t=setmetatable({}, {}) getmetatable(t).__call=t return t()",
    "local m={} m.__eq=function(a,b) return a==b end return setmetatable({},m)==setmetatable({},m)",
    "local m={} m.__concat=function(a,b) return a..b end return setmetatable({},m)..'x'",
    "error(setmetatable({}, {__tostring=function() error('x') end}))",
    "error({err=1})",
    "error()",
];
/// The server converts the result of a script to a reply.
const RESULTS: &[&str] = &[
    "local t={} t[1]=t return t",
    "local t={} for i=1,1e5 do t={t} end return t",
    "return {err='a\\r\\n$1\\r\\nb'}",
    "return {ok='a\\r\\n+b'}",
    "return redis.error_reply('x\\r\\n+y')",
    "return redis.status_reply('x\\r\\n+y')",
    "return {double=0/0}",
    "return {map={a=1}}",
    "return 2^63",
    "return -2^1000",
    "return 0/0",
];

/// Functions and data that a script must not reach.
pub(super) fn sandbox() -> Vec<Attack> {
    let mut attacks = same(GLOBALS);
    attacks.extend(bytecode_and_finalizers());
    attacks.extend(CHANGES.iter().map(change));
    attacks.extend(functions());
    attacks
}

/// Globals, and calls that a script may not make.
const GLOBALS: &[&str] = &[
    // CVE-2022-0543.
    "return package.loadlib",
    "return rawget(_G, 'package')",
    "local names='' for _,n in ipairs{'io','os','require','dofile','loadfile','debug','module','print','newproxy','setfenv','getfenv','collectgarbage','string','load'} do names=names..type(rawget(_G,n))..' ' end return names",
    "return type(os.execute)",
    "return getfenv(0)==_G",
    "x=1",
    "_G.x=1",
    "rawset(_G, 'x', 1)",
    "setmetatable(_G, nil)",
    "getmetatable(_G).__index=nil",
    "redis.call=nil",
    "rawset(redis, 'call', nil)",
    "setmetatable(redis, {})",
    "string.rep=nil",
    "table.insert(table, 1)",
    "math.random=nil",
    "KEYS=nil return type(KEYS)",
    "return type(setfenv(1, {}))",
    "local t=load(function() return redis.call('nosuch') end) return t",
    "return select(2, load(function() return redis.call('nosuch') end))",
    "return tostring(select(2, load(function() return {} end)))",
    "return {pcall(redis.call, 'nosuch')}",
    "return redis.pcall('nosuch')",
    "redis.call()",
    "redis.call({})",
    "redis.call('set', 'k', {})",
    "redis.call('eval', 'return 1', 0)",
    "redis.call('subscribe', 'x')",
    "redis.call('multi')",
    "redis.call('debug', 'segfault')",
    "redis.call('config', 'set', 'requirepass', 'x')",
    "redis.call('blpop', 'x', 0)",
    "redis.call(('x'):rep(1e5))",
    "local t={} for i=1,7000 do t[i]='x' end return redis.call('del', unpack(t))",
    "redis.log(99999, 'x')",
    "redis.setresp(99)",
    "return redis.sha1hex()",
    "return #redis.sha1hex(('x'):rep(1e7))",
    "redis.set_repl(99)",
    "redis.breakpoint() return redis.debug(1)",
];

/// Chunks of bytecode instead of text, and functions that the garbage collector calls.
fn bytecode_and_finalizers() -> Vec<Attack> {
    let mut attacks = lives(&[
        "return type(loadstring(string.dump(function() return 1 end)))",
        "local d=string.dump(function() return 1 end) for i=6,#d do local f=loadstring(d:sub(1,i-1)..'\\255'..d:sub(i+1)) if f then pcall(f) end end",
        "local p=newproxy(true) getmetatable(p).__gc=function() redis.call('set','x','y') end p=nil collectgarbage() return 1",
    ]);
    attacks.push(Attack::commands(
        "CVE-2024-46981: __gc, then SCRIPT FLUSH",
        Judge::Lives,
        vec![
            argv([
                "EVAL",
                "local p=newproxy(true) getmetatable(p).__gc=function() collectgarbage() end return 1",
                "0",
            ]),
            argv(["SCRIPT", "FLUSH"]),
            argv(["EVAL", "collectgarbage() return 1", "0"]),
        ],
    ));
    attacks
}

/// A change that one script makes to types that other scripts use.
fn change((sent, first): &(&str, &str)) -> Attack {
    Attack::commands(
        format!("{sent}, then another's ('x'):rep(2)"),
        Judge::Only("\"xx\""),
        vec![argv(["EVAL", first, "0"]), argv(["EVAL", "return ('x'):rep(2)", "0"])],
    )
}

/// The changes as the table shows them, and as they are sent.
const CHANGES: &[(&str, &str)] = &[
    ("getmetatable('').__index=nil", "getmetatable('').__index=nil"),
    (
        "getmetatable('').__index=function() …",
        "getmetatable('').__index=function() return function() return 'stolen' end end",
    ),
    (
        "getmetatable('').__index.rep=function() …",
        "getmetatable('').__index.rep=function() return 'stolen' end",
    ),
    ("rawset(string, 'rep', function() …", "rawset(string, 'rep', function() return 'stolen' end)"),
    (
        "setmetatable(string, {}) …",
        "setmetatable(string, {__index=function() return 'stolen' end}) string.rep=nil",
    ),
    ("string.rep=function() …", "string.rep=function() return 'stolen' end"),
    ("collectgarbage('stop')", "collectgarbage('stop')"),
    (
        "local _,t=pairs(string) t.rep=function() …",
        "local _,t=pairs(string) t.rep=function() return 'stolen' end",
    ),
];

/// Functions that a library registers, and libraries that may not be loaded.
fn functions() -> Vec<Attack> {
    let library = "#!lua name=l\nredis.register_function('f', function() return {unpack({}, 0, 2^31-1)} end)";
    let mut attacks = vec![Attack::commands(
        "FCALL: unpack({}, 0, 2^31-1)",
        Judge::Kind,
        vec![argv(["FUNCTION", "LOAD", library]), argv(["FCALL", "f", "0"])],
    )];
    attacks.extend(LIBRARIES.iter().map(|(sent, library)| {
        Attack::commands(*sent, Judge::Kind, vec![argv(["FUNCTION", "LOAD", library])])
    }));
    attacks.push(Attack::commands(
        "FUNCTION RESTORE of zeros",
        Judge::Same,
        vec![argv(["FUNCTION", "RESTORE", "\0\0\0\0\0\0\0\0\0\0\0\0"])],
    ));
    attacks
}

/// Libraries as the table shows them, and as they are sent.
const LIBRARIES: &[(&str, &str)] = &[
    ("FUNCTION LOAD: while true do end", "#!lua name=l\nwhile true do end"),
    ("FUNCTION LOAD: redis.call", "#!lua name=l\nredis.call('set', 'x', 1)"),
    ("FUNCTION LOAD: unpack({}, 0, 2^31-1)", "#!lua name=l\nlocal t={unpack({}, 0, 2^31-1)}"),
    ("FUNCTION LOAD: string.rep=nil", "#!lua name=l\nstring.rep=nil"),
    ("FUNCTION LOAD: no function", "#!lua name=l\n"),
];

/// Scripts that never end, or that use all memory.
pub(super) fn endless() -> Vec<Attack> {
    let mut attacks: Vec<_> = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(function() while true do end end, function() end) end",
        "while true do pcall(redis.call, 'x') end",
        "while true do pcall(error) end",
        "while true do load(function() while true do end end) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do pcall(string.gsub, 'x', 'x', function() while true do end end) end",
        "while true do pcall(table.sort, {2,1}, function() while true do end end) end",
        "local t=setmetatable({}, {__index=function() while true do end end}) while true do pcall(function() return t.x end) end",
        "local t=setmetatable({}, {__tostring=function() while true do end end}) while true do pcall(tostring, t) end",
        "while true do pcall(xpcall, error, function() while true do end end) end",
        "while true do redis.call('get', 'l') end",
        "while true do redis.pcall('nosuch') end",
        "while true do pcall(cmsgpack.pack, _G) end",
        "while true do unpack({}, 1, 7800) end",
        "while true do select('#', unpack({}, 1, 7800)) end",
        "local s=('x'):rep(1e5) while true do s:upper() end",
        "local s=('x'):rep(1e5) while true do s:gsub('y', '') end",
        "local s=(' '):rep(1e5)..'1' while true do tonumber(s) end",
        "local t={} for i=1,1e4 do t[i]=i end while true do table.foreach(t, rawequal) end",
        "local t={} for i=1,1e4 do t[i]=i end while true do table.sort(t) end",
        "local t={} for i=1,1e4 do t[i]=i end while true do table.maxn(t) end",
        "while true do cjson.new() end",
        "local s=('x'):rep(1e4) while true do redis.call('echo', s) end",
    ]
    .map(|source| killed(source, &argv(["EVAL", source, "0"]), "SCRIPT", Vec::new()))
    .into();
    let lock = "while redis.call('set', 'l', 'x', 'nx')==false or true do end";
    attacks.push(killed(
        &format!("l is there, {lock}"),
        &argv(["EVAL", lock, "0"]),
        "SCRIPT",
        vec![argv(["SET", "l", "x"])],
    ));
    attacks.push(killed(lock, &argv(["EVAL", lock, "0"]), "SCRIPT", Vec::new()));
    let library = "#!lua name=l\nredis.register_function('f', function() while true do load(function() while true do end end) end end)";
    attacks.push(killed(
        "FCALL: while true do load(function() …",
        &argv(["FCALL", "f", "0"]),
        "FUNCTION",
        vec![argv(["FUNCTION", "LOAD", library])],
    ));

    attacks.extend(lives(&[
        "local s='x' while true do s=s..s end",
        "local t={} for i=1,3e5 do t[i]=coroutine.create(function() end) end return #t",
        "for i=1,3e6 do redis.call('incr', 'k') end return 1",
        "local s=('x'):rep(1e4) for i=1,1e5 do redis.call('set', 'k', s) end return 1",
        "local t={} for i=1,1e6 do t[i]=i end return t",
        "local s=('x'):rep(1e6) local t={s,s} for i=1,14 do t={t,t} end return #cmsgpack.pack(t)",
        "local n=0 (('x'):rep(4e6)):gsub('()(x)', function() n=n+1 end) return n",
        "return #(('x'):rep(1e6)):gsub('.*', ('%0'):rep(100))",
    ]));
    // This attack compares only the memory.
    attacks.push(Attack::new("collectgarbage('stop'), then 300 MiB of garbage", Judge::Kind, |server| {
        let mut client = connect(server)?;
        client.ask(&["EVAL", "collectgarbage('stop')", "0"])?;
        for _ in 0..300 {
            client.ask(&["EVAL", "local s,t=('x'):rep(65536) for i=1,16 do t=s..i end", "0"])?;
        }
        Ok(show(&client.ask(&["PING"])?))
    }));
    attacks
}

/// An endless script, and the reply that it gets when another client kills it.
fn killed(sent: &str, run: &[Vec<u8>], kill: &'static str, before: Vec<Vec<Vec<u8>>>) -> Attack {
    let run = run.to_vec();
    Attack::new(format!("{kill} KILL of {sent}"), Judge::Same, move |server| {
        let mut runner = connect(server)?;
        let mut killer = connect(server)?;
        killer.ask(&["CONFIG", "SET", "busy-reply-threshold", BUSY_THRESHOLD_MS])?;
        for argv in &before {
            killer.ask(argv)?;
        }
        runner.send(&run)?;
        killer.wait_until_busy()?;
        let reply = killer.ask(&[kill, "KILL"])?;
        if reply != Value::Okay {
            return Ok(show(&reply));
        }
        runner.be_patient(END_MAX)?;
        Ok(show(&runner.receive()?))
    })
}
