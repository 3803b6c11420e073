//! If cjson, cmsgpack or struct packs a value, it must unpack to an equal value. The functions of
//! bit must return what Rust computes. Any bytes must be refused or unpacked soon, without a panic.
//! If unpacked values are packed and unpacked again, they must be equal.
//!
//! An input is its mode (one byte), and then a value, a format with its values, operands, or any
//! bytes and their number of repetitions.

use std::cell::RefCell;

use arbitrary::{Arbitrary, Unstructured};
use emulator::{Clock, DirectConnection, Emulator, Reply};

/// The deepest nesting of a value: the limit of cmsgpack.
const DEPTH_MAX: u8 = 15;
/// The most bytes to unpack. Code that takes the square of their length would be too slow here.
const BYTES_MAX: usize = 64 << 10;
/// The largest integer that a double represents exactly.
const INTEGER_MAX: i64 = 1 << 53;
/// The largest integer that cjson writes with all its digits.
const JSON_INTEGER_MAX: i64 = 99_999_999_999_999;

/// Describes a value as text, and compares two descriptions. The order of a table's fields does not
/// count.
const DESCRIBE: &str = "
local function describe(value)
  if type(value) == 'table' then
    local fields = {}
    for key, field in pairs(value) do fields[#fields + 1] = describe(key) .. '=' .. describe(field) end
    table.sort(fields)
    return '{' .. table.concat(fields, ',') .. '}'
  elseif type(value) == 'number' then
    return string.format('%.17g', value)
  elseif type(value) == 'string' then
    return #value .. ':' .. value
  end
  return type(value) == 'userdata' and 'null' or tostring(value)
end
";

thread_local! {
    static EMULATOR: RefCell<Emulator> = RefCell::new(Emulator::with_clock(Clock::manual()));
}

pub fn check(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    EMULATOR.with_borrow(|emulator| {
        emulator.reset(Clock::manual());
        let lua = Lua(RefCell::new(emulator.connection()));
        let mut choices = Unstructured::new(rest);
        _ = match mode % 4 {
            0 => check_value(&lua, &mut choices),
            1 => check_struct(&lua, &mut choices),
            2 => check_bit(&lua, &mut choices),
            _ => check_bytes(&lua, &mut choices),
        };
    });
}

struct Lua(RefCell<DirectConnection>);

impl Lua {
    /// Runs a script after the function `describe`. The script itself must return a text.
    fn run(&self, script: &str, args: &[&[u8]]) -> Vec<u8> {
        let script = [DESCRIBE, script].concat();
        let argv: Vec<&[u8]> =
            [b"EVAL", script.as_bytes(), b"0"].into_iter().chain(args.iter().copied()).collect();
        match self.0.borrow_mut().execute(&argv) {
            Reply::Bulk(text) => text.into(),
            other => panic!("{script} with {args:?} answers {other:?}"),
        }
    }
}

#[derive(Debug)]
enum Value {
    Boolean(bool),
    Integer(i64),
    Double(f64),
    Text(Vec<u8>),
    List(Vec<Value>),
    Map(Vec<(Vec<u8>, Value)>),
}

impl Value {
    fn take_from(choices: &mut Unstructured<'_>, depth: u8) -> arbitrary::Result<Value> {
        let text = |choices: &mut Unstructured<'_>| {
            let len = usize::from(choices.arbitrary::<u8>()? % 48);
            Ok::<_, arbitrary::Error>(choices.bytes(len.min(choices.len()))?.to_vec())
        };
        Ok(match choices.arbitrary::<u8>()? % if depth < DEPTH_MAX { 9 } else { 6 } {
            0 => Value::Boolean(choices.arbitrary()?),
            1 => Value::Integer(choices.arbitrary::<i8>()?.into()),
            2 => Value::Integer(choices.int_in_range(-INTEGER_MAX..=INTEGER_MAX)?),
            // cjson has no infinite numbers and no NaN.
            3 => Value::Double(
                Some(choices.arbitrary::<f64>()?).filter(|number| number.is_finite()).unwrap_or(0.5),
            ),
            4 | 5 => Value::Text(text(choices)?),
            6 | 7 => {
                let len = choices.arbitrary::<u8>()? % 20;
                Value::List((0..len).map(|_| Value::take_from(choices, depth + 1)).collect::<Result<_, _>>()?)
            }
            _ => {
                let len = choices.arbitrary::<u8>()? % 20;
                let field = |_| Ok((text(choices)?, Value::take_from(choices, depth + 1)?));
                let mut fields: Vec<(Vec<u8>, Value)> = (0..len).map(field).collect::<Result<_, _>>()?;
                fields.sort_by(|(a, _), (b, _)| a.cmp(b));
                fields.dedup_by(|(a, _), (b, _)| a == b);
                Value::Map(fields)
            }
        })
    }

    /// Whether the value survives JSON, in which numbers lose digits.
    fn is_json(&self) -> bool {
        match self {
            Value::Integer(number) => number.abs() <= JSON_INTEGER_MAX,
            Value::Double(_) => false,
            Value::Boolean(_) | Value::Text(_) => true,
            Value::List(items) => items.iter().all(Value::is_json),
            Value::Map(fields) => fields.iter().all(|(_, value)| value.is_json()),
        }
    }

    /// The value as MessagePack: <https://github.com/msgpack/msgpack/blob/master/spec.md>. It uses
    /// the longest forms, which cmsgpack reads but does not write.
    fn pack(&self, packed: &mut Vec<u8>) {
        let mut head = |mark: u8, len: usize| {
            packed.push(mark);
            packed.extend((len as u32).to_be_bytes());
        };
        match self {
            Value::Boolean(yes) => packed.push(0xc2 + u8::from(*yes)),
            Value::Integer(number) => {
                packed.push(0xd3);
                packed.extend(number.to_be_bytes());
            }
            Value::Double(number) => {
                packed.push(0xcb);
                packed.extend(number.to_be_bytes());
            }
            Value::Text(text) => {
                head(0xdb, text.len());
                packed.extend(text);
            }
            Value::List(items) => {
                head(0xdd, items.len());
                items.iter().for_each(|item| item.pack(packed));
            }
            Value::Map(fields) => {
                head(0xdf, fields.len());
                for (name, value) in fields {
                    Value::Text(name.clone()).pack(packed);
                    value.pack(packed);
                }
            }
        }
    }
}

/// Unpacks a MessagePack value in Lua. The value must not change when it is packed and unpacked.
fn check_value(lua: &Lua, choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let value = Value::take_from(choices, 0)?;
    let mut packed = Vec::new();
    value.pack(&mut packed);
    let value_text = lua.run("return describe(cmsgpack.unpack(ARGV[1]))", &[&packed]);
    let repacked =
        lua.run("return describe(cmsgpack.unpack(cmsgpack.pack(cmsgpack.unpack(ARGV[1]))))", &[&packed]);
    assert!(repacked == value_text, "cmsgpack: {value:?} became {}", repacked.escape_ascii());
    if value.is_json() {
        let decoded =
            lua.run("return describe(cjson.decode(cjson.encode({cmsgpack.unpack(ARGV[1])}))[1])", &[&packed]);
        assert!(decoded == value_text, "cjson: {value:?} became {}", decoded.escape_ascii());
    }
    Ok(())
}

/// One item of a format, with a value of its Lua type.
#[derive(Arbitrary, Debug)]
enum Item {
    Endian(bool),
    Align(bool),
    Byte(i8),
    UnsignedByte(u8),
    Short(i16),
    UnsignedShort(u16),
    Integer(i32),
    UnsignedInteger(u32),
    Long(i32),
    Wide(u8, i8),
    Float(i16),
    Double(f64),
    Padding,
    Text(Vec<u8>),
    Fixed(Vec<u8>),
}

impl Item {
    fn format(&self) -> String {
        match self {
            Item::Endian(true) => ">".into(),
            Item::Endian(false) => "<".into(),
            Item::Align(true) => "!4".into(),
            Item::Align(false) => "!1".into(),
            Item::Byte(_) => "b".into(),
            Item::UnsignedByte(_) => "B".into(),
            Item::Short(_) => "h".into(),
            Item::UnsignedShort(_) => "H".into(),
            Item::Integer(_) => "i4".into(),
            Item::UnsignedInteger(_) => "I4".into(),
            Item::Long(_) => "l".into(),
            Item::Wide(size, _) => format!("i{}", 1 << (size % 4)),
            Item::Float(_) => "f".into(),
            Item::Double(_) => "d".into(),
            Item::Padding => "x".into(),
            Item::Text(_) => "s".into(),
            Item::Fixed(text) => format!("c{}", text.len().max(1)),
        }
    }

    /// A number as text, or a colon and a text.
    fn value(&self) -> Option<Vec<u8>> {
        Some(match self {
            Item::Endian(_) | Item::Align(_) | Item::Padding => return None,
            Item::Byte(n) | Item::Wide(_, n) => n.to_string().into(),
            Item::UnsignedByte(n) => n.to_string().into(),
            Item::Short(n) | Item::Float(n) => n.to_string().into(),
            Item::UnsignedShort(n) => n.to_string().into(),
            Item::Integer(n) | Item::Long(n) => n.to_string().into(),
            Item::UnsignedInteger(n) => n.to_string().into(),
            Item::Double(n) => n.clamp(-1e300, 1e300).to_string().into(),
            // The text ends with a zero byte, so it must not contain one.
            Item::Text(text) => text.iter().map(|&byte| byte.max(1)).fold(b":".into(), pushed),
            Item::Fixed(text) if text.is_empty() => b":-".into(),
            Item::Fixed(text) => text.iter().copied().fold(b":".into(), pushed),
        })
    }
}

fn pushed(mut text: Vec<u8>, byte: u8) -> Vec<u8> {
    text.push(byte);
    text
}

fn check_struct(lua: &Lua, choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut items: Vec<Item> = choices.arbitrary()?;
    items.retain(|item| !matches!(item, Item::Double(number) if number.is_nan()));
    items.truncate(32);
    let format: String = items.iter().map(Item::format).collect();
    let values: Vec<Vec<u8>> = items.iter().filter_map(Item::value).collect();
    let args: Vec<&[u8]> = [format.as_bytes()].into_iter().chain(values.iter().map(Vec::as_slice)).collect();
    let script = "
        local values = {}
        for i = 2, #ARGV do
          values[#values + 1] = ARGV[i]:sub(1, 1) == ':' and ARGV[i]:sub(2) or tonumber(ARGV[i])
        end
        local packed = struct.pack(ARGV[1], unpack(values))
        local unpacked = {struct.unpack(ARGV[1], packed)}
        local stop = table.remove(unpacked)
        if stop ~= #packed + 1 then return 'it ends at ' .. tostring(stop) .. ' of ' .. #packed end
        if not ARGV[1]:find('s') and struct.size(ARGV[1]) ~= #packed then return 'its size is ' .. struct.size(ARGV[1]) end
        if describe(unpacked) ~= describe(values) then return describe(unpacked) end
        return ''";
    let wrong = lua.run(script, &args);
    assert!(wrong.is_empty(), "struct: {items:?} with {format}: {}", wrong.escape_ascii());
    Ok(())
}

#[derive(Arbitrary, Debug)]
struct Operation {
    a: i32,
    b: i32,
    kind: u8,
}

fn check_bit(lua: &Lua, choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let Operation { a, b, kind } = choices.arbitrary()?;
    let (bits, n) = (a as u32, b as u32 & 31);
    let (name, expected) = match kind % 12 {
        0 => ("band", a & b),
        1 => ("bor", a | b),
        2 => ("bxor", a ^ b),
        3 => ("lshift", (bits << n) as i32),
        4 => ("rshift", (bits >> n) as i32),
        5 => ("arshift", a >> n),
        6 => ("rol", bits.rotate_left(n) as i32),
        7 => ("ror", bits.rotate_right(n) as i32),
        8 => ("bnot", !a),
        9 => ("bswap", a.swap_bytes()),
        10 => ("tobit", a),
        _ => ("tohex", a),
    };
    let expected = if name == "tohex" { format!("{expected:08x}") } else { expected.to_string() };
    let second = if matches!(kind % 12, 0..8) { ", tonumber(ARGV[2])" } else { "" };
    let script = format!("return tostring(bit.{name}(tonumber(ARGV[1]){second}))");
    let got = lua.run(&script, &[a.to_string().as_bytes(), b.to_string().as_bytes()]);
    assert_eq!(got.escape_ascii().to_string(), expected, "bit.{name}({a}, {b})");
    Ok(())
}

/// Unpacks any bytes, repeated many times.
fn check_bytes(lua: &Lua, choices: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let (kind, times): (u8, u8) = choices.arbitrary()?;
    let format_len = usize::from(choices.arbitrary::<u8>()? % 16).min(choices.len());
    let format = choices.bytes(format_len)?;
    let bytes = choices.bytes(choices.len())?;
    let times = if times < 192 { 1 } else { 1 << (times % 16) };
    let bytes = bytes.repeat(times.min(BYTES_MAX / bytes.len().max(1)));
    // The first unpacking may lose digits or order. After that, nothing may change any more. If a
    // value is nested too deeply, cmsgpack packs nil, here and in Redis. A nil cannot be a key.
    let script = match kind % 8 {
        0 | 1 => "local unpack, pack = cjson.decode, cjson.encode",
        2 | 3 => "local unpack, pack = cmsgpack.unpack, cmsgpack.pack",
        4 => "local unpack, pack = function(bytes) return {cmsgpack.unpack(bytes)} end, cmsgpack.pack",
        5 => {
            "local unpack, pack = function(bytes) return {cmsgpack.unpack_limit(bytes, 3, #ARGV[2])} end, cmsgpack.pack"
        }
        6 => "local unpack, pack = function(bytes) return {struct.unpack(ARGV[2], bytes)} end, cmsgpack.pack",
        _ => {
            "local unpack, pack = function(bytes) return {struct.size(ARGV[2]), struct.pack(ARGV[2], 1, bytes, 2, bytes)} end, cmsgpack.pack"
        }
    };
    let is_json = kind % 8 < 2;
    let again = if is_json { "unpack" } else { "cmsgpack.unpack" };
    let script = format!(
        "{script}
        local ok, value = pcall(unpack, ARGV[1])
        if not ok then return '' end
        local ok, packed = pcall(pack, value)
        if not ok then return '' end
        local ok, first = pcall({again}, packed)
        if not ok and first == 'table index is nil' then return '' end
        local second = {again}(pack(first))
        return describe(first) == describe(second) and '' or describe(first) .. ' and then ' .. describe(second)"
    );
    let wrong = lua.run(&script, &[&bytes, format]);
    assert!(wrong.is_empty(), "{script} of {}: {}", bytes.escape_ascii(), wrong.escape_ascii());
    Ok(())
}
