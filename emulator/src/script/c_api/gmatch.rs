//! `string.gmatch`. Its iterators live as long as a script wants, so the subject and the pattern
//! are upvalues of a function of C.

use std::ffi::c_int;

use mlua::ffi::{self, lua_State};
use mlua::{Function, Lua};

use super::stack::Stack;
use super::{STATE_UPVALUE, bytes, create_function, guarded, place_in, running};
use crate::script::pattern::{CAPTURES_MAX, Capture, Failure, Match, Matcher};

/// `string.gmatch(s, pattern)`
///
/// # Errors
/// There is no memory.
pub(in crate::script) fn gmatch(lua: &Lua) -> mlua::Result<Function> {
    // SAFETY: the function has no upvalues of its own.
    unsafe { create_function(lua, push_iterator, ()) }
}

/// The upvalues of the iterator, after the state of the script.
const SUBJECT: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 1);
const PATTERN: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 2);
/// Where the search for the next match begins.
const NEXT: c_int = ffi::lua_upvalueindex(STATE_UPVALUE + 3);

unsafe extern "C-unwind" fn push_iterator(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The iterator gets the upvalues that it expects.
    unsafe {
        let stack = Stack::of_function(state).at_most(2);
        for text in [1, 2] {
            ffi::luaL_checklstring(state, text, std::ptr::null_mut());
        }
        ffi::lua_settop(state, 2);
        stack.push_pointer(running(state));
        ffi::lua_insert(state, 1);
        stack.push_number(0.0);
        ffi::lua_pushcclosure(state, push_match, 4);
        1
    }
}

/// The iterator: returns the captures of the next match, or the whole match if the pattern has
/// none. Returns nothing if there is no more match.
///
/// # Raises
/// The pattern is malformed, there is no memory, or the script must end.
unsafe extern "C-unwind" fn push_match(state: *mut lua_State) -> c_int {
    // SAFETY: the frame owns nothing. The subject and the pattern stay where they are.
    unsafe {
        ffi::lua_settop(state, 0);
        let stack = Stack::grown(state, CAPTURES_MAX as c_int + 2, c"too many captures");
        let (subject, pattern) = (bytes(state, SUBJECT), bytes(state, PATTERN));
        let found = match search(state, subject, pattern, ffi::lua_tonumber(state, NEXT) as usize) {
            Ok(found) => found,
            Err(Stop::Malformed(text)) => raise(stack, text),
            Err(Stop::MustEnd) => raise(stack, "the script must end"),
        };
        let Some(Found { start, end, n_captures, captures }) = &found else {
            stack.push_number((subject.len() + 1) as f64);
            ffi::lua_replace(state, NEXT);
            return 0;
        };
        // After an empty match, the search goes on at the next byte.
        stack.push_number((*end).max(start + 1) as f64);
        ffi::lua_replace(state, NEXT);
        if *n_captures == 0 {
            stack.push_bytes(&subject[*start..*end]);
            return 1;
        }
        for capture in &captures[..*n_captures] {
            match capture {
                Capture::Text(range) => stack.push_bytes(&subject[range.start..range.end]),
                Capture::Position(place) => stack.push_number((place + 1) as f64),
                Capture::Open { .. } => raise(stack, "unfinished capture"),
            }
        }
        *n_captures as c_int
    }
}

/// A match that owns nothing, so that it may lie in a frame that raises.
struct Found {
    start: usize,
    end: usize,
    n_captures: usize,
    captures: [Capture; CAPTURES_MAX],
}

const _: () = assert!(!std::mem::needs_drop::<Found>());

impl From<&Match> for Found {
    fn from(Match { range, captures }: &Match) -> Found {
        let capture = |idx| captures.get(idx).cloned().unwrap_or(Capture::Position(0));
        let (start, end) = (range.start, range.end);
        Found { start, end, n_captures: captures.len(), captures: std::array::from_fn(capture) }
    }
}

/// The reason why a search has no result.
enum Stop {
    Malformed(&'static str),
    MustEnd,
}

/// The first match from a place on. Never raises.
///
/// # Safety
/// As for [`running`].
unsafe fn search(
    state: *mut lua_State,
    subject: &[u8],
    pattern: &[u8],
    from: usize,
) -> Result<Option<Found>, Stop> {
    // SAFETY: the state is valid while the function runs.
    let (cell, place) = unsafe { (running(state), || place_in(state)) };
    let searched = guarded(cell, |running| {
        let mut matcher = Matcher::new(subject, pattern);
        for start in from..=subject.len() {
            let found = matcher.match_at(start, &mut |steps| running.spend(steps, place));
            running.spend(matcher.take_steps(), place)?;
            match found {
                Ok(None) => {}
                Ok(Some(found)) => return Ok(Ok(Some(Found::from(&found)))),
                Err(Failure::Malformed(text)) => return Ok(Err(Stop::Malformed(text))),
                Err(Failure::Ended(over)) => return Err(over),
            }
        }
        Ok(Ok(None))
    });
    searched.unwrap_or(Err(Stop::MustEnd))
}

/// Raises an error with the line of the caller in front.
///
/// # Stack
/// 2 slots
///
/// # Safety
/// The stack belongs to the function that is running.
unsafe fn raise(stack: Stack, text: &str) -> ! {
    let stack = stack.at_most(2);
    // SAFETY: the frame owns nothing.
    unsafe {
        ffi::luaL_where(stack.state, 1);
        stack.push_bytes(text.as_bytes());
        ffi::lua_concat(stack.state, 2);
        ffi::lua_error(stack.state)
    }
}
