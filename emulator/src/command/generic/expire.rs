//! Commands on the time to live: EXPIRE, TTL, PERSIST and related ones.

use super::super::{Argv, Ctx, Outcome, integer, is_word};
use crate::error::{self, Error};
use crate::reply::Reply;

/// The unit of a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unit {
    Seconds,
    Millis,
}

/// The start from which a time counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum From {
    Now,
    Epoch,
}

/// Returns the absolute deadline, in milliseconds, for `amount`. `None` if it does not fit.
pub(in super::super) fn deadline(ctx: &mut Ctx<'_>, amount: i64, unit: Unit, from: From) -> Option<i64> {
    let millis = match unit {
        Unit::Seconds => amount.checked_mul(1000)?,
        Unit::Millis => amount,
    };
    match from {
        From::Now => millis.checked_add(ctx.engine.keyspace.now().millis()),
        From::Epoch => Some(millis),
    }
}

/// `EXPIRE key seconds [NX | XX | GT | LT]`, and PEXPIRE, EXPIREAT, PEXPIREAT
pub(super) fn expire(ctx: &mut Ctx<'_>, argv: &Argv<'_>, unit: Unit, from: From) -> Outcome {
    let condition = Condition::parse(&argv[3..])?;
    let amount = integer(argv[2])?;
    let deadline = deadline(ctx, amount, unit, from).ok_or_else(|| error::invalid_expire(ctx.row.name))?;
    let mut db = ctx.db();
    if db.lookup(argv[1]).is_none() {
        return Ok(Reply::Integer(0));
    }
    let current = db.deadline(argv[1]).flatten();
    let holds = condition.holds(current, deadline);
    if holds {
        if deadline > db.now().millis() {
            db.answer();
        }
        set_deadline(ctx, argv[1], deadline, &argv[3..]);
    }
    Ok(Reply::truth(holds))
}

/// Sets the deadline of a live key. Replicas get it with these options, or the removal of the key
/// if its deadline is over.
pub(in super::super) fn set_deadline(ctx: &mut Ctx<'_>, key: &[u8], deadline: i64, options: &Argv<'_>) {
    if !ctx.db().set_deadline(key, Some(deadline)) {
        return ctx.replicate_as(&[&"DEL", &key]);
    }
    let digits = deadline.to_string();
    let mut argv: Vec<&dyn AsRef<[u8]>> = vec![&"PEXPIREAT", &key, &digits];
    argv.extend(options.iter().map(|option| option as &dyn AsRef<[u8]>));
    ctx.replicate_as(&argv);
}

/// The conditions under which EXPIRE takes effect.
#[derive(Default)]
struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    fn parse(options: &Argv<'_>) -> Result<Condition, Error> {
        let mut condition = Condition::default();
        for option in options {
            let flag = match () {
                () if is_word(option, "nx") => &mut condition.nx,
                () if is_word(option, "xx") => &mut condition.xx,
                () if is_word(option, "gt") => &mut condition.gt,
                () if is_word(option, "lt") => &mut condition.lt,
                () => return Err(error::expire_option(option)),
            };
            *flag = true;
        }
        if condition.nx && (condition.xx || condition.gt || condition.lt) {
            return Err(error::NX_AND_XX);
        }
        if condition.gt && condition.lt {
            return Err(error::GT_AND_LT);
        }
        Ok(condition)
    }

    /// Whether the condition holds. A key without a deadline counts as a key with an infinite one.
    fn holds(&self, current: Option<i64>, new: i64) -> bool {
        !(self.nx && current.is_some()
            || self.xx && current.is_none()
            || self.gt && current.is_none_or(|current| new <= current)
            || self.lt && current.is_some_and(|current| new >= current))
    }
}

/// `PERSIST key`
pub(super) fn persist(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let had_deadline = db.deadline(argv[1]).flatten().is_some();
    if had_deadline {
        db.set_deadline(argv[1], None);
    }
    Ok(Reply::truth(had_deadline))
}

/// `TTL key`, and PTTL, EXPIRETIME, PEXPIRETIME: -2 without the key, -1 without a deadline
pub(super) fn ttl(ctx: &mut Ctx<'_>, argv: &Argv<'_>, unit: Unit, from: From) -> Outcome {
    let millis = match ctx.db().deadline(argv[1]) {
        None => return Ok(Reply::Integer(-2)),
        Some(None) => return Ok(Reply::Integer(-1)),
        Some(Some(deadline)) if from == From::Epoch => deadline,
        Some(Some(deadline)) => deadline.saturating_sub(ctx.engine.keyspace.now().millis()).max(0),
    };
    Ok(Reply::Integer(match unit {
        // Rounded in 128 bits, because the largest deadline would overflow.
        Unit::Seconds => ((i128::from(millis) + 500) / 1000) as i64,
        Unit::Millis => millis,
    }))
}
