//! The clients of a scenario, and their names.

use std::fmt;

/// A client of a scenario: `A`, `B`, … in text. The code that runs before the others is `before`.
/// The clients that judge the end are `finally1`, `finally2`, …, and those that probe after them
/// are `probe1`, `probe2`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(pub usize);

/// The largest number of actors in a scenario: each has one letter.
pub const ACTORS_MAX: usize = 26;

/// The largest number of probes.
pub(crate) const PROBES_MAX: u32 = 1_000;
/// The last client before those that judge the end.
const BEFORE_FINALS: usize = ACTORS_MAX + PROBES_MAX as usize;

impl Actor {
    /// The client that judges the end by the code of this number.
    pub(crate) fn of_final(nth: usize) -> Actor {
        Actor(BEFORE_FINALS + 1 + nth)
    }

    /// The number of the code by which the client judges the end, if it does.
    pub(crate) fn as_final(self) -> Option<usize> {
        self.0.checked_sub(BEFORE_FINALS + 1)
    }

    /// Parses `A` to `Z`.
    pub(crate) fn parse(word: &str) -> Option<Actor> {
        match word.as_bytes() {
            [letter @ b'A'..=b'Z'] => Some(Actor(usize::from(letter - b'A'))),
            _ => None,
        }
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < ACTORS_MAX => write!(f, "{}", char::from(b'A' + n as u8)),
            ACTORS_MAX => f.write_str("before"),
            n if n > BEFORE_FINALS => write!(f, "finally{}", n - BEFORE_FINALS),
            n => write!(f, "probe{}", n - ACTORS_MAX),
        }
    }
}
