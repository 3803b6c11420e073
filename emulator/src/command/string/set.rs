//! `SET`, and the options that it shares with `GETEX`.

use super::super::generic::expire::{From, Unit, deadline};
use super::super::{Argv, Ctx, Outcome, integer, is_word};
use super::value::{get, put};
use crate::error::{self, Error};
use crate::keyspace::Expiry;
use crate::reply::Reply;

/// `SET key value [NX | XX] [GET] [EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT
/// unix-time-milliseconds | KEEPTTL]`
pub(super) fn set(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let options = SetOptions::parse(&argv[3..])?;
    let expiry = match options.expiry {
        SetExpiry::None => Expiry::Never,
        SetExpiry::Keep => Expiry::Keep,
        SetExpiry::At(amount, unit, from) => Expiry::At(positive_deadline(ctx, amount, unit, from)?),
    };
    // With GET the reply is the old value, whether or not the new one is set. Without GET, a SET
    // that did nothing returns nil.
    let (reply_if_set, reply_if_not) = if options.get {
        let old = get(ctx, argv)?;
        (old.clone(), old)
    } else {
        (Reply::OK, Reply::Nil)
    };
    let mut db = ctx.db();
    let is_wanted = options.condition.is_none_or(|must_exist| db.lookup(argv[1]).is_some() == must_exist);
    if !is_wanted {
        return Ok(reply_if_not);
    }
    if options.get {
        db.answer();
    }
    put(&mut db, argv[1], argv[2], expiry);
    match expiry {
        Expiry::At(deadline) => replicate_with_deadline(ctx, argv[1], argv[2], deadline),
        Expiry::Never | Expiry::Keep if options.get => {
            let is_get = |(place, arg): &(usize, &&[u8])| *place >= 3 && is_word(arg, "get");
            let rest: Vec<&dyn AsRef<[u8]>> =
                argv.iter().enumerate().filter(|arg| !is_get(arg)).map(|(_, arg)| arg as _).collect();
            ctx.replicate_as(&rest);
        }
        Expiry::Never | Expiry::Keep => {}
    }
    Ok(reply_if_set)
}

/// `SETEX key seconds value`
pub(super) fn setex(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    set_with_time(ctx, argv, Unit::Seconds)
}

/// `PSETEX key milliseconds value`
pub(super) fn psetex(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    set_with_time(ctx, argv, Unit::Millis)
}

fn set_with_time(ctx: &mut Ctx<'_>, argv: &Argv<'_>, unit: Unit) -> Outcome {
    let deadline = positive_deadline(ctx, argv[2], unit, From::Now)?;
    put(&mut ctx.db(), argv[1], argv[3], Expiry::At(deadline));
    replicate_with_deadline(ctx, argv[1], argv[3], deadline);
    Ok(Reply::OK)
}

fn replicate_with_deadline(ctx: &mut Ctx<'_>, key: &[u8], value: &[u8], deadline: i64) {
    ctx.replicate_as(&[&"SET", &key, &value, &"PXAT", &deadline.to_string()]);
}

struct SetOptions<'a> {
    /// `Some(false)` with NX, `Some(true)` with XX.
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
    /// Whether a further option may replace this one. An option may be repeated, and the last one
    /// counts. Two different options contradict each other.
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

/// The unit and start of EX, PX, EXAT or PXAT, which SET and GETEX share.
pub(super) fn expiry_option(option: &[u8]) -> Option<(Unit, From)> {
    match option {
        ex if is_word(ex, "ex") => Some((Unit::Seconds, From::Now)),
        px if is_word(px, "px") => Some((Unit::Millis, From::Now)),
        exat if is_word(exat, "exat") => Some((Unit::Seconds, From::Epoch)),
        pxat if is_word(pxat, "pxat") => Some((Unit::Millis, From::Epoch)),
        _ => None,
    }
}

pub(super) fn positive_deadline(
    ctx: &mut Ctx<'_>,
    amount: &[u8],
    unit: Unit,
    from: From,
) -> Result<i64, Error> {
    let amount = integer(amount)?;
    let deadline = if amount > 0 { deadline(ctx, amount, unit, from) } else { None };
    deadline.ok_or_else(|| error::invalid_expire(ctx.row.name))
}
