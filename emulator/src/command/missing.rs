//! The commands that Redis 7.0 has and the emulator has not, in groups with names for people.

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
    ("replication", &["failover", "psync", "replconf", "replicaof", "slaveof", "sync"]),
    ("modules and shutdown", &["module", "shutdown"]),
];

/// The group of a command that only Redis has.
pub(super) fn group_of(name: &[u8]) -> Option<&'static str> {
    let has = |commands: &[&str]| commands.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()));
    GROUPS.iter().find(|(_, commands)| has(commands)).map(|&(what, _)| what)
}
