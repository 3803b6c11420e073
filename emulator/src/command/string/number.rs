//! Commands on strings that are numbers.

use std::io::{Cursor, Write as _};

use super::super::{Argv, Ctx, Outcome, integer};
use super::value::string;
use crate::error;
use crate::keyspace::{Class, Encoding, Expiry, Text};
use crate::long_double::LongDouble;
use crate::reply::Reply;

/// The length of the longest 64-bit integer, with its sign.
const DIGITS_MAX: usize = 20;

/// `INCR key`, `DECR key`, `INCRBY key increment`: a missing key counts from 0
pub(super) fn add(ctx: &mut Ctx<'_>, key: &[u8], increment: i64) -> Outcome {
    let mut db = ctx.db();
    let current = db.lookup_as::<Text>(key)?.map_or(Ok(0), |digits| integer(digits))?;
    let sum = current.checked_add(increment).ok_or(error::OVERFLOW)?;
    let mut digits = Cursor::new([0; DIGITS_MAX]);
    write!(digits, "{sum}").expect("there is room for the longest");
    let len = digits.position() as usize;
    db.insert(key, string(&digits.get_ref()[..len]), Expiry::Keep);
    db.notify(Class::String, "incrby", key);
    Ok(Reply::Integer(sum))
}

/// `DECRBY key decrement`
pub(super) fn decrby(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let increment = integer(argv[2])?.checked_neg().ok_or(error::DECREMENT_OVERFLOW)?;
    add(ctx, argv[1], increment)
}

/// `INCRBYFLOAT key increment`
pub(super) fn incrbyfloat(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let digits = db.lookup_as::<Text>(argv[1])?.map_or(&b"0"[..], |digits| digits);
    let current = LongDouble::parse(digits).ok_or(error::NOT_A_FLOAT)?;
    let increment = LongDouble::parse(argv[2]).ok_or(error::NOT_A_FLOAT)?;
    let sum = current.plus(&increment);
    if sum == LongDouble::Infinite {
        return Err(error::INCREMENT_NOT_FINITE);
    }
    let digits = sum.to_string();
    db.insert(argv[1], string(digits.as_bytes()), Expiry::Keep);
    // Redis makes a text of the number, and does not check whether it is an integer.
    db.set_encoding(argv[1], Encoding::of_text(digits.as_bytes()));
    db.notify(Class::String, "incrbyfloat", argv[1]);
    ctx.replicate_as(&[&"SET", &argv[1], &digits, &"KEEPTTL"]);
    Ok(Reply::bulk(digits))
}
