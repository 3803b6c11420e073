//! `bit`: operations on 32-bit integers. <https://bitop.luajit.org/api.html>

use mlua::{Lua, Table};

use crate::script::args::{Args, function};

/// An operation on two numbers, or on a number and a count of bits.
type Operation = fn(u32, u32) -> u32;

/// The library. Its functions are in Redis's order, because `pairs` shows the order.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    const FOLDS: &[(&str, Operation)] =
        &[("band", |a, b| a & b), ("bor", |a, b| a | b), ("bxor", |a, b| a ^ b)];
    const SHIFTS: &[(&str, Operation)] = &[
        ("lshift", |bits, n| bits << n),
        ("rshift", |bits, n| bits >> n),
        ("arshift", |bits, n| (bits as i32 >> n) as u32),
        ("rol", u32::rotate_left),
        ("ror", u32::rotate_right),
    ];
    let table = lua.create_table()?;
    let set = |name, operation: fn(&Args<'_>) -> mlua::Result<u32>| {
        table.raw_set(name, function(lua, move |args| signed(operation(args)))?)
    };
    set("tobit", |args| bits(args, 1))?;
    set("bnot", |args| bits(args, 1).map(|bits| !bits))?;
    for &(name, fold) in FOLDS {
        let function = function(lua, move |args| {
            let first = bits(args, 1)?;
            signed(
                (2..=args.len()).rev().try_fold(first, |folded, place| Ok(fold(folded, bits(args, place)?))),
            )
        })?;
        table.raw_set(name, function)?;
    }
    for &(name, shift) in SHIFTS {
        let function = function(lua, move |args| {
            let number = bits(args, 1)?;
            signed(Ok(shift(number, bits(args, 2)? & 31)))
        })?;
        table.raw_set(name, function)?;
    }
    set("bswap", |args| bits(args, 1).map(u32::swap_bytes))?;
    table.raw_set("tohex", function(lua, to_hex)?)?;
    Ok(table)
}

/// `bit.tohex(x [, n])`: the lowest `n` digits; a negative `n` means upper-case letters.
fn to_hex(args: &Args<'_>) -> mlua::Result<String> {
    const DIGITS_MAX: usize = 8;
    let number = bits(args, 1)?;
    let n_digits = if args.len() < 2 { DIGITS_MAX as i32 } else { bits(args, 2)? as i32 };
    let digits = if n_digits < 0 { format!("{number:08X}") } else { format!("{number:08x}") };
    let n_digits = DIGITS_MAX.min(n_digits.unsigned_abs() as usize);
    Ok(digits[DIGITS_MAX - n_digits..].to_owned())
}

/// The lowest 32 bits of an argument, rounded to the nearest integer.
///
/// The argument is added to a constant so large that the sum has no bits for a fraction.
fn bits(args: &Args<'_>, place: usize) -> mlua::Result<u32> {
    const ROUNDING: f64 = 6_755_399_441_055_744.0;
    Ok((args.number(place)? + ROUNDING).to_bits() as u32)
}

fn signed(bits: mlua::Result<u32>) -> mlua::Result<f64> {
    bits.map(|bits| f64::from(bits as i32))
}
