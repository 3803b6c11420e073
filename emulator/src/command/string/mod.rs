//! String commands on whole values. Options, numbers and parts of strings have their own files.

mod value;
mod part;
mod lcs;
mod number;
mod set;

use super::Flag::{DenyOom, Fast, ReadOnly, Write};
use super::generic::expire::set_deadline;
use super::{Argv, Ctx, FindKeys, KeySpec, Outcome, Row, integer, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Class, Db, Expiry, Value};
use crate::reply::Reply;

use lcs::lcs;
use number::{add, decrby, incrbyfloat};
use part::{append, getrange, setrange, strlen};
use set::{expiry_option, positive_deadline, psetex, set, setex};
use value::{get, put};

const COUNTED: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];

const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const OVERWRITTEN: &[KeySpec] = &[KeySpec::one(&["OW", "update"])];

pub(super) const ROWS: &[Row] = &[
    Row::new("append", 3, &[Write, DenyOom, Fast], append).keys(&[KeySpec::one(&["RW", "insert"])]),
    Row::new("decr", 2, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], -1)).keys(COUNTED),
    Row::new("decrby", 3, &[Write, DenyOom, Fast], decrby).keys(COUNTED),
    Row::new("get", 2, &[ReadOnly, Fast], get).keys(LOOKED_AT),
    Row::new("getdel", 2, &[Write, Fast], getdel).keys(&[KeySpec::one(&["RW", "access", "delete"])]),
    Row::new("getex", -2, &[Write, Fast], getex)
        .keys(&[KeySpec::one(&["RW", "access", "update"]).notes("RW and UPDATE because it changes the TTL")]),
    Row::new("getrange", 4, &[ReadOnly], getrange).keys(LOOKED_AT),
    Row::new("getset", 3, &[Write, DenyOom, Fast], getset).keys(COUNTED),
    Row::new("incr", 2, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], 1)).keys(COUNTED),
    Row::new("incrby", 3, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], integer(argv[2])?))
        .keys(COUNTED),
    Row::new("incrbyfloat", 3, &[Write, DenyOom, Fast], incrbyfloat).keys(COUNTED),
    Row::new("lcs", -3, &[ReadOnly], lcs)
        .keys(&[KeySpec { find: FindKeys::Range { last: 1, step: 1 }, ..KeySpec::one(&["RO", "access"]) }]),
    Row::new("mget", -2, &[ReadOnly, Fast], mget)
        .keys(&[KeySpec::every(1, &["RO", "access"])])
        .tips(&["request_policy:multi_shard"]),
    Row::new("mset", -3, &[Write, DenyOom], mset)
        .keys(&[KeySpec::every(2, &["OW", "update"])])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Row::new("msetnx", -3, &[Write, DenyOom], msetnx)
        .keys(&[KeySpec::every(2, &["OW", "insert"])])
        .tips(&["request_policy:multi_shard", "response_policy:agg_min"]),
    Row::new("psetex", 4, &[Write, DenyOom], psetex).keys(OVERWRITTEN),
    Row::new("set", -3, &[Write, DenyOom], set).keys(&[KeySpec::one(&[
        "RW",
        "access",
        "update",
        "variable_flags",
    ])
    .notes("RW and ACCESS due to the optional `GET` argument")]),
    Row::new("setex", 4, &[Write, DenyOom], setex).keys(OVERWRITTEN),
    Row::new("setnx", 3, &[Write, DenyOom, Fast], setnx).keys(&[KeySpec::one(&["OW", "insert"])]),
    Row::new("setrange", 4, &[Write, DenyOom], setrange).keys(&[KeySpec::one(&["RW", "update"])]),
    Row::new("strlen", 2, &[ReadOnly, Fast], strlen).keys(&[KeySpec::one(&["RO"])]),
    Row::new("substr", 4, &[ReadOnly], getrange).keys(LOOKED_AT),
];

/// `GETDEL key`
fn getdel(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let reply = get(ctx, argv)?;
    let mut db = ctx.db();
    if db.remove(argv[1]) {
        db.answer();
        db.notify(Class::Generic, "del", argv[1]);
        ctx.replicate_as(&[&"DEL", &argv[1]]);
    }
    Ok(reply)
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds
/// | PERSIST]`
fn getex(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut expiry = None;
    let mut persist = false;
    let mut options = &argv[2..];
    while let Some((option, rest)) = options.split_first() {
        options = rest;
        if is_word(option, "persist") && expiry.is_none() {
            persist = true;
        } else if let (Some((unit, from)), false) = (expiry_option(option), persist)
            && expiry.is_none_or(|(_, old_unit, old_from)| (old_unit, old_from) == (unit, from))
        {
            let (amount, rest) = rest.split_first().ok_or(error::SYNTAX)?;
            options = rest;
            expiry = Some((*amount, unit, from));
        } else {
            return Err(error::SYNTAX);
        }
    }
    let reply = get(ctx, argv)?;
    if reply == Reply::Nil {
        return Ok(reply);
    }
    ctx.db().answer();
    if let Some((amount, unit, from)) = expiry {
        let deadline = positive_deadline(ctx, amount, unit, from)?;
        set_deadline(ctx, argv[1], deadline, &[]);
    } else if persist && ctx.db().deadline(argv[1]).flatten().is_some() {
        ctx.db().set_deadline(argv[1], None);
        ctx.replicate_as(&[&"PERSIST", &argv[1]]);
    }
    Ok(reply)
}

/// `GETSET key value`
fn getset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let reply = get(ctx, argv)?;
    let mut db = ctx.db();
    db.answer();
    put(&mut db, argv[1], argv[2], Expiry::Never);
    ctx.replicate_as(&[&"SET", &argv[1], &argv[2]]);
    Ok(reply)
}

/// `MGET key [key ...]`
fn mget(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let values = argv[1..].iter().zip(1..).map(|(key, parts)| {
        db.answer_in_part(parts);
        match db.lookup(key) {
            Some(Value::String(text)) => Reply::Bulk(text.to_bytes()),
            _ => Reply::Nil,
        }
    });
    Ok(Reply::Array(values.collect()))
}

/// `MSET key value [key value ...]`
fn mset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    set_if(ctx, argv, |_, _| true)?;
    Ok(Reply::OK)
}

/// `MSETNX key value [key value ...]`
fn msetnx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let is_set = set_if(ctx, argv, |db, pairs| pairs.iter().all(|[key, _]| db.lookup(key).is_none()))?;
    Ok(Reply::truth(is_set))
}

/// If `is_wanted` returns true, sets all keys; otherwise none. Returns which.
fn set_if(
    ctx: &mut Ctx<'_>,
    argv: &Argv<'_>,
    is_wanted: fn(&mut Db<'_>, &[[&[u8]; 2]]) -> bool,
) -> Result<bool, Error> {
    let (pairs, []) = argv[1..].as_chunks::<2>() else { return Err(error::wrong_arity(ctx.row.name)) };
    let mut db = ctx.db();
    let is_wanted = is_wanted(&mut db, pairs);
    if is_wanted {
        for [key, value] in pairs {
            put(&mut db, key, value, Expiry::Never);
        }
    }
    Ok(is_wanted)
}

/// `SETNX key value`
fn setnx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let is_free = db.lookup(argv[1]).is_none();
    if is_free {
        put(&mut db, argv[1], argv[2], Expiry::Never);
    }
    Ok(Reply::truth(is_free))
}
