//! The forms of the commands in each group, and the words that stand in them.
//!
//! A form is a command in the notation of Redis's documentation:
//!
//! - `[…]` is optional;
//! - `(…)` occurs once, and `(…)+` up to three times;
//! - `|` separates alternatives;
//! - a word of capital letters stands for a word of its [`pool`].
//!
//! The pools are small, so that commands use the same keys, fields and members. Calls that no form
//! covers come from the rows' arity: see [`super::command`].

/// The forms of one group of commands.
pub struct Forms {
    /// Keys that mostly hold the group's own kind of value. All groups also use [`SHARED`].
    pub keys: &'static [&'static str],
    /// One form per line.
    pub forms: &'static str,
}

/// Keys that all groups use.
pub const SHARED: &[&str] = &["a", "b"];

/// Every group: with its own keys first.
pub const GROUPS: &[Forms] =
    &[STRING, HASH, LIST, SET, SORTED_SET, GENERIC, TRANSACTIONS, SCRIPTING, PUBSUB, CONNECTION, SERVER];

/// A value that is too long for a listpack or an embedded string.
pub const LONG: &str =
    "a value that is too long for every kind of encoding which is meant to be small, hence this text";

/// Commands with random effects, commands that would end the test, and commands that exist only to
/// control the emulator.
pub const NEVER: &[&str] = &[
    "spop",
    "time",
    "info",
    "monitor",
    "shutdown",
    "debug",
    "save",
    "bgsave",
    "bgrewriteaof",
    "replicaof",
    "slaveof",
    "psync",
    "sync",
    "failover",
    "slowlog",
    "latency",
    "memory",
    "lolwut",
    "lastsave",
    "role",
    "module",
    "acl",
    "config",
    "command",
    "client",
    "cluster",
    "replconf",
    "migrate",
    "emulator",
    "script",
    "function",
    "auth",
    "hello",
    "quit",
    "wait",
    "dbsize",
    "scan",
    "sscan",
    "hscan",
    "zscan",
    "expire",
    "pexpire",
    "setex",
    "psetex",
    "getex",
];

const STRING: Forms = Forms {
    keys: &["s", "t"],
    forms: "
        append K V
        decr K
        decrby K N
        get K
        get K
        getdel K
        getex K [pxat T|exat E|persist|ex R|px R]
        getrange K X X
        substr K X X
        getset K V
        incr K
        incrby K N
        incrbyfloat K S
        lcs K K [len] [idx] [minmatchlen N] [withmatchlen]
        mget (K)+
        mset (K V)+
        msetnx (K V)+
        psetex K R V
        setex K R V
        set K V
        set K LONG
        set K V [nx|xx] [get] [pxat T|exat E|ex R|px R|keepttl]
        set K V O [O] [pxat T]
        setnx K V
        setrange K X V
        strlen K
    ",
};

const HASH: Forms = Forms {
    keys: &["h", "i"],
    forms: "
        hset K (F V)+
        hset K F LONG
        hsetnx K F V
        hmset K (F V)+
        hget K F
        hmget K (F)+
        hgetall K
        hdel K (F)+
        hexists K F
        hlen K
        hkeys K
        hvals K
        hincrby K F N
        hincrbyfloat K F S
        hstrlen K F
        hrandfield K [M [withvalues]]
        hscan K 0 [match P] [count 1000]
    ",
};

const LIST: Forms = Forms {
    keys: &["l", "m"],
    forms: "
        lpush K (V)+
        rpush K (V)+
        rpush K V LONG
        lpushx K (V)+
        rpushx K (V)+
        lpop K [N]
        rpop K [N]
        llen K
        lindex K X
        lset K X V
        lrange K X X
        ltrim K X X
        lrem K X V
        linsert K (before|after) V V
        lpos K V [rank X] [count N] [maxlen N]
        lmove K K (left|right) (left|right)
        rpoplpush K K
        lmpop 2 K K (left|right) [count N]
        lmpop N K [K] (left|right) [count N]
        blpop (K)+ W
        brpop (K)+ W
        blmove K K (left|right) (left|right) W
        brpoplpush K K W
        blmpop W 2 K K (left|right) [count N]
    ",
};

const SET: Forms = Forms {
    keys: &["e", "f"],
    forms: "
        sadd K (I)+
        sadd K (F)+
        sadd K LONG
        srem K (I|F)+
        smembers K
        sismember K (I|F)
        smismember K (I|F)+
        scard K
        spop K 100
        srandmember K [M]
        smove K K (I|F)
        sinter (K)+
        sinterstore K (K)+
        sintercard N (K)+ [limit N]
        sunion (K)+
        sunionstore K (K)+
        sdiff (K)+
        sdiffstore K (K)+
        sscan K 0 [match P] [count 1000]
    ",
};

const SORTED_SET: Forms = Forms {
    keys: &["z", "y"],
    forms: "
        zadd K (S F)+
        zadd K [nx|xx] [gt|lt] [ch] [incr] S F [S F]
        zadd K O [O] S F
        zadd K S LONG
        zincrby K S F
        zrem K (F)+
        zscore K F
        zmscore K (F)+
        zrank K F
        zrevrank K F
        zcard K
        zcount K B B
        zrange K X X [rev] [withscores]
        zrange K B B byscore [rev] [limit X X] [withscores]
        zrangestore K K X X [rev]
        zrangestore K K B B byscore [rev] [limit X X]
        zrevrange K X X [withscores]
        zrangebyscore K B B [withscores] [limit X X]
        zrevrangebyscore K B B [withscores] [limit X X]
        zremrangebyscore K B B
        zremrangebyrank K X X
        zpopmin K [N]
        zpopmax K [N]
        zmpop 2 K K (min|max) [count N]
        zmpop N K [K] (min|max) [count N]
        bzpopmin (K)+ W
        bzpopmax (K)+ W
        bzmpop W 2 K K (min|max) [count N]
        zrandmember K [M [withscores]]
        zinterstore K 2 K K [weights S S] [aggregate A]
        zunionstore K 2 K K [weights S S] [aggregate A]
        zunionstore K 3 K K K [aggregate A] [weights S S S]
        zdiffstore K 2 K K
        zinter 2 K K [weights S S] [aggregate A] [withscores]
        zunion 2 K K [weights S S] [aggregate A] [withscores]
        zdiff 2 K K [withscores]
        zintercard 2 K K [limit N]
        zscan K 0 [match P] [count 1000]
    ",
};

const GENERIC: Forms = Forms {
    keys: &["s", "t", "h", "i", "l", "m", "e", "f", "z", "y"],
    forms: "
        copy K K [db D] [replace]
        del (K)+
        exists (K)+
        expire K R [O] [O]
        pexpire K R [O] [O]
        expireat K E [O] [O]
        pexpireat K T [O] [O]
        expiretime K
        pexpiretime K
        keys P
        move K D
        object encoding K
        object refcount K
        object freq K
        persist K
        ttl K
        pttl K
        randomkey
        rename K K
        renamenx K K
        scan (abc|1.5|18446744073709551616|-18446744073709551616) [match P]
        (hscan|sscan|zscan) K (abc|18446744073709551616) [count N]
        scan 0 [match P] [count 1000] [type (string|hash|list|set|zset|stream|x)]
        sort K [alpha] [limit X X] [asc|desc]
        sort K [get (#|*|b*|h->*)] [limit X X] [desc] alpha [store K]
        sort K by (*|b*|h->*) [get (#|*|h->*)] [desc] [alpha]
        sort_ro K [limit X X] [get (#|*)] [desc] [alpha]
        touch (K)+
        type K
        unlink (K)+
        dump K
    ",
};

const TRANSACTIONS: Forms = Forms {
    keys: GENERIC.keys,
    forms: "
        multi
        multi
        exec
        exec
        exec
        discard
        watch (K)+
        watch K
        unwatch
    ",
};

const SCRIPTING: Forms = Forms {
    keys: GENERIC.keys,
    forms: "
        evalsha H 1 K V
        evalsha_ro H 0
        script load LUA
        script exists (H)+
        script flush [async|sync|x]
        script kill
        function load [replace] LIBRARY
        function delete (lib|mylib)
        function list [libraryname (lib|*)] [withcode]
        function flush [async|sync]
        function stats
        fcall (f|g|x) N [K] [V]
        fcall_ro (f|g|x) N [K] [V]
        eval LUA N K V
    ",
};

const PUBSUB: Forms = Forms {
    keys: &["c"],
    forms: "
        subscribe (C)+
        psubscribe (P)+
        ssubscribe (C)+
        unsubscribe [C [C]]
        punsubscribe [P]
        sunsubscribe [C]
        publish C V
        publish C V
        spublish C V
        pubsub channels [P]
        pubsub numsub [C [C]]
        pubsub numpat
        pubsub shardchannels [P]
        pubsub shardnumsub [C]
    ",
};

const CONNECTION: Forms = Forms {
    keys: GENERIC.keys,
    forms: "
        ping [V]
        echo V
        select D
        hello [2|3|4]
        hello (2|3) setname F
        hello 3 auth default V
        auth V
        auth default V
        client setname F
        client getname
        client no-evict (on|off|x)
        client tracking off
        client caching (yes|no)
        client trackinginfo
        client getredir
        reset
        quit
    ",
};

const SERVER: Forms = Forms {
    keys: GENERIC.keys,
    forms: "
        flushdb [async|sync|x]
        flushall [async|sync]
        swapdb D D
        command getkeys set K V
        command getkeys zunionstore K N K K
        command getkeysandflags lmove K K left right
        command getkeysandflags set K V [get]
        config set notify-keyspace-events EV
        config get notify-keyspace-events
        config get *-max-listpack-*
    ",
};

/// Commands about time. They are not in [`GROUPS`], because they are useful only between waits.
pub const TIMED: Forms = Forms {
    keys: &["s", "l"],
    forms: "
        set K V px MS
        set K V
        get K
        getex K px MS
        pexpire K MS [nx|xx|gt|lt]
        persist K
        pttl K
        psetex K MS V
        exists K
        append K V
        incr K
        del K
        rpush K V
        lrange K 0 -1
        blpop K U
        brpop K K U
        blmove K K left right U
        bzpopmin K U
        rename K K
        copy K K replace
        watch K
        multi
        exec
        exec
        eval PTTL 1 K
    ",
};

/// The pool of a word of capital letters. `K` has no pool here, because each group has its own
/// keys.
pub fn pool(name: &str) -> &'static [&'static str] {
    match name {
        "V" => &[
            "1",
            "x",
            "-7",
            "",
            "3.5",
            "9223372036854775807",
            "10 ",
            "f",
            "a longer value \r\n with a line break",
        ],
        "LONG" => &[LONG],
        "EV" => &["KEA", "Kg", "E$", "Ez", "KElsh", "Kn", "", "q"],
        "N" => &["1", "2", "0", "3", "-1", "10", "9223372036854775807", "-9223372036854775808", "x"],
        // A command with a random reply returns fewer elements than its count only if the value has
        // no more.
        "M" => &["100", "1", "2", "-2", "0"],
        "X" => &["0", "1", "-1", "2", "-2", "100", "-100", "x"],
        "F" => &["f", "g", "h", "1", ""],
        "I" => &["0", "1", "-1", "7", "10", "9223372036854775807"],
        "S" => &["0", "1", "-1", "2.5", "0.1", "1e20", "inf", "-inf", "-0", "3e-7", "x", "nan"],
        "B" => &["0", "(1", "-inf", "+inf", "2.5", "(2.5", "(inf", "x"],
        "L" => &["-", "+", "[f", "(f", "[g", "(h", "[", "f"],
        "T" => &["4102444800000", "4202444800000", "1", "1000000000000", "-1", "0", "9223372036854775807"],
        "E" => &[
            "4102444800",
            "4202444800",
            "1",
            "1000000000",
            "-1",
            "0",
            "9223372036854775807",
            "9223372036854775",
        ],
        "R" => &["100000000", "200000000", "-1", "0", "x", "9223372036854775807", "9223372036854775"],
        "O" => &["nx", "xx", "gt", "lt", "ch", "get", "keepttl", "incr", "x"],
        "A" => &["sum", "min", "max", "avg"],
        "P" => &["*", "[a-m]", "?", "x*", "f", "[^s]*", "__key*"],
        "C" => &["c", "d", "f", "__keyspace@0__:s", "__keyevent@0__:del"],
        "D" => &["0", "1", "15", "16", "x"],
        "W" => &["0", "0", "0.0", "-1", "x", "1e300"],
        "MS" => &["100", "300", "500"],
        "U" => &["0.1", "0.3", "0"],
        "PTTL" => &[
            "return redis.call('pexpire', KEYS[1], 300)",
            "return {redis.call('get', KEYS[1]), redis.call('exists', KEYS[1])}",
        ],
        "H" => &[
            "e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
            "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB",
            "4e6d8fc8bb01276962cce5371fa795a7763657ae",
            "x",
        ],
        "LUA" => {
            &["return 1", "return {KEYS[1], ARGV[1]}", "return redis.call('get', KEYS[1])", "return", "x"]
        }
        "LIBRARY" => &[
            "#!lua name=lib\nredis.register_function('f', function(keys, args) return {keys, args} end)",
            "#!lua name=mylib\nredis.register_function{function_name='g', callback=function(keys, args) return redis.call('get', keys[1]) end, flags={'no-writes'}}",
            "#!lua name=lib\nredis.register_function('f', function(keys, args) return redis.call('incr', keys[1]) end)",
            "#!lua name=lib\nreturn 1",
            "return 1",
        ],
        _ => panic!("no pool is called {name:?}"),
    }
}
