//! The common parts of `SCAN`, `HSCAN`, `SSCAN` and `ZSCAN`: the cursor, the options, the pages.
//!
//! A scan goes from the last place to the first, and its cursor says how many places are left. New
//! items come last, and a removal moves other items only towards the front. So an item that exists
//! during the whole scan is returned, perhaps twice.
//!
//! Redis's own cursors look different and promise the same. If a collection is stored anew during
//! its scan, for example by `SUNIONSTORE`, it is a different collection here.
//! <https://redis.io/docs/latest/commands/scan/>

use std::ops::Range;

use super::{Argv, integer, is_word};
use crate::error::{self, Error};
use crate::glob;
use crate::keyspace::Encoding;
use crate::reply::Reply;

const COUNT_DEFAULT: usize = 10;

/// Parses the cursor as C's `strtoul` does.
pub(super) fn cursor(arg: &[u8]) -> Result<u64, Error> {
    let text = arg.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Ok(0);
    }
    let (digits, is_negative) = match text {
        [b'-', digits @ ..] => (digits, true),
        [b'+', digits @ ..] | digits => (digits, false),
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number =
        std::str::from_utf8(digits).ok().filter(|_| is_number).and_then(|digits| digits.parse().ok());
    number
        .map(|cursor: u64| if is_negative { cursor.wrapping_neg() } else { cursor })
        .ok_or(error::INVALID_CURSOR)
}

/// The reply if there is nothing to scan. Redis does not check the options then.
pub(super) fn nothing() -> Reply {
    reply(0, Vec::new())
}

/// The options after the cursor.
pub(super) struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    /// The type of the requested keys.
    pub(super) type_name: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// `[MATCH pattern] [COUNT count]`
    pub(super) fn parse(args: &Argv<'a>) -> Result<Options<'a>, Error> {
        Options::parse_over(Over::Items, args)
    }

    /// `[MATCH pattern] [COUNT count] [TYPE type]`
    pub(super) fn parse_for_keys(args: &Argv<'a>) -> Result<Options<'a>, Error> {
        Options::parse_over(Over::Keys, args)
    }

    fn parse_over(over: Over, args: &Argv<'a>) -> Result<Options<'a>, Error> {
        let mut options = Options { pattern: None, count: COUNT_DEFAULT, type_name: None };
        let (pairs, rest) = args.as_chunks::<2>();
        for [option, value] in pairs {
            match () {
                () if is_word(option, "count") => {
                    let count = integer(value)?;
                    options.count =
                        usize::try_from(count).ok().filter(|&count| count > 0).ok_or(error::SYNTAX)?;
                }
                () if is_word(option, "match") => options.pattern = Some(value),
                () if is_word(option, "type") && over == Over::Keys => options.type_name = Some(value),
                () => return Err(error::SYNTAX),
            }
        }
        if rest.is_empty() { Ok(options) } else { Err(error::SYNTAX) }
    }

    /// Whether `MATCH` selects this item.
    pub(super) fn matches(&self, item: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob::selects(pattern, item))
    }

    /// Returns the places that this call covers, of `len` in a collection. Like Redis, it scans a
    /// compact encoding in one call.
    pub(super) fn page_of(&self, encoding: Encoding, cursor: u64, len: usize) -> Page {
        if encoding.is_compact() { Page { places: 0..len } } else { self.page(cursor, len) }
    }

    /// Returns the places that this call covers, of `len`.
    pub(super) fn page(&self, cursor: u64, len: usize) -> Page {
        let end = usize::try_from(cursor).ok().filter(|&end| end > 0).map_or(len, |end| end.min(len));
        Page { places: end.saturating_sub(self.count)..end }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Keys,
    Items,
}

/// One step of a scan.
pub(super) struct Page {
    /// The places that it covers.
    pub(super) places: Range<usize>,
}

impl Page {
    /// The reply: the next cursor, and the items found.
    pub(super) fn reply(self, found: Vec<Reply>) -> Reply {
        reply(self.places.start, found)
    }
}

fn reply(cursor: usize, found: Vec<Reply>) -> Reply {
    Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(found)])
}
