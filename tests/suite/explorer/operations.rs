//! Operations that clients call, and the oracle that judges whether an object explains their
//! answers. Arrivals, and tasks that are told apart.

use std::time::Duration;

use harness::execution::Runner;
use harness::fault::FaultKind;
use harness::linearizability::{Counter, Queue, Register, Set};
use harness::oracle::{Linearizable, Success};
use harness::sim::Recording;
use harness::trace::EventKind;
use harness::{Client, Exploration, Faults, Scenario, exhaustive, from_fn, replay};
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands as _, RedisResult};

use super::the_end::violated;

fn explored(scenario: &Scenario) -> Exploration {
    exhaustive(scenario).unwrap_or_else(|report| panic!("{report}"))
}

/// Pushes a job of its name, and pops one.
async fn uses_a_list(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    () = client.operation("push", client.name()).run(link.lpush("jobs", client.name())).await?;
    let _: Option<String> = client.operation("pop", ()).run(link.rpop("jobs", None)).await?;
    Ok(())
}

/// Reads the oldest job, and removes it after that.
async fn reads_first(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    () = client.operation("push", client.name()).run(link.lpush("jobs", client.name())).await?;
    let pop = async {
        let job: Option<String> = link.lindex("jobs", -1).await?;
        () = link.ltrim("jobs", 0, -2).await?;
        RedisResult::Ok(job)
    };
    client.operation("pop", ()).run(pop).await.map(|_| ())
}

#[test]
fn a_list_is_a_queue() {
    let queue = |act| Scenario::new("queue").actors(2, act).always(Linearizable::new(Queue::default()));
    explored(&queue(from_fn(uses_a_list)));
}

#[test]
fn a_queue_that_reads_first_is_none() {
    let queue = Scenario::new("queue").actors(2, from_fn(reads_first));
    let report = exhaustive(&queue.always(Linearizable::new(Queue::default()))).unwrap_err();
    let (what, ..) = violated(&report);
    assert!(what.starts_with("no order of the operations, one after the other, explains their answers: "));
    assert!(what.contains("A: push(\"A\") → "), "{what}");
    let report = report.to_string();
    assert!(report.contains("A calls push(\"A\")."), "{report}");
    assert!(report.contains("has the answer to pop(): "), "{report}");
}

#[test]
fn a_lost_update_is_no_counter() {
    let adds = |client: Client| async move {
        let mut link = client.connection();
        let add = async {
            let number: i64 = link.get::<_, Option<i64>>("n").await?.unwrap_or(0) + 1;
            () = link.set("n", number).await?;
            RedisResult::Ok(number)
        };
        Ok(client.operation("add", 1).run(add).await.map(|_| ())?)
    };
    let counter = Scenario::new("counter").actors(2, adds).always(Linearizable::new(Counter::default()));
    let report = exhaustive(&counter).unwrap_err();
    let (what, clients, schedule) = violated(&report);
    assert!(what.ends_with("A: add(1) → 1; B: add(1) → 1"), "{what}");
    assert_eq!((clients, schedule.steps.len()), (2, 4), "{report}");
}

/// A client that answers a second request from its own memory, when the write of another has
/// returned.
#[test]
fn a_cache_is_no_register() {
    let writes = |client: Client| async move {
        Ok(client.operation("write", 1).run(client.connection().set::<_, _, ()>("x", 1)).await?)
    };
    let reads = |caches: bool| {
        move |client: Client| async move {
            let mut link = client.connection();
            let first: Option<i64> = client.operation("read", ()).run(link.get("x")).await?;
            client.arrival().await;
            let again = async { if caches { RedisResult::Ok(first) } else { link.get("x").await } };
            client.operation("read", ()).run(again).await?;
            Ok(())
        }
    };
    let register = |caches| {
        Scenario::new("register")
            .actors(1, writes)
            .actors(1, reads(caches))
            .always(Linearizable::new(Register::default()))
    };
    explored(&register(false));
    let report = exhaustive(&register(true)).unwrap_err();
    let what = "B: read() → null; A: write(1) → null; B: read() → null";
    assert!(violated(&report).0.ends_with(what), "{report}");
}

/// Whether the command of an operation is late, or its reply, no order is missing.
#[test]
fn late_replies_are_no_false_alarm() {
    let queue = Scenario::new("queue").actors(2, from_fn(uses_a_list)).faults(Faults::none().stalls(1));
    let report = explored(&queue.always(Linearizable::new(Queue::default())));
    assert!(report.schedules > 10);
    let shared = |client: Client| async move {
        let mut link = client.multiplexed().await?;
        () = client.operation("add", client.name()).run(link.sadd("s", client.name())).await?;
        client.operation("contains", "A").run(link.sismember::<_, _, bool>("s", "A")).await?;
        Ok(())
    };
    let set = Scenario::new("set").actors(2, shared).always(Linearizable::new(Set::default()));
    let report = exhaustive(&set).unwrap_err();
    assert!(violated(&report).0.contains("→ null"), "the code says nothing of what was new: {report}");
    let counts = |client: Client| async move {
        let mut link = client.multiplexed().await?;
        client.operation("add", 1).run(link.incr::<_, _, i64>("n", 1)).await?;
        client.operation("read", ()).run(link.get::<_, i64>("n")).await?;
        Ok(())
    };
    let counter = Scenario::new("counter").actors(2, counts).faults(Faults::none().stalls(1));
    explored(&counter.always(Linearizable::new(Counter::default())));
}

/// An operation that reads its clock is called before time passes, whenever its command runs.
#[test]
fn a_clock_that_was_read_dates_a_call() {
    let reads = |client: Client| async move {
        let read = async {
            let now = client.now();
            let mut link = client.connection();
            redis::cmd("PING").exec_async(&mut link).await?;
            RedisResult::Ok(now.as_millis().is_multiple_of(2).then_some(()))
        };
        client.operation("read", ()).run(read).await?;
        Ok(())
    };
    let scenario = Scenario::new("clock").actors(2, reads).faults(Faults::none().stalls(1));
    explored(&scenario.always(Linearizable::new(Register::default())));
}

/// After an error, an operation may have taken effect.
#[test]
fn an_operation_that_fails_has_no_answer() {
    let adds = |client: Client| async move {
        let mut link = client.connection();
        _ = client.operation("add", 1).run(link.incr::<_, _, i64>("n", 1)).await;
        _ = client
            .operation("read", ())
            .run(async { RedisResult::Ok(link.get::<_, Option<i64>>("n").await?.unwrap_or(0)) })
            .await;
        Ok(())
    };
    let counter = Scenario::new("counter").actors(2, adds).faults(Faults::none().lost(1));
    let counter = counter.always(Linearizable::new(Counter::default()));
    explored(&counter.clone().faults(Faults::none().lost(1).without(FaultKind::Resend)));
    explored(&counter.clone().faults(Faults::none().lost(1).only(FaultKind::LoseReply)));
    // A request that is sent again adds twice.
    let report = exhaustive(&counter).unwrap_err();
    assert!(violated(&report).0.ends_with("A: add(1) → 2"));
    assert!(!report.to_string().contains("without"), "{report}");
}

#[test]
fn an_operation_that_the_model_lacks_is_named() {
    let peeks = |client: Client| async move {
        let mut link = client.connection();
        client.operation("peek", ("x", 1)).run(link.get::<_, Option<i64>>("n")).await?;
        Ok(())
    };
    let scenario = Scenario::new("peek").actors(1, peeks).always(Linearizable::new(Queue::default()));
    let report = exhaustive(&scenario).unwrap_err();
    assert_eq!(violated(&report).0, "the model has no operation peek(\"x\", 1): Queue { initial: [] }");
    let vacuous = Scenario::new("none").actors(1, from_fn(uses_a_list));
    let report = exhaustive(&vacuous.always(Linearizable::of("jobs", Queue::default()))).unwrap_err();
    assert!(report.to_string().contains("client.operation(…).on(\"jobs\").run(…)"), "{report}");
}

/// Counts a request by two commands.
async fn count(mut link: MultiplexedConnection) -> RedisResult<()> {
    let so_far: i64 = link.get::<_, Option<i64>>("n").await?.unwrap_or(0);
    link.set("n", so_far + 1).await
}

/// One process serves two requests at once on one connection.
async fn two_requests(client: Client, arrives: bool) -> RedisResult<()> {
    let link = client.multiplexed().await?;
    let second = tokio::spawn({
        let (client, link) = (client.clone(), link.clone());
        async move {
            if arrives {
                client.arrival().await;
            }
            count(link).await
        }
    });
    count(link).await?;
    second.await.expect("it does not panic")
}

#[test]
fn a_second_request_may_come_later() {
    let counts = |arrives, wrong: i64| {
        let requests =
            Scenario::new("requests").actors(1, from_fn(move |client| two_requests(client, arrives)));
        exhaustive(&requests.finally("the count is not that", move |client, _| async move {
            let count: i64 = client.connection().get("n").await?;
            if count == wrong { Err(count.to_string().into()) } else { Ok(()) }
        }))
    };
    // Both read before either writes.
    counts(false, 2).unwrap();
    counts(false, 1).unwrap_err();
    // The second one comes before the first has written, or after that.
    counts(true, 1).unwrap_err();
    counts(true, 2).unwrap_err();
}

#[test]
fn tasks_of_a_client_are_told_apart() {
    let act = |client: Client| async move {
        let later = client.clone();
        let second = tokio::spawn(async move {
            later.arrival().await;
            later.connection().incr::<_, _, i64>("n", 1).await
        });
        let first: i64 = client.connection().incr("n", 1).await?;
        let second = second.await.expect("it does not panic")?;
        if first < second { Ok(()) } else { Err("the second came first".into()) }
    };
    let report = exhaustive(&Scenario::new("tasks").actors(1, act).always(Success)).unwrap_err().to_string();
    assert!(report.contains("A.2: INCRBY n 1 → 1"), "{report}");
    assert!(report.contains("A.1: INCRBY n 1 → 2"), "{report}");
    assert!(report.contains("A is called from outside"), "{report}");
}

/// The inner one is cancelled while it runs, and the outer one after that.
#[test]
fn an_operation_inside_of_another_is_cancelled_alone() {
    let act = |client: Client| async move {
        let says = async |text: &str| -> RedisResult<()> {
            redis::cmd("ECHO").arg(text).exec_async(&mut client.connection()).await
        };
        let outer = client.cancellable(async {
            let inner = client.cancellable(says("inner")).await;
            says(if inner.is_some() { "inner is done" } else { "inner is cancelled" }).await
        });
        let outer = outer.await;
        Ok(says(if outer.is_some() { "outer is done" } else { "outer is cancelled" }).await?)
    };
    let scenario = Scenario::new("nested").actors(1, act).faults(Faults::none().cancels(1));
    let said = |schedule: &str| {
        let schedule = schedule.parse().unwrap();
        let history = replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
        let texts = history.events.iter().filter_map(|event| match &event.kind {
            EventKind::Command { reply, .. } => Some(reply.clone()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(said("start A\ncancel A"), r#""inner is cancelled", "outer is done""#);
    assert_eq!(said("A\ncancel A"), r#""inner", "outer is cancelled""#);
}

/// Tasks are numbered in the order of their first requests, and keep their numbers.
#[test]
fn each_task_of_a_client_has_a_number() {
    let act = |client: Client| async move {
        client.connection().incr::<_, _, ()>("n", 1).await?;
        for _ in 0..2 {
            let mut link = client.connection();
            let twice = async move {
                link.incr::<_, _, ()>("n", 1).await?;
                link.incr::<_, _, ()>("n", 1).await
            };
            tokio::spawn(twice).await.expect("it does not panic")?;
        }
        Ok(())
    };
    let (scenario, schedule) = (Scenario::new("tasks").actors(1, act), "A\nA\nA\nA\nA".parse().unwrap());
    let history = replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
    let tasks = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { sent, .. } => Some(sent.task),
        _ => None,
    });
    assert_eq!(tasks.collect::<Vec<_>>(), [0, 1, 1, 2, 2]);
}

/// Whatever the time, a request from outside is no command: no fault strikes it.
#[test]
fn no_fault_strikes_an_arrival() {
    let act = |client: Client| async move {
        client.arrival().await;
        _ = client.connection().set::<_, _, ()>("a", 1).await;
        Ok(())
    };
    let faults = Faults::none().crashes(1).lost(1).drops(1).delays(1).stalls(1);
    let scenario = Scenario::new("arrivals").actors(2, act).faults(faults);
    explored(&scenario.response_timeout(Duration::from_millis(5)).always(Success));
}
