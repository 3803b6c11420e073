//! Hash commands.

use super::Flag::{DenyOom, Fast, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row, integer, pick, scan};
use crate::error::{self, Error};
use crate::keyspace::{Class, Hash, Text};
use crate::long_double::LongDouble;
use crate::reply::{Reply, pairs};

const COUNTED: &[KeySpec] = &[KeySpec::one(&["RO"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const UPDATED: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const COUNTED_UP: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];

pub(super) const ROWS: &[Row] = &[
    Row::new("hdel", -3, &[Write, Fast], hdel).keys(&[KeySpec::one(&["RW", "delete"])]),
    Row::new("hexists", 3, &[ReadOnly, Fast], hexists).keys(COUNTED),
    Row::new("hget", 3, &[ReadOnly, Fast], hget).keys(LOOKED_AT),
    Row::new("hgetall", 2, &[ReadOnly], hgetall).keys(LOOKED_AT).tips(ANY_ORDER),
    Row::new("hincrby", 4, &[Write, DenyOom, Fast], hincrby).keys(COUNTED_UP),
    Row::new("hincrbyfloat", 4, &[Write, DenyOom, Fast], hincrbyfloat).keys(COUNTED_UP),
    Row::new("hkeys", 2, &[ReadOnly], hkeys).keys(LOOKED_AT).tips(ANY_ORDER),
    Row::new("hlen", 2, &[ReadOnly, Fast], hlen).keys(COUNTED),
    Row::new("hmget", -3, &[ReadOnly, Fast], hmget).keys(LOOKED_AT),
    Row::new("hmset", -4, &[Write, DenyOom, Fast], hmset).keys(UPDATED),
    Row::new("hrandfield", -2, &[ReadOnly], hrandfield).keys(LOOKED_AT).tips(ANY_OUTPUT),
    Row::new("hscan", -3, &[ReadOnly], hscan).keys(LOOKED_AT).tips(ANY_OUTPUT),
    Row::new("hset", -4, &[Write, DenyOom, Fast], hset).keys(UPDATED),
    Row::new("hsetnx", 4, &[Write, DenyOom, Fast], hsetnx).keys(&[KeySpec::one(&["RW", "insert"])]),
    Row::new("hstrlen", 3, &[ReadOnly, Fast], hstrlen).keys(COUNTED),
    Row::new("hvals", 2, &[ReadOnly], hvals).keys(LOOKED_AT).tips(ANY_ORDER),
];

/// `HDEL key field [field ...]`
fn hdel(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let Some(mut hash) = ctx.db().edit::<Hash>(argv[1])? else { return Ok(Reply::Integer(0)) };
    let mut removed = 0;
    for field in &argv[2..] {
        if hash.get().contains(field) {
            removed += usize::from(hash.write().remove(field));
        }
    }
    if removed > 0 {
        hash.notify(Class::Hash, "hdel");
    }
    Ok(Reply::count(removed))
}

/// `HEXISTS key field`
fn hexists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    Ok(Reply::truth(hash.is_some_and(|hash| hash.contains(argv[2]))))
}

/// `HGET key field`
fn hget(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    Ok(Reply::bulk_or_nil(hash.and_then(|hash| hash.get(argv[2])).map(Text::to_bytes)))
}

/// `HGETALL key`
fn hgetall(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flat_map(Hash::iter);
    Ok(Reply::Map(fields.map(|(field, value)| (bulk(field), bulk(value))).collect()))
}

/// `HINCRBY key field increment`: a missing field counts from 0
fn hincrby(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let increment = integer(argv[3])?;
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    let current = match hash.get().get(argv[2]) {
        Some(digits) => crate::parse::parse_integer(digits).ok_or(error::HASH_NOT_AN_INTEGER)?,
        None => 0,
    };
    let sum = current.checked_add(increment).ok_or(error::OVERFLOW)?;
    hash.write().insert(argv[2], sum.to_string().as_bytes());
    hash.answer();
    hash.notify(Class::Hash, "hincrby");
    Ok(Reply::Integer(sum))
}

/// `HINCRBYFLOAT key field increment`: a missing field counts from 0
fn hincrbyfloat(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let increment = LongDouble::parse(argv[3]).ok_or(error::NOT_A_FLOAT)?;
    if increment == LongDouble::Infinite {
        return Err(error::NAN_OR_INFINITY);
    }
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    let digits = hash.get().get(argv[2]).map_or(&b"0"[..], |digits| digits);
    let current = LongDouble::parse(digits).ok_or(error::HASH_NOT_A_FLOAT)?;
    let sum = current.plus(&increment);
    if sum == LongDouble::Infinite {
        return Err(error::INCREMENT_NOT_FINITE);
    }
    let digits = sum.to_string();
    hash.write().insert(argv[2], digits.as_bytes());
    hash.answer();
    hash.notify(Class::Hash, "hincrbyfloat");
    drop(hash);
    ctx.replicate_as(&[&"HSET", &argv[1], &argv[2], &digits]);
    Ok(Reply::bulk(digits))
}

/// `HKEYS key`
fn hkeys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flat_map(Hash::iter);
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
    let values = argv[2..].iter().map(|field| hash.and_then(|hash| hash.get(field)).map(Text::to_bytes));
    Ok(Reply::Array(values.map(Reply::bulk_or_nil).collect()))
}

/// `HMSET key field value [field value ...]`
fn hmset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    set_fields(ctx, argv)?;
    Ok(Reply::OK)
}

/// `HRANDFIELD key [count [WITHVALUES]]`: a negative count may pick the same field again
fn hrandfield(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (wanted, with_values) = pick::options(&argv[2..], "withvalues")?;
    let protocol = ctx.client.protocol;
    let Some(mut hash) = ctx.db().edit::<Hash>(argv[1])? else { return Ok(pick::nothing(wanted)) };
    let len = hash.get().len();
    let Some(wanted) = wanted else {
        let idx = pick::one(&mut hash, len);
        return Ok(hash.get().at(idx).map_or(Reply::Nil, |(field, _)| bulk(field)));
    };
    let bytes_of = |hash: &Hash, idx| hash.at(idx).map_or(0, |(field, value)| field.len() + value.len());
    let picked = pick::some(&mut hash, len, wanted, bytes_of)?;
    let picked = picked.into_iter().filter_map(|idx| hash.get().at(idx));
    Ok(if with_values {
        pairs(protocol, picked.map(|(field, value)| (bulk(field), bulk(value))))
    } else {
        Reply::Array(picked.map(|(field, _)| bulk(field)).collect())
    })
}

/// `HSCAN key cursor [MATCH pattern] [COUNT count]`
fn hscan(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let cursor = scan::cursor(argv[2])?;
    let mut db = ctx.db();
    let Some(hash) = db.lookup_as::<Hash>(argv[1])? else { return Ok(scan::nothing()) };
    let options = scan::Options::parse(&argv[3..])?;
    let page = options.page_of(hash.encoding(), cursor, hash.len());
    let fields =
        page.places.clone().filter_map(|idx| hash.at(idx)).filter(|(field, _)| options.matches(field));
    let found = fields.flat_map(|(field, value)| [bulk(field), bulk(value)]).collect();
    Ok(page.reply(found))
}

/// `HSET key field value [field value ...]`: returns the number of new fields
fn hset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(set_fields(ctx, argv)?))
}

fn set_fields(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Result<usize, Error> {
    let (pairs, []) = argv[2..].as_chunks::<2>() else { return Err(error::wrong_arity(ctx.row.name)) };
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    // A write even if the values stay the same: as in Redis, clients that watch the key notice it.
    let fields = hash.write();
    let added = pairs.iter().filter(|[field, value]| fields.insert(field, value)).count();
    hash.answer();
    hash.notify(Class::Hash, "hset");
    Ok(added)
}

/// `HSETNX key field value`
fn hsetnx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut hash = ctx.db().edit_or_create::<Hash>(argv[1])?;
    let is_free = !hash.get().contains(argv[2]);
    if is_free {
        hash.write().insert(argv[2], argv[3]);
        hash.answer();
        hash.notify(Class::Hash, "hset");
    }
    Ok(Reply::truth(is_free))
}

/// `HSTRLEN key field`
fn hstrlen(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let hash = db.lookup_as::<Hash>(argv[1])?;
    Ok(Reply::count(hash.and_then(|hash| hash.get(argv[2])).map_or(0, |value| value.len())))
}

/// `HVALS key`
fn hvals(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let fields = db.lookup_as::<Hash>(argv[1])?.into_iter().flat_map(Hash::iter);
    Ok(Reply::Array(fields.map(|(_, value)| bulk(value)).collect()))
}

fn bulk(text: &Text) -> Reply {
    Reply::Bulk(text.to_bytes())
}
