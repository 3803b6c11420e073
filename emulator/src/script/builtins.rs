//! Lua's own functions, as scripts get them: each pays for its work.

use mlua::{Function, Lua, Table, Value};

use super::c_api::{Access, Work, gsub, lists, metered};

/// The libraries of Lua; `""` stands for the globals.
const LIBRARIES: &[&str] = &["", "coroutine", "math", "string", "table"];

/// Passes values on, and reads none of them.
#[expect(clippy::reversed_empty_ranges, reason = "it reads no text")]
const PASSES: Work = Work { reads: 1..=0, writes: false, access: Access::None };
/// Reads every text, as a text or as a number, and writes new ones.
const READS_AND_WRITES: Work = Work { reads: 1..=i32::MAX, writes: true, access: Access::None };

/// The functions that do not work on all their texts. Any other one counts as
/// [`READS_AND_WRITES`].
const WORKS: &[(&str, &str, Work)] = &[
    ("", "assert", Work { reads: 2..=2, ..PASSES }),
    ("", "getmetatable", PASSES),
    ("", "next", Work { access: Access::Read, ..PASSES }),
    ("", "pcall", PASSES),
    ("", "rawequal", PASSES),
    ("", "rawget", Work { access: Access::Read, ..PASSES }),
    ("", "rawset", Work { access: Access::Write, ..PASSES }),
    ("", "select", Work { reads: 1..=1, ..PASSES }),
    ("", "setmetatable", Work { access: Access::Write, ..PASSES }),
    ("", "tostring", PASSES),
    ("", "type", PASSES),
    ("", "xpcall", PASSES),
    ("coroutine", "create", PASSES),
    ("coroutine", "resume", PASSES),
    ("coroutine", "yield", PASSES),
    // These two do not read the text itself: they find a part of it by its place.
    ("string", "byte", Work { reads: 2..=3, ..PASSES }),
    ("string", "sub", Work { reads: 2..=3, writes: true, ..PASSES }),
    ("string", "len", PASSES),
];

/// Replaces Lua's functions in the globals. `contents` has the contents of read-only tables.
///
/// # Errors
/// There is no memory.
pub(super) fn meter(lua: &Lua, contents: &Table) -> mlua::Result<()> {
    let globals = lua.globals();
    let table_of =
        |library: &str| if library.is_empty() { Ok(globals.clone()) } else { globals.get::<Table>(library) };
    // These are not the global functions, although one has the same name.
    let next_place: Function = globals.get::<Function>("ipairs")?.call(lua.create_table()?)?;
    let next_place = metered(lua, &next_place, &PASSES, contents)?;
    let next_pair = metered(lua, &globals.get("next")?, work_of("", "next"), contents)?;
    for &library in LIBRARIES {
        let table = table_of(library)?;
        for pair in table.pairs::<String, Value>().collect::<mlua::Result<Vec<_>>>()? {
            let (name, Value::Function(function)) = pair else { continue };
            let metered = metered(lua, &function, work_of(library, &name), contents)?;
            table.raw_set(name, metered)?;
        }
    }
    for (library, name, function) in lists(lua, contents, &next_place, &next_pair)? {
        table_of(library)?.raw_set(name, function)?;
    }
    table_of("string")?.raw_set("gsub", gsub(lua)?)
}

fn work_of(library: &str, name: &str) -> &'static Work {
    let known = WORKS.iter().find(|(its_library, its_name, _)| (*its_library, *its_name) == (library, name));
    known.map_or(&READS_AND_WRITES, |(_, _, work)| work)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::reply::Reply;
    use crate::script::fixture::Fixture;
    use crate::script::running::with_running;
    use crate::script::vm::{Callable, Sandbox, Vm};
    use crate::script::{Rules, ScriptBudget};

    /// How many elements a list has, and how many times 64 bytes a text has.
    const SMALL: u64 = 500;
    const LARGE: u64 = 4 * SMALL;

    /// Every function of the sandbox, with the calls whose work grows otherwise than with the
    /// number of arguments. Each call gets `n`, and values that grow with it: a `list` of
    /// numbers, a `text`, `spaces` around a number, `json` and `packed`.
    const CALLS: &[(&str, &[&str])] = &[
        ("assert", &["assert(false, text)"]),
        ("bit.arshift", &["bit.arshift(spaces, 1)"]),
        ("bit.band", &["bit.band(1, spaces)"]),
        ("bit.bnot", &["bit.bnot(spaces)"]),
        ("bit.bor", &["bit.bor(1, spaces)"]),
        ("bit.bswap", &["bit.bswap(spaces)"]),
        ("bit.bxor", &["bit.bxor(1, spaces)"]),
        ("bit.lshift", &["bit.lshift(1, spaces)"]),
        ("bit.rol", &["bit.rol(1, spaces)"]),
        ("bit.ror", &["bit.ror(1, spaces)"]),
        ("bit.rshift", &["bit.rshift(1, spaces)"]),
        ("bit.tobit", &["bit.tobit(spaces)"]),
        ("bit.tohex", &["bit.tohex(spaces)"]),
        (
            "cjson.decode",
            &["cjson.decode(json)", "cjson.decode(spaces)", "cjson.decode('\"' .. text .. '\"')"],
        ),
        ("cjson.decode_invalid_numbers", &[]),
        ("cjson.decode_max_depth", &["cjson.decode_max_depth(spaces)"]),
        ("cjson.encode", &["cjson.encode(list)", "cjson.encode(text)", "cjson.encode({[text] = 1})"]),
        ("cjson.encode_invalid_numbers", &[]),
        ("cjson.encode_keep_buffer", &[]),
        ("cjson.encode_max_depth", &["cjson.encode_max_depth(spaces)"]),
        ("cjson.encode_number_precision", &["cjson.encode_number_precision(spaces)"]),
        ("cjson.encode_sparse_array", &["cjson.encode_sparse_array(true, spaces)"]),
        ("cjson.new", &[]),
        ("cmsgpack.pack", &["cmsgpack.pack(list)", "cmsgpack.pack(text)"]),
        ("cmsgpack.unpack", &["cmsgpack.unpack(packed)", "cmsgpack.unpack(cmsgpack.pack(text))"]),
        (
            "cmsgpack.unpack_limit",
            &["cmsgpack.unpack_limit(packed, 1)", "cmsgpack.unpack_limit(packed, spaces)"],
        ),
        ("cmsgpack.unpack_one", &["cmsgpack.unpack_one(packed)", "cmsgpack.unpack_one(packed, spaces)"]),
        ("collectgarbage", &["collectgarbage()", "collectgarbage('step')"]),
        ("coroutine.create", &[]),
        ("coroutine.resume", &["coroutine.resume(coroutine.create(function() return unpack(list) end))"]),
        ("coroutine.running", &[]),
        ("coroutine.status", &[]),
        ("coroutine.wrap", &["coroutine.wrap(function() return unpack(list) end)()"]),
        ("coroutine.yield", &["coroutine.wrap(function(...) coroutine.yield(...) end)(unpack(list))"]),
        ("error", &["error(text)"]),
        ("gcinfo", &[]),
        ("getmetatable", &[]),
        ("ipairs", &["for _ in ipairs(list) do end"]),
        ("load", &["load(function() local t = text text = nil return t end)", "load(error, text)"]),
        ("loadstring", &["loadstring(spaces)", "loadstring('x = ', text)"]),
        ("math.abs", &["math.abs(spaces)"]),
        ("math.acos", &["math.acos(spaces)"]),
        ("math.asin", &["math.asin(spaces)"]),
        ("math.atan", &["math.atan(spaces)"]),
        ("math.atan2", &["math.atan2(1, spaces)"]),
        ("math.ceil", &["math.ceil(spaces)"]),
        ("math.cos", &["math.cos(spaces)"]),
        ("math.cosh", &["math.cosh(spaces)"]),
        ("math.deg", &["math.deg(spaces)"]),
        ("math.exp", &["math.exp(spaces)"]),
        ("math.floor", &["math.floor(spaces)"]),
        ("math.fmod", &["math.fmod(1, spaces)"]),
        ("math.frexp", &["math.frexp(spaces)"]),
        ("math.ldexp", &["math.ldexp(1, spaces)"]),
        ("math.log", &["math.log(spaces)"]),
        ("math.log10", &["math.log10(spaces)"]),
        ("math.max", &["math.max(1, spaces)"]),
        ("math.min", &["math.min(1, spaces)"]),
        ("math.mod", &["math.mod(1, spaces)"]),
        ("math.modf", &["math.modf(spaces)"]),
        ("math.pow", &["math.pow(1, spaces)"]),
        ("math.rad", &["math.rad(spaces)"]),
        ("math.random", &["math.random(1, spaces)"]),
        ("math.randomseed", &["math.randomseed(spaces)"]),
        ("math.sin", &["math.sin(spaces)"]),
        ("math.sinh", &["math.sinh(spaces)"]),
        ("math.sqrt", &["math.sqrt(spaces)"]),
        ("math.tan", &["math.tan(spaces)"]),
        ("math.tanh", &["math.tanh(spaces)"]),
        ("next", &["local k repeat k = next(list, k) until not k"]),
        ("pairs", &["for _ in pairs(list) do end"]),
        ("pcall", &[]),
        ("rawequal", &[]),
        ("rawget", &[]),
        ("rawset", &[]),
        ("redis.acl_check_cmd", &["redis.acl_check_cmd('x', text)"]),
        ("redis.breakpoint", &[]),
        ("redis.call", &["redis.call('list', n)", "redis.call('echo', text)", "redis.call('size', text)"]),
        ("redis.debug", &[]),
        ("redis.error_reply", &["redis.error_reply(text)"]),
        ("redis.log", &["redis.log(1, text)", "redis.log(spaces, 'x')"]),
        ("redis.pcall", &["redis.pcall('list', n)", "redis.pcall('echo', text)"]),
        ("redis.replicate_commands", &[]),
        ("redis.set_repl", &["redis.set_repl(spaces)"]),
        ("redis.setresp", &["redis.setresp(spaces)"]),
        ("redis.sha1hex", &["redis.sha1hex(text)"]),
        ("redis.status_reply", &["redis.status_reply(text)"]),
        ("select", &["select(spaces, 1)"]),
        ("setmetatable", &[]),
        ("string.byte", &["text:byte(1, n)", "text:byte(spaces)"]),
        ("string.char", &["string.char(spaces)"]),
        ("string.dump", &["string.dump(loadstring('local x = \"' .. text .. '\"'))"]),
        (
            "string.find",
            &[
                "text:find('y', 1, true)",
                "text:find('^x*y')",
                "('x'):rep(100):find('^[' .. text:upper() .. 'x]*y')",
                "(text .. 'y' .. text):find('^(x*)y%1')",
                "('x'):find(text .. '(')",
                "text:find('x', spaces)",
                "text:find('(x*)')",
            ],
        ),
        (
            "string.format",
            &["('%s'):format(text)", "('%q'):format(text)", "('%d'):format(spaces)", "text:format()"],
        ),
        ("string.gfind", &["text:gfind('(x*)')()"]),
        (
            "string.gmatch",
            &["text:gmatch('y')()", "for _ in text:gmatch('x') do end", "text:gmatch('(x*)')()"],
        ),
        (
            "string.gsub",
            &[
                "text:gsub('y', '')",
                "text:gsub('x', type)",
                "text:gsub('x', {})",
                "text:gsub('x', '%0')",
                "('x'):gsub('x', text)",
                "('x'):gsub('x', function() return text end)",
                "('x'):gsub('x', {x = text})",
                "('x'):gsub('x', text .. '%0')",
                "text:gsub('.*', '%0%0')",
                "text:gsub('(.*)', '%1')",
                "('x'):gsub(text, '')",
                "('x'):gsub('x', 'y', spaces)",
            ],
        ),
        ("string.len", &[]),
        ("string.lower", &["text:lower()"]),
        ("string.match", &["text:match('^x*y')", "text:match('x*')"]),
        ("string.rep", &["('x'):rep(64 * n)", "text:rep(2)"]),
        ("string.reverse", &["text:reverse()"]),
        ("string.sub", &["text:sub(1, -1)", "text:sub(spaces)"]),
        ("string.upper", &["text:upper()"]),
        ("struct.pack", &["struct.pack('s', text)", "struct.pack('d', spaces)", "struct.pack(('x'):rep(n))"]),
        ("struct.size", &["struct.size(('b'):rep(n))", "struct.size('i' .. ('0'):rep(64 * n))"]),
        (
            "struct.unpack",
            &[
                "struct.unpack('c' .. #text, text)",
                "struct.unpack('s', text .. '\\0')",
                "struct.unpack(('b'):rep(n), text)",
            ],
        ),
        ("table.concat", &["table.concat(list)", "table.concat({text})", "table.concat({1, 2}, text)"]),
        ("table.foreach", &["table.foreach(list, function() end)"]),
        ("table.foreachi", &["table.foreachi(list, function() end)"]),
        ("table.getn", &[]),
        (
            "table.insert",
            &["table.insert(list, 1, 1)", "table.insert({}, -n, 1)", "table.insert({}, spaces, 1)"],
        ),
        ("table.maxn", &["table.maxn(list)"]),
        ("table.remove", &["table.remove(list, 1)", "table.remove({}, spaces)"]),
        ("table.setn", &[]),
        ("table.sort", &["table.sort(list)", "table.sort(list, rawequal)"]),
        ("tonumber", &["tonumber(spaces)", "tonumber(spaces, 10)"]),
        ("tostring", &[]),
        ("type", &[]),
        ("unpack", &["unpack(list)", "unpack({}, 1, n)"]),
        ("xpcall", &[]),
    ];

    const PREPARATION: &str = "
        local n, list = SIZE, {}
        for i = 1, n do list[i] = i % 100 end
        local text, spaces = ('x'):rep(64 * n), (' '):rep(64 * n) .. '2'
        local json, packed = cjson.encode(list), cmsgpack.pack(list)
        local function work(...) WORK end
        work(unpack(list))";

    /// Commands that take a number or a text.
    fn call(argv: &[&[u8]], _: Rules) -> Reply {
        match argv[0] {
            b"list" => {
                let n: usize = std::str::from_utf8(argv[1]).unwrap().parse().unwrap();
                Reply::Array(vec![Reply::Integer(1); n])
            }
            b"size" => Reply::count(argv[1].len()),
            _ => Reply::bulk(argv.concat()),
        }
    }

    fn run(vm: &Vm, source: &str) -> Reply {
        let function = vm.compile(source.as_bytes()).and_then(|function| vm.keep(function));
        let function = function.unwrap_or_else(|_| panic!("compiles: {source}"));
        let callable = Callable { function: &function, name: b"f", is_read_only: false };
        vm.run(&callable, &[], &[], Box::new(Fixture(call))).1
    }

    /// The instructions that native functions have spent for `work`, without the preparation.
    fn cost(vm: &Vm, work: &str, n: u64) -> u64 {
        let spent = |work| {
            vm.lua.gc_collect().unwrap();
            run(vm, &PREPARATION.replace("SIZE", &n.to_string()).replace("WORK", work));
            with_running(&vm.lua, |running| running.instructions)
        };
        spent(work).saturating_sub(spent(""))
    }

    /// A Lua state that does not count the instructions of the script itself.
    fn vm() -> Vm {
        let vm = Vm::new(Sandbox::Scripts, ScriptBudget::default()).unwrap();
        vm.lua.remove_global_hook();
        vm
    }

    #[test]
    fn every_function_pays_for_its_work() {
        let vm = vm();
        let mut too_cheap = Vec::new();
        for (function, calls) in CALLS {
            let with_arguments = format!("{function}(...)");
            for call in calls.iter().copied().chain([&*with_arguments]) {
                let (small, large) = (cost(&vm, call, SMALL), cost(&vm, call, LARGE));
                // At the ends of a list or a text, some steps are saved.
                if large.saturating_sub(small) < (LARGE - SMALL) * 9 / 10 {
                    too_cheap.push(format!("{call}: {small} for {SMALL}, {large} for {LARGE}"));
                }
            }
        }
        assert!(too_cheap.is_empty(), "{}", too_cheap.join("\n"));
    }

    #[test]
    fn the_test_of_costs_knows_every_function() {
        const NAMES: &str = "
            local names = {}
            local function walk(prefix, t)
              for name, value in pairs(t) do
                if type(value) == 'function' then names[#names + 1] = prefix .. name end
                if type(value) == 'table' and value ~= _G then walk(prefix .. name .. '.', value) end
              end
            end
            walk('', _G)
            return names";
        let Reply::Array(names) = run(&vm(), NAMES) else { panic!("no list of names") };
        let there: BTreeSet<_> =
            names.into_iter().collect::<Vec<_>>().iter().map(|name| format!("{name:?}")).collect();
        let known: BTreeSet<_> = CALLS.iter().map(|(name, _)| format!("{:?}", Reply::bulk(*name))).collect();
        assert_eq!(there, known);
    }
}
