//! The speed of executions in the harness, and of commands through the emulator's direct
//! connection. Each group also measures a baseline in the same run, because ratios differ less
//! between machines than times.

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use emulator::{Clock, Emulator};
use harness::check::{Participants, scenario};
use harness::execution::Runner;
use harness::explore::RandomWalk;
use harness::sim::Recording;
use locks::registry::{ALGORITHMS, FaultClass};

/// One execution of three clients that each take a lock and release it, including the probe at the
/// end.
fn executions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("three-client execution");
    group.throughput(Throughput::Elements(1));
    for name in ["set_nx_ex_del", "set_nx_px_cad", "mutex", "semaphore"] {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        let scenario =
            scenario(algorithm, FaultClass::Order, Participants { clients: 3, permits: 1, readers: None });
        let (mut runner, mut nth) = (Runner::new(), 0);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                nth += 1;
                runner.run(&scenario, &mut RandomWalk::new(0, nth), Recording::Lean)
            });
        });
    }
    // The time of tokio alone for as many tasks, which do nothing.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    group.bench_function("four empty tasks on tokio", |bencher| {
        bencher.iter(|| {
            runtime.block_on(async {
                let tasks: [_; 4] = std::array::from_fn(|_| tokio::spawn(async {}));
                for task in tasks {
                    task.await.unwrap();
                }
            });
        });
    });
    group.finish();
}

/// The output of a future that never waits.
fn at_once<F: Future>(future: F) -> F::Output {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut cx) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("nothing here waits"),
    }
}

const COMPARE_AND_DELETE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// One command of redis-rs: built, sent through `connection()`, and its reply parsed.
fn commands(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("direct connection");
    group.throughput(Throughput::Elements(1));
    let emulator = Emulator::with_clock(Clock::manual());
    let connection = emulator.connection();
    let mut bench = |name: &str, cmd: &dyn Fn() -> redis::Cmd| {
        _ = at_once(connection.request(&cmd()));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(
                cmd,
                |cmd| at_once(connection.request(&cmd)).unwrap(),
                BatchSize::SmallInput,
            );
        });
    };
    let command = |words: &[&str]| redis::cmd(words[0]).arg(&words[1..]).to_owned();
    bench("SET", &|| command(&["SET", "key", "value"]));
    bench("SET NX PX, refused", &|| command(&["SET", "key", "value", "NX", "PX", "10000"]));
    bench("GET", &|| command(&["GET", "key"]));
    bench("INCR", &|| command(&["INCR", "n"]));
    bench("HSET", &|| command(&["HSET", "hash", "field", "value"]));
    bench("ZADD", &|| command(&["ZADD", "zset", "1", "member"]));
    bench("EVAL of compare-and-delete", &|| command(&["EVAL", COMPARE_AND_DELETE, "1", "key", "other"]));
    // Once the script is known, redis-rs sends only its SHA1. The next benchmark deletes the key
    // that it finds, so its script runs two commands.
    let script = redis::Script::new(COMPARE_AND_DELETE);
    _ = at_once(connection.request(&command(&["SCRIPT", "LOAD", COMPARE_AND_DELETE])));
    let evalsha = |token| command(&["EVALSHA", script.get_hash(), "1", "key", token]);
    let connection = emulator.connection();
    group.bench_function("EVALSHA of compare-and-delete, another's", |bencher| {
        bencher.iter_batched(
            || evalsha("other"),
            |cmd| at_once(connection.request(&cmd)).unwrap(),
            BatchSize::SmallInput,
        );
    });
    group.bench_function("SET and EVALSHA of compare-and-delete", |bencher| {
        bencher.iter_batched(
            || (command(&["SET", "key", "value"]), evalsha("value")),
            |(set, evalsha)| {
                at_once(connection.request(&set)).unwrap();
                at_once(connection.request(&evalsha)).unwrap()
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

/// Sorted sets of growing size. The time of a command should grow with the logarithm of their size.
fn sorted_sets(criterion: &mut Criterion) {
    const MEMBERS_PER_ZADD: usize = 1000;
    // The number is prime, so that a member's next score differs from its last one.
    const SCORES: usize = 1_000_003;
    let mut group = criterion.benchmark_group("sorted set");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for n_members in [1000, 10_000, 100_000, 1_000_000] {
        let emulator = Emulator::with_clock(Clock::manual());
        let connection = emulator.connection();
        for first in (0..n_members).step_by(MEMBERS_PER_ZADD) {
            let mut zadd = redis::cmd("ZADD");
            zadd.arg("zset");
            for nth in first..first + MEMBERS_PER_ZADD {
                zadd.arg(scattered(nth, SCORES)).arg(nth);
            }
            at_once(connection.request(&zadd)).unwrap();
        }
        let mut nth = 0;
        let mut bench = |name: &str, cmd: &dyn Fn(usize) -> redis::Cmd| {
            group.bench_function(BenchmarkId::new(name, n_members), |bencher| {
                bencher.iter_batched(
                    || {
                        nth += 1;
                        cmd(nth)
                    },
                    |cmd| at_once(connection.request(&cmd)).unwrap(),
                    BatchSize::SmallInput,
                );
            });
        };
        bench("ZRANK", &|nth| redis::cmd("ZRANK").arg("zset").arg(scattered(nth, n_members)).to_owned());
        bench("ZADD, moving", &|nth| {
            let (score, member) = (scattered(nth, SCORES), scattered(nth, n_members));
            redis::cmd("ZADD").arg("zset").arg(score).arg(member).to_owned()
        });
    }
    group.finish();
}

/// Visits all numbers below `n` in an order with large gaps.
fn scattered(nth: usize, n: usize) -> usize {
    const PRIME: usize = 618_033_989;
    nth.wrapping_mul(PRIME) % n
}

/// A new emulator as a test makes it, with its first command.
fn starts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a new emulator");
    let first = redis::cmd("SET").arg("key").arg("value").to_owned();
    group.bench_function("connection() and SET", |bencher| {
        bencher.iter(|| at_once(Emulator::with_clock(Clock::manual()).connection().request(&first)).unwrap());
    });
    group.bench_function("url(), and its end", |bencher| bencher.iter(|| Emulator::new().url()));
    group.bench_function("a cluster of six that listens, and its end", |bencher| {
        bencher.iter(|| {
            let servers = Emulator::cluster(&Clock::system(), 3, 1).unwrap();
            servers.iter().for_each(|server| _ = server.url());
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_secs(3)).warm_up_time(Duration::from_secs(1));
    targets = starts, commands, sorted_sets, executions
}
criterion_main!(benches);
