//! Draws the next commands of a client. Every choice comes from the random generator that is passed
//! in.

use rand::{Rng, RngExt as _};

use super::arguments::Argv;
use super::scripts::{self, Script};

/// The time to live of keys that expire. It is longer than the time between two commands on one
/// key.
pub(super) const TTL_MS: i64 = 3_600_000;
/// The number of keys of one client.
const KEYS: usize = 10;
/// The number of data types. Each key is mostly used for one type, so that commands find data.
const KINDS: usize = 5;
const BATCH_MAX: usize = 40;
const BIG_BYTES: usize = 1024 * 1024;

/// The key that all clients increment.
pub(super) const EVERYBODYS: &str = "shared:count";

/// All keys of a client; its counter is the last.
pub(super) fn keys(client: &str) -> Argv {
    let numbered = (0..KEYS).map(|nth| format!("{client}:{nth}").into_bytes());
    numbered.chain([counter(client)]).collect()
}

/// The key that counts what a client adds to `EVERYBODYS`.
pub(super) fn counter(client: &str) -> Vec<u8> {
    format!("{client}:count").into_bytes()
}

/// Commands that are sent at once. A transaction is never split.
pub(super) fn batch(rng: &mut impl Rng, client: &str) -> Vec<Argv> {
    let draw = &mut Draw { rng, client };
    match draw.below(200) {
        0 => {
            let (key, value) = (draw.key(0), vec![b'a' + draw.below(26) as u8; BIG_BYTES]);
            let k = &key[..];
            vec![argv([b"SET", k, &value]), argv([b"GET", k]), argv([b"STRLEN", k]), argv([b"DEL", k])]
        }
        1..20 => draw.transaction(),
        20..24 => draw.watched_transaction(),
        _ => {
            let len = 1 + draw.below(BATCH_MAX).min(draw.below(BATCH_MAX));
            (0..len).map(|_| draw.command()).collect()
        }
    }
}

/// The command that runs a script.
pub(super) fn run_script(how: usize, script: &Script, keys: &[&[u8]], args: &[&[u8]]) -> Argv {
    let (name, what): (&str, &str) = match how {
        0 => ("EVAL", script.source),
        1 => ("EVALSHA", script.sha1()),
        _ => ("FCALL", script.function),
    };
    let count = keys.len().to_string();
    let head = [name.as_bytes(), what.as_bytes(), count.as_bytes()];
    head.iter().chain(keys).chain(args).map(|arg| arg.to_vec()).collect()
}

struct Draw<'a, R> {
    rng: &'a mut R,
    client: &'a str,
}

impl<R: Rng> Draw<'_, R> {
    fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n)
    }

    /// A key that is mostly used for this type.
    fn key(&mut self, kind: usize) -> Vec<u8> {
        let nth = match self.below(12) {
            0 => self.below(KEYS),
            _ => kind + KINDS * self.below(KEYS / KINDS),
        };
        format!("{}:{nth}", self.client).into_bytes()
    }

    fn value(&mut self) -> Vec<u8> {
        match self.below(8) {
            0..4 => (self.below(2000) as i64 - 1000).to_string().into_bytes(),
            4 => [i64::MAX, i64::MIN, 0][self.below(3)].to_string().into_bytes(),
            5 => [&b""[..], b"\r\n$-1\r\n", b"\0\xff\xfe", b"01", b" 1"][self.below(5)].to_vec(),
            6 => vec![b'x'; self.below(2000)],
            _ => format!("value-{}", self.below(100)).into_bytes(),
        }
    }

    /// One of a few fields or members.
    fn member(&mut self) -> Vec<u8> {
        format!("m{}", self.below(12)).into_bytes()
    }

    fn index(&mut self) -> Vec<u8> {
        (self.below(24) as i64 - 12).to_string().into_bytes()
    }

    fn transaction(&mut self) -> Vec<Argv> {
        let mut batch = vec![argv(["MULTI"])];
        batch.extend((0..1 + self.below(6)).map(|_| self.command()));
        match self.below(10) {
            0 => batch.push(argv(["NOSUCH"])),
            1..5 => batch.push(self.count()),
            _ => {}
        }
        batch.push(argv([if self.below(8) == 0 { "DISCARD" } else { "EXEC" }]));
        batch
    }

    fn watched_transaction(&mut self) -> Vec<Argv> {
        let key = self.key(0);
        let value = self.value();
        let between =
            if self.below(2) == 0 { argv([b"SET", &key[..], &value]) } else { argv([b"TYPE", &key[..]]) };
        vec![argv([b"WATCH", &key[..]]), between, argv(["MULTI"]), self.command(), argv(["EXEC"])]
    }

    /// Adds one to this client's counter and to the shared key.
    fn count(&mut self) -> Argv {
        let how = self.below(3);
        run_script(how, &scripts::INCREMENT_BOTH, &[&counter(self.client), EVERYBODYS.as_bytes()], &[])
    }

    fn command(&mut self) -> Argv {
        let kind = self.below(KINDS + 2);
        let key = self.key(kind % KINDS);
        let k = &key[..];
        match kind {
            0 => self.text(k),
            1 => self.hash(k),
            2 => self.list(k),
            3 => self.set(k),
            4 => self.sorted(k),
            5 => self.generic(k),
            _ => self.script(),
        }
    }

    fn generic(&mut self, k: &[u8]) -> Argv {
        let ttl = TTL_MS.to_string();
        let kind = self.below(KINDS);
        let other = self.key(kind);
        match self.below(9) {
            0 | 1 => argv([b"DEL", k]),
            2 => argv([b"DEL", k, &other]),
            3 => argv([b"EXISTS", k, &other, k]),
            4 => argv([b"TYPE", k]),
            5 => argv([b"PEXPIRE", k, ttl.as_bytes()]),
            6 => argv([b"PERSIST", k]),
            7 => argv([b"PTTL", k]),
            _ => argv([b"RENAME", k, &other]),
        }
    }

    fn script(&mut self) -> Argv {
        let (key, value, how) = (self.key(0), self.value(), self.below(3));
        let (hash, list) = (self.key(1), self.key(2));
        match self.below(8) {
            0..5 => run_script(how, &scripts::COMPARE_AND_DELETE, &[&key], &[&value]),
            5 | 6 => self.count(),
            _ => run_script(how, &scripts::DUMP, &[&key, &hash, &list], &[]),
        }
    }

    fn text(&mut self, k: &[u8]) -> Argv {
        let (v, other, first, last) = (self.value(), self.key(0), self.index(), self.index());
        let by = (self.below(200) as i64 - 100).to_string().into_bytes();
        let (offset, ttl) = (self.below(300).to_string(), TTL_MS.to_string());
        match self.below(16) {
            0 | 1 => argv([b"SET", k, &v]),
            2 => argv([b"SET", k, &v, b"NX"]),
            3 => argv([b"SET", k, &v, b"XX"]),
            4 => argv([b"SET", k, &v, b"GET"]),
            5 => argv([b"SET", k, &v, b"PX", ttl.as_bytes()]),
            6 | 7 => argv([b"GET", k]),
            8 => argv([b"GETDEL", k]),
            9 => argv([b"MSET", k, &v, &other, &last]),
            10 => argv([b"MGET", k, &other, k]),
            11 => argv([b"APPEND", k, &by]),
            12 => argv([b"STRLEN", k]),
            13 => argv([b"SETRANGE", k, offset.as_bytes(), &by]),
            14 => argv([b"GETRANGE", k, &first, &last]),
            _ => argv([if self.below(2) == 0 { b"INCRBY" } else { b"DECRBY" }, k, &by]),
        }
    }

    fn hash(&mut self, k: &[u8]) -> Argv {
        let (f, g, v, by) = (self.member(), self.member(), self.value(), self.index());
        match self.below(11) {
            0 | 1 => argv([b"HSET", k, &f, &v]),
            2 => argv([b"HSET", k, &f, &v, &g, &by]),
            3 => argv([b"HSETNX", k, &f, &v]),
            4 => argv([b"HGET", k, &f]),
            5 => argv([b"HMGET", k, &f, &g]),
            6 => argv([b"HDEL", k, &f]),
            7 => argv([b"HLEN", k]),
            8 => argv([b"HEXISTS", k, &f]),
            9 => argv([b"HGETALL", k]),
            _ => argv([b"HINCRBY", k, &f, &by]),
        }
    }

    fn list(&mut self, k: &[u8]) -> Argv {
        let (m, n, first, last, to) = (self.member(), self.value(), self.index(), self.index(), self.key(2));
        match self.below(13) {
            0 | 1 => argv([b"RPUSH", k, &m]),
            2 => argv([b"LPUSH", k, &m, &n]),
            3 => argv([b"LPOP", k]),
            4 => argv([b"RPOP", k]),
            5 => argv([b"LLEN", k]),
            6 | 7 => argv([b"LRANGE", k, &first, &last]),
            8 => argv([b"LTRIM", k, &first, &last]),
            9 => argv([b"LINDEX", k, &first]),
            10 => argv([b"LSET", k, &first, &n]),
            11 => argv([b"LREM", k, b"0", &m]),
            _ => argv([b"LMOVE", k, &to, b"LEFT", b"RIGHT"]),
        }
    }

    fn set(&mut self, k: &[u8]) -> Argv {
        let (m, n, other) = (self.member(), self.member(), self.key(3));
        match self.below(9) {
            0 | 1 => argv([b"SADD", k, &m, &n]),
            2 => argv([b"SADD", k, &m]),
            3 => argv([b"SREM", k, &m, &n]),
            4 => argv([b"SCARD", k]),
            5 => argv([b"SISMEMBER", k, &m]),
            6 => argv([b"SMEMBERS", k]),
            7 => argv([b"SMOVE", k, &other, &m]),
            _ => argv([b"SINTER", k, &other]),
        }
    }

    fn sorted(&mut self, k: &[u8]) -> Argv {
        let (m, n, first, last) = (self.member(), self.member(), self.index(), self.index());
        match self.below(11) {
            0 | 1 => argv([b"ZADD", k, &first, &m]),
            2 => argv([b"ZADD", k, &first, &m, &last, &n]),
            3 => argv([b"ZINCRBY", k, &first, &m]),
            4 => argv([b"ZREM", k, &m]),
            5 => argv([b"ZCARD", k]),
            6 => argv([b"ZSCORE", k, &m]),
            7 => argv([b"ZRANK", k, &m]),
            8 => argv([b"ZRANGE", k, &first, &last, b"WITHSCORES"]),
            9 => argv([b"ZCOUNT", k, &first, &last]),
            _ => argv([b"ZPOPMIN", k]),
        }
    }
}

pub(super) fn argv<T: AsRef<[u8]>>(args: impl IntoIterator<Item = T>) -> Argv {
    args.into_iter().map(|arg| arg.as_ref().to_vec()).collect()
}
