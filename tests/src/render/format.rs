//! Formats commands, replies, and names from other sources for people at a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use emulator::command::{self, Flag, Row};
use emulator::{Escaped, Reply};
use redis::{Arg, Cmd, IntoConnectionInfo, Value};

/// The text in a form that is safe for a terminal.
///
/// It escapes control characters except the newline, invisible characters, and those that change
/// the direction of writing. The escapes are those of Rust, for example `\u{1b}`. Names, replies,
/// errors and panic messages come from other sources.
///
/// ```
/// assert_eq!(harness::render::printable("\x1b[31mred\r\n"), "\\u{1b}[31mred\\r\n");
/// ```
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| c == '\n' || is_printable(c)) {
        return text.into();
    }
    let escape = |c: char| match c {
        '\n' => "\n".into(),
        c if is_printable(c) => c.to_string(),
        c => c.escape_debug().to_string(),
    };
    text.chars().map(escape).collect()
}

/// The text as [`printable`] returns it, on one line.
pub(crate) fn on_one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n")
}

pub(crate) fn is_printable(c: char) -> bool {
    // An accent is escaped only if no letter comes before it.
    let mut pair = [b'a'; 5];
    let len = c.encode_utf8(&mut pair[1..]).len();
    let pair = std::str::from_utf8(&pair[..=len]).expect("two characters");
    matches!(c, ' '..='~') || pair.escape_debug().nth(2).is_none()
}

/// The target of a URL without user name and password: `redis://host:6379/9`. If the text is not
/// the URL of a server, nothing of it is shown, because it may contain a password.
pub fn format_url(url: impl IntoConnectionInfo) -> String {
    match url.into_connection_info() {
        Ok(info) => format!("redis://{}/{}", info.addr(), info.redis_settings().db()),
        Err(_) => NO_URL.into(),
    }
}

const NO_URL: &str = "(no URL of a server)";

/// The longest value that is shown completely, in bytes. A longer one is shown by its beginning and
/// its length.
pub(crate) const SHOWN_VALUE_BYTES_MAX: usize = 16 << 10;

/// A value in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    format!("\"{:.SHOWN_VALUE_BYTES_MAX$}\"", Escaped(bytes))
}

/// A reply on one line.
pub(crate) trait Format {
    fn show(&self) -> String;
}

impl Format for Value {
    fn show(&self) -> String {
        match self {
            Value::Nil => "(nil)".into(),
            Value::Int(n) => n.to_string(),
            Value::Okay => "OK".into(),
            Value::SimpleString(text) => text.clone(),
            Value::BulkString(bytes) => quoted(bytes),
            Value::Array(items) | Value::Set(items) => items.show(),
            Value::Map(pairs) => show_pairs(pairs),
            Value::Double(number) => number.to_string(),
            Value::Boolean(value) => value.to_string(),
            Value::VerbatimString { text, .. } => quoted(text.as_bytes()),
            Value::ServerError(error) => [error.code(), error.details().unwrap_or_default()].join(" "),
            other => format!("{other:?}"),
        }
    }
}

fn show_pairs<T: Format>(pairs: &[(T, T)]) -> String {
    let pairs = pairs.iter().map(|(key, value)| format!("{}: {}", key.show(), value.show()));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

impl<T: Format> Format for Vec<T> {
    fn show(&self) -> String {
        format!("[{}]", self.iter().map(Format::show).collect::<Vec<_>>().join(", "))
    }
}

impl Format for Reply {
    fn show(&self) -> String {
        match self {
            Reply::Nil | Reply::NilArray => "(nil)".into(),
            Reply::Integer(n) => n.to_string(),
            Reply::Status(text) | Reply::BigNumber(text) => String::from_utf8_lossy(text).into_owned(),
            Reply::Bulk(bytes) | Reply::Verbatim(_, bytes) => quoted(bytes),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) | Reply::Several(items) => {
                items.show()
            }
            Reply::Error(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            Reply::Settled(_, reply) => reply.show(),
            Reply::Boolean(value) => value.to_string(),
            Reply::Double(value) => value.to_string(),
            Reply::Map(pairs) => show_pairs(pairs),
        }
    }
}

pub(crate) fn format_error(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

/// The name and first key of a command: `SET lock`.
pub(crate) fn brief_command(cmd: &Cmd) -> String {
    let name = cmd.args_iter().next().map_or(&b""[..], |name| bytes_of(&name));
    brief(&name.to_ascii_uppercase().escape_ascii().to_string(), first_key(cmd))
}

/// The name and first key of a command. A space in the key is escaped, so that the key is one word.
pub(crate) fn brief(name: &str, key: Option<Vec<u8>>) -> String {
    let key = key.map(|key| format!(" {}", key.escape_ascii().to_string().replace(' ', "\\x20")));
    format!("{name}{}", key.unwrap_or_default())
}

pub(crate) fn first_key(cmd: &Cmd) -> Option<Vec<u8>> {
    keys_of(cmd).into_iter().next()
}

/// The keys that a command names.
pub(crate) fn keys_of(cmd: &Cmd) -> Vec<Vec<u8>> {
    keys(cmd, |_| true)
}

/// The keys that a command names and may write.
pub(crate) fn written_keys(cmd: &Cmd) -> Vec<Vec<u8>> {
    keys(cmd, |row| !row.flags.contains(&Flag::ReadOnly))
}

fn keys(cmd: &Cmd, is_meant: impl Fn(&Row) -> bool) -> Vec<Vec<u8>> {
    let argv: Vec<&[u8]> = cmd.args_iter().map(|arg| bytes_of(&arg)).collect();
    let row = argv.first().and_then(|name| command::lookup(name)).filter(|(row, _)| is_meant(row));
    let places = row.into_iter().flat_map(|(row, _)| row.keys).flat_map(|spec| spec.positions(&argv));
    places.filter_map(|place| argv.get(place)).map(|key| key.to_vec()).collect()
}

pub(crate) fn bytes_of<'a>(arg: &Arg<&'a [u8]>) -> &'a [u8] {
    match arg {
        Arg::Simple(bytes) => bytes,
        _ => b"0",
    }
}

/// The longest argument that is shown completely, in bytes. A SHA1 or a script does not help the
/// reader.
const SHOWN_ARGUMENT_BYTES_MAX: usize = 32;

pub(crate) fn format_command(cmd: &Cmd) -> String {
    format_words(cmd.args_iter().map(|arg| bytes_of(&arg)))
}

/// The name of a script: the word in its first line, if that is a comment of one word.
fn name_in(source: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    let name = source.lines().next()?.trim().strip_prefix("--")?.trim();
    (!name.is_empty() && name.len() <= SHOWN_ARGUMENT_BYTES_MAX && name.chars().all(is_part)).then_some(name)
}

/// The name of a script. If it has none, the beginning of its first line, in quotes.
pub(crate) fn script_name(source: &str) -> String {
    const CHARS_MAX: usize = 24;
    if let Some(name) = name_in(source) {
        return name.to_owned();
    }
    let first = source.lines().next().unwrap_or_default().trim();
    match first.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("\"{}…\"", &first[..end]),
        None => format!("\"{first}\""),
    }
}

/// Words of a command on one line. A script that has a name is shown by it.
pub(crate) fn format_words<'a>(words: impl Iterator<Item = &'a [u8]>) -> String {
    let mut line = String::new();
    for bytes in words {
        if !line.is_empty() {
            line.push(' ');
        }
        // A few bytes more than are shown tell whether there is more.
        let shown = bytes[..bytes.len().min(SHOWN_ARGUMENT_BYTES_MAX + 1)].escape_ascii().to_string();
        match std::str::from_utf8(bytes).ok().and_then(name_in) {
            Some(name) => line.push_str(name),
            None if shown.len() > SHOWN_ARGUMENT_BYTES_MAX => _ = write!(line, "{}…", &shown[..8]),
            None => line.push_str(&shown),
        }
    }
    line
}

/// Puts one `#` for each number, and keeps its sign.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            _ => out.push(char),
        }
    }
    out
}

/// A time since the start: `+10000 ms`.
pub(super) fn format_time(at: Duration) -> String {
    format!("+{} ms", at.as_millis())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in any::<String>()) {
            let shown = printable(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() && c != '\n'));
            let turns = shown.contains(['\u{202e}', '\u{2066}', '\u{200f}', '\u{feff}', '\u{2028}']);
            prop_assert!(!turns);
            prop_assert_eq!(printable(&shown), &*shown);
            prop_assert!(!on_one_line(&text).contains('\n'));
        }
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        for text in [
            "",
            "a lock's \"name\" \\ 1",
            "● │ ┃ ▸ ✗ →",
            "Schloß",
            "e\u{301}tage",
            "锁",
            "замок",
            "قفل",
            "ताला",
        ] {
            assert_eq!(printable(text), text);
        }
        let hidden = "\0\u{7}\u{1b}[31m\r\t\u{7f}\u{9b}\u{202e}";
        assert_eq!(printable(hidden), "\\0\\u{7}\\u{1b}[31m\\r\\t\\u{7f}\\u{9b}\\u{202e}");
        assert_eq!((&*printable("a\nb"), &*on_one_line("a\nb")), ("a\nb", "a\\nb"));
    }

    #[test]
    fn a_url_is_shown_without_its_user() {
        for (url, shown) in [
            ("redis://host", "redis://host:6379/0"),
            ("redis://:secret@host:1/9", "redis://host:1/9"),
            ("redis://user:sec%40ret@host:1/9", "redis://host:1/9"),
            ("redis://:sec@ret@host/", "redis://host:6379/0"),
            ("redis://:sec?ret@host/", NO_URL),
            ("redis://:secret@host:port/", NO_URL),
            ("secret", NO_URL),
        ] {
            assert_eq!(format_url(url), shown, "{url}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        let value = vec![b'x'; SHOWN_VALUE_BYTES_MAX + 1];
        assert_eq!(quoted(&value[1..]).len(), SHOWN_VALUE_BYTES_MAX + 2);
        assert!(quoted(&value).ends_with("x… (16385 bytes)\""));
        assert_eq!(format_words([&b"SET"[..], b"k", &value].into_iter()), "SET k xxxxxxxx…");
        assert_eq!(format_words([&[0xff; 9][..]].into_iter()), "\\xff\\xff…");
    }

    #[test]
    fn numbers_are_no_difference_but_their_signs_are() {
        assert_eq!(without_numbers("SET lock A1 PX 10000"), "SET lock A# PX #");
        assert_eq!(without_numbers("PEXPIRE lock -15"), "PEXPIRE lock -#");
    }
}
