//! Where the keys of a command stand.

use super::Argv;

/// Where some keys of a command stand, and what it does with them. <https://redis.io/docs/latest/develop/reference/key-specs/>
pub struct KeySpec {
    /// Redis's words: `RW`, `access`, …
    pub flags: &'static [&'static str],
    /// The argument at which they begin.
    pub begin: usize,
    /// How they go on from there.
    pub find: FindKeys,
    /// What Redis has to say about this; mostly nothing.
    pub notes: &'static str,
}

/// How keys go on from where they begin.
#[derive(Clone, Copy)]
pub enum FindKeys {
    /// Up to `last` arguments further (negative: counted from the end), every `step`th.
    Range {
        /// Of the last key: relative to the first, or counted from the end.
        last: i32,
        /// Distance of two keys.
        step: usize,
    },
    /// The first argument says how many keys follow it.
    Keynum,
    /// A description cannot say where. This finds those that the arguments name all the same.
    Unknown(fn(&Argv<'_>) -> Vec<usize>),
}

impl KeySpec {
    /// One key, the first argument.
    pub const fn one(flags: &'static [&'static str]) -> KeySpec {
        KeySpec::at(1, flags)
    }

    /// One key, the argument at `begin`.
    pub const fn at(begin: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin, find: FindKeys::Range { last: 0, step: 1 }, notes: "" }
    }

    /// Every `step`th argument is a key.
    pub const fn every(step: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin: 1, find: FindKeys::Range { last: -1, step }, notes: "" }
    }

    /// Every argument but the last is a key.
    pub const fn all_but_last(flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin: 1, find: FindKeys::Range { last: -2, step: 1 }, notes: "" }
    }

    /// The argument at `begin` says how many keys follow.
    pub const fn numkeys(begin: usize, flags: &'static [&'static str]) -> KeySpec {
        KeySpec { flags, begin, find: FindKeys::Keynum, notes: "" }
    }

    /// Keys that no description can find.
    pub const fn unknown(flags: &'static [&'static str], find: fn(&Argv<'_>) -> Vec<usize>) -> KeySpec {
        KeySpec { flags, begin: 0, find: FindKeys::Unknown(find), notes: "" }
    }

    /// Beginning at this argument.
    pub const fn from(mut self, begin: usize) -> KeySpec {
        self.begin = begin;
        self
    }

    /// With a remark for `COMMAND INFO`.
    pub const fn notes(mut self, notes: &'static str) -> KeySpec {
        self.notes = notes;
        self
    }

    /// The positions of the keys in `argv`; none where it is too short or its count is no count. Of a count Redis takes the last
    /// 32 bits.
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
                let count = argv.get(self.begin).and_then(|digits| crate::parse_integer(digits));
                let count = count.filter(|&count| count > 0).map_or(0, |count| count as i32);
                self.counted(argv, count)
            }
            FindKeys::Unknown(find) => find(argv),
        }
    }

    /// The same with the count as C reads it: `1e3` is 1.
    pub fn lenient_positions(&self, argv: &Argv<'_>) -> Vec<usize> {
        self.counted(argv, argv.get(self.begin).map_or(0, |text| leading_integer(text)))
    }

    fn counted(&self, argv: &Argv<'_>, count: i32) -> Vec<usize> {
        let first = self.begin + 1;
        let count = usize::try_from(count).unwrap_or(0);
        if count <= argv.len().saturating_sub(first) { (first..first + count).collect() } else { Vec::new() }
    }
}

/// C's `atoi`: white space, a sign, digits and whatever follows; what does not fit is the nearest `long`, and its last 32 bits.
fn leading_integer(text: &[u8]) -> i32 {
    let (sign, digits) = match crate::trim_start(text) {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0_i64, |number, digit| {
        number.saturating_mul(10).saturating_add(sign * i64::from(digit - b'0'))
    });
    number as i32
}
