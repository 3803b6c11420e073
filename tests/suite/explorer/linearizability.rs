//! Checks whether one order of the calls explains all answers of clients that run concurrently,
//! without a schedule.

use std::sync::Arc;
use std::time::Duration;

use emulator::{Clock, Emulator};
use harness::linearizability::{LockCall, Log, Model, Operation, Permits, linearize};
use locks::registry::{ALGORITHMS, Ability, Algorithm, AlgorithmKind, FaultClass, Property, locks};
use locks::{Connection, Env, PubSubConnection, Release, Terms};
use proptest::prelude::*;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};

use crate::redis_server;

use LockCall::{Release as Give, TryAcquire as Take};

const MUTEX: Permits = Permits { permits: 1, may_refuse: false };

fn operation(
    client: usize,
    call: LockCall,
    called_at: u64,
    answer: Option<(bool, u64)>,
) -> Operation<LockCall, bool> {
    Operation { client, call, called_at, answer }
}

#[test]
fn operations_that_overlap_may_come_in_any_order() {
    let in_turns = [operation(0, Take, 1, Some((true, 2))), operation(1, Take, 3, Some((false, 4)))];
    assert_eq!(linearize(&MUTEX, &in_turns), Ok(vec![0, 1]));
    let at_once = [operation(0, Take, 1, Some((false, 4))), operation(1, Take, 2, Some((true, 3)))];
    assert_eq!(linearize(&MUTEX, &at_once), Ok(vec![1, 0]));
}

#[test]
fn two_grants_at_once_are_explained_by_nothing() {
    let both = [operation(0, Take, 1, Some((true, 4))), operation(1, Take, 2, Some((true, 3)))];
    let error = linearize(&MUTEX, &both).unwrap_err();
    assert_eq!((error.explained.len(), error.stuck.len()), (1, 1));
    assert_eq!(
        error.to_string(),
        "no order of the operations explains their answers. The longest explained order is [0]; none of [1] can come next"
    );
    assert!(linearize(&Permits { permits: 2, may_refuse: false }, &both).is_ok());
}

#[test]
fn an_operation_without_a_reply_may_have_happened() {
    let lost = [
        operation(0, Take, 1, None),
        operation(1, Take, 2, Some((false, 3))),
        operation(2, Take, 4, Some((false, 5))),
    ];
    assert_eq!(linearize(&MUTEX, &lost), Ok(vec![0, 1, 2]));
    assert!(linearize(&MUTEX, &lost[1..]).is_err(), "nobody else could have had it");
    let never = [operation(0, Take, 1, None), operation(1, Take, 2, Some((true, 3)))];
    assert_eq!(linearize(&MUTEX, &never), Ok(vec![1]));
}

/// Tries every order of every choice of unanswered operations, as the definition says.
fn is_linearizable_by_definition(model: &Permits, operations: &[Operation<LockCall, bool>]) -> bool {
    fn extend(
        model: &Permits,
        operations: &[Operation<LockCall, bool>],
        order: &mut Vec<usize>,
        state: &<Permits as Model>::State,
    ) -> bool {
        if (0..operations.len()).all(|place| order.contains(&place) || operations[place].answer.is_none()) {
            return true;
        }
        (0..operations.len()).any(|place| {
            let operation = &operations[place];
            let comes_too_early = (0..operations.len()).any(|other| {
                let returned = operations[other].answer.as_ref().map(|&(_, at)| at);
                !order.contains(&other) && returned.is_some_and(|at| at < operation.called_at)
            });
            if order.contains(&place) || comes_too_early {
                return false;
            }
            let answer = operation.answer.as_ref().map(|(answer, _)| answer);
            let Some(after) = model.step(state, operation.client, &operation.call, answer) else {
                return false;
            };
            order.push(place);
            let is_explained = extend(model, operations, order, &after);
            order.pop();
            is_explained
        })
    }
    extend(model, operations, &mut Vec::new(), &model.initial())
}

/// Three clients. Each calls one operation after the other, at random times.
fn histories() -> impl Strategy<Value = Vec<Operation<LockCall, bool>>> {
    let call = (any::<bool>(), any::<bool>(), 0..3u64, 0..4u64, 0..8u8);
    prop::collection::vec(prop::collection::vec(call, 0..4), 3).prop_map(|clients| {
        let mut operations = Vec::new();
        for (client, calls) in clients.into_iter().enumerate() {
            let mut now = 0;
            for (is_take, answer, pause, takes, luck) in calls {
                let (called_at, returned_at) = (now + pause, now + pause + takes);
                let call = if is_take { Take } else { Give };
                let is_heard = luck > 0;
                operations.push(operation(
                    client,
                    call,
                    called_at,
                    is_heard.then_some((answer, returned_at)),
                ));
                if !is_heard {
                    break;
                }
                now = returned_at + 1;
            }
        }
        operations
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn the_search_equals_the_definition(operations in histories(), permits in 1..3usize, may_refuse: bool) {
        let model = Permits { permits, may_refuse };
        let found = linearize(&model, &operations);
        prop_assert_eq!(found.is_ok(), is_linearizable_by_definition(&model, &operations), "{:?}", found);
    }
}

/// Yields before every command, so that commands of other clients can run in between.
#[derive(Clone)]
struct Yielding(emulator::DirectConnection);

impl ConnectionLike for Yielding {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async {
            tokio::task::yield_now().await;
            self.0.req_packed_command(cmd).await
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.0.req_packed_commands(pipeline, offset, count).await
        })
    }

    fn get_db(&self) -> i64 {
        ConnectionLike::get_db(&self.0)
    }
}

/// Clients that acquire and release `rounds` times each, without pauses.
async fn contend(
    algorithm: &'static Algorithm,
    clients: usize,
    rounds: usize,
    connect: impl Fn(usize) -> Connection,
) -> Vec<Operation<LockCall, bool>> {
    let log = Arc::new(Log::new());
    let tasks = (0..clients).map(|client| {
        let connections = (0..algorithm.servers()).map(&connect).collect();
        // All databases of a server share its channels.
        let terms = Terms { key: "contended".into(), lease: Duration::from_secs(1), permits: 1 };
        let mut lock = algorithm.open(connections, Env::system(), &terms);
        let log = log.clone();
        tokio::spawn(async move {
            for _ in 0..rounds {
                let attempt = async { lock.try_acquire().await.unwrap() };
                if log.call(client, Take, attempt).await {
                    let release = async { lock.release().await.unwrap() != Release::NotHeld };
                    log.call(client, Give, release).await;
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    Arc::into_inner(log).expect("all tasks are done").into_operations()
}

fn grants(operations: &[Operation<LockCall, bool>]) -> usize {
    operations.iter().filter(|operation| operation.answer.is_some_and(|(granted, _)| granted)).count()
}

#[tokio::test]
async fn a_lock_that_looks_before_it_takes_is_not_linearizable() {
    let emulator = Emulator::with_clock(Clock::manual());
    let connect = |_| Connection::new(Yielding(emulator.connection()));
    let broken = ALGORITHMS.iter().find(|algorithm| algorithm.name == "exists_set").unwrap();
    let operations = contend(broken, 2, 1, connect).await;
    assert!(linearize(&MUTEX, &operations).is_err(), "{operations:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn locks_that_hold_in_every_order_are_linearizable_on_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    for algorithm in locks() {
        let spec = algorithm.spec;
        let property = match spec.kind {
            AlgorithmKind::Mutex => Property::ExclusiveFact,
            AlgorithmKind::Semaphore => Property::OverIssue,
            AlgorithmKind::ReadWrite | AlgorithmKind::Limiter | AlgorithmKind::Once => continue,
        };
        if spec.can(Ability::Reenters) || !spec.holds(property, FaultClass::Order) {
            continue;
        }
        let urls = server.urls();
        if urls.len() < algorithm.servers() {
            continue;
        }
        let mut servers = Vec::new();
        for url in urls.into_iter().take(algorithm.servers()) {
            let client = redis::Client::open(url).unwrap();
            servers.push(PubSubConnection::open(&client).await.unwrap());
        }
        // On a busy machine, clients of several servers may refuse each other for many rounds.
        let mut operations = Vec::new();
        for _ in 0..20 {
            operations = contend(algorithm, 4, 25, |nth| Connection::subscribing(servers[nth].clone())).await;
            if grants(&operations) >= 2 {
                break;
            }
        }
        assert!(grants(&operations) >= 2, "{}: nobody was granted anything", algorithm.name);
        // With several servers, two clients may each get a minority, so that both are refused. In a
        // semaphore, an entry whose rank is too high can block others until its client removes it.
        // So can a client that gives up after others have seen it.
        let model = Permits {
            permits: 1,
            may_refuse: spec.kind == AlgorithmKind::Semaphore
                || algorithm.servers() > 1
                || !spec.holds(Property::Progress, FaultClass::Order),
        };
        linearize(&model, &operations).unwrap_or_else(|error| panic!("{}: {error}", algorithm.name));
    }
}
