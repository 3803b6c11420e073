//! Makes commands from bytes. Names and argument counts come from the emulator's own table, so
//! every new command is fuzzed as soon as it has a row. Arguments come from the command's
//! documentation or from short lists. So commands use the same keys, and options are spelled
//! correctly.

use std::sync::LazyLock;

use emulator::command::{FindKeys, Flag, GROUPS, Row};

use crate::grammar::{Argument, GRAMMAR, Shape};

/// There are few keys, so that commands use the same ones. Channels have these names, too.
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

const WORDS: [&[u8]; 88] = [
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
    b"bcast",
    b"optin",
    b"optout",
    b"noloop",
    b"prefix",
    b"redirect",
    b"yes",
    b"no",
    b"skip",
    b"pubsub",
    b"normal",
    b"skipme",
    b"laddr",
    b"maxmemory",
    b"notify-keyspace-events",
    b"KEA",
    b"requirepass",
    b"maxmemory-policy",
    b"allkeys-lru",
    b"hash-max-listpack-entries",
    b"zset-max-listpack-value",
    b"client-query-buffer-limit",
    b"slowlog-log-slower-than",
    b"freeze",
    b"advance",
    b"drop-after",
    b"lose-reply",
    b"command",
    b"client",
    b"twice",
    b"error",
];

/// Patterns for keys, channels and parameters.
const PATTERNS: [&[u8]; 8] = [b"*", b"a", b"?", b"[^a-b]*", b"\\*", b"*a*", b"max*", b"{a}*"];
const TIMEOUTS: [&[u8]; 8] = [b"0", b"0.01", b"1", b"0.5", b"-1", b"inf", b"1e30", b"x"];

/// Libraries of functions.
const LIBRARIES: [&[u8]; 3] = [
    b"#!lua name=l\nredis.register_function('f', function(keys, args) return redis.call('set', keys[1], args[1] or 'x') end)",
    b"#!lua name=m\nredis.register_function{function_name='g', callback=function() return redis.call('get', 'a') end, flags={'no-writes'}}",
    b"#!lua name=l\nerror('no')",
];

/// Commands that have no documentation, or that random choices rarely make. `K` stands for a key,
/// `N` for a number, `W` for any word.
const FORMS: [&str; 75] = [
    "MULTI",
    "EXEC",
    "DISCARD",
    "WATCH K",
    "HELLO 3",
    "HELLO 2",
    "RESET",
    "SUBSCRIBE K",
    "SUBSCRIBE __keyevent@0__:set K",
    "UNSUBSCRIBE",
    "PSUBSCRIBE *",
    "PSUBSCRIBE __key*",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE K",
    "SPUBLISH K W",
    "PUBLISH K W",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET notify-keyspace-events K$lshzxe",
    "CONFIG SET maxmemory 1",
    "CONFIG SET maxmemory 0",
    "CONFIG SET requirepass W",
    "CONFIG SET slowlog-log-slower-than 0",
    "CONFIG SET timeout 10",
    "CONFIG SET hash-max-listpack-entries 1",
    "CONFIG SET zset-max-listpack-entries 0",
    "CLIENT GETREDIR",
    "CONFIG SET min-replicas-to-write 1",
    "CONFIG SET tracking-table-max-keys 1",
    "AUTH W",
    "AUTH default W",
    "CLIENT TRACKING ON",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKING ON BCAST",
    "CLIENT TRACKING ON BCAST PREFIX K",
    "CLIENT TRACKING ON OPTIN",
    "CLIENT TRACKING ON OPTOUT NOLOOP",
    "CLIENT TRACKING ON REDIRECT 2",
    "CLIENT CACHING YES",
    "CLIENT CACHING NO",
    "CLIENT REPLY OFF",
    "CLIENT REPLY SKIP",
    "CLIENT REPLY ON",
    "CLIENT PAUSE N",
    "CLIENT PAUSE N WRITE",
    "CLIENT UNPAUSE",
    "CLIENT UNBLOCK 1 ERROR",
    "CLIENT NO-EVICT ON",
    "CLIENT KILL ID 2",
    "MONITOR",
    "BLPOP K 0",
    "BZPOPMIN K 0",
    "BLMOVE K K LEFT RIGHT 0",
    "DEBUG OBJECT K",
    "DEBUG SLEEP 0.1",
    "DEBUG POPULATE 3 K 10",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "DEBUG PROTOCOL W",
    "DEBUG PROTOCOL map",
    "DEBUG PROTOCOL push",
    "DEBUG PROTOCOL double",
    "DEBUG ERROR W",
    "DEBUG LOG W",
    "EMULATOR CLOCK ADVANCE N",
    "EMULATOR CLOCK JUMP N",
    "EMULATOR CLOCK DRIFT N",
    "EMULATOR CLOCK WOBBLE N N",
    "EMULATOR CLOCK FREEZE",
    "EMULATOR CLOCK SET N",
    "EMULATOR FAULT DROP-AFTER COUNT N",
    "EMULATOR FAULT LOSE-REPLY COMMAND set",
    "EMULATOR FAULT DELAY N",
    "EMULATOR FAULT TWICE COMMAND incr CLIENT W",
    "EMULATOR FAULT ERROR OOM",
    "EMULATOR FAULT LIST",
    "EMULATOR RESET",
];

/// The only scripts. Random bytes make no Lua that compiles. A loop would use up its budget of 100
/// million instructions and find nothing, so these scripts have none.
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

/// The SHA1 of the first script.
pub const SCRIPT_SHA: &[u8] = b"4e6d8fc8bb01276962cce5371fa795a7763657ae";

/// Creates a key of each kind, so that the first command finds data. The last key of [`KEYS`] stays
/// free.
pub const PRELUDE: [&[&[u8]]; 3] = [
    &[b"set", b"a", b"10"],
    &[b"zadd", b"b", b"1", b"a", b"2", b"b", b"2", b"v"],
    &[b"hset", b"{a}c", b"a", b"1", b"b", b"x"],
];

/// Every command and subcommand, except containers and commands that end the connection or list all
/// commands. Such a list takes megabytes and never changes.
static ROWS: LazyLock<Vec<&'static Row>> = LazyLock::new(|| {
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    let rows = rows.flat_map(|row| std::iter::once(row).chain(row.subcommands));
    // After QUIT, no further command runs.
    let is_wanted =
        |row: &&Row| !row.flags.is_empty() && !matches!(row.name, "quit" | "command" | "command|list");
    rows.filter(is_wanted).collect()
});

/// A command, mostly with a number of arguments that its row allows.
pub struct Command {
    /// The name, including the subcommand: `client|kill`.
    pub name: &'static str,
    pub flags: &'static [Flag],
    /// The command as an array of bulk strings.
    pub bytes: Vec<u8>,
}

impl Command {
    /// Takes a command off the front of `choices`: the row, how its arguments are chosen, then
    /// bytes for each argument. `None` if there are too few bytes.
    pub fn take_from(choices: &mut &[u8]) -> Option<Command> {
        let (choice, way) = (take(choices)?, take(choices)?);
        if way >= 216 {
            return Command::of_form(pick(&FORMS, choice), choices);
        }
        let row = pick(&ROWS, choice);
        let mut argv: Vec<&[u8]> = row.name.split('|').map(str::as_bytes).collect();
        match GRAMMAR.get(row.name) {
            Some(arguments) if way < 176 => {
                let mut expansion = Expansion { argv, n_keys: 1, is_plain: way < 128 };
                arguments.iter().try_for_each(|argument| expansion.add(argument, choices))?;
                argv = expansion.argv;
                // Without a name, these commands also list all commands.
                if matches!(row.name, "command|docs" | "command|info") && argv.len() == 2 {
                    argv.push(pick(&WORDS, way));
                }
            }
            _ => any_arguments(row, &mut argv, way, choices)?,
        }
        Some(Command { name: row.name, flags: row.flags, bytes: encode(&argv) })
    }

    fn of_form(form: &'static str, choices: &mut &[u8]) -> Option<Command> {
        let words = form.split(' ').map(|word| match word {
            "K" => Some(pick(&KEYS, take(choices)?)),
            "N" => Some(pick(&NUMBERS, take(choices)?)),
            "W" => Some(pick(&WORDS, take(choices)?)),
            word => Some(word.as_bytes()),
        });
        let argv: Vec<&[u8]> = words.collect::<Option<_>>()?;
        let (name, flags) = match emulator::command::lookup(argv[0]) {
            // `EMULATOR` is not in the table.
            None => ("emulator", &[][..]),
            Some((row, _)) => {
                let is_meant = |sub: &&Row| {
                    let own = sub.name.split('|').next_back().unwrap_or_default();
                    argv.get(1).is_some_and(|word| word.eq_ignore_ascii_case(own.as_bytes()))
                };
                let row = row.subcommands.iter().find(is_meant).unwrap_or(row);
                (row.name, row.flags)
            }
        };
        Some(Command { name, flags, bytes: encode(&argv) })
    }
}

/// A command that is expanded from its documentation.
struct Expansion {
    argv: Vec<&'static [u8]>,
    /// The value of `numkeys`.
    n_keys: usize,
    /// If set, optional arguments are left out more often.
    is_plain: bool,
}

impl Expansion {
    fn add(&mut self, argument: &'static Argument, choices: &mut &[u8]) -> Option<()> {
        if argument.is_optional && take(choices)? % if self.is_plain { 4 } else { 2 } > 0 {
            return Some(());
        }
        let is_counted = argument.is_multiple && self.n_keys > 0 && argument.name == "key";
        let times = match argument.is_multiple {
            false => 1,
            true if is_counted && self.argv.len() > 2 => self.n_keys,
            true => pick(&[1, 1, 2, 3], take(choices)?),
        };
        for nth in 0..times {
            if nth == 0 || argument.repeats_token {
                self.argv.extend(argument.token.as_deref());
            }
            match &argument.shape {
                Shape::Token => {}
                Shape::Value(kind) => {
                    let value = self.value(kind, &argument.name, take(choices)?);
                    self.argv.push(value);
                }
                Shape::OneOf(all) => self.add(&all[usize::from(take(choices)?) % all.len()], choices)?,
                Shape::Block(all) => all.iter().try_for_each(|argument| self.add(argument, choices))?,
            }
        }
        Some(())
    }

    fn value(&mut self, kind: &str, name: &str, choice: u8) -> &'static [u8] {
        match (kind, name) {
            (_, "numkeys") => {
                self.n_keys = pick(&[1, 2, 1, 2, 3, 0], choice);
                [&b"0"[..], b"1", b"2", b"3"][self.n_keys]
            }
            ("key", _) => pick(&KEYS, choice),
            (_, "script") => pick(&SCRIPTS, choice),
            (_, "sha1") => SCRIPT_SHA,
            (_, "function-code") => pick(&LIBRARIES, choice),
            (_, "function") => pick(&[b"f", b"g"], choice),
            (_, "library-name") => pick(&[b"l", b"m"], choice),
            (_, "timeout") => pick(&TIMEOUTS, choice),
            (_, "channel" | "shardchannel" | "member" | "field" | "element") => pick(&KEYS, choice),
            (_, "protover") => pick(&[b"3", b"2", b"4"], choice),
            ("pattern", _) => pick(&PATTERNS, choice),
            // The clients have small IDs.
            (_, "client-id") => pick(&[b"1", b"2", b"3", b"4"], choice),
            ("integer" | "double" | "unix-time", _) if choice < 200 => pick(&NUMBERS, choice),
            _ if choice < 64 => pick(&NUMBERS, choice),
            _ => pick(&WORDS, choice - 64),
        }
    }
}

/// As many arguments as the row allows, of any kind. First comes the number of optional arguments,
/// then one byte for each argument.
fn any_arguments(row: &Row, argv: &mut Vec<&[u8]>, way: u8, choices: &mut &[u8]) -> Option<()> {
    let mut argc = row.arity.unsigned_abs() as usize;
    argc += usize::from(row.name.starts_with("command|"));
    if row.arity < 0 {
        argc += pick(&[0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6], way);
    }
    let first = argv.len();
    argv.resize(argc.max(first), b"");
    for idx in first..argv.len() {
        argv[idx] = argument(row, argv, idx, take(choices)?);
    }
    Some(())
}

/// The argument at `idx`. The arguments before it are already in `argv`.
fn argument(row: &Row, argv: &[&[u8]], idx: usize, choice: u8) -> &'static [u8] {
    let counts_keys = |find| matches!(find, FindKeys::Keynum);
    match (row.name, idx) {
        ("eval", 1) | ("script|load", 2) => pick(&SCRIPTS, choice),
        ("evalsha", 1) | ("script|exists", 2) if !choice.is_multiple_of(8) => SCRIPT_SHA,
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

/// The arguments as an array of bulk strings.
pub fn encode<T: AsRef<[u8]>>(argv: &[T]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", argv.len()).into_bytes();
    for arg in argv.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Takes the first byte of the remaining choices.
pub fn take(choices: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = choices.split_first()?;
    *choices = rest;
    Some(first)
}

fn pick<T: Copy>(of: &[T], choice: u8) -> T {
    of[usize::from(choice) % of.len()]
}
