//! `cjson.decode(text)`

use mlua::{Lua, Table, Value};

use super::config::Settings;
use crate::script::args::{Args, raise};
use crate::script::library::state::STACK_SLOTS_MAX;
use crate::script::spend::spend;

pub(super) fn decode(args: &Args<'_>, settings: &Settings) -> mlua::Result<Value> {
    let text = args.string(1)?;
    let text = text.as_bytes();
    // Reading a byte takes no longer than an instruction, even if the byte is a whole value.
    spend(args.lua, text.len() as u64)?;
    if let [0, _, ..] | [_, 0, ..] = *text {
        return Err(raise(args.lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut parser =
        Parser { lua: args.lua, settings, tokens: Tokens { text: &text, position: 0, settings } };
    let value = parser.document()?;
    match parser.tokens.next() {
        (Token::End, _) => Ok(value),
        other => Err(parser.expected("the end", &other)),
    }
}

struct Parser<'a> {
    lua: &'a Lua,
    settings: &'a Settings,
    tokens: Tokens<'a>,
}

/// A table that is partly read.
enum Open {
    Array(Table),
    Object(Table, Vec<u8>),
}

type Place = usize;

impl Parser<'_> {
    /// Reads one value. Nested tables are kept in a list, so that deep nesting cannot overflow the
    /// stack.
    fn document(&mut self) -> mlua::Result<Value> {
        let mut open: Vec<Open> = Vec::new();
        let mut n_slots = 1;
        let mut token = self.tokens.next();
        loop {
            let mut value = match &mut token.0 {
                Token::Text(text) => Value::String(self.lua.create_string(std::mem::take(text))?),
                Token::Number(number) => Value::Number(number.value(self.lua)?),
                Token::Boolean(yes) => Value::Boolean(*yes),
                Token::Null => Value::NULL,
                Token::ArrayBegin => {
                    self.descend(open.len() + 1, n_slots + 2)?;
                    let table = self.lua.create_table()?;
                    token = self.tokens.next();
                    if !matches!(token.0, Token::ArrayEnd) {
                        n_slots += 1;
                        open.push(Open::Array(table));
                        continue;
                    }
                    Value::Table(table)
                }
                Token::ObjectBegin => {
                    self.descend(open.len() + 1, n_slots + 3)?;
                    let table = self.lua.create_table()?;
                    token = self.tokens.next();
                    if !matches!(token.0, Token::ObjectEnd) {
                        n_slots += 2;
                        open.push(Open::Object(table, self.key(&mut token)?));
                        token = self.tokens.next();
                        continue;
                    }
                    Value::Table(table)
                }
                _ => return Err(self.expected("value", &token)),
            };
            loop {
                let Some(last) = open.last_mut() else { return Ok(value) };
                token = self.tokens.next();
                match (last, &token.0) {
                    (Open::Array(table), Token::ArrayEnd) => {
                        table.raw_push(value)?;
                        value = Value::Table(table.clone());
                        n_slots -= 1;
                        open.pop();
                    }
                    (Open::Array(table), Token::Comma) => {
                        table.raw_push(value)?;
                        token = self.tokens.next();
                        break;
                    }
                    (Open::Object(table, key), Token::ObjectEnd) => {
                        table.raw_set(self.lua.create_string(key)?, value)?;
                        value = Value::Table(table.clone());
                        n_slots -= 2;
                        open.pop();
                    }
                    (Open::Object(table, key), Token::Comma) => {
                        table.raw_set(self.lua.create_string(&*key)?, value)?;
                        token = self.tokens.next();
                        *key = self.key(&mut token)?;
                        token = self.tokens.next();
                        break;
                    }
                    (Open::Array(_), _) => return Err(self.expected("comma or array end", &token)),
                    (Open::Object(..), _) => return Err(self.expected("comma or object end", &token)),
                }
            }
        }
    }

    /// A key and its colon.
    fn key(&mut self, token: &mut (Token, Place)) -> mlua::Result<Vec<u8>> {
        let Token::Text(key) = &mut token.0 else { return Err(self.expected("object key string", token)) };
        let key = std::mem::take(key);
        match self.tokens.next() {
            (Token::Colon, _) => Ok(key),
            other => Err(self.expected("colon", &other)),
        }
    }

    fn descend(&self, depth: usize, n_slots: usize) -> mlua::Result<()> {
        if depth <= self.settings.decode_depth_max as usize && n_slots <= STACK_SLOTS_MAX {
            return Ok(());
        }
        let place = self.tokens.position;
        let text = format!("Found too many nested data structures ({depth}) at character {place}");
        Err(raise(self.lua, text))
    }

    fn expected(&self, what: &str, (token, place): &(Token, Place)) -> mlua::Error {
        let found = token.name();
        raise(self.lua, format!("Expected {what} but found {found} at character {}", place + 1))
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(Number),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

enum Number {
    Decimal(f64),
    /// A number that C must parse: hexadecimal, infinite or NaN.
    Other(Vec<u8>),
}

impl Number {
    fn value(&self, lua: &Lua) -> mlua::Result<f64> {
        match self {
            Number::Decimal(number) => Ok(*number),
            Number::Other(text) => {
                let number = lua.coerce_number(Value::String(lua.create_string(text)?))?;
                Ok(number.unwrap_or(f64::NAN))
            }
        }
    }
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::Text(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(what) => what,
        }
    }
}

/// The text that C reads: it ends at the first NUL.
struct Tokens<'a> {
    text: &'a [u8],
    position: usize,
    settings: &'a Settings,
}

impl Tokens<'_> {
    /// The next token and its place. For an invalid token, the place is where the error is
    /// detected.
    fn next(&mut self) -> (Token, Place) {
        while let b' ' | b'\t' | b'\n' | b'\r' = self.at(0) {
            self.position += 1;
        }
        let place = self.position;
        let single = match self.at(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b':' => Token::Colon,
            b',' => Token::Comma,
            0 => return (Token::End, place),
            _ => {
                let token = self.long();
                return if let Token::Error(_) = token { (token, self.position) } else { (token, place) };
            }
        };
        self.position += 1;
        (single, place)
    }

    fn long(&mut self) -> Token {
        type Word = (&'static [u8], fn() -> Token);
        const WORDS: &[Word] = &[
            (b"true", || Token::Boolean(true)),
            (b"false", || Token::Boolean(false)),
            (b"null", || Token::Null),
        ];
        let allows_invalid = self.settings.decode_invalid == 1;
        match self.at(0) {
            b'"' => self.string(),
            b'-' | b'0'..=b'9' => {
                if !allows_invalid && self.is_invalid_number() {
                    return Token::Error("invalid number");
                }
                self.number()
            }
            _ => {
                let rest = &self.text[self.position..];
                if let Some((word, token)) = WORDS.iter().find(|(word, _)| rest.starts_with(word)) {
                    self.position += word.len();
                    return token();
                }
                if allows_invalid && self.is_invalid_number() {
                    self.number()
                } else {
                    Token::Error("invalid token")
                }
            }
        }
    }

    fn at(&self, ahead: usize) -> u8 {
        self.text.get(self.position + ahead).copied().unwrap_or(0)
    }

    /// Whether C reads a number here that JSON does not allow: a plus sign, leading zeros,
    /// hexadecimal digits, infinity, NaN.
    fn is_invalid_number(&self) -> bool {
        let sign = usize::from(self.at(0) == b'-');
        let rest = self.text.get(self.position + sign..).unwrap_or_default();
        let begins = |word: &[u8]| rest.get(..3).is_some_and(|head| head.eq_ignore_ascii_case(word));
        match self.at(sign) {
            b'+' if sign == 0 => true,
            b'0' => matches!(self.at(sign + 1), b'x' | b'X' | b'0'..=b'9'),
            0..=b'9' => false,
            _ => begins(b"inf") || begins(b"nan"),
        }
    }

    fn number(&mut self) -> Token {
        let rest = &self.text[self.position..];
        let (length, is_decimal) = number_length(rest);
        if length == 0 {
            return Token::Error("invalid number");
        }
        self.position += length;
        let digits = std::str::from_utf8(&rest[..length]).ok().filter(|_| is_decimal);
        let number = digits.and_then(|digits| digits.parse().ok()).map(Number::Decimal);
        Token::Number(number.unwrap_or_else(|| Number::Other(rest[..length].to_vec())))
    }

    fn string(&mut self) -> Token {
        let mut string = Vec::new();
        self.position += 1;
        loop {
            match self.at(0) {
                b'"' => break,
                0 => return Token::Error("unexpected end of string"),
                b'\\' => {
                    let plain = match self.at(1) {
                        b'b' => 0x08,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 0x0c,
                        b'r' => b'\r',
                        same @ (b'"' | b'/' | b'\\') => same,
                        b'u' => match self.unicode() {
                            Some((character, length)) => {
                                let mut utf8 = [0; 4];
                                string.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                                self.position += length;
                                continue;
                            }
                            None => return Token::Error("invalid unicode escape code"),
                        },
                        _ => return Token::Error("invalid escape code"),
                    };
                    string.push(plain);
                    self.position += 2;
                }
                plain => {
                    string.push(plain);
                    self.position += 1;
                }
            }
        }
        self.position += 1;
        Token::Text(string)
    }

    /// The character of `\u` with four digits, or of two such escapes that form one UTF-16
    /// character, and the length.
    fn unicode(&self) -> Option<(char, usize)> {
        let unit = |ahead: usize| {
            let digits = self.text.get(self.position + ahead..self.position + ahead + 4)?;
            digits
                .iter()
                .try_fold(0_u16, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
        };
        let first = unit(2)?;
        if first & 0xf800 != 0xd800 {
            return Some((char::from_u32(first.into())?, 6));
        }
        let is_pair = (self.at(6), self.at(7)) == (b'\\', b'u');
        let units = [first, if is_pair { unit(8)? } else { 0 }];
        char::decode_utf16(units).next()?.ok().map(|character| (character, 12))
    }
}

/// How many bytes C's `strtod` reads, and whether they are a decimal number.
fn number_length(text: &[u8]) -> (usize, bool) {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign..];
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    for word in [&b"infinity"[..], b"inf", b"nan"] {
        if begins(word) {
            let payload = if word == b"nan" { payload_length(&rest[word.len()..]) } else { 0 };
            return (sign + word.len() + payload, false);
        }
    }
    if begins(b"0x") {
        return match float_length(&rest[2..], u8::is_ascii_hexdigit, b'p') {
            0 => (sign + 1, true),
            length => (sign + 2 + length, false),
        };
    }
    match float_length(rest, u8::is_ascii_digit, b'e') {
        0 => (0, true),
        length => (sign + length, true),
    }
}

/// The length of digits with an optional point and an optional exponent.
fn float_length(text: &[u8], is_digit: fn(&u8) -> bool, exponent: u8) -> usize {
    let digits = |from: usize| text[from..].iter().take_while(|byte| is_digit(byte)).count();
    let whole = digits(0);
    let fraction = if text.get(whole) == Some(&b'.') { digits(whole + 1) } else { 0 };
    if whole + fraction == 0 {
        return 0;
    }
    let point = usize::from(text.get(whole) == Some(&b'.'));
    let length = whole + point + fraction;
    if text.get(length).map(u8::to_ascii_lowercase) != Some(exponent) {
        return length;
    }
    let sign = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
    let from = length + 1 + sign;
    match text.get(from..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count() {
        0 => length,
        digits => from + digits,
    }
}

/// The length of the parentheses that may follow a NaN.
fn payload_length(text: &[u8]) -> usize {
    let is_inside = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'_';
    let Some((b'(', rest)) = text.split_first() else { return 0 };
    let n_inside = rest.iter().take_while(is_inside).count();
    if rest.get(n_inside) == Some(&b')') { n_inside + 2 } else { 0 }
}
