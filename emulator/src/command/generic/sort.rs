//! `SORT`: the items of a list, set or sorted set, sorted by themselves or by other keys.

use std::cmp::Ordering;

use bytes::Bytes;

use super::super::sorted_set::score;
use super::super::{Argv, Ctx, KeySpec, Outcome, integer, is_word};
use crate::client::CallContext;
use crate::error::{self, Error};
use crate::keyspace::{Class, Db, Encoding, Expiry, List, Text, Value};
use crate::reply::Reply;

pub(super) const CATEGORIES: &[&str] = &["set", "sortedset", "list", "dangerous"];

const SORTED: KeySpec = KeySpec::one(&["RO", "access"]);
const PATTERNS: KeySpec = KeySpec::unknown(&["RO", "access"], |_| Vec::new()).notes(
    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we sort",
);
const STORED: KeySpec = KeySpec::unknown(&["OW", "update"], store_position).notes(
    "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument array",
);

pub(super) const KEYS: &[KeySpec] = &[SORTED, PATTERNS, STORED];
pub(super) const KEYS_READ: &[KeySpec] = &[SORTED, PATTERNS];

/// The position of the key after the last `STORE`.
fn store_position(argv: &Argv<'_>) -> Vec<usize> {
    let mut found = None;
    let mut idx = 2;
    while idx < argv.len() {
        idx += match argv[idx] {
            limit if is_word(limit, "limit") => 3,
            pattern if is_word(pattern, "by") || is_word(pattern, "get") => 2,
            store if is_word(store, "store") && idx + 1 < argv.len() => {
                found = Some(idx + 1);
                2
            }
            _ => 1,
        };
    }
    found.into_iter().collect()
}

/// `SORT key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]
/// [STORE destination]`
pub(super) fn sort(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (options, destination) = Options::parse(&argv[2..], Destination::Allowed)?;
    options.check_in(ctx)?;
    let items = sorted(ctx, argv[1], options, destination)?;
    let Some(destination) = destination else { return Ok(reply(items)) };
    let list: List = items.into_iter().map(Option::unwrap_or_default).collect();
    let len = list.len();
    let mut db = ctx.db();
    if len > 0 {
        db.insert(destination, list.into(), Expiry::Never);
        db.notify(Class::List, "sortstore", destination);
    } else if db.remove(destination) {
        db.notify(Class::Generic, "del", destination);
    }
    Ok(Reply::count(len))
}

/// `SORT_RO key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC]
/// [ALPHA]`
pub(super) fn sort_ro(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (options, _) = Options::parse(&argv[2..], Destination::Refused)?;
    options.check_in(ctx)?;
    sorted(ctx, argv[1], options, None).map(reply)
}

fn reply(items: Vec<Option<Bytes>>) -> Reply {
    Reply::Array(items.into_iter().map(Reply::bulk_or_nil).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Allowed,
    Refused,
}

#[derive(Default)]
struct Options<'a> {
    by: Option<&'a [u8]>,
    get: Vec<&'a [u8]>,
    limit: Option<(i64, i64)>,
    is_descending: bool,
    is_alpha: bool,
}

impl<'a> Options<'a> {
    fn parse(mut args: &Argv<'a>, may_store: Destination) -> Result<(Options<'a>, Option<&'a [u8]>), Error> {
        let (mut options, mut destination) = (Options::default(), None);
        while let Some((option, rest)) = args.split_first() {
            args = match rest {
                _ if is_word(option, "asc") => {
                    options.is_descending = false;
                    rest
                }
                _ if is_word(option, "desc") => {
                    options.is_descending = true;
                    rest
                }
                _ if is_word(option, "alpha") => {
                    options.is_alpha = true;
                    rest
                }
                [offset, count, rest @ ..] if is_word(option, "limit") => {
                    options.limit = Some((integer(offset)?, integer(count)?));
                    rest
                }
                [key, rest @ ..] if is_word(option, "store") && may_store == Destination::Allowed => {
                    destination = Some(*key);
                    rest
                }
                [pattern, rest @ ..] if is_word(option, "by") => {
                    // After a pattern that switches sorting off, Redis ignores every further
                    // pattern.
                    if options.by.is_none_or(is_pattern) {
                        options.by = Some(pattern);
                    }
                    rest
                }
                [pattern, rest @ ..] if is_word(option, "get") => {
                    options.get.push(pattern);
                    rest
                }
                _ => return Err(error::SYNTAX),
            };
        }
        Ok((options, destination))
    }

    /// Patterns may name keys of other servers of a cluster.
    fn check_in(&self, ctx: &Ctx<'_>) -> Result<(), Error> {
        match () {
            () if ctx.engine.cluster.is_none() => Ok(()),
            () if self.by.is_some_and(is_pattern) => {
                Err(Error::from_static("ERR BY option of SORT denied in Cluster mode."))
            }
            () if !self.get.is_empty() => {
                Err(Error::from_static("ERR GET option of SORT denied in Cluster mode."))
            }
            () => Ok(()),
        }
    }

    /// The places that `LIMIT` selects, of `len`, counted from the last one if `is_reversed`.
    fn range(&self, len: usize, is_reversed: bool) -> std::ops::Range<usize> {
        let Some((offset, count)) = self.limit else { return 0..len };
        let start = usize::try_from(offset).unwrap_or(0).min(len);
        let count = usize::try_from(count).unwrap_or(len);
        let end = start.saturating_add(count).min(len);
        if is_reversed { len - end..len - start } else { start..end }
    }
}

/// Whether the pattern leads to a key of each item. A pattern without a star switches sorting off.
fn is_pattern(pattern: &[u8]) -> bool {
    pattern.contains(&b'*')
}

/// The order of the items.
enum By<'a> {
    /// The order in which they are stored.
    None,
    Themselves,
    /// The order of the values to which this pattern leads.
    Pattern(&'a [u8]),
}

/// Returns the result in order, with `None` where a pattern leads to nothing.
fn sorted(
    ctx: &mut Ctx<'_>,
    key: &[u8],
    mut options: Options<'_>,
    destination: Option<&[u8]>,
) -> Result<Vec<Option<Bytes>>, Error> {
    let mut by = match options.by {
        None => By::Themselves,
        Some(pattern) if is_pattern(pattern) => By::Pattern(pattern),
        Some(_) => By::None,
    };
    let is_for_good = destination.is_some() || ctx.client.context == CallContext::InScript;
    let mut db = ctx.db().reading();
    let value = db.lookup(key);
    let is_set = matches!(value, Some(Value::Set(_)));
    if is_set && is_for_good && matches!(by, By::None) {
        // Sets have no order that could be stored, or on which a script could rely.
        by = By::Themselves;
        options.is_alpha = true;
    }
    let is_sorted = !matches!(by, By::None);
    let is_reversed = options.is_descending && !is_set;
    // Without sorting, only the items that are returned are read.
    let read = |len| if is_sorted { 0..len } else { options.range(len, is_reversed) };
    let mut items: Vec<Bytes> = match value {
        None => Vec::new(),
        Some(Value::List(list)) => list.range(read(list.len())).map(Bytes::copy_from_slice).collect(),
        Some(Value::Set(set)) => read(set.len()).map(|idx| set.get(idx).to_bytes()).collect(),
        Some(Value::ZSet(zset)) => {
            let members = zset.range(read(zset.len())).map(|(member, _)| member.to_bytes()).collect();
            // Redis needs the skip list here, and converts a compact encoding.
            db.set_encoding(key, Encoding::SkipList);
            members
        }
        Some(_) => return Err(error::WRONG_TYPE),
    };
    match by {
        By::None if is_reversed => items.reverse(),
        By::None => {}
        By::Themselves => sort_by_weight(&mut items, &options, |item| Some(item.clone()))?,
        By::Pattern(pattern) => sort_by_weight(&mut items, &options, |item| follow(&mut db, pattern, item))?,
    }
    let places = if is_sorted { options.range(items.len(), false) } else { 0..items.len() };
    let items = items.drain(places);
    if options.get.is_empty() {
        return Ok(items.map(Some).collect());
    }
    let mut found = Vec::with_capacity(items.len() * options.get.len());
    for item in items {
        for pattern in &options.get {
            if destination.is_none() {
                db.answer_in_part(1 + found.len());
            }
            found.push(follow(&mut db, pattern, &item));
        }
    }
    Ok(found)
}

/// Returns the value to which a pattern leads. `#` is the item itself, `weight_*` a string,
/// `object_*->field` a field of a hash.
fn follow(db: &mut Db<'_>, pattern: &[u8], item: &Bytes) -> Option<Bytes> {
    if pattern == b"#" {
        return Some(item.clone());
    }
    let star = pattern.iter().position(|&byte| byte == b'*')?;
    let (before, behind) = (&pattern[..star], &pattern[star + 1..]);
    let arrow = behind.windows(2).position(|bytes| bytes == b"->").filter(|arrow| arrow + 2 < behind.len());
    let (behind, field) = match arrow {
        Some(arrow) => (&behind[..arrow], Some(&behind[arrow + 2..])),
        None => (behind, None),
    };
    match (db.lookup(&[before, item, behind].concat())?, field) {
        (Value::String(text), None) => Some(text.to_bytes()),
        (Value::Hash(hash), Some(field)) => hash.get(field).map(Text::to_bytes),
        _ => None,
    }
}

/// Sorts by numbers or by texts. A missing weight is the number 0, or a text before all others.
fn sort_by_weight(
    items: &mut Vec<Bytes>,
    options: &Options<'_>,
    mut weight: impl FnMut(&Bytes) -> Option<Bytes>,
) -> Result<(), Error> {
    let directed = |order: Ordering| if options.is_descending { order.reverse() } else { order };
    let weights: Vec<Option<Bytes>> = items.iter().map(&mut weight).collect();
    *items = if options.is_alpha {
        in_order(items, weights, |(a, _), (b, _)| directed(a.cmp(b)))
    } else {
        let numbers =
            weights.iter().map(|text| text.as_ref().map_or(Some(0.0), |text| score::parse_weight(text)));
        let numbers = numbers.collect::<Option<Vec<f64>>>().ok_or(error::SORT_NOT_A_FLOAT)?;
        in_order(items, numbers, |(a, item), (b, other)| {
            directed(a.partial_cmp(b).unwrap_or(Ordering::Equal).then_with(|| item.cmp(other)))
        })
    };
    Ok(())
}

fn in_order<W>(
    items: &mut Vec<Bytes>,
    weights: Vec<W>,
    order: impl Fn(&(W, Bytes), &(W, Bytes)) -> Ordering,
) -> Vec<Bytes> {
    let mut weighed: Vec<(W, Bytes)> = weights.into_iter().zip(items.drain(..)).collect();
    weighed.sort_by(order);
    weighed.into_iter().map(|(_, item)| item).collect()
}
