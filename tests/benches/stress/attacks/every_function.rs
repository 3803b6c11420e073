//! Hostile calls of every function that scripts can reach: recursion through the function, huge and
//! deep arguments, and values of wrong types.

use std::sync::LazyLock;

use emulator::{Emulator, Reply};

use super::{Attack, Judge, argv, connect};
use crate::client::{Lost, show};
use crate::server::Server;

/// Scripts in which `F` is the function. Each must fail on both servers, or on none.
const SCRIPTS: &[&str] = &[
    "return type(F())",
    "return type(F(F))",
    "return type(F(F, F, F))",
    "return type(F(2^31, -2^31, 0/0))",
    "return type(F(('x'):rep(1e5), ('('):rep(1e5), ('%0'):rep(100)))",
    "return type(F(unpack({}, 1, 7000)))",
    "local t={} for i=1,1e4 do t={t} end return type(F(t, t, t))",
    "local t={} t[1]=t t.t=t return type(F(t))",
    "local t=setmetatable({}, {}) getmetatable(t).__index=function(t, k) return F(t, k) end return type(F(t, 'x'))",
    "local t=setmetatable({}, {__tostring=function(t) return F(t) end}) return type(F(t))",
    "local t=setmetatable({}, {__call=F}) return type(F(t, t))",
    "local co=coroutine.create(F) return type(F(co, co))",
    "return type(coroutine.wrap(function() return F(coroutine.yield) end)())",
    "local function f(...) return F(f, ...) end return type(pcall(f, 1))",
    "return type(string.gsub('xyz', '.', F))",
    "local t={3,1,2} return type(pcall(table.sort, t, F))",
    "return type(pcall(table.foreach, {1, {}, 'x'}, F))",
    "return type(pcall(load, F))",
    "return type(pcall(xpcall, F, F))",
    "F=nil",
    "for a, b in F, {}, 1 do return type(a) end",
];

/// Functions whose reply is not compared, or which are not called, because the memory of the two
/// servers differs.
const LEFT_OUT: &[&str] = &["collectgarbage", "gcinfo"];

/// Functions with which one of the scripts takes Redis long.
const LONG: &[&str] =
    &["cjson.decode_max_depth", "cjson.encode_max_depth", "cjson.encode_number_precision", "load"];

/// One attack for each function, which sends all scripts to one server.
pub(super) fn attacks() -> Vec<Attack> {
    static FUNCTIONS: LazyLock<Vec<String>> = LazyLock::new(functions);
    FUNCTIONS
        .iter()
        .map(|name| {
            let sent = format!("every script with {name}");
            let attack = Attack::new(sent, Judge::Same, |server| run(server, name));
            Attack { is_long: LONG.contains(&&**name), ..attack }
        })
        .collect()
}

/// The kind of each reply, or how the server ended.
fn run(server: &Server, function: &str) -> Result<String, Lost> {
    let mut client = connect(server)?;
    let mut kinds = String::new();
    for script in SCRIPTS {
        let reply = show(&client.ask(&argv(["EVAL", &script.replace('F', function), "0"]))?);
        kinds.push(if super::is_error_text(&reply) { 'E' } else { 'v' });
    }
    Ok(kinds)
}

/// The names of the functions in the sandbox.
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
    let reply = Emulator::new().connection().execute(&[b"EVAL", NAMES.as_bytes(), b"0"]);
    let Reply::Array(names) = reply else { panic!("the sandbox has functions, not {reply:?}") };
    let name = |name: Reply| match name {
        Reply::Bulk(name) => String::from_utf8_lossy(&name).into_owned(),
        other => panic!("a name is text, not {other:?}"),
    };
    names.into_iter().map(name).filter(|name| !LEFT_OUT.contains(&&**name)).collect()
}
