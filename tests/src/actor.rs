//! The clients of a scenario, and their names.

use std::fmt;

/// A client of a scenario: `A`, `B`, … in text. The code that runs before the others is `before`.
/// The clients that probe after the others are `probe1`, `probe2`, …
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(pub usize);

/// The largest number of actors in a scenario: each has one letter.
pub const ACTORS_MAX: usize = 26;

impl Actor {
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
            n => write!(f, "probe{}", n - ACTORS_MAX),
        }
    }
}
