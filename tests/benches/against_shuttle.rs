//! Runs the same programs in two ways and prints a table. Under shuttle's depth-first search, they
//! are threads over a map behind a mutex. In the harness, they are clients of the emulator, and one
//! execution is run per trace.
//!
//! Run it with `cargo bench -p lockstep-harness --features shuttle --bench against_shuttle`.
//!
//! An execution is not the same work in both. In shuttle it is a few accesses to a map. In the
//! harness it is as many commands of redis-rs over an emulated server. The last column repeats the
//! exploration with what the first one learned, as an exploration of more traces does most of the
//! time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table, presets};
use harness::Scenario;
use harness::execution::Runner;
use harness::explore::Dpor;
use redis::aio::ConnectionLike;
use redis::{RedisResult, cmd};
use shuttle::scheduler::DfsScheduler;
use shuttle::sync::Mutex;

/// If shuttle has not finished before, it stops after this many executions.
const ITERATIONS_MAX: usize = 300_000;

fn main() {
    // `cargo test --benches` only checks that the program runs.
    let iterations_max = if std::env::args().any(|arg| arg == "--bench") { ITERATIONS_MAX } else { 100 };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
        "program",
        "shuttle: executions",
        "time",
        "executions/s",
        "lockstep: traces",
        "blocked",
        "time",
        "executions/s",
        "learned: executions/s",
    ]);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for program in programs() {
        let (iterations, shuttle_time) = under_shuttle(&program, iterations_max);
        let InTheHarness { traces, blocked, time: own_time, learned_per_second } =
            in_the_harness(&program, iterations_max);
        let limit = if iterations >= iterations_max { "> " } else { "" };
        table.add_row([
            program.name.clone(),
            format!("{limit}{iterations}"),
            format!("{:.3} s", shuttle_time.as_secs_f64()),
            format!("{:.0}", iterations as f64 / shuttle_time.as_secs_f64()),
            traces.to_string(),
            blocked.to_string(),
            format!("{:.3} s", own_time.as_secs_f64()),
            format!("{:.0}", f64::from(traces + blocked) / own_time.as_secs_f64()),
            format!("{learned_per_second:.0}"),
        ]);
    }
    println!("{table}\n\n> n  not all: stopped after so many executions");
}

/// The acts of each client, in order.
struct Program {
    name: String,
    clients: Vec<Vec<Act>>,
}

/// The commands of a client. Each is atomic.
#[derive(Clone, Copy)]
enum Act {
    Get,
    Set,
    SetNx,
    Incr,
    /// Takes the lock, retries this often if another client has it, and releases it.
    Lock {
        retries: usize,
    },
}

fn programs() -> Vec<Program> {
    let program = |name: &str, clients| Program { name: name.to_owned(), clients };
    let readers = |n: usize| [vec![vec![Act::Set]], vec![vec![Act::Get]; n]].concat();
    vec![
        program("readers(3)", readers(3)),
        program("readers(8)", readers(8)),
        program("ainc(4)", vec![vec![Act::Incr]; 4]),
        program("ainc(6)", vec![vec![Act::Incr]; 6]),
        program("cas(4)", vec![vec![Act::SetNx]; 4]),
        program("cas(8)", vec![vec![Act::SetNx]; 8]),
        program("lostupd(3)", vec![vec![Act::Get, Act::Set]; 3]),
        program("lostupd(4)", vec![vec![Act::Get, Act::Set]; 4]),
        program("lock(3), no retry", vec![vec![Act::Lock { retries: 0 }]; 3]),
        program("lock(3), 1 retry", vec![vec![Act::Lock { retries: 1 }]; 3]),
        program("lock(4), 1 retry", vec![vec![Act::Lock { retries: 1 }]; 4]),
    ]
}

/// The number of executions, and their time.
fn under_shuttle(program: &Program, iterations_max: usize) -> (usize, Duration) {
    let clients = program.clients.clone();
    let scheduler = DfsScheduler::new(Some(iterations_max), false);
    let runner = shuttle::Runner::new(scheduler, shuttle::Config::default());
    timed(|| {
        runner.run(move || {
            let map: Arc<Mutex<BTreeMap<&str, usize>>> = Arc::default();
            let threads: Vec<_> = clients
                .iter()
                .enumerate()
                .map(|(own, acts)| {
                    let (map, acts) = (map.clone(), acts.clone());
                    shuttle::thread::spawn(move || acts.into_iter().for_each(|act| on_map(act, own, &map)))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        })
    })
}

fn on_map(act: Act, own: usize, map: &Mutex<BTreeMap<&'static str, usize>>) {
    let set_nx = || {
        let mut map = map.lock().unwrap();
        let is_free = !map.contains_key("k");
        map.entry("k").or_insert(own);
        is_free
    };
    match act {
        Act::Get => _ = map.lock().unwrap().get("k").copied(),
        Act::Set => _ = map.lock().unwrap().insert("k", own),
        Act::SetNx => _ = set_nx(),
        Act::Incr => *map.lock().unwrap().entry("k").or_default() += 1,
        Act::Lock { retries } => {
            if (0..=retries).any(|_| set_nx()) {
                map.lock().unwrap().remove("k");
            }
        }
    }
}

struct InTheHarness {
    traces: u32,
    blocked: u32,
    time: Duration,
    /// Executions a second when the exploration runs again and again.
    learned_per_second: f64,
}

fn in_the_harness(program: &Program, executions_min: usize) -> InTheHarness {
    let clients = program.clients.iter().enumerate();
    let scenario = clients.fold(Scenario::new(&program.name), |scenario, (own, acts)| {
        let acts = acts.clone();
        scenario.actors(1, move |client| {
            let acts = acts.clone();
            async move {
                let mut connection = client.connection();
                for act in acts {
                    on_redis(act, own, &mut connection).await?;
                }
                Ok(())
            }
        })
    });
    let mut runner = Runner::new();
    let mut explore = || {
        let (mut traces, mut blocked) = (0, 0);
        let mut dpor = Dpor::default();
        while dpor.run_next(&mut runner, &scenario).is_some() {
            *(if dpor.is_blocked() { &mut blocked } else { &mut traces }) += 1;
        }
        (traces, blocked)
    };
    let ((traces, blocked), time) = timed(&mut explore);
    let again = executions_min.div_ceil((traces + blocked) as usize);
    // A runner begins to learn with a few executions of its own.
    (0..again.div_ceil(10)).for_each(|_| _ = explore());
    let (_, learned_time) = timed(|| (0..again).for_each(|_| _ = explore()));
    let learned_per_second = f64::from(traces + blocked) * again as f64 / learned_time.as_secs_f64();
    InTheHarness { traces, blocked, time, learned_per_second }
}

async fn on_redis<C: ConnectionLike>(act: Act, own: usize, connection: &mut C) -> RedisResult<()> {
    match act {
        Act::Get => cmd("GET").arg("k").exec_async(connection).await,
        Act::Set => cmd("SET").arg("k").arg(own).exec_async(connection).await,
        Act::SetNx => cmd("SETNX").arg("k").arg(own).exec_async(connection).await,
        Act::Incr => cmd("INCR").arg("k").exec_async(connection).await,
        Act::Lock { retries } => {
            for _ in 0..=retries {
                if cmd("SETNX").arg("k").arg(own).query_async(connection).await? {
                    return cmd("DEL").arg("k").exec_async(connection).await;
                }
            }
            Ok(())
        }
    }
}

fn timed<R>(act: impl FnOnce() -> R) -> (R, Duration) {
    #[expect(clippy::disallowed_methods, reason = "this measures how long something takes")]
    let start = Instant::now();
    let result = act();
    (result, start.elapsed())
}
