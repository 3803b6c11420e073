//! A row of the table of lints.

use super::usage::Usage;

/// A habit that breaks locks.
#[derive(Debug)]
pub struct Lint {
    /// The name, which is the anchor of its section in `tests/guide/lints.md`, too.
    pub name: &'static str,
    /// The habit, in a sentence.
    pub summary: &'static str,
    /// Why it does harm, and a better way.
    pub advice: &'static str,
    /// Where an execution shows the habit, in words.
    pub(super) find: fn(&Usage<'_>) -> Option<String>,
}
