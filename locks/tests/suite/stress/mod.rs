//! Stresses locks on real servers: tasks in several processes take them again and again. Meanwhile,
//! connections are killed, scripts are forgotten, servers pause, and one process is killed.
//!
//! Another server is the judge. Each client notes in one list of it when it enters and leaves.

mod log;
mod worker;

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use locks::registry::ALGORITHMS;
use locks::{Connection, Env, MultiLock, Mutex, Redlock, RwLock, Semaphore, Terms};
use redis::Client;
use redis::aio::MultiplexedConnection;
use tokio::time::sleep;

use crate::bounds::STRESSED;
use crate::redis_server::start_own;
use log::{Entry, Findings, Limit, judge};
use worker::{Subject, connect, with_lease, work};

const PROCESSES: usize = 3;
/// The tasks of each process.
const TASKS: usize = 3;
/// A client that has never been inside when the run ends goes on for so long.
const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(1);
const PERMITS: u32 = 2;
/// How often the servers are disturbed.
const PEACE: Duration = Duration::from_millis(300);
/// A process of a test finds here the URL of the judge, and then those of the servers.
const URLS: &str = "LOCKSTEP_STRESS_URLS";
/// The list of the judge, and a counter that clients raise in two steps.
const LOG: &str = "log";
const COUNTER: &str = "counter";

/// How long clients take a lock again and again.
fn run() -> Duration {
    Duration::from_secs(STRESSED.get())
}

/// The number of connections that were killed.
type Killed = usize;

/// The traces that a run leaves.
struct Traces {
    /// The list and the counter of the judge.
    log: Vec<String>,
    count: usize,
    killed: Killed,
    /// A server still has a grant, long after all leases.
    stays: bool,
}

/// Runs a test on so many servers. Returns what the judge saw, or `None` if no `redis-server` is
/// installed. In a process of the test, it works and returns `None`.
fn stress(
    test: &str,
    servers: usize,
    limit: Limit,
    open: &impl AsyncFn(&[Client], usize) -> Subject,
) -> Option<(Findings, Killed)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clients =
        |urls: &str| -> Vec<Client> { urls.split(' ').map(|url| Client::open(url).unwrap()).collect() };
    if let Ok(urls) = std::env::var(URLS) {
        let clients = clients(&urls);
        runtime.block_on(work(&clients[0], async |nth| open(&clients[1..], nth).await));
        return None;
    }
    let own = start_own(servers + 1);
    if own.is_empty() {
        return None;
    }
    let urls: Vec<String> = own.iter().map(|server| format!("redis://{}/", server.addr())).collect();
    let urls = urls.join(" ");
    let start = |_| {
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", &format!("stress::{test}"), "--nocapture"]);
        process.env(URLS, &urls).stdout(Stdio::null()).spawn().unwrap()
    };
    let processes: Vec<Child> = (0..PROCESSES).map(start).collect();
    let Traces { log, count, killed, stays } = runtime.block_on(disturb(&clients(&urls), processes));
    let mut findings = judge(&log, limit);
    if findings.late == 0 && !matches!(limit, Limit::Many(_)) && findings.violations.is_empty() {
        // The process that was killed may have been between its entry and the new count.
        assert!([findings.writes, findings.writes - 1].contains(&count), "{count} of {findings:?}");
    }
    if stays {
        findings.violations.push("a grant outlives its lease".into());
    }
    Some((findings, killed))
}

/// Disturbs the servers, all but the first, until the processes end, and kills one of them on the
/// way.
async fn disturb(clients: &[Client], mut processes: Vec<Child>) -> Traces {
    let mut judge = clients[0].get_multiplexed_async_connection().await.unwrap();
    let (env, mut killed) = (Env::system(), 0);
    let began_at = env.elapsed();
    let mut victim = processes.pop();
    for round in 0.. {
        if processes.iter_mut().all(|process| process.try_wait().unwrap().is_some()) {
            break;
        }
        sleep(env.jittered(PEACE)).await;
        let client = &clients[1 + round % (clients.len() - 1)];
        killed += disturb_one(&client.get_multiplexed_async_connection().await.unwrap(), round).await;
        if env.elapsed() - began_at > run() / 2
            && let Some(mut victim) = victim.take()
        {
            victim.kill().unwrap();
            victim.wait().unwrap();
            let dead = format!("{}- {}", victim.id(), Entry::Dead.to_words());
            () = redis::cmd("RPUSH").arg(LOG).arg(dead).query_async(&mut judge).await.unwrap();
        }
    }
    for process in &mut processes {
        assert!(process.wait().unwrap().success(), "a process failed; it said why above");
    }
    let mut stays = false;
    for client in &clients[1..] {
        stays |= !forgets(&mut client.get_multiplexed_async_connection().await.unwrap()).await;
    }
    let log = redis::cmd("LRANGE").arg(LOG).arg(0).arg(-1).query_async(&mut judge).await.unwrap();
    let count = redis::cmd("GET").arg(COUNTER).query_async(&mut judge).await.unwrap();
    Traces { log, count, killed, stays }
}

/// Waits until a server has forgotten all clients, and returns whether it has. It keeps only the
/// last fencing tokens.
async fn forgets(connection: &mut MultiplexedConnection) -> bool {
    for _ in 0..20 {
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query_async(connection).await.unwrap();
        if keys.iter().all(|key| key.ends_with(":fence")) {
            return true;
        }
        sleep(PEACE).await;
    }
    false
}

/// Kills the connections of a server. Sometimes it pauses, and sometimes it forgets its scripts.
async fn disturb_one(connection: &MultiplexedConnection, round: usize) -> Killed {
    let run = async |words: &str| {
        let mut words = words.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        words.for_each(|word| _ = command.arg(word));
        command.query_async::<redis::Value>(&mut connection.clone()).await.unwrap()
    };
    match round % 8 {
        3 => _ = run("CLIENT PAUSE 60 ALL").await,
        5 => _ = run("SCRIPT FLUSH").await,
        _ => {}
    }
    let mut killed = 0;
    for kind in ["normal", "pubsub"] {
        let reply = run(&format!("CLIENT KILL TYPE {kind} SKIPME yes")).await;
        killed += redis::from_redis_value::<usize>(reply).unwrap();
    }
    killed
}

/// Asserts that a lock stood the stress, and that there was some.
fn assert_stands(result: Option<(Findings, Killed)>) {
    let Some((findings, killed)) = result else { return };
    assert!(findings.violations.is_empty(), "{:#?}", findings.violations);
    assert!(killed > 20, "{killed} connections were killed");
    assert!(findings.of_dead > 0, "the process was killed before it did anything");
    assert_eq!(findings.entries.len(), (PROCESSES - 1) * TASKS, "a client starved: {:?}", findings.entries);
}

/// The lock whose builder this is, as each task has it.
async fn first(clients: &[Client], nth: usize) -> Connection {
    connect(&clients[0], nth).await
}

#[test]
fn mutexes() {
    let open = async |clients: &[Client], nth| {
        Subject::Mutex(with_lease(Mutex::builder(first(clients, nth).await, "lock").fenced()))
    };
    assert_stands(stress("mutexes", 1, Limit::One, &open));
}

#[test]
fn fair_mutexes() {
    let open = async |clients: &[Client], nth| {
        Subject::Mutex(with_lease(Mutex::builder(first(clients, nth).await, "lock").fenced().fair()))
    };
    assert_stands(stress("fair_mutexes", 1, Limit::One, &open));
}

#[test]
fn multi_locks() {
    let open = async |clients: &[Client], nth| {
        let names = ["common".to_owned(), format!("own:{nth}")];
        Subject::MultiLock(with_lease(MultiLock::builder(first(clients, nth).await, names).fenced()))
    };
    assert_stands(stress("multi_locks", 1, Limit::One, &open));
}

#[test]
fn semaphores() {
    let open = async |clients: &[Client], nth| {
        Subject::Semaphore(with_lease(Semaphore::builder(first(clients, nth).await, "lock", PERMITS)))
    };
    assert_stands(stress("semaphores", 1, Limit::Many(PERMITS as usize), &open));
}

#[test]
fn read_write_locks() {
    let open = async |clients: &[Client], nth| {
        Subject::RwLock(with_lease(RwLock::builder(first(clients, nth).await, "lock")))
    };
    assert_stands(stress("read_write_locks", 1, Limit::Readers, &open));
}

#[test]
fn redlocks() {
    let open = async |clients: &[Client], _| {
        let mut connections = Vec::new();
        for client in clients {
            connections.push(connect(client, 1).await);
        }
        Subject::Redlock(with_lease(Redlock::builder(connections, "lock")))
    };
    assert_stands(stress("redlocks", 5, Limit::One, &open));
}

/// Two clients find no key, and both write it. The key of a dead client stays for ever.
#[test]
fn a_published_lock_with_a_race_falls() {
    let open = async |clients: &[Client], nth| {
        let racy = ALGORITHMS.iter().find(|algorithm| algorithm.name == "exists_set").unwrap();
        let terms = Terms { key: "lock".into(), lease: LEASE, permits: 1 };
        Subject::Published(racy.open(vec![first(clients, nth).await], Env::system(), &terms))
    };
    if let Some((findings, _)) = stress("a_published_lock_with_a_race_falls", 1, Limit::One, &open) {
        for violation in ["inside are", "a grant outlives its lease"] {
            assert!(findings.violations.iter().any(|found| found.contains(violation)), "{findings:?}");
        }
    }
}
