//! The writes that a failover loses, and their notation.

use std::fmt;

use crate::actor::{ACTORS_MAX, Actor};

/// The most writes that a failover can lose. Their numbers for all clients fit into one number.
pub(crate) const BEHIND_MAX: u32 = 4;

/// Counts are the digits of a number to this base.
const BASE: i64 = BEHIND_MAX as i64 + 1;

const _: () = assert!(BASE.checked_pow(ACTORS_MAX as u32).is_some(), "a digit for each client");

/// How many of its last writes each client loses, as the amount of a fault: `-AAB` is the last two
/// of A and the last one of B.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostWrites(pub(crate) i64);

impl LostWrites {
    /// How many writes of this client are lost.
    pub(crate) fn of(self, actor: Actor) -> usize {
        (self.0 / BASE.pow(actor.0 as u32) % BASE) as usize
    }

    /// One more write of this client is lost.
    pub(crate) fn with(self, actor: Actor) -> LostWrites {
        LostWrites(self.0 + BASE.pow(actor.0 as u32))
    }

    /// The clients that lose writes, in the order of their names, each as often as it loses one.
    fn losers(self) -> impl Iterator<Item = Actor> {
        (0..ACTORS_MAX).map(Actor).flat_map(move |actor| std::iter::repeat_n(actor, self.of(actor)))
    }

    /// The same writes, if clients have these other names.
    pub(crate) fn renamed(self, name: impl Fn(Actor) -> Actor) -> LostWrites {
        self.losers().fold(LostWrites::default(), |lost, actor| lost.with(name(actor)))
    }

    /// Parses `-AAB`. `None` if one client loses more than [`BEHIND_MAX`].
    pub(crate) fn parse(word: &str) -> Option<LostWrites> {
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty())?;
        letters.char_indices().try_fold(LostWrites::default(), |lost, (at, _)| {
            let actor = Actor::parse(letters.get(at..=at)?)?;
            (lost.of(actor) < BEHIND_MAX as usize).then(|| lost.with(actor))
        })
    }

    /// `the last write of A and the last 2 writes of B`; `None` if nothing is lost.
    pub(crate) fn in_words(self) -> Option<String> {
        let of = |actor: Actor| match self.of(actor) {
            0 => None,
            1 => Some(format!("the last write of {actor}")),
            writes => Some(format!("the last {writes} writes of {actor}")),
        };
        (0..ACTORS_MAX).map(Actor).filter_map(of).reduce(|all, more| format!("{all} and {more}"))
    }
}

impl fmt::Display for LostWrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-")?;
        self.losers().try_for_each(|actor| write!(f, "{actor}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        for text in ["-A", "-AAB", "-BZZZZ"] {
            assert_eq!(LostWrites::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(LostWrites::parse("-BAA").unwrap().to_string(), "-AAB");
        for text in ["", "-", "AB", "-a", "-1", "-AAAAA", "-Ä"] {
            assert_eq!(LostWrites::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn in_words() {
        let words = |text| LostWrites::parse(text).unwrap().in_words().unwrap();
        assert_eq!(words("-B"), "the last write of B");
        assert_eq!(words("-AAB"), "the last 2 writes of A and the last write of B");
        assert_eq!(LostWrites::default().in_words(), None);
    }

    #[test]
    fn clients_change_their_names() {
        let lost = LostWrites::parse("-AAB").unwrap();
        assert_eq!(lost.renamed(|Actor(actor)| Actor(1 - actor)).to_string(), "-ABB");
    }
}
