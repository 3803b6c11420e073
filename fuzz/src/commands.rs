//! Commands made out of bytes: names and numbers of arguments from the emulator's own table, so that a new command is
//! fuzzed from the day it has a row; keys where the row says that keys stand, and other arguments from short lists, so that
//! commands meet on a key and options are spelled right.

use std::sync::LazyLock;

use emulator::command::{FindKeys, Flag, GROUPS, Row};

/// Few, so that commands meet.
pub const KEYS: [&[u8]; 4] = [b"a", b"b", b"{a}c", b"\x00\xff\r\n"];

const NUMBERS: [&[u8]; 27] = [
    b"0",
    b"1",
    b"2",
    b"3",
    b"-1",
    b"-2",
    b"10",
    b"1000",
    b"1.5",
    b"-0.5",
    b"1e308",
    b"0x1p3",
    b"inf",
    b"-inf",
    b"nan",
    b"(1",
    b"(inf",
    b"[a",
    b"(b",
    b"+",
    b"-",
    b"007",
    b"1700000010",
    b"1700000010000",
    b"9223372036854775",
    b"9223372036854775807",
    b"-9223372036854775808",
];

const WORDS: [&[u8]; 57] = [
    b"",
    b"v",
    b"*",
    b"?",
    b"[^a-b]*",
    b"\\",
    b"nx",
    b"XX",
    b"gt",
    b"LT",
    b"ch",
    b"incr",
    b"GET",
    b"ex",
    b"PX",
    b"exat",
    b"pxat",
    b"keepttl",
    b"persist",
    b"withscores",
    b"byscore",
    b"bylex",
    b"rev",
    b"limit",
    b"weights",
    b"aggregate",
    b"sum",
    b"min",
    b"max",
    b"match",
    b"count",
    b"type",
    b"string",
    b"withvalues",
    b"left",
    b"right",
    b"before",
    b"after",
    b"auth",
    b"default",
    b"setname",
    b"lib-name",
    b"lib-ver",
    b"sync",
    b"async",
    b"filterby",
    b"module",
    b"aclcat",
    b"@write",
    b"pattern",
    b"get",
    b"set",
    b"eval",
    b"zunionstore",
    b"client|id",
    b"on",
    b"off",
];

/// The only scripts. Bytes make no Lua that compiles, and a loop would run to the end of its budget of 100 million
/// instructions, a second that finds nothing; these have no loop.
pub const SCRIPTS: [&[u8]; 8] = [
    b"return redis.call('get', KEYS[1])",
    b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    b"redis.call('set', KEYS[1], 'half') return redis.call('incr', KEYS[1])",
    b"local t = redis.call('time') redis.call('pexpire', KEYS[1], 10) return {t, redis.pcall('zcard', KEYS[1])}",
    b"redis.call('select', 1) return {1.9, 'x', true, false, {err = 'E\\r\\n'}, {ok = 'fine'}, redis.sha1hex('')}",
    b"return {double = 1.5}",
    b"redis.setresp(3) return {true, redis.call('hgetall', KEYS[1]), redis.pcall('zrange', KEYS[1], 0, -1, 'withscores')}",
    b"#!lua flags=no-writes\nreturn {redis.pcall('del', KEYS[1]), redis.call('exists', KEYS[1])}",
];

/// SHA1 of the first script.
pub const SCRIPT_SHA: &[u8] = b"4e6d8fc8bb01276962cce5371fa795a7763657ae";

/// A key of each kind, so that the first command already finds something; the last key of [`KEYS`] stays free.
pub const PRELUDE: [&[&[u8]]; 3] = [
    &[b"set", b"a", b"10"],
    &[b"zadd", b"b", b"1", b"a", b"2", b"b", b"2", b"v"],
    &[b"hset", b"{a}c", b"a", b"1", b"b", b"x"],
];

/// Every command and subcommand that has exactly one reply.
static ROWS: LazyLock<Vec<&'static Row>> = LazyLock::new(|| {
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    let rows = rows.flat_map(|row| std::iter::once(row).chain(row.subcommands));
    // Publish and subscribe push messages and answer once for each channel. After QUIT nothing happens any more.
    let is_wanted = |row: &&Row| !row.flags.contains(&Flag::Pubsub) && row.name != "quit";
    rows.filter(|row| !row.flags.is_empty()).filter(is_wanted).collect()
});

/// A command whose number of arguments its row allows.
pub struct Command {
    pub row: &'static Row,
    /// As an array of bulk strings.
    pub bytes: Vec<u8>,
}

impl Command {
    /// Takes a command off the front of `choices`: the row, the number of optional arguments, then one byte for each
    /// argument. `None` when they run out.
    pub fn take_from(choices: &mut &[u8]) -> Option<Command> {
        let row = pick(&ROWS, take(choices)?);
        let mut argc = row.arity.unsigned_abs() as usize;
        if row.arity < 0 {
            argc += pick(&[0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6], take(choices)?);
        }
        let mut argv: Vec<&[u8]> = row.name.split('|').map(str::as_bytes).collect();
        let first = argv.len();
        argv.resize(argc.max(first), b"");
        for idx in first..argv.len() {
            argv[idx] = argument(row, &argv, idx, take(choices)?);
        }
        Some(Command { row, bytes: encode(&argv) })
    }

    /// QUIT
    pub fn quit() -> Command {
        let (row, _) = emulator::command::lookup(b"quit").expect("QUIT is in the table");
        Command { row, bytes: encode(&[b"quit"]) }
    }
}

/// The argument at `idx`; those in front of it are there already.
fn argument(row: &Row, argv: &[&[u8]], idx: usize, choice: u8) -> &'static [u8] {
    let counts_keys = |find| matches!(find, FindKeys::Keynum);
    match (row.name, idx) {
        ("eval", 1) | ("script|load", 2) => pick(&SCRIPTS, choice),
        ("evalsha", 1) | ("script|exists", 2) if choice % 8 != 0 => SCRIPT_SHA,
        _ if row.keys.iter().any(|spec| spec.positions(argv).contains(&idx)) => pick(&KEYS, choice),
        _ if row.keys.iter().any(|spec| spec.begin == idx && counts_keys(spec.find)) => {
            pick(&[b"1", b"2", b"1", b"2", b"1", b"2", b"3", b"0", b"-1"], choice)
        }
        _ => match choice {
            0..112 => pick(&NUMBERS, choice),
            112..144 => pick(&KEYS, choice - 112),
            144.. => pick(&WORDS, choice - 144),
        },
    }
}

/// An array of bulk strings.
pub fn encode<T: AsRef<[u8]>>(argv: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The first of the choices that are left.
pub fn take(choices: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = choices.split_first()?;
    *choices = rest;
    Some(first)
}

fn pick<T: Copy>(of: &[T], choice: u8) -> T {
    of[usize::from(choice) % of.len()]
}
