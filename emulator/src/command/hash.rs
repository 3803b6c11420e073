//! Hash commands.

use bytes::Bytes;

use super::Flag::{DenyOom, Fast, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row, integer};
use crate::error::{self, Error};
use crate::keyspace::Hash;
use crate::reply::Reply;

/// Up to this many fields a removal keeps the order of the others (Redis: `hash-max-listpack-entries`).
const ORDERED_LEN_MAX: usize = 512;

const COUNTED: &[KeySpec] = &[KeySpec::one(&["RO"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATED: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];

pub(super) const ROWS: &[Row] = &[
    Row::new("hdel", -3, &[Write, Fast], hdel).keys(&[KeySpec::one(&["RW", "delete"])]),
    Row::new("hexists", 3, &[ReadOnly, Fast], hexists).keys(COUNTED),
    Row::new("hget", 3, &[ReadOnly, Fast], hget).keys(LOOKED_AT),
    Row::new("hgetall", 2, &[ReadOnly], hgetall).keys(LOOKED_AT).tips(ANY_ORDER),
    Row::new("hincrby", 4, &[Write, DenyOom, Fast], hincrby)
        .keys(&[KeySpec::one(&["RW", "access", "update"])]),
    Row::new("hkeys", 2, &[ReadOnly], hkeys).keys(LOOKED_AT).tips(ANY_ORDER),
    Row::new("hlen", 2, &[ReadOnly, Fast], hlen).keys(COUNTED),
    Row::new("hmget", -3, &[ReadOnly, Fast], hmget).keys(LOOKED_AT),
    Row::new("hmset", -4, &[Write, DenyOom, Fast], hmset).keys(UPDATED),
    Row::new("hset", -4, &[Write, DenyOom, Fast], hset).keys(UPDATED),
    Row::new("hsetnx", 4, &[Write, DenyOom, Fast], hsetnx).keys(&[KeySpec::one(&["RW", "insert"])]),
    Row::new("hvals", 2, &[ReadOnly], hvals).keys(LOOKED_AT).tips(ANY_ORDER),
];

/// `HDEL key field [field ...]`
fn hdel(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let Some(mut hash) = ctx.db().edit::<Hash>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for field in &argv[2..] {
        if !hash.get().contains_key(*field) {
            continue;
        }
        let fields = hash.write();
        if fields.len() <= ORDERED_LEN_MAX {
            fields.shift_remove(*field);
        } else {
            fields.swap_remove(*field);
        }
        removed += 1;
    }
    Ok(Reply::count(removed))
}

/// `HEXISTS key field`
fn hexists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    Ok(Reply::truth(hash.is_some_and(|hash| hash.contains_key(argv[2]))))
}

/// `HGET key field`
fn hget(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    Ok(Reply::bulk_or_nil(hash.and_then(|hash| hash.get(argv[2])).cloned()))
}

/// `HGETALL key`
fn hgetall(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flatten();
    Ok(Reply::Map(fields.map(|(field, value)| (bulk(field), bulk(value))).collect()))
}

/// `HINCRBY key field increment`: a missing field counts from 0
fn hincrby(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let increment = integer(argv[3])?;
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    let current = match hash.get().get(argv[2]) {
        Some(digits) => crate::parse_integer(digits).ok_or(error::HASH_NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = current.checked_add(increment).ok_or(error::OVERFLOW)?;
    set_field(hash.write(), argv[2], sum.to_string().as_bytes());
    Ok(Reply::Integer(sum))
}

/// `HKEYS key`
fn hkeys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flatten();
    Ok(Reply::Array(fields.map(|(field, _)| bulk(field)).collect()))
}

/// `HLEN key`
fn hlen(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<Hash>(argv[1])?.map_or(0, Hash::len)))
}

/// `HMGET key field [field ...]`
fn hmget(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    let values = argv[2..].iter().map(|field| hash.and_then(|hash| hash.get(*field)).cloned());
    Ok(Reply::Array(values.map(Reply::bulk_or_nil).collect()))
}

/// `HMSET key field value [field value ...]`
fn hmset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    set_fields(ctx, argv)?;
    Ok(Reply::OK)
}

/// `HSET key field value [field value ...]`: answers how many fields are new
fn hset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(set_fields(ctx, argv)?))
}

fn set_fields(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Result<usize, Error> {
    let (pairs, []) = argv[2..].as_chunks::<2>() else { return Err(error::wrong_arity(ctx.row.name)) };
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    // A write even where the value stays the same: Redis tells those who watch the key, too.
    let fields = hash.write();
    Ok(pairs.iter().filter(|[field, value]| set_field(fields, field, value)).count())
}

/// `HSETNX key field value`
fn hsetnx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    let is_free = !hash.get().contains_key(argv[2]);
    if is_free {
        set_field(hash.write(), argv[2], argv[3]);
    }
    Ok(Reply::truth(is_free))
}

/// `HVALS key`
fn hvals(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flatten();
    Ok(Reply::Array(fields.map(|(_, value)| bulk(value)).collect()))
}

/// Sets a field, and says whether it is new.
fn set_field(hash: &mut Hash, field: &[u8], value: &[u8]) -> bool {
    let value = Bytes::copy_from_slice(value);
    match hash.get_mut(field) {
        Some(old) => {
            *old = value;
            false
        }
        None => hash.insert(Bytes::copy_from_slice(field), value).is_none(),
    }
}

fn bulk(bytes: &Bytes) -> Reply {
    Reply::Bulk(bytes.clone())
}
