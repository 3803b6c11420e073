//! Generic commands: those that work on keys of any kind; their time to live has a file of its own.

pub(super) mod expire;

use super::Flag::{Fast, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row};
use crate::glob;
use crate::reply::Reply;

use expire::{From, Unit, expire, persist, ttl};

const DELETED: &[KeySpec] = &[KeySpec::every(1, &["RM", "delete"])];
const EXPIRED: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) const ROWS: &[Row] = &[
    Row::new("del", -2, &[Write], del).keys(DELETED).tips(SUM),
    Row::new("exists", -2, &[ReadOnly, Fast], exists).keys(&[KeySpec::every(1, &["RO"])]).tips(SUM),
    Row::new("expire", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Seconds, From::Now))
        .keys(EXPIRED),
    Row::new("expireat", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Seconds, From::Epoch))
        .keys(EXPIRED),
    Row::new("expiretime", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Seconds, From::Epoch))
        .keys(LOOKED_AT),
    Row::new("keys", 2, &[ReadOnly], keys)
        .categories(&["dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    Row::new("persist", 2, &[Write, Fast], persist).keys(EXPIRED),
    Row::new("pexpire", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Millis, From::Now))
        .keys(EXPIRED),
    Row::new("pexpireat", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Millis, From::Epoch))
        .keys(EXPIRED),
    Row::new("pexpiretime", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Millis, From::Epoch))
        .keys(LOOKED_AT),
    Row::new("pttl", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Millis, From::Now))
        .keys(LOOKED_AT)
        .tips(&["nondeterministic_output"]),
    Row::new("ttl", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Seconds, From::Now))
        .keys(LOOKED_AT)
        .tips(&["nondeterministic_output"]),
    Row::new("type", 2, &[ReadOnly, Fast], type_).keys(&[KeySpec::one(&["RO"])]),
    Row::new("unlink", -2, &[Write, Fast], del).keys(DELETED).tips(SUM),
];

/// `DEL key [key ...]` and `UNLINK key [key ...]`
fn del(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    Ok(Reply::count(argv[1..].iter().filter(|key| db.remove(key)).count()))
}

/// `EXISTS key [key ...]`
fn exists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    Ok(Reply::count(argv[1..].iter().filter(|key| db.lookup(key).is_some()).count()))
}

/// `KEYS pattern`
fn keys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    Ok(Reply::Array(db.keys().filter(|key| glob::matches(argv[1], key)).cloned().map(Reply::Bulk).collect()))
}

/// `TYPE key`
fn type_(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::status(ctx.db().lookup(argv[1]).map_or("none", crate::keyspace::Value::type_name)))
}
