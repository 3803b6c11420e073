//! Random calls of every function that scripts can reach, with hostile arguments.
//!
//! The functions are those of the real sandbox: a new one is called, too. [`SIGNATURES`] says which
//! arguments lead far into a function; each may give way to any other value. A script calls the
//! function in one of [`FORMS`], and returns what came back as text.

use emulator::Emulator;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use super::super::wire::{Emulated, Peer as _, Wire, parse};
use super::command::{Step, is_wanted};
use super::values::pool;

/// The most calls in a sequence.
const CALLS_MAX: usize = 20;
/// The most arguments of a call.
const ARGUMENTS_MAX: usize = 4;

/// Which arguments a function has: each letter is a [`pool`]. Other functions get anything.
const SIGNATURES: &[(&str, &str)] = &[
    ("assert", "AS"),
    ("bit", "NNN"),
    ("cjson.decode", "J"),
    ("cjson.encode", "T"),
    ("cjson", "NNN"),
    ("cmsgpack.pack", "AAA"),
    ("cmsgpack", "KNN"),
    ("coroutine.create", "F"),
    ("coroutine.resume", "CAA"),
    ("coroutine.status", "C"),
    ("coroutine.wrap", "F"),
    ("error", "AN"),
    ("ipairs", "T"),
    ("load", "GS"),
    ("loadstring", "SS"),
    ("math", "NN"),
    ("next", "TA"),
    ("pairs", "T"),
    ("pcall", "FAA"),
    ("rawget", "TA"),
    ("rawset", "TAA"),
    ("redis.log", "NSS"),
    ("redis.setresp", "N"),
    ("redis.set_repl", "N"),
    ("redis.acl_check_cmd", "SSS"),
    ("redis", "SSS"),
    ("select", "NAAA"),
    ("setmetatable", "TT"),
    ("string.char", "NNN"),
    ("string.dump", "F"),
    ("string.find", "SPNA"),
    ("string.format", "MAAA"),
    ("string.gfind", "SP"),
    ("string.gmatch", "SP"),
    ("string.gsub", "SPRN"),
    ("string.match", "SPN"),
    ("string.rep", "SZ"),
    ("string", "SNN"),
    ("struct.pack", "LNSN"),
    ("struct", "LSN"),
    ("table.concat", "TSNN"),
    ("table.foreach", "TF"),
    ("table.foreachi", "TF"),
    ("table.insert", "TZA"),
    ("table.sort", "TF"),
    ("table", "TNN"),
    ("tonumber", "SN"),
    ("unpack", "TNN"),
    ("xpcall", "FF"),
];

/// How a script calls: `$` is the call, `@` the function with its arguments.
const FORMS: &[&str] = &[
    "return show($)",
    "return $",
    "$",
    "local result = $ return show(result)",
    "return show(pcall(@))",
    "return show(pcall(function() return $ end))",
    "return show(pcall(function() local result = $ return result end))",
    "return show(xpcall(function() return $ end, function(e) return show(e) end))",
    "return show(coroutine.resume(coroutine.create(function() return $ end)))",
    "return show(coroutine.wrap(function() return $ end)())",
    "return show(pcall(coroutine.wrap(function() return $ end)))",
    "coroutine.wrap(function() local result = $ end)()",
    "return show(string.gsub('ab', '.', function() return $ end))",
    "return show(pcall(string.gsub, 'ab', '.', function() return $ end))",
    "return show(table.foreach({1, 2}, function() return $ end))",
    "return show(pcall(table.sort, {1, 2}, function() return $ end))",
    "local n = 0 return show(load(function() n = n + 1 if n < 3 then return $ end end))",
    "return show(tostring(setmetatable({}, {__tostring=function() return $ end})))",
    "local t = setmetatable({}, {__index=function() return $ end}) return show(t.x)",
    "for a, b in @ do return show(a, b) end",
];

/// Shows values as text, with the keys of tables in order and without addresses.
const SHOW: &str = "
local function show_one(value, depth)
  local kind = type(value)
  if kind == 'number' then return ('%.17g'):format(value) end
  if kind == 'string' then
    local text = ('%q'):format(value:gsub('0x%x+', '0x'))
    return #text < 500 and text or text:sub(1, 500) .. #text
  end
  if kind ~= 'table' or depth > 20 or value == _G or value == string then return kind == 'boolean' and tostring(value) or kind end
  local parts = {}
  for key, item in next, value do parts[#parts + 1] = show_one(key, depth + 1) .. '=' .. show_one(item, depth + 1) end
  table.sort(parts)
  return '{' .. table.concat(parts, ' ') .. '}'
end
local function show(...)
  local parts = {}
  for idx = 1, select('#', ...) do parts[idx] = show_one((select(idx, ...)), 0) end
  return table.concat(parts, ', ')
end
math.randomseed(7) ";

/// Words of calls that are left out, each with the reason.
const LEFT_OUT: &[(&str, &str)] = &[
    ("collectgarbage", "the sizes of memory differ"),
    ("gcinfo", "the sizes of memory differ"),
    ("pack(_G", "Redis's globals have another order, and its handler of errors"),
    (", _G", "the same, in a list"),
    ("= _G", "the same, in a table"),
    ("setmetatable(string", "which error comes first"),
    ("setmetatable, string", "which error comes first"),
    ("setmetatable(_G", "which error comes first"),
    ("rawset(string", "which error comes first"),
    ("rawset, string", "which error comes first"),
    ("rawset(_G", "which error comes first"),
    ("table.insert(string", "which error comes first"),
    ("table.insert, string", "which error comes first"),
    ("table.insert(_G", "which error comes first"),
    ("table.remove(string", "which error comes first"),
    ("table.sort(string", "which error comes first"),
    ("table.sort(_G", "which error comes first"),
    ("return cjson.encode({{{{{{", "it is a long string of Lua"),
    ("return tostring(", "addresses"),
];

/// Errors that have a text.
const ERRORS_WITH_TEXT: &[&str] = &["error('e'", "error({err='E e'})", "error()", "redis.error_reply"];

/// Whether a script may end Redis: it raises a table without a text, and nothing catches it.
fn may_end_redis(script: &str) -> bool {
    let rest = ERRORS_WITH_TEXT.iter().fold(script.to_owned(), |rest, error| rest.replace(error, ""));
    rest.contains("error") && !rest.contains("pcall(") && !rest.contains("resume(")
}

/// Random sequences of calls.
pub fn sequences() -> BoxedStrategy<Vec<Step>> {
    let calls = functions().into_iter().filter(|name| is_wanted(name)).map(call);
    let calls = Union::new(calls.collect::<Vec<_>>());
    let is_kept =
        |script: &String| !may_end_redis(script) && !LEFT_OUT.iter().any(|(word, _)| script.contains(word));
    let eval = |script: String| {
        Step::Call(0, vec!["eval".into(), (SHOW.replace('\n', " ") + &script).into(), "0".into()])
    };
    let calls = calls.prop_filter("the call is left out", is_kept).prop_map(eval);
    vec(calls, 1..=CALLS_MAX).boxed()
}

/// The names of all functions in the sandbox of the emulator.
fn functions() -> Vec<String> {
    const NAMES: &str = "
        local names = {}
        local function walk(prefix, t)
          for name, value in pairs(t) do
            if type(value) == 'function' then names[#names + 1] = prefix .. name end
            if type(value) == 'table' and value ~= _G then walk(prefix .. name .. '.', value) end
          end
        end
        walk('', _G)
        table.sort(names)
        return names";
    let reply = Emulated::open(&Emulator::new()).call(&["eval", NAMES, "0"]);
    let Some((Wire::Items(_, names), _)) = parse(&reply) else { panic!("the sandbox has functions") };
    names.iter().map(|name| name.to_string().trim_matches('"').to_owned()).collect()
}

/// Calls of one function, in one of the forms.
fn call(function: String) -> BoxedStrategy<String> {
    let library = function.split('.').next().unwrap_or_default();
    let signature =
        |name: &str| SIGNATURES.iter().find(|(known, _)| *known == name).map(|(_, letters)| *letters);
    let letters = signature(&function).or_else(|| signature(library)).unwrap_or("AAAA");
    let letters: Vec<char> = letters.chars().chain(std::iter::repeat('A')).take(ARGUMENTS_MAX).collect();
    let own = letters.iter().map(|letter| prop_oneof![5 => select(pool(*letter)), 1 => select(pool('A'))]);
    let n_usual = signature(&function).map_or(2, str::len).min(ARGUMENTS_MAX);
    let n = prop_oneof![3 => Just(n_usual), 2 => 0..=ARGUMENTS_MAX];
    (own.collect::<Vec<_>>(), n, select(FORMS))
        .prop_map(move |(arguments, n, form)| {
            let arguments = arguments[..n].join(", ");
            let separator = if n == 0 { "" } else { ", " };
            match form.split_once('$') {
                Some((before, after)) => format!("{before}{function}({arguments}){after}"),
                None => form.replace('@', &format!("{function}{separator}{arguments}")),
            }
        })
        .boxed()
}
