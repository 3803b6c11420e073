//! Generic commands: commands on keys of any type. Time to live, `OBJECT` and `SORT` have their own
//! files.

pub(super) mod expire;
mod object;
mod sort;

use super::Flag::{DenyOom, Fast, MovableKeys, NoScript, ReadOnly, Write};
use super::blocking::{self, Wait, wait_for};
use super::{Argv, Ctx, KeySpec, Outcome, Row, integer, is_word, scan};
use crate::engine::Until;
use crate::error::{self, Error};
use crate::glob;
use crate::keyspace::Class;
use crate::reply::Reply;

use expire::{From, Unit, expire, persist, ttl};
use object::OBJECT;
use sort::{sort, sort_ro};

const DELETED: &[KeySpec] = &[KeySpec::every(1, &["RM", "delete"])];
const EXPIRED: &[KeySpec] = &[KeySpec::one(&["RW", "update"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const MOVED: KeySpec = KeySpec::one(&["RW", "access", "delete"]);
const TOUCHED: &[KeySpec] = &[KeySpec::every(1, &["RO"])];
const SUM: &[&str] = &["request_policy:multi_shard", "response_policy:agg_sum"];

pub(super) const ROWS: &[Row] = &[
    Row::new("copy", -3, &[Write, DenyOom], copy)
        .keys(&[KeySpec::one(&["RO", "access"]), KeySpec::at(2, &["OW", "update"])]),
    Row::new("del", -2, &[Write], del).keys(DELETED).tips(SUM),
    Row::new("exists", -2, &[ReadOnly, Fast], exists).keys(TOUCHED).tips(SUM),
    Row::new("expire", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Seconds, From::Now))
        .keys(EXPIRED),
    Row::new("expireat", -3, &[Write, Fast], |ctx, argv| expire(ctx, argv, Unit::Seconds, From::Epoch))
        .keys(EXPIRED),
    Row::new("expiretime", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Seconds, From::Epoch))
        .keys(LOOKED_AT),
    Row::new("keys", 2, &[ReadOnly], keys)
        .categories(&["dangerous"])
        .tips(&["request_policy:all_shards", "nondeterministic_output_order"]),
    Row::new("move", 3, &[Write, Fast], move_).keys(&[KeySpec::one(&["RW", "access", "update"])]),
    OBJECT,
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
    Row::new("randomkey", 1, &[ReadOnly], randomkey)
        .tips(&["request_policy:all_shards", "nondeterministic_output"]),
    Row::new("rename", 3, &[Write], rename).keys(&[MOVED, KeySpec::at(2, &["OW", "update"])]),
    Row::new("renamenx", 3, &[Write, Fast], renamenx).keys(&[MOVED, KeySpec::at(2, &["OW", "insert"])]),
    Row::new("scan", -2, &[ReadOnly], scan).tips(&["nondeterministic_output", "request_policy:special"]),
    Row::new("sort", -2, &[Write, DenyOom, MovableKeys], sort).keys(sort::KEYS).outside(sort::CATEGORIES),
    Row::new("sort_ro", -2, &[ReadOnly, MovableKeys], sort_ro)
        .keys(sort::KEYS_READ)
        .outside(sort::CATEGORIES),
    Row::new("touch", -2, &[ReadOnly, Fast], touch).keys(TOUCHED).tips(SUM),
    Row::new("ttl", 2, &[ReadOnly, Fast], |ctx, argv| ttl(ctx, argv, Unit::Seconds, From::Now))
        .keys(LOOKED_AT)
        .tips(&["nondeterministic_output"]),
    Row::new("type", 2, &[ReadOnly, Fast], type_).keys(&[KeySpec::one(&["RO"])]),
    Row::new("unlink", -2, &[Write, Fast], del).keys(DELETED).tips(SUM),
    Row::new("wait", 3, &[NoScript], wait)
        .outside(&["connection"])
        .tips(&["request_policy:all_shards", "response_policy:agg_min"]),
];

/// `COPY source destination [DB destination-db] [REPLACE]`
fn copy(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (source, destination) = (argv[1], argv[2]);
    let (mut target, mut replaces) = (ctx.client.db, false);
    let mut options = &argv[3..];
    while let Some((option, rest)) = options.split_first() {
        options = rest;
        if is_word(option, "replace") {
            replaces = true;
        } else if let (true, Some((index, rest))) = (is_word(option, "db"), rest.split_first()) {
            target = ctx.database(index)?;
            options = rest;
        } else {
            return Err(error::SYNTAX);
        }
    }
    if ctx.engine.cluster.is_some() && target != ctx.client.db {
        return Err(Error::from_static("ERR Copying to another database is not allowed in cluster mode"));
    }
    if target == ctx.client.db && source == destination {
        return Err(error::SAME_OBJECT);
    }
    let Some(content) = ctx.db().reading().copy(source) else { return Ok(Reply::Integer(0)) };
    let mut target = ctx.engine.keyspace.db(target);
    if target.lookup(destination).is_some() && !replaces {
        return Ok(Reply::Integer(0));
    }
    target.put(destination, content);
    target.notify(Class::Generic, "copy_to", destination);
    Ok(Reply::Integer(1))
}

/// `DEL key [key ...]` and `UNLINK key [key ...]`
fn del(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let removed = argv[1..].iter().filter(|key| {
        let is_removed = db.remove(key);
        if is_removed {
            db.notify(Class::Generic, "del", key);
        }
        is_removed
    });
    Ok(Reply::count(removed.count()))
}

/// `EXISTS key [key ...]`
fn exists(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    Ok(Reply::count(argv[1..].iter().filter(|key| db.contains(key)).count()))
}

/// `KEYS pattern`
///
/// Redis promises no order. Here they are sorted, so that the order does not depend on which client
/// made its key first.
fn keys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let mut keys: Vec<&[u8]> =
        db.keys().map(|key| &**key).filter(|key| glob::selects(argv[1], key)).collect();
    keys.sort_unstable();
    Ok(Reply::Array(keys.into_iter().map(Reply::bulk).collect()))
}

/// `MOVE key db`
fn move_(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.cluster.is_some() {
        return Err(Error::from_static("ERR MOVE is not allowed in cluster mode"));
    }
    let (source, target) = (ctx.client.db, ctx.database(argv[2])?);
    if source == target {
        return Err(error::SAME_OBJECT);
    }
    let keyspace = &mut ctx.engine.keyspace;
    let can_move =
        keyspace.db(source).lookup(argv[1]).is_some() && keyspace.db(target).lookup(argv[1]).is_none();
    if can_move && let Some(content) = keyspace.db(source).take(argv[1]) {
        keyspace.db(target).put(argv[1], content);
        keyspace.db(source).notify(Class::Generic, "move_from", argv[1]);
        keyspace.db(target).notify(Class::Generic, "move_to", argv[1]);
    }
    Ok(Reply::truth(can_move))
}

/// `RANDOMKEY`
fn randomkey(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk_or_nil(ctx.whole_db().random_key()))
}

/// `RENAME key newkey`
fn rename(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    rename_if(ctx, argv, |_| true)?;
    Ok(Reply::OK)
}

/// `RENAMENX key newkey`
fn renamenx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    rename_if(ctx, argv, |is_free| is_free).map(Reply::truth)
}

/// Renames a key if `suits` accepts whether the new name is free. Returns whether it did.
fn rename_if(ctx: &mut Ctx<'_>, argv: &Argv<'_>, suits: fn(bool) -> bool) -> Result<bool, Error> {
    let mut db = ctx.db();
    db.lookup(argv[1]).ok_or(error::NO_SUCH_KEY)?;
    if argv[1] == argv[2] || !suits(db.lookup(argv[2]).is_none()) {
        return Ok(false);
    }
    if let Some(content) = db.take(argv[1]) {
        db.put(argv[2], content);
        db.notify(Class::Generic, "rename_from", argv[1]);
        db.notify(Class::Generic, "rename_to", argv[2]);
    }
    Ok(true)
}

/// `SCAN cursor [MATCH pattern] [COUNT count] [TYPE type]`
fn scan(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let cursor = scan::cursor(argv[1])?;
    let options = scan::Options::parse_for_keys(&argv[2..])?;
    // Not `reading()`: a key that the scan skips publishes no `keymiss` event.
    ctx.engine.keyspace.expire_rest();
    let mut db = ctx.engine.keyspace.db(ctx.client.db);
    let page = options.page(cursor, db.len());
    let mut keys = db.keys_at(page.places.clone());
    // The keys are sorted as in KEYS: a page with all keys does not depend on the order in which
    // they were made.
    keys.sort_unstable();
    let found = keys.into_iter().filter(|key| {
        options.matches(key)
            && db
                .type_name(key)
                .is_some_and(|own| options.type_name.is_none_or(|wanted| is_word(wanted, own)))
    });
    let found = found.map(Reply::Bulk).collect();
    Ok(page.reply(found))
}

/// `TOUCH key [key ...]`
fn touch(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    Ok(Reply::count(argv[1..].iter().filter(|key| db.lookup(key).is_some()).count()))
}

/// `TYPE key`
fn type_(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::status(ctx.db().type_name(argv[1]).unwrap_or("none")))
}

/// `WAIT numreplicas timeout`: waits until so many replicas have acknowledged what this client has
/// written
fn wait(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if ctx.engine.replication.upstream.is_some() {
        return Err(error::WAIT_ON_REPLICA);
    }
    let wanted = integer(argv[1])?;
    let deadline = blocking::millis(ctx, argv[2])?;
    let offset = ctx.client.offset;
    let acknowledged = ctx.engine.replication.acknowledged_by(offset);
    let now = Reply::count(acknowledged);
    if wanted <= acknowledged as i64 {
        return Ok(now);
    }
    let until = Until::Acknowledged { replicas: wanted as usize, offset };
    Ok(wait_for(ctx, until, Wait { deadline, on_timeout: now }))
}
