//! `struct`: numbers and strings in the memory layout of C.
//! <https://redis.io/docs/latest/develop/programmability/lua-api/#struct-library>

use mlua::{Lua, MultiValue, Table, Value};

use super::state::STACK_SLOTS_MAX;
use crate::script::args::{Args, function, raise};
use crate::script::c_values::{c_string, truncate};
use crate::script::spend::{check_size, spend_bytes, spend_values};

/// The largest number of bytes of an `i` or `I`.
const INTEGER_BYTES_MAX: i32 = 32;
const ALIGNMENT_DEFAULT: i32 = 8;

/// The library. Its functions are in Redis's order, because `pairs` shows the order.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("pack", function(lua, pack)?)?;
    table.raw_set("unpack", function(lua, unpack)?)?;
    table.raw_set("size", function(lua, size)?)?;
    Ok(table)
}

/// `struct.pack(format, value, …)`
fn pack(args: &Args<'_>) -> mlua::Result<Value> {
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(args, &text)?;
    let mut output: Vec<u8> = Vec::new();
    let mut place = 2;
    // The C code puts a nil after the arguments, so a missing argument is reported as nil.
    let number = |place| {
        if place > args.len() {
            Err(args.error(place, "number expected, got nil"))
        } else {
            args.number(place)
        }
    };
    while let Some(Item { option, size, padding }) = format.next(output.len())? {
        output.resize(output.len() + padding, 0);
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                let value = wrapping_u64(number(place)?);
                let little = (0..size).map(|idx| value.checked_shr(8 * idx as u32).unwrap_or(0) as u8);
                format.extend(&mut output, &little.collect::<Vec<_>>());
                place += 1;
            }
            b'f' => {
                format.extend(&mut output, &(number(place)? as f32).to_le_bytes());
                place += 1;
            }
            b'd' => {
                format.extend(&mut output, &number(place)?.to_le_bytes());
                place += 1;
            }
            b'x' => output.push(0),
            b'c' | b's' => {
                if place > args.len() {
                    return Err(args.error(place, "string expected, got nil"));
                }
                let text = args.string(place)?;
                let text = text.as_bytes();
                place += 1;
                let size = if size == 0 { text.len() } else { size };
                if text.len() < size {
                    return Err(args.error(place, "string too short"));
                }
                spend_bytes(args.lua, size)?;
                check_size(args.lua, output.len() + size)?;
                output.extend_from_slice(&text[..size]);
                if option == b's' {
                    output.push(0);
                }
            }
            control => format.control(control)?,
        }
    }
    Ok(Value::String(args.lua.create_string(output)?))
}

/// `struct.unpack(format, data [, position])`
fn unpack(args: &Args<'_>) -> mlua::Result<MultiValue> {
    let text = args.string(1)?;
    let text = text.as_bytes();
    let data = args.string(2)?;
    let data = data.as_bytes();
    let start = if args.is_nil(3) { 1 } else { args.integer(3)? };
    if start == 0 {
        return Err(args.error(3, "offset must be 1 or greater"));
    }
    let too_short = || args.error(2, "data string too short");
    // As in C, a position before the data becomes very large, and so lies after the data.
    let mut position = start.wrapping_sub(1) as usize;
    let mut format = Format::new(args, &text)?;
    let mut values: Vec<Value> = Vec::new();
    while let Some(Item { option, mut size, padding }) = format.next(position)? {
        position = position.wrapping_add(padding);
        let slice = |size: usize| {
            let end = position.checked_add(size).ok_or_else(too_short)?;
            data.get(position..end).ok_or_else(too_short)
        };
        let bytes = slice(size)?;
        if args.len() + values.len() + 2 > STACK_SLOTS_MAX {
            return Err(raise(args.lua, "stack overflow (too many results)"));
        }
        match option {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                values.push(Value::Number(format.integer(bytes, option.is_ascii_lowercase())));
            }
            b'f' => {
                let number = f32::from_le_bytes(format.little(bytes).try_into().expect("its size is 4"));
                values.push(Value::Number(number.into()));
            }
            b'd' => {
                let number = f64::from_le_bytes(format.little(bytes).try_into().expect("its size is 8"));
                values.push(Value::Number(number));
            }
            b'x' => {}
            b'c' => {
                if size == 0 {
                    let last = values.pop().map(|last| args.lua.coerce_number(last)).transpose()?.flatten();
                    let last = last.ok_or_else(|| raise(args.lua, "format 'c0' needs a previous size"))?;
                    size = wrapping_u64(last) as usize;
                }
                let text = slice(size)?;
                spend_bytes(args.lua, text.len())?;
                values.push(Value::String(args.lua.create_string(text)?));
            }
            b's' => {
                let rest = &data[position..];
                let end = rest.iter().position(|&byte| byte == 0);
                let end = end.ok_or_else(|| raise(args.lua, "unfinished string in data"))?;
                size = end + 1;
                spend_bytes(args.lua, size)?;
                values.push(Value::String(args.lua.create_string(&rest[..end])?));
            }
            control => format.control(control)?,
        }
        position += size;
    }
    values.push(Value::Number((position as i64).wrapping_add(1) as f64));
    Ok(values.into())
}

/// `struct.size(format)`
fn size(args: &Args<'_>) -> mlua::Result<f64> {
    let text = args.string(1)?;
    let text = text.as_bytes();
    let mut format = Format::new(args, &text)?;
    let mut total = 0;
    while let Some(Item { option, size, padding }) = format.next(total)? {
        total += padding;
        match option {
            b's' => return Err(args.error(1, "option 's' has no fixed size")),
            b'c' if size == 0 => return Err(args.error(1, "option 'c0' has no fixed size")),
            option if option.is_ascii_alphanumeric() => {}
            control => format.control(control)?,
        }
        total += size;
    }
    Ok(total as f64)
}

/// The rest of a format, and the layout that its earlier options have set.
struct Format<'a> {
    args: &'a Args<'a>,
    rest: &'a [u8],
    is_big_endian: bool,
    alignment: usize,
}

/// An option of a format.
struct Item {
    option: u8,
    size: usize,
    /// The number of bytes before it.
    padding: usize,
}

impl<'a> Format<'a> {
    fn new(args: &'a Args<'a>, text: &'a [u8]) -> mlua::Result<Format<'a>> {
        spend_bytes(args.lua, text.len())?;
        Ok(Format { args, rest: c_string(text), is_big_endian: false, alignment: 1 })
    }

    fn next(&mut self, position: usize) -> mlua::Result<Option<Item>> {
        let Some((&option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        spend_values(self.args.lua, 1)?;
        let size = self.size(option)?;
        let unit = size.min(self.alignment);
        let is_aligned = unit == 0 || option == b'c';
        let padding = if is_aligned { 0 } else { unit.wrapping_sub(position & (unit - 1)) & (unit - 1) };
        Ok(Some(Item { option, size, padding }))
    }

    fn size(&mut self, option: u8) -> mlua::Result<usize> {
        Ok(match option {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(1)? as usize,
            b'i' | b'I' => {
                let size = self.number(4)?;
                if size > INTEGER_BYTES_MAX {
                    let text = format!("integral size {size} is larger than limit of {INTEGER_BYTES_MAX}");
                    return Err(raise(self.args.lua, text));
                }
                size as usize
            }
            _ => 0,
        })
    }

    /// The number that the next digits form, or `default` if there are no digits.
    fn number(&mut self, default: i32) -> mlua::Result<i32> {
        let n_digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(n_digits);
        if digits.is_empty() {
            return Ok(default);
        }
        self.rest = rest;
        let number = digits
            .iter()
            .try_fold(0_i32, |number, digit| number.checked_mul(10)?.checked_add(i32::from(digit - b'0')));
        number.ok_or_else(|| raise(self.args.lua, "integral size overflow"))
    }

    /// Applies an option that changes the layout of the following ones.
    fn control(&mut self, option: u8) -> mlua::Result<()> {
        match option {
            b' ' => {}
            b'>' => self.is_big_endian = true,
            b'<' => self.is_big_endian = false,
            b'!' => {
                let alignment = self.number(ALIGNMENT_DEFAULT)?;
                if alignment <= 0 || !(alignment as u32).is_power_of_two() {
                    let text = format!("alignment {alignment} is not a power of 2");
                    return Err(raise(self.args.lua, text));
                }
                self.alignment = alignment as usize;
            }
            unknown => {
                return Err(self.args.error(1, [b"invalid format option '", &[unknown][..], b"'"].concat()));
            }
        }
        Ok(())
    }

    fn extend(&self, output: &mut Vec<u8>, little: &[u8]) {
        let start = output.len();
        output.extend_from_slice(little);
        if self.is_big_endian {
            output[start..].reverse();
        }
    }

    /// The bytes from the lowest to the highest.
    fn little(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if self.is_big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn integer(&self, bytes: &[u8], is_signed: bool) -> f64 {
        let bits = self.little(bytes).iter().rev().fold(0, |bits: u64, &byte| bits << 8 | u64::from(byte));
        if !is_signed {
            return bits as f64;
        }
        // C shifts by the count modulo 64, even if there are more than 8 bytes or none.
        let signs = u64::MAX.wrapping_shl((bytes.len() as u32 * 8).wrapping_sub(1));
        (if bits & signs == 0 { bits } else { bits | signs }) as i64 as f64
    }
}

/// C's conversion of a double to an unsigned integer of 64 bits.
fn wrapping_u64(number: f64) -> u64 {
    const FIRST_TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    if number >= FIRST_TOO_LARGE {
        truncate(number - FIRST_TOO_LARGE) as u64 ^ i64::MIN as u64
    } else {
        truncate(number) as u64
    }
}
