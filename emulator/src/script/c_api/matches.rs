//! The matches of a pattern, for functions of C that the script may leave by an error.

use mlua::ffi::{self, lua_State};

use super::{NAMES, Name, guarded, place_in, room, running};
use crate::script::budget::{NO_MEMORY, Over};
use crate::script::pattern::{CAPTURES_MAX, Capture, Effort, Failure, Match, Matcher, Pattern};

/// A match. It owns nothing, so that it may lie in a frame that calls the script.
pub(super) struct Found {
    pub start: usize,
    pub end: usize,
    pub n_captures: usize,
    captures: [Capture; CAPTURES_MAX],
}

const _: () = assert!(!std::mem::needs_drop::<Found>());

impl Found {
    fn new(Match { range, captures }: &Match) -> Found {
        let mut own = [Capture::Position(0); CAPTURES_MAX];
        own[..captures.len()].copy_from_slice(captures);
        Found { start: range.start, end: range.end, n_captures: captures.len(), captures: own }
    }

    /// The place where the search goes on. After an empty match, one byte is kept.
    pub fn next(&self, subject_len: usize) -> Option<usize> {
        if self.end > self.start {
            Some(self.end)
        } else {
            (self.start < subject_len).then_some(self.start + 1)
        }
    }
}

/// The reason why there is neither a match nor the end of the subject.
enum Stop {
    MustEnd,
    NoMemory,
}

impl From<Over> for Stop {
    fn from(_: Over) -> Stop {
        Stop::MustEnd
    }
}

/// The first match from a place on.
///
/// # Raises
/// The pattern is malformed, there is no memory for the choices, or the script must end.
///
/// # Safety
/// As for [`running`].
pub(super) unsafe fn find(
    state: *mut lua_State,
    subject: &[u8],
    pattern: Pattern<'_>,
    from: usize,
) -> Option<Found> {
    // SAFETY: the matcher is gone when the frame raises. The rest of the frame owns nothing.
    unsafe {
        match search(state, subject, pattern, from) {
            Ok(found) => return found,
            Err(Failure::Malformed(text)) => raise(state, text.as_bytes()),
            Err(Failure::Ended(Stop::NoMemory)) => room(state, 1).push_bytes(NO_MEMORY.as_bytes()),
            Err(Failure::Ended(Stop::MustEnd)) => {
                room(state, 1).push_bytes(NAMES[Name::MustEnd as usize].as_bytes());
            }
        }
        ffi::lua_error(state)
    }
}

/// As [`find`], but never raises.
///
/// # Safety
/// As for [`running`].
unsafe fn search(
    state: *mut lua_State,
    subject: &[u8],
    pattern: Pattern<'_>,
    from: usize,
) -> Result<Option<Found>, Failure<Stop>> {
    // SAFETY: the state is valid while the function runs.
    let (cell, place) = unsafe { (running(state), || place_in(state)) };
    let mut pay = |Effort { steps, held_bytes }: Effort| {
        guarded(cell, |running| {
            running.spend(steps, place)?;
            Ok(held_bytes <= running.budget.memory_bytes_max)
        })
        .map_err(Stop::from)
        .and_then(|fits| if fits { Ok(()) } else { Err(Stop::NoMemory) })
    };
    let mut matcher = Matcher::new(subject, pattern);
    let found = matcher.find(from, &mut pay)?;
    Ok(found.as_ref().map(Found::new))
}

/// Pushes a capture, or the whole match if the pattern has none.
///
/// # Raises
/// There is no such capture.
///
/// # Safety
/// As for [`find`].
pub(super) unsafe fn push_capture(state: *mut lua_State, subject: &[u8], found: &Found, idx: usize) {
    // SAFETY: the frame owns nothing.
    unsafe {
        match found.captures[..found.n_captures].get(idx) {
            Some(Capture::Text { start, end }) => room(state, 1).push_bytes(&subject[*start..*end]),
            Some(Capture::Position(place)) => room(state, 1).push_number((place + 1) as f64),
            Some(Capture::Open { .. }) => raise(state, b"unfinished capture"),
            None if idx == 0 => room(state, 1).push_bytes(&subject[found.start..found.end]),
            None => raise(state, b"invalid capture index"),
        }
    }
}

/// Raises an error with the line of the caller in front.
///
/// # Safety
/// As for [`find`].
unsafe fn raise(state: *mut lua_State, text: &[u8]) -> ! {
    // SAFETY: the frame owns nothing.
    unsafe {
        room(state, 1);
        ffi::luaL_where(state, 1);
        room(state, 1).push_bytes(text);
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}
