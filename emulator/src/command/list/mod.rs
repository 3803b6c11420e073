//! List commands on elements and ranges. Searching, popping, moving and waiting have their own
//! files.

mod end;
mod lpos;
mod pop;
mod lmove;
mod blocking;

use bytes::Bytes;

use super::Flag::{Blocking, DenyOom, Fast, MovableKeys, NoScript, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row, index_range, integer, is_word};
use crate::error;
use crate::keyspace::{Class, List};
use crate::reply::Reply;

use blocking::{blmove, blmpop, blpop, brpop, brpoplpush};
use end::{End, push_all};
use lmove::{lmove, rpoplpush};
use lpos::lpos;
use pop::{lmpop, pop};

const AWAITED: &[KeySpec] = &[KeySpec::all_but_last(&["RW", "access", "delete"])];
const INSERTED: &[KeySpec] = &[KeySpec::one(&["RW", "insert"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const MOVED: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"]), KeySpec::at(2, &["RW", "insert"])];
const POPPED: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"])];
const SHORTENED: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];

pub(super) const ROWS: &[Row] = &[
    Row::new("blmove", 6, &[Write, DenyOom, NoScript, Blocking], blmove).keys(MOVED),
    Row::new("blmpop", -5, &[Write, Blocking, MovableKeys], blmpop)
        .keys(&[KeySpec::numkeys(2, &["RW", "access", "delete"])]),
    Row::new("blpop", -3, &[Write, NoScript, Blocking], blpop).keys(AWAITED),
    Row::new("brpop", -3, &[Write, NoScript, Blocking], brpop).keys(AWAITED),
    Row::new("brpoplpush", 4, &[Write, DenyOom, NoScript, Blocking], brpoplpush).keys(MOVED),
    Row::new("lindex", 3, &[ReadOnly], lindex).keys(LOOKED_AT),
    Row::new("linsert", 5, &[Write, DenyOom], linsert).keys(INSERTED),
    Row::new("llen", 2, &[ReadOnly, Fast], llen).keys(&[KeySpec::one(&["RO"])]),
    Row::new("lmove", 5, &[Write, DenyOom], lmove).keys(MOVED),
    Row::new("lmpop", -4, &[Write, MovableKeys], lmpop)
        .keys(&[KeySpec::numkeys(1, &["RW", "access", "delete"])]),
    Row::new("lpop", -2, &[Write, Fast], |ctx, argv| pop(ctx, argv, End::Head)).keys(POPPED),
    Row::new("lpos", -3, &[ReadOnly], lpos).keys(LOOKED_AT),
    Row::new("lpush", -3, &[Write, DenyOom, Fast], |ctx, argv| push(ctx, argv, End::Head)).keys(INSERTED),
    Row::new("lpushx", -3, &[Write, DenyOom, Fast], |ctx, argv| pushx(ctx, argv, End::Head)).keys(INSERTED),
    Row::new("lrange", 4, &[ReadOnly], lrange).keys(LOOKED_AT),
    Row::new("lrem", 4, &[Write], lrem).keys(SHORTENED),
    Row::new("lset", 4, &[Write, DenyOom], lset).keys(&[KeySpec::one(&["RW", "update"])]),
    Row::new("ltrim", 4, &[Write], ltrim).keys(SHORTENED),
    Row::new("rpop", -2, &[Write, Fast], |ctx, argv| pop(ctx, argv, End::Tail)).keys(POPPED),
    Row::new("rpoplpush", 3, &[Write, DenyOom], rpoplpush).keys(MOVED),
    Row::new("rpush", -3, &[Write, DenyOom, Fast], |ctx, argv| push(ctx, argv, End::Tail)).keys(INSERTED),
    Row::new("rpushx", -3, &[Write, DenyOom, Fast], |ctx, argv| pushx(ctx, argv, End::Tail)).keys(INSERTED),
];

/// `LPUSH key element [element ...]`, and RPUSH
fn push(ctx: &mut Ctx<'_>, argv: &Argv<'_>, end: End) -> Outcome {
    let mut list = ctx.db().edit_or_create::<List>(argv[1])?;
    list.answer();
    Ok(push_all(list, &argv[2..], end))
}

/// `LPUSHX key element [element ...]`, and RPUSHX: does nothing if the list does not exist
fn pushx(ctx: &mut Ctx<'_>, argv: &Argv<'_>, end: End) -> Outcome {
    let Some(mut list) = ctx.db().edit::<List>(argv[1])? else { return Ok(Reply::Integer(0)) };
    list.answer();
    Ok(push_all(list, &argv[2..], end))
}

/// `LINDEX key index`
fn lindex(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let Some(list) = db.lookup_as::<List>(argv[1])? else { return Ok(Reply::Nil) };
    let idx = locate(integer(argv[2])?, list.len());
    Ok(Reply::bulk_or_nil(idx.and_then(|idx| list.get(idx)).map(Bytes::copy_from_slice)))
}

/// `LINSERT key <BEFORE | AFTER> pivot element`: returns the new length, or -1 without the pivot
fn linsert(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let distance = match () {
        () if is_word(argv[2], "before") => 0,
        () if is_word(argv[2], "after") => 1,
        () => return Err(error::SYNTAX),
    };
    let Some(mut edit) = ctx.db().edit::<List>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let Some(pivot) = edit.get().iter().position(|element| element == argv[3]) else {
        return Ok(Reply::Integer(-1));
    };
    let list = edit.write();
    list.insert(pivot + distance, argv[4]);
    let len = list.len();
    edit.notify(Class::List, "linsert");
    Ok(Reply::count(len))
}

/// `LLEN key`
fn llen(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<List>(argv[1])?.map_or(0, List::len)))
}

/// `LRANGE key start stop`
fn lrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (start, stop) = (integer(argv[2])?, integer(argv[3])?);
    let mut db = ctx.db();
    let Some(list) = db.lookup_as::<List>(argv[1])? else { return Ok(Reply::Array(Vec::new())) };
    let places = index_range(start, stop, list.len());
    let mut elements = Vec::with_capacity(places.len());
    elements.extend(list.range(places).map(Reply::bulk));
    Ok(Reply::Array(elements))
}

/// `LREM key count element`: removes the first matches; with a negative count the last ones, with 0
/// all
fn lrem(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let count = integer(argv[2])?;
    let Some(mut edit) = ctx.db().edit::<List>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let list = edit.get();
    let place = |(idx, element): (usize, &[u8])| (element == argv[3]).then_some(idx);
    let count_max = usize::try_from(count.unsigned_abs()).ok().filter(|&max| max > 0).unwrap_or(usize::MAX);
    let found: Vec<usize> = if count < 0 {
        let elements = (0..list.len()).rev().zip(list.iter().rev());
        let mut from_tail: Vec<usize> = elements.filter_map(place).take(count_max).collect();
        from_tail.reverse();
        from_tail
    } else {
        list.iter().enumerate().filter_map(place).take(count_max).collect()
    };
    if !found.is_empty() {
        edit.write().remove_at(&found);
        edit.notify(Class::List, "lrem");
    }
    Ok(Reply::count(found.len()))
}

/// `LSET key index element`
fn lset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut edit = ctx.db().edit::<List>(argv[1])?.ok_or(error::NO_SUCH_KEY)?;
    let idx = locate(integer(argv[2])?, edit.get().len()).ok_or(error::INDEX_OUT_OF_RANGE)?;
    edit.write().replace(idx, argv[3]);
    edit.answer();
    edit.notify(Class::List, "lset");
    Ok(Reply::OK)
}

/// `LTRIM key start stop`
fn ltrim(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (start, stop) = (integer(argv[2])?, integer(argv[3])?);
    let Some(mut edit) = ctx.db().edit::<List>(argv[1])? else { return Ok(Reply::OK) };
    // A write even if all elements stay: as in Redis, clients that watch the key notice it.
    let list = edit.write();
    let kept = index_range(start, stop, list.len());
    let is_shorter = kept.len() < list.len();
    list.keep(kept);
    edit.notify(Class::List, "ltrim");
    drop(edit);
    if !is_shorter {
        ctx.spare_replicas();
    }
    Ok(Reply::OK)
}

/// The place of an index. A negative index counts from the tail: -1 is the last element.
fn locate(index: i64, len: usize) -> Option<usize> {
    let from_head = if index < 0 { index + len as i64 } else { index };
    usize::try_from(from_head).ok().filter(|&idx| idx < len)
}
