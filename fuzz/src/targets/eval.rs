//! Every script must end with one complete reply. It may leave only its writes to the data behind
//! for other scripts. A canary script reads everything that scripts can reach, and must return the
//! same before and after.
//!
//! An input is its mode (one byte), and then the text of a script, or choices from which one is
//! made (see `lua`).

use std::cell::RefCell;

use bytes::BytesMut;
use emulator::{Clock, Connection, Emulator};

use crate::commands::{PRELUDE, encode};
use crate::lua::BUDGET;
use crate::{lua, replies};

/// Runs its third argument again and again, whatever that argument does.
const ENDLESS: &[u8] = b"local again, f = pcall, loadstring(ARGV[3]) while f do again(f) end";
/// The error of a script that has used up a limit contains one of these.
const LIMITS: [&str; 4] = ["instructions", "commands", "footprint entries", "not enough memory"];
/// Longer texts are not run, so that each input ends soon.
const TEXT_BYTES_MAX: usize = 4096;

/// Lists everything that a script can reach from its globals, by name and type. It also lists the
/// errors of changes that must fail, and some results of the libraries.
const CANARY: &[u8] = br#"
local seen, lines = {}, {}
local function walk(path, t)
  if seen[t] then return end
  seen[t] = true
  local names = {}
  for name, value in pairs(t) do
    names[#names + 1] = tostring(name) .. ':' .. type(value)
    if type(value) == 'table' then walk(path .. '.' .. tostring(name), value) end
  end
  table.sort(names)
  lines[#lines + 1] = path .. '{' .. table.concat(names, ' ') .. '}'
end
walk('_G', _G)
table.sort(lines)
local refused = {}
for _, change in ipairs { "x = 1", "_G.x = 1", "string.x = 1", "rawset(_G, 'x', 1)", "setmetatable(_G, {})", "redis.call = 1" } do
  refused[#refused + 1] = tostring(pcall(assert(loadstring(change))))
end
return {
  lines, refused, table.concat(ARGV), math.random(), ('x'):rep(3), tostring(getmetatable('').__index == string),
  cjson.decode(cjson.encode({1, 'a', {b = 2}})), {cmsgpack.unpack(cmsgpack.pack(1, 'a'))}, redis.sha1hex(''), redis.call('ping'),
  redis.pcall('nosuch'), select('#', unpack({1, 2})), string.format('%5.1f', 1.25), tostring(pcall(error, 'e')),
}
"#;

struct Stage {
    emulator: Emulator,
    /// The reply of the canary.
    expected: Vec<u8>,
}

thread_local! {
    static STAGE: RefCell<Stage> = RefCell::new(Stage::new());
}

impl Stage {
    fn new() -> Stage {
        let emulator = Emulator::with_clock(Clock::manual());
        emulator.script_budget(BUDGET);
        let mut stage = Stage { emulator, expected: Vec::new() };
        stage.expected = stage.canary();
        assert!(stage.expected.starts_with(b"*"), "the canary fails: {}", stage.expected.escape_ascii());
        stage
    }

    fn canary(&self) -> Vec<u8> {
        self.say(&mut Connection::open(&self.emulator), &[b"EVAL", CANARY, b"1", b"a", b"arg"])
    }

    fn say(&self, client: &mut Connection, argv: &[&[u8]]) -> Vec<u8> {
        let mut output = BytesMut::new();
        client.receive(&encode(argv), &mut output);
        output.into()
    }
}

pub fn check(data: &[u8]) {
    let Some((mode, mut choices)) = data.split_first() else { return };
    let text = if mode % 4 == 0 { choices.to_vec() } else { lua::program(&mut choices) };
    if text.len() > TEXT_BYTES_MAX {
        return;
    }
    STAGE.with_borrow(|stage| {
        stage.emulator.reset(Clock::manual());
        let mut client = Connection::open(&stage.emulator);
        for argv in PRELUDE {
            stage.say(&mut client, argv);
        }
        if mode % 8 >= 4 {
            stage.say(&mut client, &[b"HELLO", b"3"]);
        }
        let argv: &[&[u8]] =
            &[if mode % 16 >= 8 { b"EVAL_RO" } else { b"EVAL" }, &text, b"2", b"a", b"b", b"1", b"x"];
        let is_function = mode % 32 >= 16;
        let answer = if is_function {
            call_as_function(stage, &mut client, &text)
        } else if mode % 64 >= 32 {
            run_for_ever(stage, &mut client, &text)
        } else {
            stage.say(&mut client, argv)
        };
        let n_replies = replies::split(&answer).map(|replies| replies.len());
        assert_eq!(n_replies, Some(1), "{} answers {}", text.escape_ascii(), answer.escape_ascii());

        stage.emulator.reset(Clock::manual());
        let canary = stage.canary();
        assert!(
            canary == stage.expected,
            "{} has changed {} to {}",
            text.escape_ascii(),
            stage.expected.escape_ascii(),
            canary.escape_ascii()
        );
    });
}

/// If Lua can parse the text, the script must use up a limit, and the error must name it.
fn run_for_ever(stage: &Stage, client: &mut Connection, text: &[u8]) -> Vec<u8> {
    let answer = stage.say(client, &[b"EVAL", ENDLESS, b"2", b"a", b"b", b"1", b"x", text]);
    let said = String::from_utf8_lossy(&answer);
    let is_unread = matches!(&answer[..], b"$-1\r\n" | b"_\r\n");
    let is_ended = said.starts_with('-') && LIMITS.iter().any(|limit| said.contains(limit));
    assert!(is_unread || is_ended, "{} for ever answers {said:?}", text.escape_ascii());
    answer
}

/// Runs the text as the body of a function and as the code of a library.
fn call_as_function(stage: &Stage, client: &mut Connection, text: &[u8]) -> Vec<u8> {
    let body =
        [b"#!lua name=l\nlocal function f(KEYS, ARGV, ...) ", text, b"\nend redis.register_function('f', f)"]
            .concat();
    stage.say(client, &[b"FUNCTION", b"LOAD", &body]);
    stage.say(client, &[b"FUNCTION", b"LOAD", b"REPLACE", &[b"#!lua name=m\n", text].concat()]);
    stage.say(client, &[b"FCALL", b"f", b"2", b"a", b"b", b"1", b"x"])
}
