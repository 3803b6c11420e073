//! What must hold after all actors have ended. A violation is one of an execution that has all
//! actors of the scenario.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use expect_test::{Expect, expect};
use harness::actor::ACTORS_MAX;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{AtLeastOnce, AtMostOnce, NoLeak, Oracle, Violation};
use harness::sim::Recording;
use harness::trace::{Event, EventKind, History};
use harness::{Client, Faults, Limits, Report, Scenario, Schedule, exhaustive, from_fn, replay, sample};
use redis::{AsyncCommands as _, RedisResult};

async fn parts(client: &Client) -> RedisResult<i64> {
    Ok(client.connection().get::<_, Option<i64>>("parts").await?.unwrap_or(0))
}

async fn add_safely(client: Client) -> RedisResult<()> {
    client.connection().incr("parts", 1).await
}

/// The count of another client between the two commands is lost.
async fn add(client: Client) -> RedisResult<()> {
    let parts = parts(&client).await?;
    client.connection().set("parts", parts + 1).await
}

/// Every client adds a part, and none is lost.
fn all_parts(scenario: Scenario) -> Scenario {
    scenario.finally("no part is lost", |client, ended| async move {
        let (parts, wanted) = (parts(&client).await?, ended.finished.len());
        if parts == wanted as i64 {
            Ok(())
        } else {
            Err(format!("{parts} of {wanted} parts are there").into())
        }
    })
}

/// The violation of a report, its clients and its schedule.
pub(super) fn violated(report: &Report) -> (&str, usize, &Schedule) {
    match &report.problem {
        Problem::Violated { what, schedule, saved, .. } => (what, saved.clients, schedule),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_update_is_found_at_the_end() {
    let scenario = all_parts(Scenario::new("parts").actors(3, from_fn(add)).interchangeable());
    for report in [exhaustive(&scenario).unwrap_err(), sample(&scenario, 200, 0).unwrap_err()] {
        let (what, clients, schedule) = violated(&report);
        assert!(what.ends_with("of 3 parts are there"), "{what}");
        assert_eq!((clients, schedule.steps.len()), (3, 6), "every client takes part\n{report}");
    }
    let report = exhaustive(&scenario.clone()).unwrap_err().to_string();
    assert!(
        report.contains("No client runs any more. A fresh client, finally1, judges the end: "),
        "{report}"
    );
    assert!(report.contains("parts: no part is lost is violated"), "{report}");
}

#[test]
fn correct_code_passes() {
    let scenario = all_parts(Scenario::new("parts").actors(3, from_fn(add_safely)).interchangeable());
    assert_eq!(exhaustive(&scenario).unwrap().schedules, 1 + 1 + 1);
    sample(&scenario, 50, 0).unwrap();
}

/// With a probe in place of a client that judges, the exploration with one client says nothing.
#[test]
fn a_probe_judges_all_actors() {
    let probed = |scenario: Scenario| {
        scenario.always(NoLeak).probe(1, |client| async move { Ok(parts(&client).await? == 2) })
    };
    exhaustive(&probed(Scenario::new("sound").actors(2, from_fn(add_safely)))).unwrap();
    let report = exhaustive(&probed(Scenario::new("broken").actors(2, from_fn(add)))).unwrap_err();
    assert_eq!(violated(&report).2.steps.len(), 4, "{report}");
    // Whoever says that fewer will do gets what fewer leave.
    let fewer = probed(Scenario::new("fewer").actors(2, from_fn(add_safely)).or_fewer());
    assert!(violated(&exhaustive(&fewer).unwrap_err()).1 < 2);
}

/// All of them have written.
#[derive(Debug)]
struct AllWrote;

impl Oracle for AllWrote {
    fn name(&self) -> &'static str {
        "all-wrote"
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let is_write = |kind: &EventKind| matches!(kind, EventKind::Accepted { .. });
        let wrote = history.events.iter().filter(|event| is_write(&event.kind)).count();
        let what = format!("only {wrote} of 3 have written");
        (wrote < 3).then_some(Violation { step: history.steps.len(), what })
    }
}

/// An oracle may look for what has not happened, which it has not if actors have not started.
#[test]
fn an_oracle_judges_all_actors() {
    let write = |client: Client| async move {
        let token: i64 = client.connection().incr("token", 1).await?;
        client.accepted("file", token);
        Ok(())
    };
    exhaustive(&Scenario::new("write").actors(3, write).always(AllWrote)).unwrap();
}

/// One that waits for another is no failure as long as that has not started.
#[test]
fn actors_that_need_each_other() {
    let meet = |client: Client| async move {
        let mut link = client.connection();
        let nth: i64 = link.incr("here", 1).await?;
        if nth == 1 {
            () = link.blpop("all here", 0.0).await?;
        } else {
            () = link.rpush("all here", 1).await?;
        }
        Ok(())
    };
    exhaustive(&all_met(Scenario::new("meet").actors(2, meet))).unwrap();
    let report = exhaustive(&all_met(
        Scenario::new("meet").actors(3, move |client: Client| async move { meet(client).await }),
    ));
    // The third one makes the second push, which nobody takes.
    assert!(violated(&report.unwrap_err()).0.contains("1 is left"));
}

fn all_met(scenario: Scenario) -> Scenario {
    scenario.finally("nobody waits", |client, _| async move {
        match client.connection().llen("all here").await? {
            0 => Ok(()),
            left => Err(format!("{left} is left").into()),
        }
    })
}

#[test]
fn after_a_crash_a_lease_has_passed() {
    let scenario = Scenario::new("crash")
        .lease(Duration::from_secs(10))
        .faults(Faults::none().crashes(1))
        .actors(2, |client: Client| async move {
            let mut link = client.connection();
            () = link.set_ex(client.name(), 1, 9).await?;
            () = link.sadd("done", client.name()).await?;
            () = link.del(client.name()).await?;
            Ok(())
        })
        .finally("only those that crashed are missing", |client, ended| async move {
            let mut link = client.connection();
            let left: Vec<String> = link.keys("?").await?;
            assert!(left.is_empty(), "{left:?} are left");
            for actor in &ended.finished {
                assert!(link.sismember("done", actor.to_string()).await?, "{actor} is missing");
            }
            assert_eq!(ended.finished.len() + ended.crashed.len(), 2);
            assert!(ended.failed.is_empty());
            Ok(())
        });
    let explored = exhaustive(&scenario).unwrap();
    assert!(explored.reached.crash);
}

fn at_the_end<F>(judge: impl Fn(Client) -> F + Send + Sync + 'static) -> String
where
    F: Future<Output = Result<(), harness::ActorError>> + Send + 'static,
{
    let scenario = Scenario::new("end").actors(1, from_fn(add_safely));
    let report = exhaustive(&scenario.finally("all is well", move |client, _| judge(client))).unwrap_err();
    violated(&report).0.to_owned()
}

#[test]
fn judges_that_fail() {
    let check = |what: String, expected: Expect| expected.assert_eq(&what);
    check(at_the_end(|_| async { panic!("it is not") }), expect!["it is not"]);
    check(at_the_end(|_| async { Err("it is not".into()) }), expect!["it is not"]);
    let wait = |client: Client| async move { Ok(client.connection().blpop("no list", 0.0).await?) };
    check(at_the_end(wait), expect!["the code that judges it does not come to its end"]);
    let type_error = |client: Client| async move { Ok(client.connection().lpush("parts", 1).await?) };
    check(
        at_the_end(type_error),
        expect![[r#""WRONGTYPE": Operation against a key holding the wrong kind of value"#]],
    );
}

/// The replay of a part of the actors judges nothing.
#[test]
fn nothing_is_judged_before_all_have_started() {
    let scenario = all_parts(Scenario::new("parts").actors(2, from_fn(add_safely)));
    let judged = |schedule: &str| {
        let schedule = schedule.parse::<Schedule>().unwrap();
        let history = replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
        history.events.iter().filter(|event| matches!(event.kind, EventKind::Judged { .. })).count()
    };
    assert_eq!((judged("A\n"), judged("A\nB\n")), (0, 1));
}

/// Each property is violated by what its own code says.
#[test]
fn the_second_of_two_properties_is_violated() {
    let scenario = Scenario::new("two").actors(1, from_fn(add_safely));
    let kept = scenario.finally("the first", |_, _| async { Ok(()) });
    let broken = kept.finally("the second", |_, _| async { Err("it is not".into()) });
    let report = exhaustive(&broken).unwrap_err().to_string();
    assert!(report.contains("two: the second is violated"), "{report}");
}

/// If an oracle judges the end, it comes a lease and two seconds after a crash. No time passes for
/// others.
#[test]
fn only_an_end_that_is_judged_takes_time() {
    let ends_at = |scenario: Scenario, schedule: &str| {
        let (mut runner, schedule) = (Runner::new(), schedule.parse().unwrap());
        let scenario = scenario.lease(Duration::from_secs(10)).faults(Faults::none().crashes(1));
        let history = replay(&mut runner, &scenario, &schedule, Recording::Full);
        let is_end = |event: &Event| matches!(event.kind, EventKind::AllEnded);
        (history.events.last().unwrap().at.as_secs(), history.events.iter().any(is_end))
    };
    let crashes = || Scenario::new("crashes").actors(1, from_fn(add));
    let (most, least) = (AtMostOnce::of("job"), AtLeastOnce::of("job"));
    assert_eq!(ends_at(crashes().always(most), "A\ncrash A"), (0, false));
    assert_eq!(ends_at(crashes().always(least.clone()), "A\ncrash A"), (12, true));
    // A service that does something else each time goes on for as long as it may, and through the
    // time before the end.
    let beats = |client: Client| async move {
        loop {
            () = client.connection().incr("alive", 1).await?;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let served = crashes().services(1, beats).always(least);
    assert_eq!(ends_at(served.clone(), "A\nB\ncrash A"), (12 + 12, true));
    // Not all have started.
    assert!(!ends_at(served, "A\ncrash A").1);
}

/// A lock that knows its owner by name would take a probe with a client's name for that client.
/// There are as many actors as there can be.
#[test]
fn fresh_clients_have_names_of_their_own() {
    let names: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let noted = names.clone();
    let note = move |client: Client| {
        let names = noted.clone();
        async move {
            parts(&client).await?;
            names.lock().unwrap().insert(client.name());
            Ok(true)
        }
    };
    let judges = || {
        let note = note.clone();
        move |client, _| {
            let noted = note(client);
            async { noted.await.map(|_| ()) }
        }
    };
    let scenario = Scenario::new("names")
        .actors(ACTORS_MAX, |_| async { Ok(()) })
        .finally("one", judges())
        .finally("other", judges())
        .probe(2, note.clone());
    exhaustive(&scenario).unwrap();
    let expected = ["finally1", "finally2", "probe1", "probe2"].map(String::from);
    assert_eq!(*names.lock().unwrap(), BTreeSet::from(expected));
}

/// No actor, and nothing that judges the end, is taken for a fresh client.
#[test]
fn the_second_fresh_client_is_refused_after_the_most_actors() {
    let scenario = Scenario::new("most").always(NoLeak).actors(ACTORS_MAX, |_| async { Ok(()) });
    let judged = scenario.finally("one", |_, _| async { Ok(()) }).finally("other", |_, _| async { Ok(()) });
    let probed = judged.probe(2, |client| async move { Ok(client.connection().set_nx("lock", 1).await?) });
    let report = exhaustive(&probed).unwrap_err();
    assert!(violated(&report).0.contains("only 1 of 2 fresh clients got a grant"), "{report}");
}

/// It may wait for time to pass, but only as often as an execution has steps.
#[test]
fn code_that_judges_may_sleep() {
    let sleeps = |times: u64| {
        let limits = Limits { steps: 20, ..Limits::default() };
        let scenario = Scenario::new("sleeps").limits(limits).actors(1, |_| async { Ok(()) });
        scenario.finally("it is late", move |client, _| async move {
            for _ in 0..times {
                tokio::time::sleep(Duration::from_secs(1)).await;
                parts(&client).await?;
            }
            Ok(())
        })
    };
    exhaustive(&sleeps(20)).unwrap();
    let report = exhaustive(&sleeps(21)).unwrap_err().to_string();
    assert!(report.contains("the code that judges it does not come to its end"), "{report}");
}
