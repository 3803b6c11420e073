//! The costs of a lock on a real server, beside rslock and a lock written by hand. Prints a table
//! of ratios, because ratios differ less between machines than times.
//!
//!     cd tests/benches/lock_costs && cargo run --release -- redis://127.0.0.1:6379/15
//!
//! Empties the database of the URL. The lock written by hand is SET NX PX, and a script that
//! compares and deletes.

#![expect(clippy::disallowed_methods, reason = "this measures real time")]

use std::time::{Duration, Instant};

use locks::{Connection, Env, Mutex, PubSubConnection};
use redis::aio::MultiplexedConnection;
use redis::{Client, Script};
use rslock::LockManager;

/// The commands that only the scripts of the locks call.
const OUR_COMMANDS: &[&str] = &[
    "get", "set", "del", "time", "pttl", "pexpire", "publish", "lindex", "lpop", "lrem", "rpush", "zadd",
    "zrem", "zscore",
];

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const LEASE: Duration = Duration::from_secs(10);
const ROUNDS: usize = 21;
/// How often a lock is taken and released in each round.
const TIMES: u32 = 1_000;
const WAITERS: usize = 64;
/// The time inside, for those who wait.
const STAY: Duration = Duration::from_millis(50);
/// How often those look that are not notified.
const POLL: Duration = Duration::from_millis(100);

#[derive(Clone)]
enum Subject {
    ByHand(MultiplexedConnection, Script),
    Rslock(LockManager),
    Ours(Mutex),
}

enum Held {
    ByHand(String),
    Rslock(rslock::Lock),
    Ours(locks::Guard),
}

impl Subject {
    async fn lock(&self, name: &str) -> Result<Held> {
        match self {
            Subject::ByHand(connection, _) => loop {
                let token = Env::system().unique();
                let mut set = redis::cmd("SET");
                set.arg(name).arg(&token).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
                if set.query_async(&mut connection.clone()).await? {
                    return Ok(Held::ByHand(token));
                }
                tokio::time::sleep(POLL).await;
            },
            Subject::Rslock(manager) => Ok(Held::Rslock(manager.lock(name, LEASE).await?)),
            Subject::Ours(mutex) => Ok(Held::Ours(mutex.lock().await?)),
        }
    }

    async fn release(&self, name: &str, held: Held) -> Result<()> {
        match (self, held) {
            (Subject::ByHand(connection, script), Held::ByHand(token)) => {
                () = script.key(name).arg(token).invoke_async(&mut connection.clone()).await?;
            }
            (Subject::Rslock(manager), Held::Rslock(lock)) => manager.unlock(&lock).await,
            (_, Held::Ours(guard)) => _ = guard.release().await?,
            _ => unreachable!("each lock releases its own grants"),
        }
        Ok(())
    }
}

/// A lock of this name, and the others beside it.
async fn subjects(client: &Client, name: &str) -> Result<Vec<(&'static str, Subject)>> {
    let commands = client.get_multiplexed_async_connection().await?;
    let compare_and_delete = Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
    );
    let mut manager = LockManager::from_clients(vec![client.clone()]);
    // Its pauses are random, and half as long on average.
    manager.set_retry(u32::MAX, 2 * POLL);
    let polling = || Mutex::builder(Connection::new(commands.clone()), name).lease(LEASE).retry(POLL);
    let listening = Connection::subscribing(PubSubConnection::open(client).await?);
    Ok(vec![
        ("by hand", Subject::ByHand(commands.clone(), compare_and_delete)),
        ("rslock 0.10", Subject::Rslock(manager)),
        ("Mutex, polling", Subject::Ours(polling().build()?)),
        ("Mutex, polling, fenced", Subject::Ours(polling().fenced().build()?)),
        ("Mutex, notified", Subject::Ours(Mutex::builder(listening.clone(), name).lease(LEASE).build()?)),
        (
            "Mutex, notified, fair",
            Subject::Ours(Mutex::builder(listening, name).lease(LEASE).fair().build()?),
        ),
    ])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The time of a lock and its release, if nobody else wants it.
async fn uncontended(client: &Client) -> Result<()> {
    let subjects = subjects(client, "free").await?;
    let mut times = vec![Vec::new(); subjects.len()];
    for _ in 0..ROUNDS {
        for ((_, subject), times) in subjects.iter().zip(&mut times) {
            let began_at = Instant::now();
            for _ in 0..TIMES {
                let held = subject.lock("free").await?;
                subject.release("free", held).await?;
            }
            times.push(began_at.elapsed().as_secs_f64());
        }
    }
    println!("nobody else wants the lock: median of {ROUNDS} rounds of {TIMES} times");
    println!("{:24}{:>18}{:>8}", "", "lock and release", "ratio");
    for ((name, _), own) in subjects.iter().zip(&times) {
        let ratios = own.iter().zip(&times[0]).map(|(own, by_hand)| own / by_hand).collect();
        let micros = median(own.clone()) / f64::from(TIMES) * 1e6;
        println!("{name:24}{micros:>15.1} us{:>8.2}", median(ratios));
    }
    Ok(())
}

/// The number of commands that clients have sent since the last `CONFIG RESETSTAT`. The server also
/// counts those that scripts call.
async fn requests(connection: &mut MultiplexedConnection, of_scripts: &[&str]) -> Result<u64> {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
    let mut sum = 0;
    for line in stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")) {
        let (name, fields) = line.split_once(":calls=").ok_or("not a line of commandstats")?;
        let (calls, _) = fields.split_once(',').ok_or("not a line of commandstats")?;
        if !of_scripts.contains(&name) && !["info", "config|resetstat"].contains(&name) {
            sum += calls.parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// The requests of clients that all wait for one lock, and how long the unluckiest one waits.
async fn contended(client: &Client) -> Result<()> {
    let mut connection = client.get_multiplexed_async_connection().await?;
    println!(
        "\n{WAITERS} clients wait for one lock, each stays for {STAY:?}, those without a message look every {POLL:?}"
    );
    println!("{:24}{:>18}{:>8}{:>14}{:>10}", "", "requests a grant", "ratio", "longest wait", "in all");
    let mut first = None;
    for (name, subject) in subjects(client, "taken").await? {
        let held = subject.lock("taken").await?;
        () = redis::cmd("CONFIG").arg("RESETSTAT").query_async(&mut connection).await?;
        let began_at = Instant::now();
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let subject = subject.clone();
                tokio::spawn(async move {
                    let held = subject.lock("taken").await?;
                    let waited = began_at.elapsed();
                    tokio::time::sleep(STAY).await;
                    subject.release("taken", held).await?;
                    Ok::<_, Box<dyn std::error::Error + Send + Sync>>(waited)
                })
            })
            .collect();
        tokio::time::sleep(2 * POLL).await;
        subject.release("taken", held).await?;
        let mut longest = Duration::ZERO;
        for waiter in waiters {
            longest = longest.max(waiter.await??);
        }
        let of_scripts = if let Subject::Ours(_) = subject { OUR_COMMANDS } else { &["get", "del"] };
        let a_grant = requests(&mut connection, of_scripts).await? as f64 / WAITERS as f64;
        let ratio = a_grant / *first.get_or_insert(a_grant);
        println!("{name:24}{a_grant:>18.1}{ratio:>8.2}{:>14.0?}{:>10.0?}", longest, began_at.elapsed());
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).ok_or("usage: lock-costs URL; its database is emptied")?;
    let client = Client::open(url)?;
    () = redis::cmd("FLUSHDB").query_async(&mut client.get_multiplexed_async_connection().await?).await?;
    uncontended(&client).await?;
    contended(&client).await
}
