//! Commands and replies as a person reads them, on one line each.

use std::fmt::Write as _;

use emulator::command;
use redis::{Arg, Cmd, Value};

/// A reply in one line.
pub(crate) trait Show {
    fn show(&self) -> String;
}

impl Show for Value {
    fn show(&self) -> String {
        match self {
            Value::Nil => "(nil)".into(),
            Value::Int(n) => n.to_string(),
            Value::Okay => "OK".into(),
            Value::SimpleString(text) => text.clone(),
            Value::BulkString(bytes) => format!("\"{}\"", bytes.escape_ascii()),
            Value::Array(items) => items.show(),
            Value::ServerError(error) => [error.code(), error.details().unwrap_or_default()].join(" "),
            other => format!("{other:?}"),
        }
    }
}

impl Show for Vec<Value> {
    fn show(&self) -> String {
        format!("[{}]", self.iter().map(Show::show).collect::<Vec<_>>().join(", "))
    }
}

pub(crate) fn show_error(error: &redis::RedisError) -> String {
    match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    }
}

/// `SET lock`
pub(crate) fn brief_command(cmd: &Cmd) -> String {
    let name = cmd.args_iter().next().map_or(&b""[..], |name| bytes_of(&name));
    brief(&name.to_ascii_uppercase().escape_ascii().to_string(), first_key(cmd))
}

/// A key with a space is still one word.
pub(crate) fn brief(name: &str, key: Option<Vec<u8>>) -> String {
    let key = key.map(|key| format!(" {}", key.escape_ascii().to_string().replace(' ', "\\x20")));
    format!("{name}{}", key.unwrap_or_default())
}

pub(crate) fn first_key(cmd: &Cmd) -> Option<Vec<u8>> {
    let argv: Vec<&[u8]> = cmd.args_iter().map(|arg| bytes_of(&arg)).collect();
    let (row, _) = command::lookup(argv.first()?)?;
    let key = row.keys.iter().flat_map(|spec| spec.positions(&argv)).next()?;
    argv.get(key).map(|key| key.to_vec())
}

fn bytes_of<'a>(arg: &Arg<&'a [u8]>) -> &'a [u8] {
    match arg {
        Arg::Simple(bytes) => bytes,
        _ => b"0",
    }
}

/// Longest argument that is shown whole, in bytes: a SHA1 or a script says nothing to a reader.
const SHOWN_ARGUMENT_BYTES_MAX: usize = 32;

pub(crate) fn show_command(cmd: &Cmd) -> String {
    let mut line = String::new();
    for bytes in cmd.args_iter().map(|arg| bytes_of(&arg)) {
        if !line.is_empty() {
            line.push(' ');
        }
        let shown = bytes.escape_ascii().to_string();
        if shown.len() > SHOWN_ARGUMENT_BYTES_MAX {
            _ = write!(line, "{}…", &shown[..8]);
        } else {
            line.push_str(&shown);
        }
    }
    line
}
