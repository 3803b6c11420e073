//! Whether two replies are equal, as far as Redis guarantees.

use super::super::wire::{Wire, mask, parse};
use super::grammar::Argv;

/// How much of a reply Redis guarantees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// Every byte.
    Exact,
    /// Every byte, in some order.
    Unordered,
    /// Numbers that are times may differ a little.
    Near,
    /// The values are random, but not their number.
    Shape,
}

/// The guarantees of commands. A command that is not listed guarantees every byte.
const PROMISES: &[(&str, Promise)] = &[
    ("keys", Promise::Unordered),
    ("scan", Promise::Unordered),
    ("sscan", Promise::Unordered),
    ("hscan", Promise::Unordered),
    ("zscan", Promise::Unordered),
    ("smembers", Promise::Unordered),
    ("sinter", Promise::Unordered),
    ("sunion", Promise::Unordered),
    ("sdiff", Promise::Unordered),
    ("spop", Promise::Unordered),
    ("pubsub", Promise::Unordered),
    ("config", Promise::Unordered),
    ("function", Promise::Unordered),
    // Members of equal weight have no fixed order.
    ("sort", Promise::Unordered),
    ("ttl", Promise::Near),
    ("pttl", Promise::Near),
    ("expiretime", Promise::Near),
    ("pexpiretime", Promise::Near),
    ("randomkey", Promise::Shape),
    ("srandmember", Promise::Shape),
    ("hrandfield", Promise::Shape),
    ("zrandmember", Promise::Shape),
    ("dump", Promise::Shape),
];

/// Commands on hashes whose reply has no fixed order once the hash is large.
const OF_HASHES: &[&str] = &["hgetall", "hkeys", "hvals"];

impl Promise {
    /// The guarantee for the reply to the last of these commands, which are all that one client has
    /// sent. A transaction has the weakest guarantee of its commands. If a client sends
    /// [`super::forms::LONG`], its hashes have no fixed order.
    pub fn of<'a>(sent: impl IntoIterator<Item = &'a Argv>, has_long: bool) -> Promise {
        let words = sent.into_iter().flat_map(|argv| {
            let script = argv.get(1).filter(|_| argv[0].starts_with("eval"));
            script.map_or_else(|| vec![&*argv[0]], |script| script.split('\'').collect())
        });
        let of_word = |word: &str| {
            if has_long && OF_HASHES.contains(&word) {
                return Promise::Unordered;
            }
            let found = PROMISES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            found.map_or(Promise::Exact, |(_, promise)| *promise)
        };
        words.map(of_word).max().unwrap_or(Promise::Exact)
    }

    /// Whether both replies keep the guarantee. Times may differ by `tolerance_ms`.
    pub fn holds(self, real: &[u8], emulated: &[u8], tolerance_ms: i64) -> bool {
        let (real, emulated) = (&mask(real)[..], &mask(emulated)[..]);
        if real == emulated || lacks_its_line(real, emulated) {
            return true;
        }
        let (Some((real, _)), Some((emulated, _))) = (parse(real), parse(emulated)) else { return false };
        match self {
            Promise::Exact => false,
            Promise::Unordered => sorted(real) == sorted(emulated),
            Promise::Near => near(&real, &emulated, tolerance_ms),
            Promise::Shape => alike(&real, &emulated),
        }
    }
}

/// Whether the replies show one error, and the real one does not name the line of the script. Redis
/// looks for it one level above a function of Lua, where there may be another such function.
fn lacks_its_line(real: &[u8], emulated: &[u8]) -> bool {
    const NOWHERE: [&[u8]; 2] = [b"on =[C]:-1.", b"\"line\"=-1"];
    // The length comes before the text.
    let text = |reply: &[u8]| match reply.first() {
        Some(b'$') => reply.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1),
        _ => 0,
    };
    let (real, emulated) = (&real[text(real)..], &emulated[text(emulated)..]);
    NOWHERE.iter().any(|nowhere| {
        let place = real.windows(nowhere.len()).position(|window| window == *nowhere);
        place.is_some_and(|place| emulated.starts_with(&real[..place]))
    })
}

/// Whether all these replies are equal in some order. That applies to messages for several patterns
/// of one client. It also applies to the topics of a client that unsubscribes from all of them,
/// each with a falling count.
pub fn say_the_same(real: &[Vec<u8>], emulated: &[Vec<u8>]) -> bool {
    let parts = |replies: &[Vec<u8>]| {
        let wires = replies.iter().filter_map(|reply| Some(parse(&mask(reply))?.0));
        let mut parts: Vec<String> = wires.flat_map(leaves).collect();
        parts.sort();
        parts
    };
    parts(real) == parts(emulated)
}

/// Whether a difference between these replies does not count. The real server's `SORT` may refuse
/// valid numbers, because it reads `errno`, the error number of C.
///
/// That number stays set after an earlier number was out of range, until something else clears it.
/// So the reply depends on unrelated events, for example on another connection or a `FLUSHALL`.
pub fn is_about_old_error<'a>(
    real: &[u8],
    emulated: &[u8],
    sent: impl IntoIterator<Item = &'a Argv>,
) -> bool {
    const UNFIT: &[u8] = b"One or more scores can't be converted into double";
    let says_unfit = |reply: &[u8]| reply.windows(UNFIT.len()).any(|window| window == UNFIT);
    says_unfit(real)
        && !says_unfit(emulated)
        && sent.into_iter().flatten().any(|word| names_number_out_of_range(word))
}

/// Whether the text contains a number out of range: for an integer too large, for a float too large
/// or too small.
fn names_number_out_of_range(text: &str) -> bool {
    let numbers = text.split(|char: char| !char.is_ascii_digit() && !"eE+-.".contains(char));
    numbers.filter_map(|number| Some((number, number.parse::<f64>().ok()?))).any(|(number, value)| {
        let has_value =
            number.bytes().take_while(|byte| !b"eE".contains(byte)).any(|byte| (b'1'..=b'9').contains(&byte));
        value.abs() >= i64::MAX as f64 || has_value && !value.is_normal()
    })
}

fn leaves(wire: Wire) -> Vec<String> {
    match wire {
        Wire::Items(_, items) => items.into_iter().flat_map(leaves).collect(),
        other => vec![other.to_string()],
    }
}

/// The reply with every array sorted by the text of its items.
fn sorted(wire: Wire) -> Wire {
    match wire {
        Wire::Items(marker, items) => {
            let mut items: Vec<Wire> = items.into_iter().map(sorted).collect();
            items.sort_by_cached_key(Wire::to_string);
            Wire::Items(marker, items)
        }
        other => other,
    }
}

fn near(real: &Wire, emulated: &Wire, tolerance_ms: i64) -> bool {
    let integer = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match (real, emulated) {
        (Wire::Line(b':', real), Wire::Line(b':', emulated)) => {
            let (Some(real), Some(emulated)) = (integer(real), integer(emulated)) else { return false };
            // -1 and -2 are not times.
            real == emulated
                || real >= 0 && emulated >= 0 && real.abs_diff(emulated) <= tolerance_ms.unsigned_abs()
        }
        (Wire::Items(marker, real), Wire::Items(other, emulated)) => {
            let all_near = || real.iter().zip(emulated).all(|(a, b)| near(a, b, tolerance_ms));
            let in_order = |items: &[Wire]| sorted(Wire::Items(*marker, items.to_vec()));
            marker == other
                && real.len() == emulated.len()
                && (all_near() || in_order(real) == in_order(emulated))
        }
        _ => real == emulated,
    }
}

fn alike(real: &Wire, emulated: &Wire) -> bool {
    match (real, emulated) {
        (Wire::Items(marker, real), Wire::Items(other, emulated)) => {
            marker == other
                && real.len() == emulated.len()
                && real.iter().zip(emulated).all(|(a, b)| alike(a, b))
        }
        (Wire::Line(b':', _), Wire::Line(b':', _))
        | (Wire::Line(b',', _), Wire::Line(b',', _))
        | (Wire::Bulk(_), Wire::Bulk(_)) => true,
        _ => real == emulated,
    }
}
