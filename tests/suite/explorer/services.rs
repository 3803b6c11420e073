//! Services: code that never ends.

use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::explore::{Dpor, Problem};
use harness::oracle::{AtLeastOnce, AtMostOnce};
use harness::schedule::Step;
use harness::sim::Recording;
use harness::trace::EventKind;
use harness::{Client, Faults, Scenario, exhaustive, from_fn, replay, sample};
use redis::{AsyncCommands as _, Commands as _, RedisResult};

use super::executions::check;
use super::the_end::violated;

/// Pushes a job of its name.
async fn produce(client: Client) -> RedisResult<()> {
    client.connection().lpush("jobs", client.name()).await
}

/// Every job was done once.
fn all_done(scenario: Scenario, jobs: usize) -> Scenario {
    scenario.finally("every job is done once", move |client, _| async move {
        let done: Vec<String> = client.connection().lrange("done", 0, -1).await?;
        if done.len() == jobs {
            Ok(())
        } else {
            Err(format!("{} of {jobs} jobs are done", done.len()).into())
        }
    })
}

fn queue<F, Fut>(name: &str, worker: F) -> Scenario
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = RedisResult<()>> + Send + 'static,
{
    all_done(Scenario::new(name).actors(2, from_fn(produce)).services(2, from_fn(worker)), 2)
}

async fn blocks(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    loop {
        let (_, job): (String, String) = link.brpop("jobs", 0.0).await?;
        () = link.lpush("done", job).await?;
    }
}

async fn blocks_for_a_while(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    loop {
        if let Some((_, job)) = link.brpop::<_, Option<(String, String)>>("jobs", 1.0).await? {
            () = link.lpush("done", job).await?;
        }
    }
}

async fn polls(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    loop {
        if let Some(job) = link.rpop::<_, Option<String>>("jobs", None).await? {
            () = link.lpush("done", job).await?;
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
}

async fn polls_without_a_sleep(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    loop {
        if let Some(job) = link.rpop::<_, Option<String>>("jobs", None).await? {
            () = link.lpush("done", job).await?;
        }
    }
}

#[test]
fn workers_that_block() {
    exhaustive(&queue("block", blocks)).unwrap();
    sample(&queue("block for a second", blocks_for_a_while), 200, 0).unwrap();
}

/// While services rest, only faults of services can strike, and none has to.
#[test]
fn the_schedules_of_a_service_that_rests() {
    let schedules = |faults| {
        let scenario = Scenario::new("rests").faults(faults).services(1, from_fn(blocks));
        let (mut runner, mut dpor) = (Runner::new(), Dpor::default());
        let mut lines = String::new();
        while let Some(executed) = dpor.run_next(&mut runner, &scenario) {
            let steps = executed.steps.iter().map(Step::to_string);
            lines += &format!("{}\n", steps.collect::<Vec<_>>().join(", "));
        }
        lines
    };
    expect![[r#"
        A, wait
        A, crash A
        crash-after A
    "#]]
    .assert_eq(&schedules(Faults::none().crashes(1)));
    expect![[r#"
        A
    "#]]
    .assert_eq(&schedules(Faults::none().restarts(1)));
    expect![[r#"
        A
        lose-request A
        lose-reply A
        resend A
    "#]]
    .assert_eq(&schedules(Faults::none().lost(1)));
}

/// They are ended before the code runs that judges the end.
#[test]
fn services_take_nothing_from_code_that_judges() {
    let scenario = Scenario::new("ended").services(1, from_fn(blocks));
    exhaustive(&scenario.finally("the job is still there", |client, _| async move {
        let mut link = client.connection();
        () = link.lpush("jobs", "last").await?;
        match link.llen("jobs").await? {
            1 => Ok(()),
            jobs => Err(format!("there are {jobs} jobs").into()),
        }
    }))
    .unwrap();
}

#[test]
fn workers_that_poll() {
    sample(&queue("poll", polls), 200, 0).unwrap();
    sample(&queue("poll at once", polls_without_a_sleep), 200, 0).unwrap();
    let one = Scenario::new("one").actors(1, from_fn(produce)).services(1, from_fn(polls));
    exhaustive(&all_done(one, 1)).unwrap();
}

/// While a request is slow, time may pass to the end of the key for which a service polls.
#[test]
fn time_passes_beside_a_slow_request_and_a_service_that_polls() {
    let set = |key: &'static str, ms: u64| {
        move |client: Client| async move { Ok(client.connection().pset_ex::<_, _, ()>(key, 1, ms).await?) }
    };
    let polls = |client: Client| async move {
        let mut link = client.connection();
        while link.exists::<_, bool>("key").await? {}
        std::future::pending().await
    };
    let scenario = Scenario::new("slow").faults(Faults::none().stalls(1)).before(set("key", 5_000));
    let scenario = scenario.actors(1, set("short", 1_000)).actors(1, set("late", 1)).services(1, polls);
    check(
        &scenario,
        "A\nC\nC\nC\nstart B\ntime +1000ms\nwait\nB\nC",
        &expect![[r#"
        +0 A: PSETEX short 1000 1 → OK
        +0 C: EXISTS key → 1
        +0 C: EXISTS key → 1
        +0 C: EXISTS key → 1
        +1000 time
        +1000 time
        +1000 C: EXISTS key → 1
        +1001 time
        +1001 B: PSETEX late 1 1 → OK
        +1001 C: EXISTS key → 1
        +1001 C: EXISTS key → 1
    "#]],
    );
}

/// Code that polls without a sleep has an end, too, after a crash and the lease that passes then.
/// It sees what has changed in that time.
#[test]
fn a_crash_beside_a_service_that_polls_at_once() {
    let takes = |client: Client| async move {
        let mut link = client.connection();
        () = link.set_ex("alive", 1, 1).await?;
        Ok(link.incr::<_, _, ()>("taken", 1).await?)
    };
    let gives_back = |client: Client| async move {
        let mut link = client.connection();
        loop {
            let (is_taken, is_alive): (bool, bool) =
                (link.exists("taken").await?, link.exists("alive").await?);
            if is_taken && !is_alive {
                () = link.del("taken").await?;
            }
        }
    };
    let scenario = Scenario::new("polls").actors(1, takes).services(1, gives_back);
    let judged =
        scenario.faults(Faults::none().crashes(1)).finally("it is free", |client, ended| async move {
            let is_taken: bool = client.connection().exists("taken").await?;
            if is_taken && !ended.crashed.is_empty() { Err("it is taken".into()) } else { Ok(()) }
        });
    exhaustive(&judged).unwrap_or_else(|report| panic!("{report}"));
}

/// Reads the next job, and removes it after that: two workers do one job.
async fn reads_first(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    loop {
        if let Some(job) = link.lindex::<_, Option<String>>("jobs", -1).await? {
            () = link.ltrim("jobs", 0, -2).await?;
            () = link.lpush("done", job).await?;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[test]
fn a_job_that_is_done_twice() {
    // A service alone makes a scenario, too.
    let workers = Scenario::new("read first")
        .before(|client| async move { Ok(client.connection().lpush("jobs", "job").await?) });
    let report = sample(&all_done(workers.services(2, from_fn(reads_first)), 1), 200, 0).unwrap_err();
    assert_eq!(violated(&report).0, "2 of 1 jobs are done");
}

/// A job that a crashed worker had taken is lost, unless a reaper puts it back.
#[test]
fn a_job_that_is_lost() {
    let reliable = |client: Client| async move {
        let mut link = client.connection();
        loop {
            let job: String =
                redis::cmd("BRPOPLPUSH").arg(&["jobs", "taken", "0"]).query_async(&mut link).await?;
            () = redis::pipe()
                .atomic()
                .lrem("taken", 1, &job)
                .lpush("done", &job)
                .query_async(&mut link)
                .await?;
        }
    };
    let reap = |client: Client| async move {
        let mut link = client.connection();
        loop {
            tokio::time::sleep(Duration::from_secs(5)).await;
            let _job: Option<String> = link.rpoplpush("taken", "jobs").await?;
        }
    };
    let scenario = |name, worker_count| {
        let workers = Scenario::new(name)
            .before(|client| async move { Ok(client.connection().lpush("jobs", "job").await?) });
        all_done(workers.services(worker_count, reliable).faults(Faults::none().crashes(1)), 1)
    };
    let report = exhaustive(&scenario("no reaper", 1)).unwrap_err();
    assert_eq!(violated(&report).0, "0 of 1 jobs are done");
    let report = exhaustive(&scenario("no reaper", 2)).unwrap_err();
    assert_eq!(violated(&report).0, "0 of 1 jobs are done", "it is in the list of those that are taken");
    let reaped = scenario("reaper", 2).services(1, reap);
    // It does not know whether the worker is alive.
    let report = sample(&reaped, 300, 0).unwrap_err();
    assert_eq!(violated(&report).0, "2 of 1 jobs are done");
}

/// An actor that waits for something that never comes is a failure, even if services go on.
#[test]
fn an_actor_that_waits_beside_services() {
    let scenario = Scenario::new("stuck")
        .actors(1, |client: Client| async move {
            let _answer: (String, String) = client.connection().blpop("answers", 0.0).await?;
            Ok(())
        })
        .services(1, from_fn(blocks))
        .finally("nothing", |_, _| async { Ok(()) });
    let report = exhaustive(&scenario).unwrap_err();
    assert!(report.to_string().contains("A waits for something that never comes"), "{report}");
}

/// A service that fails is reported as any other client.
#[test]
fn a_service_that_fails() {
    let scenario = queue("fails", |client: Client| async move {
        loop {
            () = client.connection().incr("jobs", 1).await?;
        }
    });
    let report = exhaustive(&scenario).unwrap_err();
    assert!(matches!(report.problem, Problem::Failed { .. }), "{report}");
}

/// What services do after a lease, which passes after a crash, counts, too.
#[test]
fn services_go_on_after_a_crash() {
    let scenario = Scenario::new("heartbeat")
        .lease(Duration::from_secs(3))
        .faults(Faults::none().crashes(1))
        .actors(1, |client: Client| async move {
            () = client.connection().set("a", 1).await?;
            Ok(client.connection().set("b", 1).await?)
        })
        .services(1, |client: Client| async move {
            let mut link = client.connection();
            loop {
                () = link.set_ex("alive", client.name(), 2).await?;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        })
        .finally("somebody is alive", |client, ended| async move {
            let is_alive: bool = client.connection().exists("alive").await?;
            if is_alive || ended.crashed.is_empty() { Ok(()) } else { Err("nobody is alive".into()) }
        });
    exhaustive(&scenario).unwrap();
}

/// Tasks that outlive the code that spawned them do not keep an execution from its end.
#[test]
fn tasks_that_never_end() {
    let before = |name| {
        Scenario::new(name)
            .before(|client| async move { Ok(client.connection().lpush("jobs", "job").await?) })
    };
    let heartbeats = before("heartbeats").actors(2, |client: Client| async move {
        let (mut link, mut beat) = (client.connection(), client.connection());
        tokio::spawn(async move {
            loop {
                let _set: RedisResult<()> = beat.set_ex("alive", 1, 5).await;
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
        });
        if let Some(job) = link.rpop::<_, Option<String>>("jobs", None).await? {
            () = link.lpush("done", job).await?;
        }
        Ok(())
    });
    exhaustive(&all_done(heartbeats, 1)).unwrap();
    let workers = before("read first").actors(2, |client| async move {
        tokio::spawn(reads_first(client));
        Ok(())
    });
    let workers = workers.invariant("a job is done once", |data| match data.llen("done")? {
        0 | 1 => Ok(()),
        times => Err(format!("it is done {times} times").into()),
    });
    assert_eq!(violated(&exhaustive(&workers).unwrap_err()).0, "it is done 2 times");
}

/// Takes a job to a list of its own while it runs. If `recovers`, it first gives back what its
/// former process left there.
async fn works_on_a_list(client: Client, recovers: bool) -> RedisResult<()> {
    let mut link = client.connection();
    let give_back = redis::cmd("LMOVE").arg(&["working", "jobs", "RIGHT", "LEFT"]).to_owned();
    while recovers && give_back.query_async::<Option<String>>(&mut link).await?.is_some() {}
    loop {
        let take = redis::cmd("BLMOVE").arg(&["jobs", "working", "RIGHT", "LEFT", "0"]).to_owned();
        let job: String = take.query_async(&mut link).await?;
        client.did(format!("job {job}"));
        () = link.lrem("working", 1, job).await?;
    }
}

#[test]
fn a_service_starts_anew() {
    let queue = |recovers| {
        Scenario::new("supervised")
            .actors(1, |client| async move { Ok(client.connection().lpush("jobs", 1).await?) })
            .services(1, from_fn(move |client| works_on_a_list(client, recovers)))
            .faults(Faults::none().respawns(1))
    };
    let passed = exhaustive(&queue(true).always(AtLeastOnce::of("job 1"))).unwrap();
    assert!(passed.reached.crash, "{passed}");
    sample(&queue(true).always(AtLeastOnce::of("job 1")), 200, 0).unwrap();
    let report = exhaustive(&queue(false).always(AtLeastOnce::of("job 1"))).unwrap_err();
    let text = report.to_string();
    assert!(text.contains("B crashes before the reply arrives, and is to start anew"), "{text}");
    assert!(text.contains("respawn-after B"), "{text}");
    // It has run the job, and crashes before it says so.
    let report = exhaustive(&queue(true).always(AtMostOnce::of("job 1"))).unwrap_err();
    assert_eq!(violated(&report).0, "B does «job 1» twice");
    assert!(report.to_string().contains("\nrespawn B"), "{report}");
}

/// A process that starts anew draws new names. The tasks of the former one do nothing more.
#[test]
fn a_process_that_starts_anew_is_another_one() {
    let beats = |client: Client| async move {
        let (mut link, name) = (client.connection(), client.env().unique());
        () = link.sadd("names", &name).await?;
        let beating = client.clone();
        tokio::spawn(async move {
            let mut link = beating.connection();
            for _ in 0..2 {
                tokio::time::sleep(Duration::from_secs(1)).await;
                _ = link.lpush::<_, _, ()>("beats", &name).await;
            }
        });
        let (_, _): (String, String) = link.brpop("never", 0.0).await?;
        Ok(())
    };
    let works = |client: Client| async move {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Ok(client.connection().set::<_, _, ()>("over", 1).await?)
    };
    let scenario = Scenario::new("heartbeat").actors(1, works).services(1, beats);
    let judged = scenario.faults(Faults::none().respawns(1)).finally("it is new", |client, _| async move {
        let names: Vec<String> = client.connection().smembers("names").await?;
        let mut beats: Vec<String> = client.connection().lrange("beats", 0, -1).await?;
        let count = beats.len();
        beats.dedup();
        match beats.len() <= names.len() && count <= 4 {
            true => Ok(()),
            false => Err(format!("{names:?} {beats:?}").into()),
        }
    });
    let passed = exhaustive(&judged).unwrap_or_else(|report| panic!("{report}"));
    assert!(passed.reached.crash, "{passed}");
}

/// What its processes draw and number is told apart, and its clock stays wrong. A connection to
/// another server takes a place of its own.
#[test]
fn a_process_that_starts_anew_goes_on_counting() {
    let works = |client: Client| async move {
        let name = client.env().unique();
        let mut link = client.connection_to(usize::from(name != "A1"));
        let _hold = client.hold("cs").enter();
        let shown = client.env().now_ms() - client.true_time().as_millis() as i64;
        () = client.operation("set", &name).run(link.set(name, shown)).await?;
        std::future::pending().await
    };
    let scenario = Scenario::new("anew").servers(2).services(1, works);
    let scenario = scenario.faults(Faults::none().respawns(1).skew(Duration::from_millis(5)));
    let schedule = "skew A +5ms\nA\nrespawn A\nA".parse().unwrap();
    let history = replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
    let lines = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Enter { hold: (_, nth), .. } => Some(format!("stay {nth}\n")),
        EventKind::Called { call: (_, nth), .. } => Some(format!("call {nth}\n")),
        EventKind::Command { server, text, .. } => Some(format!("server {server}: {text}\n")),
        _ => None,
    });
    expect![[r#"
        stay 1
        call 1
        server 0: SET A1 1700000000505
        stay 2
        call 2
        server 1: SET A2 1700000000505
    "#]]
    .assert_eq(&lines.collect::<String>());
}
