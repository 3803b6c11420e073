//! The commands that Redis 7.0 has and the emulator has not, in groups with names for people.

use bytes::Bytes;

use crate::engine::Engine;
use crate::error::Error;
use crate::log::LogLevel;

/// Each group, and its commands.
const GROUPS: [(&str, &[&str]); 8] = [
    (
        "streams",
        &[
            "xack",
            "xadd",
            "xautoclaim",
            "xclaim",
            "xdel",
            "xgroup",
            "xinfo",
            "xlen",
            "xpending",
            "xrange",
            "xread",
            "xreadgroup",
            "xrevrange",
            "xsetid",
            "xtrim",
        ],
    ),
    ("bitmaps", &["bitcount", "bitfield", "bitfield_ro", "bitop", "bitpos", "getbit", "setbit"]),
    ("HyperLogLogs", &["pfadd", "pfcount", "pfdebug", "pfmerge", "pfselftest"]),
    (
        "geo sets",
        &[
            "geoadd",
            "geodist",
            "geohash",
            "geopos",
            "georadius",
            "georadius_ro",
            "georadiusbymember",
            "georadiusbymember_ro",
            "geosearch",
            "geosearchstore",
        ],
    ),
    ("access control lists", &["acl"]),
    ("persistence", &["bgrewriteaof", "bgsave", "dump", "migrate", "restore", "restore-asking", "save"]),
    ("replication over a socket", &["psync", "replconf", "sync"]),
    ("modules and shutdown", &["module", "shutdown"]),
];

/// Those of them that Redis has as a Sentinel, too.
const OF_SENTINELS: [&str; 2] = ["acl", "shutdown"];

/// The group of a command that only Redis has, as a server with data or as a Sentinel.
pub(super) fn group_of(name: &[u8], is_sentinel: bool) -> Option<&'static str> {
    let known = find(name).filter(|(_, command)| !is_sentinel || OF_SENTINELS.contains(command));
    known.map(|(what, _)| what)
}

/// Logs that a command was refused because only Redis has it, each once.
pub(super) fn log(engine: &mut Engine, name: &[u8], error: &Error) {
    let is_sentinel = engine.sentinel.is_some();
    if let Some((_, command)) = find(name).filter(|_| group_of(name, is_sentinel).is_some())
        && engine.logged_missing.insert(command)
    {
        engine.log(LogLevel::Warning, Bytes::copy_from_slice(error.as_bytes()));
    }
}

/// A command that only Redis has: its group and its name.
fn find(name: &[u8]) -> Option<(&'static str, &'static str)> {
    GROUPS.iter().find_map(|&(what, commands)| {
        let command = commands.iter().find(|own| name.eq_ignore_ascii_case(own.as_bytes()));
        command.map(|&command| (what, command))
    })
}
