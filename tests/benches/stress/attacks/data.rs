//! Attacks through the arguments of commands.

use redis::Value;

use super::{Attack, Judge, argv, connect};
use crate::client::{request, show};

/// Commands as a user types them. The reply to the last one must equal Redis's.
const LINES: &[&str] = &[
    "SADD s a|SRANDMEMBER s -9223372036854775808",
    "SADD s a|SRANDMEMBER s 9223372036854775807",
    "SADD s a|SPOP s 9223372036854775807",
    "SADD s a|SPOP s -1",
    "HSET h f v|HRANDFIELD h -9223372036854775808 WITHVALUES",
    "ZADD z 1 m|ZRANDMEMBER z -4611686018427387905 WITHSCORES",
    "ZADD z 1 m|ZRANGE z -9223372036854775808 9223372036854775807",
    "ZADD z 1 m|ZRANGEBYSCORE z -inf +inf LIMIT 9223372036854775807 -9223372036854775808",
    "ZADD z 1 m|ZPOPMIN z 9223372036854775807",
    "ZADD z nan m",
    "ZADD z inf m|ZINCRBY z -inf m",
    "ZMPOP 9223372036854775807 z MIN",
    "ZINTERSTORE d 2147483647 z",
    "ZUNIONSTORE d -1 z",
    "LMPOP 9223372036854775807 l LEFT",
    "SINTERCARD 9223372036854775807 s",
    "RPUSH l a b|LRANGE l -9223372036854775808 9223372036854775807",
    "RPUSH l a b|LPOP l 9223372036854775807",
    "RPUSH l a b|LPOP l 9223372036854775808",
    "RPUSH l a b|LPOS l a RANK -9223372036854775808",
    "RPUSH l a b|LPOS l a RANK -9223372036854775807 COUNT 0",
    "RPUSH l a b|LREM l -9223372036854775808 a",
    "RPUSH l a b|LINDEX l -9223372036854775808",
    "RPUSH l a b|LTRIM l 9223372036854775807 -9223372036854775808",
    "RPUSH l a b|SORT l ALPHA LIMIT -9223372036854775808 9223372036854775807",
    "SET k v|GETRANGE k -9223372036854775808 9223372036854775807",
    "SETRANGE k 9223372036854775807 x",
    "SETRANGE k 536870912 x",
    "SETRANGE k -1 x",
    "SETRANGE k 536870911 x|STRLEN k",
    "SETRANGE k 536870911 x|APPEND k y",
    "SET k 9223372036854775807|INCR k",
    "DECRBY k -9223372036854775808",
    "INCRBYFLOAT k 1e5000",
    "SET k 1e4932|INCRBYFLOAT k 1e4932",
    "SET k v EX 9223372036854775807",
    "SET k v PX 9223372036854775807",
    "SET k v PXAT 9223372036854775807",
    "SET k v|EXPIRE k 9223372036854775807",
    "SET k v|EXPIRE k -9223372036854775808",
    "SET k v|PEXPIREAT k -9223372036854775808",
    "SET k v|COPY k k DB 2147483647",
    "SELECT 2147483648",
    "SWAPDB -1 0",
    "SCAN 18446744073709551616",
    "SCAN 0 COUNT 9223372036854775807",
    "SCAN 0 COUNT -1",
    "BLPOP l 1e300",
    "BLPOP l -1",
    "BLMOVE l m LEFT RIGHT 9223372036854775808",
    "WAIT 1 -1",
    "CLIENT PAUSE 9223372036854775808",
    "CLIENT PAUSE -1",
    "CLIENT UNBLOCK 9223372036854775807",
    "CLIENT KILL ID 0",
    "CLIENT NO-EVICT maybe",
    "CLIENT TRACKING ON REDIRECT 9223372036854775807",
    "OBJECT FREQ nosuch",
    "SLOWLOG GET -2",
    "SLOWLOG GET 9223372036854775808",
    "LOLWUT VERSION 9223372036854775808",
    "HELLO 9223372036854775807",
    "EVAL return 2147483648",
    "EVAL x -1",
    "EVAL x 9223372036854775807",
    "FCALL f 9223372036854775807",
    "SCRIPT KILL",
    "FUNCTION KILL",
    "DEBUG SEGFAULT",
    "DEBUG PANIC",
    "DEBUG OOM",
    "DEBUG SLEEP 100",
    "DEBUG JMAP",
    "DEBUG SET-ACTIVE-EXPIRE 0",
    "CONFIG SET maxclients 0",
    "CONFIG SET maxclients -1",
    "CONFIG SET maxclients 9223372036854775807",
    "CONFIG SET proto-max-bulk-len 0",
    "CONFIG SET proto-max-bulk-len 9223372036854775808",
    "CONFIG SET client-query-buffer-limit 1",
    "CONFIG SET busy-reply-threshold -1",
    "CONFIG SET maxmemory 1|SET k v",
    "CONFIG SET maxmemory -1",
    "CONFIG SET timeout -1",
    "CONFIG SET dir /etc",
    "CONFIG SET dbfilename ../x",
    "CONFIG SET notify-keyspace-events nosuch",
    "CONFIG SET client-output-buffer-limit nosuch",
    "CONFIG SET save 9223372036854775808",
    "CONFIG SET databases 99999",
];

pub(super) fn attacks() -> Vec<Attack> {
    let line = |line: &&str| Attack::commands(*line, Judge::Same, line.split('|').map(words).collect());
    let mut attacks: Vec<_> = LINES.iter().map(line).collect();
    attacks.extend(
        ["SRANDMEMBER s -4611686018427387904", "SRANDMEMBER s -4611686018427387905"]
            .map(|line| Attack::endless(line, vec![argv(["SADD", "s", "a"]), words(line)])),
    );
    attacks.extend(long_comparisons());
    attacks.extend(large_commands());
    attacks.extend(many_commands());
    attacks
}

/// Patterns and values that take long to compare.
fn long_comparisons() -> Vec<Attack> {
    let stars = format!("{}b", "a*".repeat(30));
    let name = "a".repeat(5000);
    let long = "ab".repeat(10_000);
    vec![
        Attack::commands(
            "KEYS a*a*…b, of a key of 5000 a",
            Judge::Same,
            vec![argv(["SET", &name, "v"]), argv(["KEYS", &stars])],
        ),
        Attack::commands(
            "PUBLISH to 5000 a, PSUBSCRIBE a*a*…b",
            Judge::Same,
            vec![argv(["PSUBSCRIBE", &stars]), argv(["RESET"]), argv(["PUBLISH", &name, "v"])],
        ),
        Attack::commands(
            "CONFIG GET *a*a*…b",
            Judge::Same,
            vec![argv(["CONFIG", "GET", &format!("*{stars}")])],
        ),
        Attack::commands(
            "SCAN with a pattern of 1 MB",
            Judge::Same,
            vec![argv(["SET", &name, "v"]), argv(["SCAN", "0", "MATCH", &"[^".repeat(500_000)])],
        ),
        Attack::commands(
            "LCS of two values of 20 KB",
            Judge::Same,
            vec![argv(["MSET", "a", &long, "b", &long]), argv(["LCS", "a", "b"])],
        ),
    ]
}

/// Commands with large values, or with many keys or channels.
fn large_commands() -> Vec<Attack> {
    vec![
        Attack::new("APPEND up to 512 MB and beyond", Judge::Same, |server| {
            let mut client = connect(server)?;
            let append = request(&[b"APPEND", &b"k"[..], &vec![b'x'; 64 << 20]]);
            let mut last = Value::Nil;
            for _ in 0..9 {
                client.send_bytes(&append)?;
                last = client.receive()?;
            }
            Ok(show(&last))
        }),
        Attack::new("DEL of 1000000 keys", Judge::Same, |server| {
            let keys: Vec<String> = (0..1_000_000).map(|nth| format!("k{nth}")).collect();
            let argv: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            Ok(show(&connect(server)?.ask(&argv)?))
        }),
        Attack::new("SUBSCRIBE to 100000 channels", Judge::Same, |server| {
            let channels: Vec<String> = (0..100_000).map(|nth| format!("c{nth}")).collect();
            let argv: Vec<&str> =
                ["SUBSCRIBE"].into_iter().chain(channels.iter().map(String::as_str)).collect();
            let mut client = connect(server)?;
            client.send(&argv)?;
            let mut last = Value::Nil;
            for _ in &channels {
                last = client.receive()?;
            }
            Ok(show(&last))
        }),
        Attack::new("WATCH of 20000 keys, then a disconnect", Judge::Same, |server| {
            let keys: Vec<String> = (0..20_000).map(|nth| format!("k{nth}")).collect();
            let argv: Vec<&str> = ["WATCH"].into_iter().chain(keys.iter().map(String::as_str)).collect();
            Ok(show(&connect(server)?.ask(&argv)?))
        }),
    ]
}

/// Many commands of one client.
fn many_commands() -> Vec<Attack> {
    vec![
        Attack::new("100000 commands in MULTI, then a disconnect", Judge::Same, |server| {
            let mut client = connect(server)?;
            client.ask(&["MULTI"])?;
            let mut last = Value::Nil;
            for _ in 0..100 {
                client.send_bytes(&request(&["SET", "k", "v"]).repeat(1000))?;
                for _ in 0..1000 {
                    last = client.receive()?;
                }
            }
            Ok(show(&last))
        }),
        Attack::new("20000 scripts, each another", Judge::Same, |server| {
            let mut client = connect(server)?;
            for hundred in 0..200 {
                let scripts =
                    (0..100).flat_map(|nth| request(&["EVAL", &format!("return {hundred}*100+{nth}"), "0"]));
                client.send_bytes(&scripts.collect::<Vec<u8>>())?;
                for _ in 0..100 {
                    client.receive()?;
                }
            }
            Ok(show(&connect(server)?.ask(&["PING"])?))
        }),
    ]
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}
