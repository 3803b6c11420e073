//! The functions of `string` that could block the process in Lua's C code: those that match
//! patterns, and `rep`. `gsub` and `gmatch` are functions of C: one calls functions of the script,
//! and scripts keep what the other returns.

use bstr::ByteSlice as _;
use mlua::{IntoLuaMulti as _, Lua, LuaString, MultiValue, Table, Value};

use crate::script::args::{Args, function, raise};
use crate::script::c_api::gmatch;
use crate::script::pattern::{Capture, Effort, Failure, Match, Matcher, Pattern, is_literal};
use crate::script::spend::{check_size, spend, spend_bytes};

/// The functions by name, except `gsub`.
pub(in crate::script) fn functions(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("find", function(lua, |args| find(args, true))?)?;
    table.raw_set("match", function(lua, |args| find(args, false))?)?;
    table.raw_set("gmatch", gmatch(lua)?)?;
    table.raw_set("rep", function(lua, rep)?)?;
    Ok(table)
}

/// `string.find(s, pattern [, init [, plain]])` and `string.match(s, pattern [, init])`
fn find(args: &Args<'_>, wants_place: bool) -> mlua::Result<MultiValue> {
    let lua = args.lua;
    let (subject, pattern) = (args.string(1)?.as_bytes(), args.string(2)?.as_bytes());
    let init = match if args.is_nil(3) { 1 } else { args.integer(3)? } {
        from_end @ ..0 => from_end.saturating_add_unsigned(subject.len() as u64 + 1),
        from_start => from_start,
    };
    let init = usize::try_from(init.saturating_sub(1)).unwrap_or_default().min(subject.len());
    spend_bytes(lua, pattern.len())?;
    let asks_for_plain = !matches!(args.get(4), None | Some(Value::Nil | Value::Boolean(false)));
    if wants_place && (asks_for_plain || is_literal(&pattern)) {
        spend_bytes(lua, subject.len() - init)?;
        let start = subject[init..].find(&*pattern).map(|offset| init + offset);
        let place = start.map(|start| (start + 1, start + pattern.len()));
        return place.map_or_else(|| Value::Nil.into_lua_multi(lua), |place| place.into_lua_multi(lua));
    }
    let mut matcher = Matcher::new(&subject, Pattern::new(&pattern));
    let Some(found) = match_from(args, &mut matcher, init)? else { return Value::Nil.into_lua_multi(lua) };
    if !wants_place {
        return captures(args, &subject, &found);
    }
    let mut values = (found.range.start + 1, found.range.end).into_lua_multi(lua)?;
    if !found.captures.is_empty() {
        values.extend(captures(args, &subject, &found)?);
    }
    Ok(values)
}

/// `string.rep(s, n)`
fn rep(args: &Args<'_>) -> mlua::Result<LuaString> {
    let (text, n) = (args.string(1)?.as_bytes(), args.int(2)?);
    let n = if text.is_empty() { 0 } else { usize::try_from(n).unwrap_or_default() };
    let len = text.len().saturating_mul(n);
    check_size(args.lua, len)?;
    spend_bytes(args.lua, len)?;
    args.lua.create_string(text.repeat(n))
}

fn match_from(args: &Args<'_>, matcher: &mut Matcher<'_>, from: usize) -> mlua::Result<Option<Match>> {
    let mut pay = |Effort { steps, held_bytes }: Effort| {
        spend(args.lua, steps)?;
        check_size(args.lua, held_bytes)
    };
    matcher.find(from, &mut pay).map_err(|failure| match failure {
        Failure::Malformed(text) => raise(args.lua, text),
        Failure::Ended(error) => error,
    })
}

/// All captures, or the whole match if the pattern has none.
fn captures(args: &Args<'_>, subject: &[u8], found: &Match) -> mlua::Result<MultiValue> {
    let Match { range, captures } = found;
    let text = |start, end| {
        let text = &subject[start..end];
        spend_bytes(args.lua, text.len())?;
        Ok(Value::String(args.lua.create_string(text)?))
    };
    if captures.is_empty() {
        return Ok([text(range.start, range.end)?].into_iter().collect());
    }
    let capture = |capture: &Capture| match capture {
        Capture::Text { start, end } => text(*start, *end),
        Capture::Position(place) => Ok(Value::Number((place + 1) as f64)),
        Capture::Open { .. } => Err(raise(args.lua, "unfinished capture")),
    };
    captures.iter().map(capture).collect()
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
