//! A process of a stress test: its tasks take a lock again and again.

use std::time::Duration;

use locks::registry::DynLock;
use locks::{Connection, Env, Guard, MultiLock, Mutex, PubSubConnection, Redlock, RwLock, Semaphore};
use redis::Client;
use redis::aio::{ConnectionManager, MultiplexedConnection};
use tokio::time::sleep;

use super::log::Entry;
use super::{COUNTER, LEASE, LOG, PATIENCE, TASKS, run};

/// The most time inside.
const STAY: Duration = Duration::from_millis(3);

/// A kind of lock, as one task has it.
pub(super) enum Subject {
    Mutex(Mutex),
    MultiLock(MultiLock),
    Semaphore(Semaphore),
    RwLock(RwLock),
    Redlock(Redlock),
    /// It is tried again and again.
    Published(Box<dyn DynLock>),
}

impl Subject {
    /// Takes the lock, to read if it can be read and this says so. `None` if it was tried in vain.
    async fn enter(&mut self, reads: bool) -> Option<Option<Guard>> {
        let granted = match self {
            Subject::Mutex(mutex) => mutex.lock().await,
            Subject::MultiLock(lock) => lock.lock().await,
            Subject::Semaphore(semaphore) => semaphore.acquire().await,
            Subject::RwLock(lock) if reads => lock.read().await,
            Subject::RwLock(lock) => lock.write().await,
            Subject::Redlock(lock) => lock.lock().await,
            Subject::Published(lock) => return lock.try_acquire().await.ok()?.then_some(None),
        };
        granted.ok().map(Some)
    }

    async fn leave(&mut self, guard: Option<Guard>) {
        // Whether it is released may be unknown. Then the lease ends the grant.
        match (self, guard) {
            (Subject::Published(lock), _) => _ = lock.release().await,
            (_, Some(guard)) => _ = guard.release().await,
            (_, None) => {}
        }
    }
}

/// A connection that can be killed: it connects again. Every other one can listen.
pub(super) async fn connect(client: &Client, nth: usize) -> Connection {
    match nth % 2 {
        0 => Connection::subscribing(PubSubConnection::open(client).await.unwrap()),
        _ => Connection::new(ConnectionManager::new(client.clone()).await.unwrap()),
    }
}

/// Runs the tasks of this process. `open` opens the lock of a task by its number.
pub(super) async fn work(judge: &Client, open: impl AsyncFn(usize) -> Subject) {
    let mut tasks = tokio::task::JoinSet::new();
    for nth in 0..TASKS {
        let judge = judge.get_multiplexed_async_connection().await.unwrap();
        let name = format!("{}-{nth}", std::process::id());
        let (subject, task) = (open(nth).await, Task { judge, name });
        tasks.spawn(task.run(subject));
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

/// A task that tells the judge what it does.
struct Task {
    judge: MultiplexedConnection,
    name: String,
}

impl Task {
    async fn run(mut self, mut subject: Subject) {
        let env = Env::system();
        let (began_at, mut entered) = (env.elapsed(), 0);
        for round in 0.. {
            if env.elapsed() - began_at >= if entered > 0 { run() } else { PATIENCE } {
                return;
            }
            let reads = round % 3 > 0 && matches!(subject, Subject::RwLock(_));
            if let Some(guard) = subject.enter(reads).await {
                self.stay(guard.as_ref(), !reads).await;
                subject.leave(guard).await;
                entered += 1;
            }
            sleep(env.jittered(STAY)).await;
        }
    }

    async fn stay(&mut self, guard: Option<&Guard>, writes: bool) {
        let token = guard.and_then(Guard::fencing_token);
        self.say(&Entry::Enters { writes, token }).await;
        let count: u64 = redis::cmd("GET")
            .arg(COUNTER)
            .query_async::<Option<u64>>(&mut self.judge)
            .await
            .unwrap()
            .unwrap_or(0);
        sleep(Env::system().jittered(STAY)).await;
        let is_lost = guard.is_some_and(Guard::is_lost);
        if writes && !is_lost {
            () = redis::cmd("SET").arg(COUNTER).arg(count + 1).query_async(&mut self.judge).await.unwrap();
        }
        self.say(if is_lost { &Entry::LeavesLate } else { &Entry::Leaves }).await;
    }

    async fn say(&mut self, entry: &Entry) {
        let line = format!("{} {}", self.name, entry.to_words());
        () = redis::cmd("RPUSH").arg(LOG).arg(line).query_async(&mut self.judge).await.unwrap();
    }
}

/// The lease of the locks is renewed, because it is shorter than the run.
pub(super) fn with_lease<L>(builder: locks::Builder<L>) -> L {
    builder.lease(LEASE).renew(true).build().unwrap()
}
