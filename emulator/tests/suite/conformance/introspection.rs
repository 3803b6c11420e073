//! Compares what a server reports about itself: INFO, CONFIG GET, COMMAND DOCS and HELP. Values may
//! differ; names, order and shape may not.

use std::collections::{BTreeMap, BTreeSet};

use emulator::Emulator;
use emulator::command::{GROUPS, Row, Servers};

use super::wire::{Emulated, Peer, Real, Wire, parse};
use crate::redis_server::{self, OwnSentinel, RedisServer};

/// Parameters without Redis's defaults. The real server is started with other values, or the
/// emulator keeps nothing on disk and listens on no port.
const OWN_DEFAULTS: &[&str] = &["bind", "daemonize", "dir", "logfile", "pidfile", "port"];

/// Both servers. The real one is lent to the caller as long as it keeps the last value.
fn both() -> Option<(Emulated, Real, RedisServer)> {
    let server = redis_server::borrow()?;
    let real = Real::over(server.connect());
    Some((Emulated::open(&Emulator::new()), real, server))
}

/// A Sentinel of each kind.
fn both_sentinels() -> Option<(Emulated, Real, OwnSentinel)> {
    let sentinel = OwnSentinel::start()?;
    let real = Real::over(sentinel.connect());
    Some((Emulated::open(&Emulator::new().sentinels(1)[0]), real, sentinel))
}

fn ask(peer: &mut impl Peer, argv: &[&str]) -> Wire {
    let reply = peer.call(argv);
    parse(&reply).unwrap_or_else(|| panic!("{argv:?} is not answered")).0
}

fn text(wire: &Wire) -> String {
    match wire {
        Wire::Bulk(bytes) | Wire::Line(_, bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other} is not a text"),
    }
}

fn items(wire: &Wire) -> &[Wire] {
    match wire {
        Wire::Items(_, items) => items,
        other => panic!("{other} is not a list"),
    }
}

/// A map from a list of names and values in turn.
fn fields(wire: &Wire) -> BTreeMap<String, &Wire> {
    items(wire).chunks(2).map(|field| (text(&field[0]), &field[1])).collect()
}

#[test]
fn config_get_knows_every_parameter_with_its_default() {
    let Some((mut emulated, mut real, _server)) = both() else { return };
    let argv = ["CONFIG", "GET", "*"];
    let (emulated, real) = (ask(&mut emulated, &argv), ask(&mut real, &argv));
    let (emulated, real) = (fields(&emulated), fields(&real));
    assert!(emulated.keys().eq(real.keys()));
    for (name, value) in &real {
        if !OWN_DEFAULTS.contains(&name.as_str()) {
            assert_eq!(emulated[name], *value, "{name}");
        }
    }
}

#[test]
fn info_has_every_field_in_order() {
    let Some((mut emulated, mut real, _server)) = both() else { return };
    // These lines depend on the commands that ran and on the keys.
    let varies = |name: &str| {
        ["cmdstat_", "errorstat_", "latency_percentiles_", "db"].iter().any(|own| name.starts_with(own))
    };
    let names = |info: &Wire| -> Vec<String> {
        let info = text(info);
        let lines = info.split("\r\n").map(|line| line.split(':').next().unwrap_or_default().to_owned());
        lines.filter(|name| !varies(name)).collect()
    };
    for section in ["everything", "all", "default", "server", "KEYSPACE", "nosuch"] {
        let argv = ["INFO", section];
        assert_eq!(names(&ask(&mut emulated, &argv)), names(&ask(&mut real, &argv)), "INFO {section}");
    }
    let argv = ["INFO", "cluster", "keyspace", "Modules"];
    assert_eq!(names(&ask(&mut emulated, &argv)), names(&ask(&mut real, &argv)));
}

#[test]
fn info_counts_calls_errors_hits_and_misses() {
    let Some((mut emulated, mut real, _server)) = both() else { return };
    let script: &[&[&str]] = &[
        &["CONFIG", "RESETSTAT"],
        &["SET", "string", "1"],
        &["GET", "string"],
        &["GET", "missing"],
        &["LPUSH", "string", "1"],
        &["NOSUCH"],
        &["GET"],
        &["EVAL", "return redis.call('get', 'string')", "0"],
        &["EVAL", "return redis.call('lpush', 'string', 1)", "0"],
        &["MULTI"],
        &["GET", "string"],
        &["GET"],
        &["EXEC"],
        &["EVAL", "return {err='MYERR x'}", "0"],
        // Commands that a script may not call are rejected, too.
        &["EVAL", "return redis.call('get')", "0"],
        &["EVAL", "redis.pcall('nosuch') return 1", "0"],
        &["EVAL", "return redis.pcall('subscribe', 'x')", "0"],
        &["EVAL", "return redis.pcall('config')", "0"],
        &["EVAL", "return redis.pcall('config', 'get')", "0"],
        &["EVAL_RO", "return redis.call('set', 'a', 'b')", "0"],
        &["CLIENT", "NOSUCH"],
        &["CONFIG", "GET"],
        &["CONFIG", "NOSUCH"],
        &["MULTI"],
        &["INCR", "n"],
        &["EXEC"],
        &["STRLEN", "n"],
        &["EXISTS", "n", "missing"],
    ];
    let counted = |peer: &mut dyn FnMut(&[&str]) -> Wire| {
        for argv in script {
            peer(argv);
        }
        let info = text(&peer(&["INFO", "commandstats", "errorstats"])) + &text(&peer(&["INFO", "stats"]));
        let mut lines: Vec<String> = info
            .split("\r\n")
            .filter(|line| ["cmdstat_", "errorstat_", "keyspace_"].iter().any(|own| line.starts_with(own)))
            .map(|line| {
                line.split(',').filter(|field| !field.starts_with("usec")).collect::<Vec<_>>().join(",")
            })
            .collect();
        lines.sort();
        lines
    };
    let emulated = counted(&mut |argv| ask(&mut emulated, argv));
    let real = counted(&mut |argv| ask(&mut real, argv));
    assert_eq!(emulated, real);
}

/// The arguments of a command. Nameless kinds of group show only their contents, because Redis
/// chose their names freely. If a group has a single part, that part stands for it.
fn shape(argument: &Wire) -> String {
    let mut fields = fields(argument);
    let mut flags: BTreeSet<String> = words(&fields, "flags");
    let mut token = fields.get("token").map(|token| text(token));
    while let Some([part]) = fields.get("arguments").map(|parts| items(parts)) {
        fields = self::fields(part);
        flags.extend(words(&fields, "flags"));
        token = token.or(fields.get("token").map(|token| text(token)));
    }
    let kind = text(fields["type"]);
    let is_nameless = ["oneof", "block", "pure-token"].contains(&kind.as_str());
    let name = if is_nameless { String::new() } else { text(fields["name"]) };
    let parts = fields.get("arguments").map_or(&[][..], |parts| items(parts));
    let parts: Vec<String> = parts.iter().map(shape).collect();
    format!("{}:{kind}:{name}{flags:?}({})", token.unwrap_or_default(), parts.join(" "))
}

fn words(fields: &BTreeMap<String, &Wire>, name: &str) -> BTreeSet<String> {
    fields.get(name).map_or(&[][..], |words| items(words)).iter().map(text).collect()
}

/// Whether only a Sentinel has a command. Its subcommands say nothing of that.
fn is_of_sentinels(row: &Row) -> bool {
    row.servers == Servers::Sentinels || row.name.starts_with("sentinel|")
}

#[test]
fn command_docs_say_what_commands_take() {
    let Some((mut server, mut real_server, _server)) = both() else { return };
    let Some((mut sentinel, mut real_sentinel, _sentinel)) = both_sentinels() else { return };
    let mut differences = Vec::new();
    for row in
        GROUPS.iter().flat_map(|group| group.rows).flat_map(|row| std::iter::once(row).chain(row.subcommands))
    {
        let argv = ["COMMAND", "DOCS", row.name];
        let (emulated, real) = if is_of_sentinels(row) {
            (ask(&mut sentinel, &argv), ask(&mut real_sentinel, &argv))
        } else {
            (ask(&mut server, &argv), ask(&mut real_server, &argv))
        };
        let [_, emulated] = items(&emulated) else { panic!("{} has no docs", row.name) };
        // The real server does not know commands that came in later versions.
        let [_, real] = items(&real) else { continue };
        let (emulated, real) = (fields(emulated), fields(real));
        for name in ["since", "group", "deprecated_since"] {
            let show = |fields: &BTreeMap<String, &Wire>| fields.get(name).map(ToString::to_string);
            if show(&emulated) != show(&real) {
                differences.push(format!(
                    "{} {name}: {:?}, not {:?}",
                    row.name,
                    show(&emulated),
                    show(&real)
                ));
            }
        }
        let arguments = |fields: &BTreeMap<String, &Wire>| -> Vec<String> {
            fields.get("arguments").map_or(&[][..], |arguments| items(arguments)).iter().map(shape).collect()
        };
        let (emulated, real) = (arguments(&emulated), arguments(&real));
        if emulated != real {
            differences.push(format!("{}:\n    server:   {real:?}\n    emulator: {emulated:?}", row.name));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn help_lists_the_subcommands() {
    let Some((mut server, mut real_server, _server)) = both() else { return };
    let Some((mut sentinel, mut real_sentinel, _sentinel)) = both_sentinels() else { return };
    let containers = GROUPS
        .iter()
        .flat_map(|group| group.rows)
        .filter(|row: &&Row| row.subcommands.iter().any(|sub| sub.name.ends_with("|help")))
        // These servers are part of no cluster, so they refuse it.
        .filter(|row| row.name != "cluster");
    for row in containers {
        let argv = [row.name, "HELP"];
        let (emulated, real) = if is_of_sentinels(row) {
            (ask(&mut sentinel, &argv), ask(&mut real_sentinel, &argv))
        } else {
            (ask(&mut server, &argv), ask(&mut real_server, &argv))
        };
        let (emulated, real) = (items(&emulated), items(&real));
        assert_eq!(emulated[0], real[0]);
        assert!(emulated.iter().all(|line| matches!(line, Wire::Line(b'+', _))), "{} HELP", row.name);
        for sub in row.subcommands {
            let name = sub.name[row.name.len() + 1..].to_uppercase();
            assert!(
                emulated.iter().any(|line| text(line).split(' ').next() == Some(&name)),
                "{} HELP: {name}",
                row.name
            );
        }
    }
}
