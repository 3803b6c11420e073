//! Limits of scripts: each ends a script with an error that names the limit, whatever the script
//! does to continue. The server stays usable.

mod nested;

use emulator::{Clock, Emulator, Reply, ScriptBudget};

use nested::NESTED;

const LIMIT: ScriptBudget = ScriptBudget {
    instructions_max: 200_000,
    commands_max: 1000,
    footprint_entries_max: 2000,
    memory_bytes_max: 16 << 20,
};

fn emulator() -> Emulator {
    let emulator = Emulator::with_clock(Clock::manual());
    emulator.script_budget(LIMIT);
    emulator
}

fn eval(emulator: &Emulator, script: &str) -> Reply {
    emulator.connection().execute(&[b"EVAL", script.as_bytes(), b"0"])
}

/// The error of a script that must fail. A second script must still run afterwards.
#[track_caller]
fn error_of(emulator: &Emulator, script: &str) -> String {
    let reply = eval(emulator, script);
    let Reply::Error(error) = &reply else { panic!("{script} answers {reply:?}") };
    assert_eq!(eval(emulator, "return redis.call('ECHO', 'alive')"), Reply::bulk("alive"), "after {script}");
    String::from_utf8_lossy(error.as_bytes()).into_owned()
}

/// Every way in Lua to call a given function, here `f`.
const CALLERS: &[&str] = &[
    "f()",
    "return f()",
    "pcall(f)",
    "pcall(pcall, f)",
    "xpcall(f, function() end)",
    "xpcall(f, f)",
    "xpcall(function() error('x') end, f)",
    "xpcall(function() local x = nil + 1 end, f)",
    "load(f)",
    "load(function() f() end)",
    "load(function() pcall(f) end)",
    "pcall(load, f)",
    "coroutine.resume(coroutine.create(f))",
    "coroutine.wrap(f)()",
    "pcall(coroutine.wrap(f))",
    "local c = coroutine.create(function() coroutine.yield() pcall(f) end) coroutine.resume(c) coroutine.resume(c)",
    "string.gsub('abc', 'b', f)",
    "pcall(string.gsub, 'abc', 'b', f)",
    "string.gsub('abc', 'b', setmetatable({}, {__index = f}))",
    "table.sort({3, 2, 1}, f)",
    "pcall(table.sort, {3, 2, 1}, f)",
    "table.foreach({1}, f)",
    "table.foreachi({1}, f)",
    "local t = setmetatable({}, {__index = f}) return t.x",
    "local t = setmetatable({}, {__newindex = f}) t.x = 1",
    "local t = setmetatable({}, {__call = f}) t()",
    "local t = setmetatable({}, {__add = f}) return t + 1",
    "local t = setmetatable({}, {__concat = f}) return t .. 'x'",
    "local t = setmetatable({}, {__eq = f}) local u = setmetatable({}, getmetatable(t)) return t == u",
    "local t = setmetatable({}, {__lt = f}) return t < setmetatable({}, getmetatable(t))",
    "local t = setmetatable({}, {__unm = f}) return -t",
    "local t = setmetatable({}, {__tostring = f}) return tostring(t)",
    "for _ in f do end",
    "local t = setmetatable({}, {__index = f}) for _ in ipairs(t) do end return t[1]",
    "pcall(function() pcall(function() pcall(f) end) end)",
];

/// Code that never ends by itself, with its error.
const LOOPS: &[(&str, &str)] = &[
    ("while true do end", "it took more than 200000 instructions"),
    ("while true do pcall(redis.call, 'INCR', 'n') end", "it called more than 1000 commands"),
    ("while redis.call('SET', 'l', 'x', 'NX') == false or true do end", "it called more than 1000 commands"),
    (
        "while true do string.find(('a'):rep(30), ('a?'):rep(30) .. ('a'):rep(30) .. 'b') end",
        "200000 instructions",
    ),
];

#[test]
fn no_function_catches_the_end_of_a_script() {
    let emulator = emulator();
    for (endless, expected) in LOOPS {
        for caller in CALLERS {
            for script in [
                format!("local f = function() {endless} end {caller}"),
                // A script that catches the error once must not catch it for ever.
                format!(
                    "local f = function() {endless} end while true do local g = function() {caller} end g() end"
                ),
            ] {
                let error = error_of(&emulator, &script);
                assert!(error.contains(expected), "{script}: {error}");
                assert!(error.contains(", on @user_script:1."), "{script}: {error}");
            }
        }
    }
}

#[test]
fn the_code_of_a_library_and_its_functions_have_the_budget_too() {
    let emulator = emulator();
    let mut connection = emulator.connection();
    let mut load = |code: &str| {
        let code = format!("#!lua name=l\n{code}");
        format!("{:?}", connection.execute(&[b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()]))
    };
    let reply = load("while true do end");
    assert!(reply.contains("ERR Error registering functions: ERR FUNCTION LOAD timeout"), "{reply}");
    let registered = load(
        "redis.register_function('loops', function() while true do pcall(redis.call, 'INCR', 'n') end end)
         redis.register_function('grows', function() local s = 'x' while true do s = s .. s end end)",
    );
    assert!(registered.contains('l'), "{registered}");
    let mut call = |name: &str| format!("{:?}", connection.execute(&[b"FCALL", name.as_bytes(), b"0"]));
    assert!(call("loops").contains("it called more than 1000 commands"));
    assert!(call("loops").contains("script: loops, on @user_function:2."));
    assert!(call("grows").contains("ERR Error running script grows, not enough memory"));
}

#[test]
fn a_second_access_adds_no_entry() {
    let emulator = emulator();
    emulator.script_budget(ScriptBudget { commands_max: 1_000_000, ..LIMIT });
    assert_eq!(
        eval(&emulator, "for i = 1, 5000 do redis.call('INCR', 'n') end return 'done'"),
        Reply::bulk("done")
    );
    let footprint = emulator.footprint();
    assert!(footprint.iter().count() < 1100, "{}", footprint.iter().count());
    let error = error_of(&emulator, "for i = 1, 5000 do redis.call('SET', i, i) end");
    assert!(error.contains("it left more than 2000 footprint entries"), "{error}");
}

#[test]
fn memory_has_a_limit() {
    let emulator = emulator();
    let full = [
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(2^31 - 1)",
        "local t = {} while true do t[#t + 1] = ('x'):rep(1e5) .. #t end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return table.concat({('x'):rep(9e6), ('y'):rep(9e6)})",
        "return (('x'):rep(1e6):gsub('x', ('y'):rep(100)))",
        "return (('x'):rep(1e6):gsub('x', function() return ('y'):rep(100) end))",
        "return string.format('%s%s', ('x'):rep(9e6), ('y'):rep(9e6))",
        "return cjson.encode({('x'):rep(9e6), ('y'):rep(9e6)})",
        "return cmsgpack.pack(('x'):rep(9e6), ('y'):rep(9e6))",
        "local s = ('x'):rep(1e6) local t = {s, s} for i = 1, 14 do t = {t, t} end return cmsgpack.pack(t)",
        "return struct.pack('ss', ('x'):rep(9e6), ('y'):rep(9e6))",
        "redis.call('SETRANGE', 'k', 20000000, 'x') return redis.call('GET', 'k')",
        "local c = {} while true do c[#c + 1] = coroutine.create(function() end) end",
        "return (('x'):rep(1e6):gsub('.*', ('%0'):rep(100)))",
        "return string.find(('a'):rep(1e6), ('a?'):rep(1e6))",
        "return string.gsub(('a'):rep(1e6), ('a?'):rep(1e6), '')",
    ];
    for script in full {
        emulator.script_budget(ScriptBudget { instructions_max: 100_000_000, ..LIMIT });
        let error = error_of(&emulator, script);
        assert!(error.contains("not enough memory"), "{script}: {error}");
    }
    // A script may catch this error, but not for ever.
    let catches = "local ok, e = pcall(function() local s = 'x' while true do s = s .. s end end) return {tostring(ok), e}";
    assert_eq!(
        eval(&emulator, catches),
        Reply::Array(vec![Reply::bulk("false"), Reply::bulk("not enough memory")])
    );
    let error = error_of(
        &emulator,
        "while true do pcall(function() local s = 'x' while true do s = s .. s end end) end",
    );
    assert!(error.contains("instructions"), "{error}");
}

#[test]
fn a_reply_has_a_limit() {
    let error = error_of(&emulator(), "local t = {} for i = 1, 2 do t[i] = t end return t");
    assert!(error.contains("more than 1048576 elements"), "{error}");
}

#[test]
fn one_script_does_not_stop_the_collector_for_the_next() {
    let emulator = emulator();
    for stop in
        ["collectgarbage('stop')", "collectgarbage('setpause', 1e6)", "collectgarbage('setstepmul', 1)"]
    {
        eval(&emulator, stop);
        assert_eq!(eval(&emulator, "return collectgarbage('setpause', 200)"), Reply::Integer(200), "{stop}");
        assert_eq!(
            eval(&emulator, "return collectgarbage('setstepmul', 200)"),
            Reply::Integer(200),
            "{stop}"
        );
        for _ in 0..20 {
            let garbage =
                "for i = 1, 100 do local s = ('x'):rep(1e4) .. i end return collectgarbage('count') < 8000";
            assert_eq!(eval(&emulator, garbage), Reply::Integer(1), "{stop}");
        }
    }
}

/// Calls that take longer than one instruction. Each of `list`, `text`, `json` and `packed` has
/// thousands of elements or bytes.
const LONG_CALLS: &[&str] = &[
    "cmsgpack.pack(list)",
    "cmsgpack.pack(text, text)",
    "cmsgpack.unpack(packed)",
    "cmsgpack.unpack_limit(packed, 1)",
    "cjson.encode(list)",
    "cjson.encode(rawset(list, 2e6, 1))",
    "cjson.decode(json)",
    "cjson.decode(json .. '!')",
    "struct.pack(('b'):rep(3000), unpack(list, 1, 3000))",
    "struct.unpack(('b'):rep(3000), text)",
    "struct.size(('b'):rep(3000))",
    "table.concat(list)",
    "table.concat(list, ' ', 1, 5000)",
    "table.insert(list, 1, 1)",
    "table.remove(list, 1)",
    "table.maxn(list)",
    "text:rep(100)",
    "string.find(('x'):rep(2^20), 'y', 1, true)",
    "string.find(('b'):rep(1000), '[' .. ('a'):rep(4000) .. ']*')",
    "unpack(list)",
    "unpack({}, 1, 7800)",
    "select('#', unpack({}, 1, 7800))",
    "table.sort(list)",
    "table.foreach(list, math.randomseed)",
    "('x'):rep(2^20):upper()",
    "tonumber((' '):rep(2^20) .. '1')",
    "text:gsub('x', type)",
    "redis.call('ECHO', ('x'):rep(2^20))",
    "loadstring((' '):rep(30000))",
    "load(function() return (' '):rep(30000) end)",
    "redis.sha1hex(('x'):rep(2^18))",
    "redis.call('LRANGE', 'list', 0, -1)",
    "collectgarbage()",
    "collectgarbage('step')",
];

#[test]
fn a_long_call_counts_as_many_instructions() {
    let emulator = emulator();
    let list = "for i = 1, 3000 do redis.call('RPUSH', 'list', i) end";
    emulator.script_budget(ScriptBudget::default());
    eval(&emulator, list);
    let budget =
        ScriptBudget { instructions_max: 1_000_000, commands_max: 1_000_000, ..ScriptBudget::default() };
    emulator.script_budget(budget);
    for call in LONG_CALLS {
        eval(&emulator, "redis.call('SET', 'n', 0)");
        let script = format!(
            "local list = {{}} for i = 1, 5000 do list[i] = i % 100 end
             local text, packed, json = ('x'):rep(50000), cmsgpack.pack(list), cjson.encode(list)
             while true do redis.call('INCR', 'n') pcall(function() return {call} end) end"
        );
        let error = error_of(&emulator, &script);
        assert!(error.contains("it took more than 1000000 instructions"), "{call}: {error}");
        let Reply::Integer(n) = eval(&emulator, "return tonumber(redis.call('GET', 'n'))") else { panic!() };
        // If each call counted as one instruction, `n` would be far higher.
        assert!(n < 3000, "{call} ran {n} times");
    }
}

#[test]
fn a_slow_pattern_ends() {
    let emulator = emulator();
    for call in [
        "string.find(('a'):rep(5e4), ('a?'):rep(5e4) .. 'b')",
        "string.find(('a'):rep(1e5), '.-.-.-.-.-b')",
        "string.match(('a'):rep(1e5), '(a*)*b' .. ('a*'):rep(100) .. 'c')",
        "string.gsub(('a'):rep(1e5), '.*.*.*b', '')",
        "string.gmatch(('a'):rep(1e5), '.*.*.*b')()",
        "string.find(('('):rep(1e5), ('%b()'))",
        "table.insert({}, -2^31, 1)",
    ] {
        let error = error_of(&emulator, &format!("return {call}"));
        assert!(error.contains("it took more than 200000 instructions"), "{call}: {error}");
    }
    // A long pattern alone is no error: it does not overflow the stack.
    emulator.script_budget(ScriptBudget::default());
    assert_eq!(eval(&emulator, "return string.find(('a'):rep(5e4), ('a?'):rep(5e4))"), Reply::Integer(1));
}

/// How deep the first items of a reply are nested, and whether an error ends them.
fn depth_of(reply: &Reply) -> (usize, bool) {
    let below = match reply {
        Reply::Array(items) | Reply::Set(items) => items.first(),
        Reply::Map(pairs) => {
            let is_deep = |reply: &&Reply| !matches!(reply, Reply::Integer(_));
            pairs.first().and_then(|(key, value)| [key, value].into_iter().find(is_deep))
        }
        _ => None,
    };
    below.map_or((0, matches!(reply, Reply::Error(_))), |below| {
        let (depth, is_error) = depth_of(below);
        (depth + 1, is_error)
    })
}

#[test]
fn a_reply_is_nested_200_levels_deep_and_no_deeper() {
    let emulator = emulator();
    let mut connection = emulator.connection();
    for script in NESTED {
        let expected = if script.contains("190") { (190, false) } else { (200, true) };
        assert_eq!(depth_of(&eval(&emulator, script)), expected, "{script}");
        let library = format!("#!lua name=l\nredis.register_function('f', function() {script} end)");
        connection.execute(&[b"FUNCTION", b"LOAD", b"REPLACE", library.as_bytes()]);
        assert_eq!(depth_of(&connection.execute(&[b"FCALL", b"f", b"0"])), expected, "{script}");
    }
}

/// Scripts that keep many values, or that leave much behind.
const KEEPERS: &[(&str, i64)] = &[
    ("local t = {} for i = 1, 20000 do t[i] = string.gmatch('a', '%w') end return #t", 20_000),
    // Lua collects its garbage rarely while it holds much else.
    (
        "local t = {} for i = 1, 2e5 do t[i] = {} end
         for i = 1, 20000 do string.gmatch('a', '%w')() end return 1",
        1,
    ),
    (
        "local t = {} for i = 1, 2e5 do t[i] = {} end
         for i = 1, 20000 do string.gsub('a', 'a', function() return 'b' end) end return 1",
        1,
    ),
    (
        "local t = {} for i = 1, 2e5 do t[i] = {} end
         for i = 1, 20000 do pcall(string.gsub, 'a', 'a', function() error({}) end) end return 1",
        1,
    ),
    ("local t = {} for i = 1, 20000 do t[i] = coroutine.wrap(function() return i end) end return t[9]()", 9),
    ("for i = 1, 20000 do pcall(load, function() error({}) end) end return 1", 1),
    ("for i = 1, 20000 do pcall(coroutine.wrap(function() error({}) end)) end return 1", 1),
    ("for i = 1, 30000 do redis.call('RPUSH', 'lines', 'line ' .. i) end return 1", 1),
    (
        "local words = {} for _, line in ipairs(redis.call('LRANGE', 'lines', 0, -1)) do
            for word in line:gmatch('%S+') do words[#words + 1] = word end
        end return #words",
        60_000,
    ),
];

#[test]
fn what_a_script_keeps_takes_nothing_from_the_next_scripts() {
    let emulator = Emulator::with_clock(Clock::manual());
    for (script, expected) in KEEPERS {
        assert_eq!(eval(&emulator, script), Reply::Integer(*expected), "{script}");
        for n in 1..=1000 {
            let next = format!("return #string.rep('a', {n}) + #{{unpack(ARGV)}}");
            assert_eq!(eval(&emulator, &next), Reply::Integer(n), "after {script}");
        }
    }
}

#[test]
fn a_server_has_as_many_scripts_and_functions_as_clients_want() {
    let emulator = Emulator::with_clock(Clock::manual());
    let mut connection = emulator.connection();
    let mut shas = Vec::new();
    for n in 0..20_000 {
        let reply = connection.execute(&[b"SCRIPT", b"LOAD", format!("return {n}").as_bytes()]);
        let Reply::Bulk(sha) = reply else { panic!("{reply:?}") };
        shas.push(sha);
    }
    for n in [0, 1, 9_999, 19_999] {
        assert_eq!(connection.execute(&[b"EVALSHA", &shas[n], b"0"]), Reply::Integer(n as i64));
    }
    let many = "#!lua name=many\nfor i = 1, 10000 do
        redis.register_function('many_' .. i, function() return i end)
    end";
    for _ in 0..2 {
        let reply = connection.execute(&[b"FUNCTION", b"LOAD", b"REPLACE", many.as_bytes()]);
        assert_eq!(reply, Reply::bulk("many"));
    }
    for n in 0..10_000 {
        let code = format!("#!lua name=l{n}\nredis.register_function('f{n}', function() return {n} end)");
        let reply = connection.execute(&[b"FUNCTION", b"LOAD", code.as_bytes()]);
        assert_eq!(reply, Reply::bulk(format!("l{n}")));
    }
    for (name, expected) in [("many_1", 1), ("MANY_10000", 10_000), ("f0", 0), ("f9999", 9_999)] {
        assert_eq!(
            connection.execute(&[b"FCALL", name.as_bytes(), b"0"]),
            Reply::Integer(expected),
            "{name}"
        );
    }
}
