//! The positions of keys in the arguments of a command.

use super::argv::Argv;

/// The position of some keys of a command, and how the command uses them.
/// <https://redis.io/docs/latest/develop/reference/key-specs/>
pub struct KeySpec {
    /// Redis's flags: `RW`, `access`, …
    pub flags: &'static [&'static str],
    /// The index of the first key, or of the number of keys.
    pub begin: usize,
    /// How the other keys are found.
    pub find: FindKeys,
    /// Redis's remark about this; usually empty.
    pub notes: &'static str,
}

/// How keys are found from where they begin.
#[derive(Clone, Copy)]
pub enum FindKeys {
    /// Every `step`th argument up to the last key.
    Range {
        /// The last key, as an offset from the first. A negative number counts from the end.
        last: i32,
        /// The distance between two keys.
        step: usize,
    },
    /// The first argument is the number of the keys that follow it.
    Keynum,
    /// The rules cannot describe the positions. This function finds the keys that the arguments
    /// name.
    Unknown(fn(&Argv<'_>) -> Vec<usize>),
}

impl KeySpec {
    /// One key: the first argument.
    pub(crate) const fn one(flags: &'static [&'static str]) -> KeySpec {
        KeySpec::at(1, flags)
    }

    /// One key: the argument at `begin`.
    pub(crate) const fn at(begin: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin, find: FindKeys::Range { last: 0, step: 1 }, notes: "" }
    }

    /// Every `step`th argument is a key.
    pub(crate) const fn every(step: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin: 1, find: FindKeys::Range { last: -1, step }, notes: "" }
    }

    /// Every argument but the last is a key.
    pub(crate) const fn all_but_last(flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin: 1, find: FindKeys::Range { last: -2, step: 1 }, notes: "" }
    }

    /// The argument at `begin` is the number of the keys that follow.
    pub(crate) const fn numkeys(begin: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin, find: FindKeys::Keynum, notes: "" }
    }

    /// Keys whose positions the rules cannot describe.
    pub(crate) const fn unknown(
        flags: &'static [&'static str],
        find: fn(&Argv<'_>) -> Vec<usize>,
    ) -> KeySpec {
        KeySpec { flags, begin: 0, find: FindKeys::Unknown(find), notes: "" }
    }

    /// Changes the index at which the keys begin.
    pub(crate) const fn from(mut self, begin: usize) -> KeySpec {
        self.begin = begin;
        self
    }

    /// Adds a remark for `COMMAND INFO`.
    pub(crate) const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }

    /// Returns the positions of the keys in `argv`. There are none if `argv` is too short or if its
    /// count is not a positive number.
    ///
    /// Like Redis, it uses only the last 32 bits of a count.
    pub fn positions(&self, argv: &Argv<'_>) -> Vec<usize> {
        match self.find {
            FindKeys::Range { last, step } => {
                let last = if last < 0 {
                    argv.len() as i64 + i64::from(last)
                } else {
                    self.begin as i64 + i64::from(last)
                };
                (self.begin as i64..=last.min(argv.len() as i64 - 1))
                    .step_by(step)
                    .map(|idx| idx as usize)
                    .collect()
            }
            FindKeys::Keynum => {
                let count = argv.get(self.begin).and_then(|digits| crate::parse::parse_integer(digits));
                let count = count.filter(|&count| count > 0).map_or(0, |count| count as i32);
                self.counted(argv, count)
            }
            FindKeys::Unknown(find) => find(argv),
        }
    }

    /// Like [`positions`](KeySpec::positions), but reads the count as C's `atoi` does: `1e3` is 1.
    pub(crate) fn lenient_positions(&self, argv: &Argv<'_>) -> Vec<usize> {
        self.counted(argv, argv.get(self.begin).map_or(0, |text| leading_integer(text)))
    }

    fn counted(&self, argv: &Argv<'_>, count: i32) -> Vec<usize> {
        let first = self.begin + 1;
        let count = usize::try_from(count).unwrap_or(0);
        if count <= argv.len().saturating_sub(first) { (first..first + count).collect() } else { Vec::new() }
    }
}

/// Parses an integer as C's `atoi` does: white space, a sign, digits and any rest.
///
/// A number that does not fit becomes the nearest `long`. The result is its last 32 bits.
fn leading_integer(text: &[u8]) -> i32 {
    let (sign, digits) = match crate::parse::trim_start(text) {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0'))
    });
    number as i32
}
