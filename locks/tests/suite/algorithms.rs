//! Runs the code of every algorithm, unchanged, on the emulator and on a real server. Checks what
//! an algorithm guarantees when nobody else interferes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use emulator::{Clock, Emulator};
use locks::registry::{
    ALGORITHMS, Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Property, Side, Task, Work, locks,
};
use locks::{Connection, Env, PubSubConnection, Record, Release, Terms};
use redis::AsyncCommands as _;

use crate::bounds::REAL_ALGORITHMS;
use crate::redis_server;

pub(crate) fn terms(permits: u32) -> Terms {
    Terms { key: "lock".into(), lease: Duration::from_secs(1), permits }
}

/// The server, or the emulator, that `converse` runs against.
struct Bench<'a> {
    /// A connection to one of several servers, by its index.
    connect: &'a dyn Fn(usize) -> Connection,
    env: Env,
    /// Returns once the server's clock has moved on by more than a lease.
    pass_a_lease: &'a dyn Fn(),
}

impl Bench<'_> {
    fn open(&self, algorithm: &Algorithm) -> Box<dyn DynLock> {
        let connections = (0..algorithm.servers()).map(self.connect).collect();
        algorithm.open(connections, self.env.clone(), &terms(1))
    }

    async fn is_recorded(&self, record: Record) -> bool {
        let mut connection = (self.connect)(0);
        match record {
            Record::Key(key) => connection.exists(key).await.unwrap(),
            Record::Value(key, value) | Record::Majority(key, value) => {
                connection.get::<_, Option<String>>(key).await.unwrap() == Some(value)
            }
            Record::Member(key, member) | Record::MajorityMember(key, member) => {
                connection.zscore::<_, _, Option<f64>>(key, member).await.unwrap().is_some()
            }
            Record::Field(key, field) => connection.hexists(key, field).await.unwrap(),
        }
    }
}

/// One client works. Another one finds nothing to do, or is refused, unless that breaks in any
/// order of commands.
async fn work(bench: &Bench<'_>, Algorithm { name, spec, .. }: &Algorithm, task: Task) {
    // No machine is that slow.
    let terms = Terms { key: "work".into(), lease: Duration::from_secs(3_600), permits: 1 };
    let side = || Side { connection: (bench.connect)(0), env: bench.env.clone(), terms: terms.clone() };
    (task.prepare)(side()).await.unwrap();
    let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
    let counted = |times| -> Work<'_> {
        let mut connection = (bench.connect)(0);
        Box::pin(async move {
            AtomicU64::fetch_add(times, 1, Relaxed);
            connection.incr("effect", 1).await
        })
    };
    assert!((task.run)(side(), counted(&first)).await.unwrap(), "{name}: there is something to do");
    let has_worked = (task.run)(side(), counted(&second)).await.unwrap();
    if [Property::Rate, Property::AtMostOnce].iter().all(|&most| spec.holds(most, FaultClass::Order)) {
        assert!(!has_worked, "{name}: there is nothing more to do");
    }
    let (first, second) = (first.load(Relaxed), second.load(Relaxed));
    assert_eq!((first, second), (1, u64::from(has_worked)), "{name}: it says whether it has worked");
    let effect: u64 = (bench.connect)(0).get("effect").await.unwrap();
    assert_eq!(effect, first + second, "{name}");
}

async fn converse(bench: &Bench<'_>, algorithm: &Algorithm) {
    if let Some(task) = algorithm.task() {
        return work(bench, algorithm, task).await;
    }
    let name = algorithm.name;
    let (mut a, mut b) = (bench.open(algorithm), bench.open(algorithm));
    assert!(a.try_acquire().await.unwrap(), "{name}: it is free");
    let has_record = !algorithm.spec.can(Ability::Subscribes);
    assert_eq!(bench.is_recorded(a.record()).await, has_record, "{name}: the server knows its holder");
    let is_exclusive = match algorithm.spec.kind {
        AlgorithmKind::Mutex | AlgorithmKind::ReadWrite => true,
        // One semaphore grants every attempt. Another ranks clients by name if their clocks agree.
        AlgorithmKind::Semaphore => algorithm.spec.holds(Property::OverIssue, FaultClass::Order),
        AlgorithmKind::Limiter | AlgorithmKind::Once => unreachable!("{name} is no lock"),
    };
    if is_exclusive {
        assert!(!b.try_acquire().await.unwrap(), "{name}: it is taken");
    }
    if algorithm.spec.can(Ability::Reenters) {
        assert!(a.try_acquire().await.unwrap(), "{name}: its holder may have it again");
        assert_eq!(a.release().await.unwrap(), Release::Inner, "{name}");
        assert!(!b.try_acquire().await.unwrap(), "{name}: it is taken still");
    }
    if algorithm.spec.kind == AlgorithmKind::ReadWrite {
        assert!(!b.try_read().await.unwrap(), "{name}: a writer is alone");
    }
    assert_eq!(a.release().await.unwrap(), Release::Released, "{name}");
    assert!(!bench.is_recorded(a.record()).await, "{name}: the server has forgotten its holder");
    if algorithm.spec.kind == AlgorithmKind::ReadWrite {
        converse_reading(bench, algorithm).await;
    }
    assert!(b.try_acquire().await.unwrap(), "{name}: it is free again");
    let recovers = |class| algorithm.spec.holds(Property::Recovers, class);
    // Some watchdogs outlive their holders, and renew for nobody.
    if recovers(FaultClass::Crash) && recovers(FaultClass::Cancel) {
        // The holder ends without a release, and its renewal task ends with it.
        drop(b);
        (bench.pass_a_lease)();
        // The server has to notice that a connection is closed.
        while !has_record && !a.try_acquire().await.unwrap() {
            tokio::task::yield_now().await;
        }
        assert!(!has_record || a.try_acquire().await.unwrap(), "{name}: a lease ends by itself");
    }
}

async fn converse_reading(bench: &Bench<'_>, algorithm: &Algorithm) {
    let name = algorithm.name;
    let (mut a, mut b, mut c) = (bench.open(algorithm), bench.open(algorithm), bench.open(algorithm));
    assert!(a.try_read().await.unwrap(), "{name}: it is free to read");
    assert!(bench.is_recorded(a.record()).await, "{name}: the server knows its reader");
    assert!(!c.try_acquire().await.unwrap(), "{name}: somebody reads");
    assert!(b.try_read().await.unwrap(), "{name}: many may read");
    assert_eq!(b.release().await.unwrap(), Release::Released, "{name}");
    if algorithm.spec.holds(Property::OwnerSafe, FaultClass::Order) {
        assert!(!c.try_acquire().await.unwrap(), "{name}: somebody reads still");
        assert_eq!(a.release().await.unwrap(), Release::Released, "{name}");
    } else {
        assert_eq!(a.release().await.unwrap(), Release::NotHeld, "{name}: the other has ended its grant");
    }
    assert!(!bench.is_recorded(a.record()).await, "{name}: the server has forgotten its readers");
}

/// The front page of the crate says this of the locks for use.
#[test]
fn the_front_page_names_what_breaks() {
    for algorithm in locks().skip_while(|algorithm| algorithm.name != "mutex") {
        for &(property, class) in algorithm.spec.breaks {
            let is_of = |lock| algorithm.name.starts_with(lock);
            let is_named = match (class, property) {
                (FaultClass::Slow, Property::ExclusiveBelief) => true,
                (FaultClass::Slow, Property::NoLostWakeUp) => is_of("multi_lock"),
                (FaultClass::Server, _) => !matches!(property, Property::OwnerSafe | Property::Recovers),
                (FaultClass::Failover, _) => match property {
                    Property::OwnerSafe | Property::Recovers => false,
                    Property::ExclusiveFact | Property::ExclusiveBelief => true,
                    _ => !is_of("redlock"),
                },
                (FaultClass::Order, Property::Progress) => is_of("redlock_for_use"),
                _ => false,
            };
            assert!(is_named, "{} breaks {property} in {class}", algorithm.name);
        }
    }
}

#[tokio::test]
async fn every_algorithm_on_the_emulator() {
    for algorithm in ALGORITHMS {
        let clock = Clock::manual();
        let emulators: Vec<_> =
            (0..algorithm.servers()).map(|_| Emulator::with_clock(clock.clone())).collect();
        let source = EmulatedTime { clock: clock.clone(), names: 0.into() };
        let mut subscribing = Vec::new();
        if algorithm.spec.can(Ability::Subscribes) {
            for emulator in &emulators {
                subscribing.push(PubSubConnection::open(&emulator.client()).await.unwrap());
            }
        }
        let bench = Bench {
            connect: &|server| match subscribing.get(server) {
                Some(connection) => Connection::subscribing(connection.clone()),
                None => Connection::new(emulators[server].connection()),
            },
            env: Env::new(source),
            pass_a_lease: &|| clock.advance(Duration::from_millis(1_001)),
        };
        converse(&bench, algorithm).await;
    }
}

/// If an algorithm needs several servers, each is a database of the one real server.
#[test]
fn every_algorithm_on_a_real_server() {
    if REAL_ALGORITHMS.is_left_out() {
        return;
    }
    let Some(server) = redis_server::borrow() else { return };
    let client = redis::Client::open(server.url()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    for algorithm in ALGORITHMS {
        server.clear();
        let connect = |database| {
            let info = client.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_db(database as i64);
            let client = redis::Client::open(info.set_redis_settings(settings)).unwrap();
            let connect = PubSubConnection::open(&client);
            let connection = tokio::task::block_in_place(|| runtime.handle().block_on(connect));
            Connection::subscribing(connection.unwrap())
        };
        let bench =
            Bench { connect: &connect, env: Env::system(), pass_a_lease: &|| wait_for_lease(&client) };
        runtime.block_on(async { converse(&bench, algorithm).await });
    }
}

/// Terms that make no sense are errors of the attempts of a lock for use, and no panic.
#[tokio::test]
async fn a_lease_that_is_too_short_is_an_error() {
    let terms = Terms { lease: Duration::from_millis(1), ..terms(1) };
    let for_use = ["mutex", "reentrant_mutex", "rw_lock", "semaphore"];
    for algorithm in locks() {
        let servers = 0..algorithm.servers();
        let connections = servers.map(|_| Connection::new(Emulator::new().connection())).collect();
        let mut lock = algorithm.open(connections, Env::system(), &terms);
        let attempt = lock.try_acquire().await;
        if for_use.iter().any(|name| algorithm.name.starts_with(name)) {
            let error = attempt.unwrap_err().to_string();
            assert!(error.contains("not longer than what clocks may drift apart"), "{error}");
            assert_eq!(lock.release().await.unwrap(), Release::NotHeld);
        }
    }
}

/// If a script fails, its earlier writes stay. When `EXPIRE` refuses the lease, the key of `SETNX`
/// stays without a time to live.
#[tokio::test]
async fn lua_setnx_expire_leaves_a_key_if_it_fails() {
    fail(Connection::new(Emulator::new().connection())).await;
    let Some(server) = redis_server::borrow() else { return };
    let client = redis::Client::open(server.url()).unwrap();
    fail(Connection::new(client.get_multiplexed_async_connection().await.unwrap())).await;
}

async fn fail(mut connection: Connection) {
    let [script] = locks::published::lua_setnx_expire::ALGORITHM.scripts else { panic!("it has one script") };
    let script = redis::Script::new(script);
    let outcome: redis::RedisResult<bool> =
        script.key("lock").arg("token").arg("0.5").invoke_async(&mut connection).await;
    let error = outcome.unwrap_err().to_string();
    assert!(error.contains("value is not an integer or out of range"), "{error}");
    assert_eq!(connection.pttl::<_, i64>("lock").await.unwrap(), -1);
}

/// Polls until a key with the same lease has expired. It does not sleep, because only the server's
/// clock counts.
fn wait_for_lease(client: &redis::Client) {
    let mut connection = client.get_connection().unwrap();
    () = redis::cmd("SET").arg(&["probe", "1", "PX", "1001"]).query(&mut connection).unwrap();
    while redis::cmd("EXISTS").arg("probe").query::<bool>(&mut connection).unwrap() {}
}

/// The emulator's time as the client's clock, and names that are numbered in order.
struct EmulatedTime {
    clock: Clock,
    names: AtomicU64,
}

impl locks::Source for EmulatedTime {
    fn now(&self) -> Duration {
        Duration::from_millis(self.clock.now().millis().unsigned_abs())
    }

    fn elapsed(&self) -> Duration {
        self.now()
    }

    fn jitter(&self, max: Duration) -> Duration {
        max
    }

    fn unique(&self) -> String {
        format!("{:04}", self.names.fetch_add(1, Relaxed))
    }
}

#[test]
fn names_are_unique_and_specs_say_something() {
    let names: std::collections::BTreeSet<_> = ALGORITHMS.iter().map(|algorithm| algorithm.name).collect();
    assert_eq!(names.len(), ALGORITHMS.len());
    for algorithm in ALGORITHMS {
        let spec = algorithm.spec;
        assert!([spec.guarantees, spec.assumes, spec.objection].iter().all(|text| !text.is_empty()));
    }
}
