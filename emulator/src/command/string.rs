//! String commands, and the counters that are strings.

use bytes::{Bytes, BytesMut};

use super::Flag::{DenyOom, Fast, ReadOnly, Write};
use super::generic::expire::{From, Unit, deadline};
use super::{Argv, Ctx, KeySpec, Outcome, Row, integer, is_word};
use crate::error::{self, Error};
use crate::keyspace::{Expiry, Value};
use crate::reply::Reply;

/// Longest string, in bytes (Redis: `proto-max-bulk-len`).
const STRING_BYTES_MAX: usize = 512 * 1024 * 1024;

const COUNTED: &[KeySpec] = &[KeySpec::one(&["RW", "access", "update"])];

pub(super) const ROWS: &[Row] = &[
    Row::new("append", 3, &[Write, DenyOom, Fast], append).keys(&[KeySpec::one(&["RW", "insert"])]),
    Row::new("decr", 2, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], -1)).keys(COUNTED),
    Row::new("decrby", 3, &[Write, DenyOom, Fast], decrby).keys(COUNTED),
    Row::new("get", 2, &[ReadOnly, Fast], get).keys(&[KeySpec::one(&["RO", "access"])]),
    Row::new("getdel", 2, &[Write, Fast], getdel).keys(&[KeySpec::one(&["RW", "access", "delete"])]),
    Row::new("getex", -2, &[Write, Fast], getex)
        .keys(&[KeySpec::one(&["RW", "access", "update"]).notes("RW and UPDATE because it changes the TTL")]),
    Row::new("getset", 3, &[Write, DenyOom, Fast], getset).keys(COUNTED),
    Row::new("incr", 2, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], 1)).keys(COUNTED),
    Row::new("incrby", 3, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv[1], integer(argv[2])?))
        .keys(COUNTED),
    Row::new("mget", -2, &[ReadOnly, Fast], mget)
        .keys(&[KeySpec::every(1, &["RO", "access"])])
        .tips(&["request_policy:multi_shard"]),
    Row::new("mset", -3, &[Write, DenyOom], mset)
        .keys(&[KeySpec::every(2, &["OW", "update"])])
        .tips(&["request_policy:multi_shard", "response_policy:all_succeeded"]),
    Row::new("set", -3, &[Write, DenyOom], set).keys(&[KeySpec::one(&[
        "RW",
        "access",
        "update",
        "variable_flags",
    ])
    .notes("RW and ACCESS due to the optional `GET` argument")]),
    Row::new("setnx", 3, &[Write, DenyOom, Fast], setnx).keys(&[KeySpec::one(&["OW", "insert"])]),
    Row::new("strlen", 2, &[ReadOnly, Fast], strlen).keys(&[KeySpec::one(&["RO"])]),
];

fn string(bytes: &[u8]) -> Value {
    Value::String(Bytes::copy_from_slice(bytes))
}

/// `APPEND key value`
fn append(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut edit = ctx.db().edit_or_create::<Bytes>(argv[1])?;
    let len = edit.get().len() + argv[2].len();
    if len > STRING_BYTES_MAX {
        return Err(error::STRING_TOO_LONG);
    }
    let value = edit.write();
    let mut longer = BytesMut::from(std::mem::take(value));
    longer.extend_from_slice(argv[2]);
    *value = longer.freeze();
    Ok(Reply::count(len))
}

/// `INCR key`, `DECR key`, `INCRBY key increment`: a missing key counts from 0
fn add(ctx: &mut Ctx<'_>, key: &[u8], increment: i64) -> Outcome {
    let mut db = ctx.db();
    let current = db.lookup_as::<Bytes>(key)?.map_or(Ok(0), |digits| integer(digits))?;
    let sum = current.checked_add(increment).ok_or(error::OVERFLOW)?;
    db.insert(key, string(sum.to_string().as_bytes()), Expiry::Keep);
    Ok(Reply::Integer(sum))
}

/// `DECRBY key decrement`
fn decrby(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let increment = integer(argv[2])?.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
    add(ctx, argv[1], increment)
}

/// `GET key`
fn get(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk_or_nil(ctx.db().lookup_as::<Bytes>(argv[1])?.cloned()))
}

/// `GETDEL key`
fn getdel(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let reply = get(ctx, argv)?;
    ctx.db().remove(argv[1]);
    Ok(reply)
}

/// `GETEX key [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | PERSIST]`
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
    if let Some((amount, unit, from)) = expiry {
        let deadline = positive_deadline(ctx, amount, unit, from)?;
        ctx.db().set_deadline(argv[1], Some(deadline));
    } else if persist && ctx.db().deadline(argv[1]).flatten().is_some() {
        ctx.db().set_deadline(argv[1], None);
    }
    Ok(reply)
}

/// `GETSET key value`
fn getset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let reply = get(ctx, argv)?;
    ctx.db().insert(argv[1], string(argv[2]), Expiry::Never);
    Ok(reply)
}

/// `MGET key [key ...]`
fn mget(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let values = argv[1..].iter().map(|key| match db.lookup(key) {
        Some(Value::String(bytes)) => Reply::Bulk(bytes.clone()),
        _ => Reply::Nil,
    });
    Ok(Reply::Array(values.collect()))
}

/// `MSET key value [key value ...]`
fn mset(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (pairs, []) = argv[1..].as_chunks::<2>() else { return Err(error::wrong_arity("mset")) };
    let mut db = ctx.db();
    for [key, value] in pairs {
        db.insert(key, string(value), Expiry::Never);
    }
    Ok(Reply::OK)
}

/// `SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds | KEEPTTL]`
fn set(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let options = SetOptions::parse(&argv[3..])?;
    let expiry = match options.expiry {
        SetExpiry::None => Expiry::Never,
        SetExpiry::Keep => Expiry::Keep,
        SetExpiry::At(amount, unit, from) => Expiry::At(positive_deadline(ctx, amount, unit, from)?),
    };
    let mut db = ctx.db();
    // GET answers the old value whether or not the new one is set; without it a SET that did nothing answers nil.
    let (reply_if_set, reply_if_not) = if options.get {
        let old = Reply::bulk_or_nil(db.lookup_as::<Bytes>(argv[1])?.cloned());
        (old.clone(), old)
    } else {
        (Reply::OK, Reply::Nil)
    };
    let is_wanted = options.condition.is_none_or(|must_exist| db.lookup(argv[1]).is_some() == must_exist);
    if !is_wanted {
        return Ok(reply_if_not);
    }
    db.insert(argv[1], string(argv[2]), expiry);
    Ok(reply_if_set)
}

struct SetOptions<'a> {
    /// NX is `Some(false)`, XX is `Some(true)`.
    condition: Option<bool>,
    get: bool,
    expiry: SetExpiry<'a>,
}

enum SetExpiry<'a> {
    None,
    Keep,
    At(&'a [u8], Unit, From),
}

impl SetExpiry<'_> {
    /// The same option may be repeated, and the last one counts; two different ones contradict each other.
    fn may_become(&self, unit: Unit, from: From) -> bool {
        match self {
            SetExpiry::None => true,
            SetExpiry::Keep => false,
            SetExpiry::At(_, old_unit, old_from) => (*old_unit, *old_from) == (unit, from),
        }
    }
}

impl<'a> SetOptions<'a> {
    fn parse(mut options: &Argv<'a>) -> Result<SetOptions<'a>, Error> {
        let mut parsed = SetOptions { condition: None, get: false, expiry: SetExpiry::None };
        while let Some((option, rest)) = options.split_first() {
            options = rest;
            match option {
                nx if is_word(nx, "nx") && parsed.condition != Some(true) => parsed.condition = Some(false),
                xx if is_word(xx, "xx") && parsed.condition != Some(false) => parsed.condition = Some(true),
                get if is_word(get, "get") => parsed.get = true,
                keep if is_word(keep, "keepttl") && !matches!(parsed.expiry, SetExpiry::At(..)) => {
                    parsed.expiry = SetExpiry::Keep;
                }
                other => match (expiry_option(other), rest.split_first()) {
                    (Some((unit, from)), Some((amount, rest))) if parsed.expiry.may_become(unit, from) => {
                        parsed.expiry = SetExpiry::At(amount, unit, from);
                        options = rest;
                    }
                    _ => return Err(error::SYNTAX),
                },
            }
        }
        Ok(parsed)
    }
}

/// EX, PX, EXAT and PXAT, which SET and GETEX share.
fn expiry_option(option: &[u8]) -> Option<(Unit, From)> {
    match option {
        ex if is_word(ex, "ex") => Some((Unit::Seconds, From::Now)),
        px if is_word(px, "px") => Some((Unit::Millis, From::Now)),
        exat if is_word(exat, "exat") => Some((Unit::Seconds, From::Epoch)),
        pxat if is_word(pxat, "pxat") => Some((Unit::Millis, From::Epoch)),
        _ => None,
    }
}

fn positive_deadline(ctx: &mut Ctx<'_>, amount: &[u8], unit: Unit, from: From) -> Result<i64, Error> {
    let amount = integer(amount)?;
    let deadline = if amount > 0 { deadline(ctx, amount, unit, from) } else { None };
    deadline.ok_or_else(|| error::invalid_expire(ctx.row.name))
}

/// `SETNX key value`
fn setnx(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let is_free = db.lookup(argv[1]).is_none();
    if is_free {
        db.insert(argv[1], string(argv[2]), Expiry::Never);
    }
    Ok(Reply::truth(is_free))
}

/// `STRLEN key`
fn strlen(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<Bytes>(argv[1])?.map_or(0, Bytes::len)))
}
