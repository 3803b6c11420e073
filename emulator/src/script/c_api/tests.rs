//! Tests of cases that a client cannot cause: replies that no command gives, a host that panics,
//! memory that runs out amid a conversion.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use mlua::{Lua, ffi};

use super::stack::Stack;
use crate::error::Error;
use crate::reply::Reply;
use crate::resp::Protocol;
use crate::script::fixture::Fixture;
use crate::script::{Mode, Rules, ScriptBudget, Scripts};

/// One command for each test.
fn call(argv: &[&[u8]], rules: Rules) -> Reply {
    let number = |idx: usize| -> usize { std::str::from_utf8(argv[idx]).unwrap().parse().unwrap() };
    match argv[0] {
        b"echo" => Reply::Array(argv.iter().copied().map(Reply::bulk).collect()),
        b"count" => Reply::count(argv.len()),
        b"deep" => (0..number(1)).fold(Reply::Nil, |reply, _| Reply::Array(vec![reply])),
        b"deep map" => (0..number(1)).fold(Reply::Nil, |value, _| Reply::Map(vec![(Reply::OK, value)])),
        b"wide" => Reply::Array((0..number(1)).map(|n| Reply::bulk(format!("{n:01000}"))).collect()),
        b"nil key" => Reply::Map(vec![(Reply::Nil, Reply::OK)]),
        b"types" => types(),
        b"fail" => Reply::Error(Error::from_static("ERR failed")),
        b"panic" => panic!("the host panics, {:?}", rules.protocol),
        _ => Reply::OK,
    }
}

/// A reply with each of the types.
fn types() -> Reply {
    let text = Reply::bulk("text");
    Reply::Array(vec![
        Reply::OK,
        Reply::Integer(1),
        text.clone(),
        Reply::Boolean(true),
        Reply::Double(0.1),
        Reply::Double(-f64::MAX),
        Reply::BigNumber("123".into()),
        Reply::Verbatim(*b"txt", "text".into()),
        Reply::Set(vec![text.clone()]),
        Reply::Map(vec![(text.clone(), Reply::Array(vec![]))]),
        Reply::Push(vec![text.clone()]),
        Reply::Settled(Protocol::Resp2, Box::new(text)),
        Reply::Error(Error::from_static("ERR text")),
    ])
}

fn run(scripts: &mut Scripts, source: &str, args: &[&[u8]]) -> Reply {
    let sha = scripts.load(source.as_bytes()).unwrap();
    let ready = scripts.take(&sha).unwrap();
    let outcome =
        catch_unwind(AssertUnwindSafe(|| ready.run(Mode::Any, &[], args, Box::new(Fixture(call))).1));
    _ = scripts.put_back(ready);
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Checks the reply of a script, and that the next script finds the Lua state in order.
#[track_caller]
fn check(scripts: &mut Scripts, source: &str, expected: &Reply) {
    assert_eq!(run(scripts, source, &[]), *expected);
    let next = "return {#KEYS, #ARGV, ARGV[1], redis.call('count', 'a', 1.5), pcall(redis.call, 'fail')}";
    let items = [
        Reply::Integer(0),
        Reply::Integer(1),
        Reply::bulk("argument"),
        Reply::Integer(3),
        Reply::Nil,
        Reply::bulk("ERR failed"),
    ];
    assert_eq!(run(scripts, next, &[b"argument"]), Reply::Array(items.into()));
}

fn error(text: &str) -> Reply {
    Reply::Error(Error::new(text.as_bytes().to_vec()))
}

#[test]
fn a_stack_knows_how_many_slots_are_free() {
    // SAFETY: `exec_raw` calls the closure as a function of C, with two arguments.
    unsafe {
        let outcome = Lua::new().exec_raw::<()>((1, 2), |state| {
            let stack = Stack::of_function(state);
            assert_eq!((stack.height(), stack.n_free()), (2, ffi::LUA_MINSTACK));
            let three = stack.at_most(3);
            three.push_nil();
            assert_eq!((three.n_free(), stack.n_free()), (2, ffi::LUA_MINSTACK - 1));
            assert_eq!(three.at_most(1).n_free(), 1);
            assert_eq!(Stack::with_room(state, 100).map(Stack::n_free), Some(100));
            assert!(Stack::with_room(state, 8000).is_none());
            ffi::lua_settop(state, 0);
            assert_eq!(three.n_free(), 5);
        });
        outcome.unwrap();
    }
}

/// The functions of Lua that push a value where there was none.
const PUSHING: &[&str] = &[
    "lua_push",
    "lua_createtable",
    "lua_newtable",
    "lua_newthread",
    "lua_newuserdata",
    "lua_rawgeti",
    "lua_getfield",
    "lua_getmetatable",
    "lua_next",
];

/// The lines that push without a [`Stack`].
fn unchecked(source: &str) -> Vec<&str> {
    let is_unchecked = |line: &&str| {
        // It takes its upvalues from the stack.
        let line = line.replace("lua_pushcclosure", "");
        !line.trim_start().starts_with("//")
            && PUSHING.iter().any(|name| line.contains(&format!("ffi::{name}")))
    };
    source.lines().filter(is_unchecked).collect()
}

#[test]
fn nothing_but_a_stack_pushes() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/script/c_api");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap();
        match path.file_name().and_then(|name| name.to_str()) {
            Some("stack.rs") => assert!(unchecked(&lines).len() > 5, "the check finds what it looks for"),
            Some("tests.rs") => {}
            _ => assert_eq!(unchecked(&lines), Vec::<&str>::new(), "{}", path.display()),
        }
    }
}

#[test]
fn every_type_comes_back_in_resp3() {
    let Reply::Array(items) = types() else { unreachable!() };
    let expected = items.into_iter().map(|item| match item {
        Reply::Push(items) => Reply::Array(items),
        Reply::Settled(_, reply) => *reply,
        other => other,
    });
    let source = "redis.setresp(3) return redis.call('types')";
    check(&mut Scripts::default(), source, &Reply::Array(expected.collect()));
}

#[test]
fn every_type_is_an_older_one_in_resp2() {
    let text = Reply::bulk("text");
    let expected = Reply::Array(vec![
        Reply::OK,
        Reply::Integer(1),
        text.clone(),
        Reply::Integer(1),
        Reply::bulk("0.10000000000000001"),
        Reply::bulk("-1.7976931348623157e+308"),
        Reply::bulk("123"),
        text.clone(),
        Reply::Array(vec![text.clone()]),
        Reply::Array(vec![text.clone(), Reply::Array(vec![])]),
        Reply::Array(vec![text.clone()]),
        text,
        error("ERR text"),
    ]);
    check(&mut Scripts::default(), "return redis.call('types')", &expected);
}

#[test]
fn a_command_gets_as_many_arguments_as_the_stack_holds() {
    let source = "local t = {} for i = 1, 7999 do t[i] = i / 2 end
        local reply = redis.call('echo', 'a', 'b', unpack(t))
        local function add(...) return 'c', 'd', ... end
        for i = 1, 100 do t[i] = 'text' .. i end
        return {#reply, reply[4], reply[8002], redis.acl_check_cmd(unpack(t)),
            #redis.call('echo', add(add(unpack(t))))}";
    let items = [
        Reply::Integer(8002),
        Reply::bulk("0.5"),
        Reply::bulk("3999.5"),
        Reply::Integer(1),
        Reply::Integer(8004),
    ];
    check(&mut Scripts::default(), source, &Reply::Array(items.into()));
}

#[test]
fn a_reply_that_is_too_deep_for_the_stack_is_an_error() {
    let text = "stack overflow (the reply is nested too deeply)";
    for command in ["'deep'", "'deep map'"] {
        let source = format!(
            "redis.setresp(3) local ok, err = pcall(redis.call, {command}, 10000) return {{ok, err}}"
        );
        let expected = Reply::Array(vec![Reply::Boolean(false), Reply::bulk(text)]);
        check(&mut Scripts::default(), &source, &expected);
    }
    // A reply that fits on the stack may be deeper than one that a script may return.
    let source = "local reply, n = redis.call('deep', 1000), 0
        while reply do reply, n = reply[1], n + 1 end return n";
    check(&mut Scripts::default(), source, &Reply::Integer(1000));
}

#[test]
fn a_table_may_be_an_item_a_member_a_key_or_a_value() {
    type Wrap = fn(Reply) -> Reply;
    let shapes: [(&str, Wrap); 4] = [
        ("{t}", |reply| Reply::Array(vec![reply])),
        ("{set = {[t] = true}}", |reply| Reply::Set(vec![reply])),
        ("{map = {[t] = 1}}", |reply| Reply::Map(vec![(reply, Reply::Integer(1))])),
        ("{map = {[1] = t}}", |reply| Reply::Map(vec![(Reply::Integer(1), reply)])),
    ];
    let mut scripts = Scripts::default();
    for (shape, wrap) in shapes {
        for n in [1, 52, 53, 153, 199] {
            let source = format!("local t = {{}} for i = 1, {n} do t = {shape} end return t");
            let expected = (0..n).fold(Reply::Array(vec![]), |reply, _| wrap(reply));
            check(&mut scripts, &source, &expected);
        }
    }
}

#[test]
fn a_nil_key_is_an_error_of_lua() {
    let source = "redis.setresp(3) return {pcall(redis.call, 'nil key')}";
    let expected = Reply::Array(vec![Reply::Boolean(false), Reply::bulk("table index is nil")]);
    check(&mut Scripts::default(), source, &expected);
}

#[test]
fn a_reply_without_enough_memory_is_an_error_that_can_be_caught() {
    let mut scripts = Scripts::default();
    scripts.set_budget(ScriptBudget { memory_bytes_max: 1 << 20, ..ScriptBudget::default() });
    let message = || Reply::bulk("not enough memory");
    let source = "return {pcall(redis.call, 'wide', 5000)}";
    check(&mut scripts, source, &Reply::Array(vec![Reply::Nil, message()]));
    let source = "local all = {} for i = 1, 5 do
            all[i] = coroutine.wrap(function() return pcall(redis.call, 'wide', 5000) end)()
        end return #all";
    check(&mut scripts, source, &Reply::Integer(5));
    // Replies that only leave garbage fit, however many they are.
    let source = "for i = 1, 100 do redis.call('wide', 300) end return #redis.call('wide', 1)[1]";
    check(&mut scripts, source, &Reply::Integer(1000));
    let sha = scripts.load(b"return redis.call('wide', 5000)").unwrap();
    let expected =
        error(&format!("ERR Error running script {}, not enough memory", std::str::from_utf8(&sha).unwrap()));
    check(&mut scripts, "return redis.call('wide', 5000)", &expected);
}

#[test]
fn arguments_without_enough_memory_are_an_error() {
    let mut scripts = Scripts::default();
    scripts.set_budget(ScriptBudget { memory_bytes_max: 1 << 20, ..ScriptBudget::default() });
    let large = vec![b'x'; 2 << 20];
    let Reply::Error(failed) = run(&mut scripts, "return 1", &[&large]) else {
        panic!("the argument does not fit")
    };
    assert!(failed.as_bytes().ends_with(b", not enough memory"), "{failed}");
    check(&mut scripts, "return 1", &Reply::Integer(1));
}

#[test]
fn errors_pass_through_coroutines_and_catchers() {
    let mut scripts = Scripts::default();
    let source = "local thread = coroutine.create(function()
            local ok, err = pcall(redis.call, 'fail')
            coroutine.yield(err)
            redis.call('fail')
        end)
        local _, first = coroutine.resume(thread)
        local ok, second = coroutine.resume(thread)
        local _, third = xpcall(function() redis.call('fail') end, function(err) return err.err end)
        local fourth = redis.pcall('fail')
        return {first, ok, second.err, third, fourth.err, tostring(fourth.ignore_error_stats_update)}";
    let failed = || Reply::bulk("ERR failed");
    let items = [failed(), Reply::Nil, failed(), failed(), failed(), Reply::bulk("true")];
    check(&mut scripts, source, &Reply::Array(items.into()));

    let source = "\ncoroutine.wrap(function()\n redis.call('fail') end)()";
    let sha = scripts.load(source.as_bytes()).unwrap();
    let Reply::Error(failed) = run(&mut scripts, source, &[]) else { panic!("an error") };
    let name = std::str::from_utf8(&sha).unwrap();
    assert_eq!(failed.to_string(), format!("ERR failed script: {name}, on @user_script:3."));
}

#[test]
fn a_script_may_recurse_until_the_stack_of_c_ends() {
    let source = "local function f(n)
            local ok, deeper = pcall(f, n + 1)
            redis.call('count')
            return ok and deeper or n
        end
        return f(1) > 100";
    check(&mut Scripts::default(), source, &Reply::Integer(1));
}

#[test]
fn a_panic_of_the_host_passes_through_every_catcher() {
    let mut scripts = Scripts::default();
    for source in [
        "redis.call('panic')",
        "redis.pcall('panic')",
        "pcall(redis.call, 'panic') return 1",
        "while true do pcall(redis.call, 'panic') end",
        "coroutine.resume(coroutine.create(function() redis.call('panic') end)) return 1",
        "return string.gsub('x', 'x', function() redis.call('panic') end)",
        "return xpcall(function() redis.call('panic') end, function() redis.call('panic') end)",
    ] {
        let panic = catch_unwind(AssertUnwindSafe(|| run(&mut scripts, source, &[])));
        let text = panic.expect_err(source).downcast::<String>().unwrap();
        assert_eq!(*text, "the host panics, Resp2");
        check(&mut scripts, "return 1", &Reply::Integer(1));
    }
}
