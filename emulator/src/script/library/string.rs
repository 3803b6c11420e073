//! The functions of `string` that could crash or block the process in Lua's C code: those that
//! match patterns, and `rep`. [`gmatch`] is a function of C, because scripts keep its results.

use std::ops::Range;

use bstr::ByteSlice as _;
use mlua::{Function, IntoLuaMulti as _, Lua, LuaString, MultiValue, Table, Value};

use crate::script::args::{Args, raise};
use crate::script::budget::{check_size, spend, spend_bytes};
use crate::script::c_api::gmatch;
use crate::script::native::call_back;
use crate::script::pattern::{Capture, ESCAPE, Failure, Match, Matcher, is_literal};

/// The functions by name, except [`gsub`].
pub(in crate::script) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let set = |name, function: fn(&Lua, &MultiValue) -> mlua::Result<MultiValue>| {
        table.raw_set(name, lua.create_function(move |lua, args: MultiValue| function(lua, &args))?)
    };
    set("find", |lua, args| find(lua, args, true))?;
    set("match", |lua, args| find(lua, args, false))?;
    table.raw_set("gmatch", gmatch(lua)?)?;
    set("rep", rep)?;
    Ok(table)
}

/// `string.find(s, pattern [, init [, plain]])` and `string.match(s, pattern [, init])`
fn find(lua: &Lua, args: &MultiValue, wants_place: bool) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, args);
    let (subject, pattern) = (args.string(1)?.as_bytes(), args.string(2)?.as_bytes());
    let init = match if args.is_nil(3) { 1 } else { args.integer(3)? } {
        from_end @ ..0 => from_end.saturating_add_unsigned(subject.len() as u64 + 1),
        from_start => from_start,
    };
    let init = usize::try_from(init.saturating_sub(1)).unwrap_or_default().min(subject.len());
    let asks_for_plain = !matches!(args.get(4), None | Some(Value::Nil | Value::Boolean(false)));
    if wants_place && (asks_for_plain || is_literal(&pattern)) {
        spend_bytes(lua, subject.len() - init)?;
        let start = subject[init..].find(&*pattern).map(|offset| init + offset);
        let place = start.map(|start| (start + 1, start + pattern.len()));
        return place.map_or_else(|| Value::Nil.into_lua_multi(lua), |place| place.into_lua_multi(lua));
    }
    let (pattern, is_anchored) = anchored(&pattern);
    let mut matcher = Matcher::new(&subject, pattern);
    let last = if is_anchored { init } else { subject.len() };
    for start in init..=last {
        let Some(found) = match_at(&args, &mut matcher, start)? else { continue };
        if !wants_place {
            return captures(&args, &subject, &found);
        }
        let mut values = (found.range.start + 1, found.range.end).into_lua_multi(lua)?;
        if !found.captures.is_empty() {
            values.extend(captures(&args, &subject, &found)?);
        }
        return Ok(values);
    }
    Value::Nil.into_lua_multi(lua)
}

/// `string.gsub(s, pattern, repl [, n])`; `replace_each` is the sandbox's function, for a `repl`
/// that is a function or a table.
pub(in crate::script) fn gsub(
    lua: &Lua,
    protected: Function,
    replace_each: Function,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: MultiValue| {
        let args = Args::new(lua, &args);
        let (subject, pattern) = (args.string(1)?, args.string(2)?);
        let replacement = args.get(3).cloned().unwrap_or(Value::Nil);
        let is_called = match replacement {
            Value::String(_) | Value::Integer(_) | Value::Number(_) => false,
            Value::Function(_) | Value::Table(_) => true,
            _ => return Err(args.error(3, "string/function/table expected")),
        };
        let n_left = if args.is_nil(4) { i32::MAX } else { args.int(4)? };
        let mut matches = Matches { subject, pattern, written: 0, next: 0, n_left, is_over: false };
        if !is_called {
            return replace(&args, &mut matches, &args.string(3)?.as_bytes());
        }
        // All matches come first, so that a malformed pattern fails before any function is called.
        let mut found = Vec::new();
        let rest = loop {
            match matches.next(&args)? {
                (rest, None) => break rest,
                (before, Some(matched)) => {
                    _ = captures(&args, &matches.subject.as_bytes(), &matched)?;
                    found.push((before, matched));
                    check_size(lua, found.capacity() * size_of::<Match>())?;
                }
            }
        };
        let (subject, mut found) = (matches.subject, found.into_iter());
        // It gets the subject with each call, because it lives until Lua's collector runs.
        let iterate = lua.create_function_mut(move |lua, values: MultiValue| {
            let args = Args::new(lua, &values);
            let subject = args.string(1)?;
            let subject = subject.as_bytes();
            let text = |range: Range<usize>| lua.create_string(&subject[range]).map(Value::String);
            let Some((before, matched)) = found.next() else {
                return text(rest.clone())?.into_lua_multi(lua);
            };
            let mut values = captures(&args, &subject, &matched)?;
            values.push_front(text(matched.range)?);
            values.push_front(text(before)?);
            Ok(values)
        })?;
        let replaced = call_back(lua, &protected, (&replace_each, subject, replacement, iterate))?;
        match (replaced.front(), replaced.get(1)) {
            (Some(Value::Nil), Some(Value::String(kind))) => {
                let kind = kind.as_bytes();
                Err(raise(args.lua, [b"invalid replacement value (a ", &kind[..], b")"].concat()))
            }
            _ => Ok(replaced),
        }
    })
}

/// The subject with each match replaced by text, and the number of matches.
fn replace(args: &Args<'_>, matches: &mut Matches, replacement: &[u8]) -> mlua::Result<MultiValue> {
    let (mut output, mut n_replaced) = (Vec::new(), 0);
    loop {
        let (before, found) = matches.next(args)?;
        let subject = matches.subject.as_bytes();
        output.extend_from_slice(&subject[before]);
        let Some(found) = found else { break };
        n_replaced += 1;
        fill_in(args, &mut output, replacement, &subject, &found)?;
        check_size(args.lua, output.len())?;
    }
    (args.lua.create_string(output)?, n_replaced).into_lua_multi(args.lua)
}

/// Appends the replacement of a match. `%1` is a capture, `%0` the match, and `%` before another
/// character is that character.
fn fill_in(
    args: &Args<'_>,
    output: &mut Vec<u8>,
    replacement: &[u8],
    subject: &[u8],
    found: &Match,
) -> mlua::Result<()> {
    let mut bytes = replacement.iter();
    while let Some(&byte) = bytes.next() {
        // In C, a NUL follows the last byte.
        match if byte == ESCAPE { bytes.next().or(Some(&0)) } else { None } {
            None => output.push(byte),
            Some(b'0') => output.extend_from_slice(&subject[found.range.clone()]),
            Some(digit @ b'1'..=b'9') => match capture(args, subject, found, usize::from(digit - b'1'))? {
                Captured::Text(text) => output.extend_from_slice(text),
                Captured::Position(place) => output.extend_from_slice(place.to_string().as_bytes()),
            },
            Some(&other) => output.push(other),
        }
    }
    Ok(())
}

/// `string.rep(s, n)`
fn rep(lua: &Lua, args: &MultiValue) -> mlua::Result<MultiValue> {
    let args = Args::new(lua, args);
    let (text, n) = (args.string(1)?.as_bytes(), args.int(2)?);
    let n = if text.is_empty() { 0 } else { usize::try_from(n).unwrap_or_default() };
    let len = text.len().saturating_mul(n);
    check_size(lua, len)?;
    spend_bytes(lua, len)?;
    lua.create_string(text.repeat(n))?.into_lua_multi(lua)
}

/// The matches that `gsub` replaces, one by one.
struct Matches {
    subject: LuaString,
    pattern: LuaString,
    /// How much of the subject has been returned.
    written: usize,
    /// The place where the search for the next match begins.
    next: usize,
    /// How many more matches are wanted.
    n_left: i32,
    is_over: bool,
}

impl Matches {
    /// The text before the next match, and the match. If there is no match, the rest of the text.
    fn next(&mut self, args: &Args<'_>) -> mlua::Result<(Range<usize>, Option<Match>)> {
        let (subject, pattern) = (self.subject.as_bytes(), self.pattern.as_bytes());
        let (pattern, is_anchored) = anchored(&pattern);
        let mut matcher = Matcher::new(&subject, pattern);
        while self.n_left > 0 && !self.is_over {
            let start = self.next;
            let found = match_at(args, &mut matcher, start)?;
            // After an empty match, the next byte is kept, and the search continues after it.
            let end = found.as_ref().map_or(start, |found| found.range.end);
            self.next = end.max(start + 1);
            self.is_over = is_anchored || self.next > subject.len();
            if let Some(found) = found {
                self.n_left -= 1;
                return Ok((std::mem::replace(&mut self.written, end)..start, Some(found)));
            }
        }
        Ok((std::mem::replace(&mut self.written, subject.len())..subject.len(), None))
    }
}

fn match_at(args: &Args<'_>, matcher: &mut Matcher<'_>, start: usize) -> mlua::Result<Option<Match>> {
    let found = matcher.match_at(start, &mut |steps| spend(args.lua, steps));
    spend(args.lua, matcher.take_steps())?;
    found.map_err(|failure| match failure {
        Failure::Malformed(text) => raise(args.lua, text),
        Failure::Ended(error) => error,
    })
}

/// The pattern without its leading `^`, which matches at the start only, and whether it had one.
fn anchored(pattern: &[u8]) -> (&[u8], bool) {
    match pattern.strip_prefix(b"^") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    }
}

/// All captures, or the whole match if the pattern has none.
fn captures(args: &Args<'_>, subject: &[u8], found: &Match) -> mlua::Result<MultiValue> {
    (0..found.captures.len().max(1))
        .map(|idx| match capture(args, subject, found, idx)? {
            Captured::Text(text) => Ok(Value::String(args.lua.create_string(text)?)),
            Captured::Position(place) => Ok(Value::Number(place as f64)),
        })
        .collect()
}

enum Captured<'a> {
    Text(&'a [u8]),
    /// Counted from 1.
    Position(usize),
}

fn capture<'a>(args: &Args<'_>, subject: &'a [u8], found: &Match, idx: usize) -> mlua::Result<Captured<'a>> {
    match found.captures.get(idx) {
        Some(Capture::Text(range)) => Ok(Captured::Text(&subject[range.clone()])),
        Some(Capture::Position(place)) => Ok(Captured::Position(place + 1)),
        Some(Capture::Open { .. }) => Err(raise(args.lua, "unfinished capture")),
        None if idx == 0 => Ok(Captured::Text(&subject[found.range.clone()])),
        None => Err(raise(args.lua, "invalid capture index")),
    }
}

#[cfg(test)]
mod tests {
    use mlua::{Lua, LuaString, Table};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_pcg::Pcg32;

    use crate::{Clock, Emulator, Reply};

    /// A script that returns one line of text: the results of the functions for a subject, a
    /// pattern and a replacement.
    const PROBE: &str = "
        local subject, pattern, replacement = ARGV[1], ARGV[2], ARGV[3]
        local said = {}
        local function say(...)
          for i = 1, select('#', ...) do
            local value = select(i, ...)
            said[#said + 1] = type(value) == 'table' and '{}' or tostring(value)
          end
          said[#said + 1] = ';'
        end
        say(pcall(string.find, subject, pattern))
        say(pcall(string.find, subject, pattern, -3))
        say(pcall(string.find, subject, pattern, 2, true))
        say(pcall(string.match, subject, pattern, 3))
        say(pcall(string.gsub, subject, pattern, replacement))
        say(pcall(string.gsub, subject, pattern, replacement, 1))
        say(pcall(string.gsub, subject, pattern, {a = 'A', [1] = 2, b = false}))
        say(pcall(string.gsub, subject, pattern, function(...) say('called', ...) return (...) end))
        say(pcall(function() for a, b in string.gmatch(subject, pattern) do say('found', a, b) end end))
        return table.concat(said, ' ')";

    /// Compares with Lua's own matcher. The inputs are short, so that it neither overflows its
    /// stack nor runs endlessly.
    #[test]
    fn patterns_match_as_in_c() {
        let emulator = Emulator::with_clock(Clock::manual());
        let mut connection = emulator.connection();
        let lua = Lua::new();
        let probe = lua.load(PROBE).set_name("@user_script").into_function().unwrap();
        let mut random = Pcg32::seed_from_u64(7);
        let mut text = |alphabet: &[u8], len_max| -> Vec<u8> {
            (0..random.random_range(0..=len_max))
                .map(|_| alphabet[random.random_range(0..alphabet.len())])
                .collect()
        };
        for _ in 0..20_000 {
            let args = [text(b"aab1 .-(\0)", 12), text(b"ab.%[]^$*+-?()1bfdaswz\0", 9), text(b"a%012", 4)];
            let argv: Table = lua
                .create_sequence_from(
                    args.iter().map(|arg| lua.create_string(arg)).collect::<Result<Vec<_>, _>>().unwrap(),
                )
                .unwrap();
            lua.globals().set("ARGV", argv).unwrap();
            let expected: LuaString = probe.call(()).unwrap();
            let argv: Vec<&[u8]> = [&b"EVAL"[..], PROBE.as_bytes(), b"0"]
                .into_iter()
                .chain(args.iter().map(Vec::as_slice))
                .collect();
            let Reply::Bulk(got) = connection.execute(&argv) else { panic!("no text for {args:?}") };
            let shown = args.map(|arg| arg.escape_ascii().to_string());
            assert_eq!(
                got.escape_ascii().to_string(),
                expected.as_bytes().escape_ascii().to_string(),
                "{shown:?}"
            );
        }
    }
}
