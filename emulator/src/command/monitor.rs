//! The records of running commands: lines for `MONITOR`, entries for `SLOWLOG`. Neither has
//! passwords.

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Argv, Flag, Row, is_word};
use crate::client::{CallContext, Client};
use crate::config::Id;
use crate::engine::Engine;
use crate::reply::Reply;
use crate::stats::Slow;

const REDACTED: &[u8] = b"(redacted)";

/// Sends a line to all clients that have called `MONITOR`. Commands with the flag `Admin` are left
/// out.
pub(super) fn feed_monitors(engine: &mut Engine, client: &Client, row: &Row, argv: &Argv<'_>) {
    if engine.monitors.is_empty() || row.has(Flag::Admin) {
        return;
    }
    let micros = engine.keyspace.instant().micros();
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let mut line = format!("{seconds}.{micros:06} [{} {}]", client.db, source(client));
    for arg in redacted(row, argv) {
        line += " ";
        quote(arg, &mut line);
    }
    let line = Reply::Status(line.into());
    // A monitor receives the commands in their order.
    engine.concern_all();
    for &slot in &engine.monitors {
        match slot == client.slot {
            true => engine.outbox.send_after_reply(line.clone()),
            false => engine.outbox.send(slot, line.clone()),
        }
    }
}

/// The address from which a command came.
fn source(client: &Client) -> String {
    let address = &client.addresses[0];
    match address.strip_suffix(":0") {
        _ if client.context == CallContext::InScript => "lua".into(),
        _ if address.is_empty() => "inprocess:0".into(),
        Some(path) => format!("unix:{path}"),
        None => address.clone(),
    }
}

/// Appends a text in quotes, as `redis-cli` shows strings.
fn quote(text: &[u8], line: &mut String) {
    line.push('"');
    for &byte in text {
        match byte {
            b'\n' => *line += "\\n",
            b'\r' => *line += "\\r",
            b'\t' => *line += "\\t",
            0x07 => *line += "\\a",
            0x08 => *line += "\\b",
            b'"' | b'\\' => line.extend(['\\', byte as char]),
            b' '..=b'~' => line.push(byte as char),
            _ => *line += &format!("\\x{byte:02x}"),
        }
    }
    line.push('"');
}

/// Logs a call for `SLOWLOG`. The time does not move while a command runs, so either all commands
/// are logged or none.
pub(super) fn log_slow(engine: &mut Engine, client: &Client, row: &Row, argv: &Argv<'_>) {
    const SLOWLOG_LOG_SLOWER_THAN: Id = Id::of("slowlog-log-slower-than");
    const SLOWLOG_MAX_LEN: Id = Id::of("slowlog-max-len");
    let is_logged = engine.config.number(SLOWLOG_LOG_SLOWER_THAN) == 0;
    if !is_logged || row.has(Flag::SkipSlowlog) {
        return;
    }
    let (address, name) = match client.context {
        CallContext::InScript => ("?:0".to_owned(), Bytes::new()),
        _ => (client.addresses[0].clone(), client.name.clone()),
    };
    let slow = Slow::new(engine.keyspace.instant(), &redacted(row, argv), address, name);
    engine.stats.log_slow(slow, engine.config.size(SLOWLOG_MAX_LEN));
}

/// The arguments, with passwords replaced.
fn redacted<'a>(row: &Row, argv: &Argv<'a>) -> SmallVec<[&'a [u8]; 8]> {
    let mut shown: SmallVec<[&[u8]; 8]> = argv.into();
    match row.name {
        // A call with too many arguments is an error, so none of them is a password.
        "auth" if argv.len() <= 3 => shown[1..].fill(REDACTED),
        "hello" => {
            let mut idx = 2;
            while let Some(option) = argv.get(idx) {
                let is_auth = is_word(option, "auth");
                if is_auth && let Some(credentials) = shown.get_mut(idx + 1..=idx + 2) {
                    credentials.fill(REDACTED);
                }
                idx += if is_auth { 3 } else { 2 };
            }
        }
        "config|set" => {
            for pair in shown[2..].chunks_mut(2) {
                if let [name, value] = pair
                    && Id::lookup(name).is_some_and(|(id, _)| id.is_secret())
                {
                    *value = REDACTED;
                }
            }
        }
        _ => {}
    }
    shown
}
