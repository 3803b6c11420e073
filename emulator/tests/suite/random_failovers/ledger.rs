//! What one client has written, and so what it may read. No other client writes its keys.
//!
//! Each number that it reads has a floor and a ceiling. The floor is what was acknowledged before;
//! it holds until writes may be lost. The ceiling is what the client has tried to write.

use rand::RngExt as _;
use rand_pcg::Pcg32;
use redis::{ErrorKind, FromRedisValue, RedisError, RedisResult, Value};

use super::links::Request;

const INCREMENT_BOTH: &str = "return {redis.call('INCR', KEYS[1]), redis.call('INCR', KEYS[2])}";
/// How long a client waits for an element of its list, in seconds.
const PATIENCE: f64 = 0.02;
/// The errors that a real server may reply while servers fail over and slots move.
const CODES: [&str; 10] = [
    "ASK",
    "CLUSTERDOWN",
    "EXECABORT",
    "MASTERDOWN",
    "MOVED",
    "NOREPLICAS",
    "NOSCRIPT",
    "READONLY",
    "TRYAGAIN",
    "UNBLOCKED",
];
/// What redis-rs says if it finds no server at the moment.
const KINDS: [ErrorKind; 4] = [
    ErrorKind::Io,
    ErrorKind::ClusterConnectionNotFound,
    ErrorKind::MasterNameNotFoundBySentinel,
    ErrorKind::Client,
];

pub struct Ledger {
    tag: String,
    register: Number,
    counter: Number,
    pair: Number,
    list: Number,
    /// How often redis-rs may have sent a request again.
    resends_max: i64,
    is_script_known: bool,
}

/// A number of which the client knows bounds. It only grows, unless writes are lost.
#[derive(Default)]
struct Number {
    /// The highest number if each attempt to write has succeeded.
    ceiling: i64,
    floor: i64,
    /// When the floor was acknowledged, in losses so far.
    since: u64,
}

/// What the reply to a request must be.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// `OK`, after which the register has this number.
    Written(i64),
    /// The register.
    Register,
    /// The counter, after an increment.
    Counter,
    /// Two counters that only change together.
    Pair,
    /// The length of the list.
    Pushed,
    /// The list and the oldest number in it, or nothing after a time.
    Popped,
}

impl Ledger {
    pub fn new(client: usize, resends_max: i64) -> Ledger {
        let [register, counter, pair, list] = std::array::from_fn(|_| Number::default());
        let tag = Ledger::tag(client);
        Ledger { tag, register, counter, pair, list, resends_max, is_script_known: true }
    }

    /// What the names of all keys of a client begin with. It puts them into one hash slot.
    pub fn tag(client: usize) -> String {
        format!("{{client {client}}}")
    }

    /// The next request of the client.
    pub fn next(&mut self, rng: &mut Pcg32) -> (Request, Expected) {
        let key = |name: &str| format!("{}{name}", self.tag);
        let runs = 1 + self.resends_max;
        let [a, b] = [key("a"), key("b")];
        match rng.random_range(0..8) {
            0 => {
                self.register.ceiling += 1;
                let number = self.register.ceiling;
                (redis::cmd("SET").arg(key("register")).arg(number).into(), Expected::Written(number))
            }
            1 => (redis::cmd("GET").arg(key("register")).into(), Expected::Register),
            2 => {
                self.counter.ceiling += runs;
                (redis::cmd("INCR").arg(key("counter")).into(), Expected::Counter)
            }
            3 => {
                self.pair.ceiling += runs;
                let sha = redis::Script::new(INCREMENT_BOTH).get_hash().to_owned();
                let (name, script) =
                    if self.is_script_known { ("EVALSHA", &*sha) } else { ("EVAL", INCREMENT_BOTH) };
                (redis::cmd(name).arg(script).arg(2).arg(a).arg(b).into(), Expected::Pair)
            }
            4 => {
                self.pair.ceiling += runs;
                let transaction = redis::pipe().atomic().incr(a, 1).incr(b, 1).to_owned();
                (Request::Transaction(transaction), Expected::Pair)
            }
            5 => (redis::cmd("MGET").arg(a).arg(b).into(), Expected::Pair),
            6 => {
                self.list.ceiling += 1;
                (redis::cmd("RPUSH").arg(key("list")).arg(self.list.ceiling).into(), Expected::Pushed)
            }
            _ => (redis::cmd("BLPOP").arg(key("list")).arg(PATIENCE).into(), Expected::Popped),
        }
    }

    /// Judges a reply. Both numbers are the losses so far, before the request and after the reply.
    ///
    /// # Errors
    /// No real server could have given it.
    pub fn judge(
        &mut self,
        expected: &Expected,
        reply: RedisResult<Value>,
        losses: [u64; 2],
    ) -> Result<(), String> {
        let value = match reply {
            Ok(value) => value,
            Err(error) if is_real(&error) => {
                self.is_script_known &= error.code() != Some("NOSCRIPT");
                return Ok(());
            }
            Err(error) => return Err(format!("{error} ({error:?})")),
        };
        let shown = format!("{value:?}");
        match expected {
            Expected::Written(number) => {
                expect(value == Value::Okay, || shown)?;
                self.register.see(*number, losses)
            }
            Expected::Register => self.register.see(parse::<Option<i64>>(value)?.unwrap_or(0), losses),
            Expected::Counter => self.counter.see(parse(value)?, losses),
            Expected::Pair => {
                self.is_script_known = true;
                let (a, b): (Option<i64>, Option<i64>) = parse(value)?;
                expect(a == b, || format!("they are not equal: {shown}"))?;
                self.pair.see(a.unwrap_or(0), losses)
            }
            Expected::Pushed => expect(parse::<i64>(value)? > 0, || shown),
            Expected::Popped => match parse::<Option<(String, i64)>>(value)? {
                None => Ok(()),
                Some((_, 0)) => Err(shown),
                Some((_, element)) => self.list.see(element, losses),
            },
        }
    }
}

impl Number {
    /// Sees the number in a reply.
    fn see(&mut self, number: i64, [began, ended]: [u64; 2]) -> Result<(), String> {
        let Number { ceiling, floor, since } = *self;
        expect(number <= ceiling, || format!("{number} was never written: at most {ceiling}"))?;
        let is_kept = since == ended;
        expect(!is_kept || floor <= number, || format!("{floor} was acknowledged, and now it is {number}"))?;
        // A number that was read while writes may be lost says nothing of later ones.
        if began == ended && began % 2 == 0 {
            (self.floor, self.since) = (number, began);
        } else {
            (self.floor, self.since) = (0, 0);
        }
        Ok(())
    }
}

fn parse<T: FromRedisValue>(value: Value) -> Result<T, String> {
    let shown = format!("{value:?}");
    T::from_redis_value(value).map_err(|error| format!("{shown}: {error}"))
}

fn expect(is_right: bool, report: impl FnOnce() -> String) -> Result<(), String> {
    if is_right { Ok(()) } else { Err(report()) }
}

/// Whether a real server may reply with this error, or redis-rs may find none. A timeout is no such
/// error: servers reply at once.
fn is_real(error: &RedisError) -> bool {
    let is_reply = error.code().is_some_and(|code| CODES.contains(&code));
    is_reply || KINDS.contains(&error.kind()) && !error.is_timeout()
}
