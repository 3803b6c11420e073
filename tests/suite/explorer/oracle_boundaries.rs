//! Cases near the boundaries that `tests/guide/properties.md` names.

use std::sync::Arc;
use std::time::Duration;

use emulator::Timestamp;
use harness::actor::Actor;
use harness::fault::{Fault, FaultKind, Target};
use harness::linearizability::{Call, Queue};
use harness::oracle::{
    AtLeastOnce, AtMostOnce, ExactlyOnce, ExclusiveBelief, ExclusiveFact, Fenced, Linearizable, NoLeak,
    NoLostWakeUp, NotOvertaken, Oracle, OverIssue, OwnerSafe, Progress, Rate, Recovers, Success, Unbroken,
    WriterAlone,
};
use harness::trace::{Event, EventKind, History, LeftBy};
use harness::{Faults, Scenario, exhaustive};

use super::oracles::{SOUND, expect_violation, send};

/// The timer that ends the wait ends the hold, too: the section was not empty.
#[test]
fn a_hold_that_ends_with_a_wait_is_no_lost_wake_up() {
    let scenario = Scenario::new("sleeps inside").always(NoLostWakeUp::of("cs", Duration::from_secs(10)));
    let sleeper = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, SOUND.take).await?;
        client.hold("cs").during(tokio::time::sleep(Duration::from_secs(30))).await;
        Ok(send(&mut link, &["DEL", "lock"]).await?)
    });
    exhaustive(&sleeper).unwrap();
}

/// Time inside does not count, however often the client wakes up there.
#[test]
fn a_holder_that_sleeps_twice_is_no_lost_wake_up() {
    let scenario = Scenario::new("sleeps inside").always(NoLostWakeUp::of("cs", Duration::from_secs(10)));
    let sleeper = scenario.actors(1, |client| async move {
        let _hold = client.hold("cs").enter();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(6)).await;
            redis::cmd("PING").exec_async(&mut client.connection()).await?;
        }
        Ok(())
    });
    exhaustive(&sleeper).unwrap();
}

/// A client that was inside, and then ends by a reply or by a timer, whichever comes first.
fn either() -> Scenario {
    let scenario = Scenario::new("either").always(NoLostWakeUp::of("cs", Duration::from_secs(10)));
    scenario.actors(1, |client| async move {
        drop(client.hold("cs").enter());
        let mut link = client.connection();
        tokio::select! {
            _ = send::<()>(&mut link, &["PING"]) => {}
            () = tokio::time::sleep(Duration::from_secs(20)) => {}
        }
        Ok(())
    })
}

/// The client has a request to send all the time, so it is slow and does not wait.
#[test]
fn the_time_of_a_stall_is_no_lost_wake_up() {
    exhaustive(&either().faults(Faults::none().stalls(1))).unwrap();
}

/// After the last step, which is a wait, a lease passes for the fresh clients.
#[test]
fn the_time_before_fresh_clients_try_is_no_lost_wake_up() {
    let scenario = Scenario::new("heals").always(NoLostWakeUp::of("cs", Duration::from_secs(5)));
    let sleeps = scenario.actors(1, |client| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(client.hold("cs").enter());
        Ok(())
    });
    let pings = sleeps.actors(1, |client| async move {
        Ok(redis::cmd("PING").exec_async(&mut client.connection()).await?)
    });
    let heals = pings.faults(Faults::none().crashes(1)).probe(1, |_| async { Ok(true) });
    exhaustive(&heals).unwrap();
}

/// Clients that come to a list in turn, and are served from its other end, or from the same one.
fn served(pop: &'static str) -> Scenario {
    let scenario = Scenario::new("served in turn").always(NotOvertaken::of("waiting", "cs"));
    scenario.actors(2, move |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["RPUSH", "queue", &client.name()]).await?;
        let waiting = client.hold("waiting").enter();
        while redis::cmd("LINDEX").arg("queue").arg(pop).query_async::<String>(&mut link).await?
            != client.name()
        {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let inside = client.hold("cs").enter();
        drop(waiting);
        Ok(inside.until(send::<()>(&mut link, &["LREM", "queue", "0", &client.name()])).await?)
    })
}

/// If two clients wait, the one that came first may enter.
#[test]
fn the_first_of_two_that_wait_overtakes_nobody() {
    exhaustive(&served("0")).unwrap();
    // A comes, B comes, and B is served.
    expect_violation(&served("-1"), "not-overtaken", 3);
}

/// Clients inside of another section do not count. The message names those that do.
#[test]
fn sections_are_judged_by_themselves() {
    let inside = |sections: [&'static str; 3]| {
        let scenario = Scenario::new("sections").always(ExclusiveBelief::of("cs", 1));
        sections.into_iter().fold(scenario, |scenario, section| {
            scenario.actors(1, move |client| async move {
                let _hold = client.hold(section).enter();
                for _ in 0..2 {
                    redis::cmd("PING").exec_async(&mut client.connection()).await?;
                }
                Ok(())
            })
        })
    };
    exhaustive(&inside(["other", "cs", "other"])).unwrap();
    let report = exhaustive(&inside(["cs", "other", "cs"])).unwrap_err();
    assert!(report.to_string().contains("A and C are inside"), "{report}");
}

/// To enter another section is no sign that the lock is given to anybody.
#[test]
fn another_section_ends_no_lost_wake_up() {
    let scenario = Scenario::new("sleeps twice").always(NoLostWakeUp::of("cs", Duration::from_secs(10)));
    let sleeper = scenario.actors(1, |client| async move {
        for section in ["cs", "other", "other"] {
            let ping = redis::cmd("PING");
            client.hold(section).until(ping.exec_async(&mut client.connection())).await?;
            tokio::time::sleep(Duration::from_secs(6)).await;
        }
        Ok(())
    });
    expect_violation(&sleeper, "no-lost-wake-up", 4);
}

/// A client that ends without a release leaks. If it crashes, the lease has to end first: another
/// oracle judges that.
#[test]
fn a_probe_at_once_and_one_after_the_lease_have_their_own_oracles() {
    let take = ["SET", "lock", "1", "NX", "PX", "10000"];
    let lock = |faults| {
        let scenario = Scenario::new("kept").lease(Duration::from_secs(10)).faults(faults).actors(
            1,
            move |client| async move {
                send::<()>(&mut client.connection(), &take).await?;
                Ok(())
            },
        );
        scenario.probe(1, move |client| async move { Ok(send(&mut client.connection(), &take).await?) })
    };
    expect_violation(&lock(Faults::none()).always(NoLeak), "no-leak", 1);
    exhaustive(&lock(Faults::none().crashes(1)).always(Recovers)).unwrap();
}

/// One client writes in the first second, and the other one after it. The second one's request may
/// be the first that runs. The clients write to different keys of the resource.
fn writes_apart(last: &'static str) -> Scenario {
    let scenario = Scenario::new("two keys").always(Fenced::of("data")).faults(Faults::none().stalls(1));
    scenario.actors(2, move |client| async move {
        send::<()>(&mut client.connection(), &["SET", &client.name(), "1"]).await?;
        let is_last = client.name() == last;
        if is_last == (client.true_time() >= Duration::from_secs(1)) {
            client.accepted("data", i64::from(is_last));
        }
        Ok(())
    })
}

/// Nothing but the oracle depends on the order of the two writes.
#[test]
fn the_order_of_writes_to_different_keys_is_judged() {
    expect_violation(&writes_apart("A"), "fenced", 5);
    expect_violation(&writes_apart("B"), "fenced", 5);
}

/// The order of all commands is judged, but clients that spin do not wake each other by that.
#[test]
fn clients_may_spin_where_the_order_of_commands_is_judged() {
    let scenario = Scenario::new("spin lock").interchangeable().always(Fenced::of("data"));
    let spins = scenario.actors(2, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["SET", "lock", "1", "NX"]).await? {}
        let token: i64 = send(&mut link, &["INCR", "data"]).await?;
        client.accepted("data", token);
        Ok(send(&mut link, &["DEL", "lock"]).await?)
    });
    exhaustive(&spins).unwrap();
    let waits = Scenario::new("waits").always(Fenced::of("data")).actors(1, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["EXISTS", "go"]).await? {}
        client.accepted("data", 1);
        Ok(())
    });
    let goes = waits.actors(1, |client| async move {
        Ok(send::<()>(&mut client.connection(), &["SET", "go", "1"]).await?)
    });
    exhaustive(&goes).unwrap();
}

/// Only the first execution runs the code before the actors. Its commands do not count.
#[test]
fn commands_before_the_actors_are_no_writes() {
    let scenario = Scenario::new("prepared").always(Fenced::of("data"));
    let prepared = scenario.before(|client| async move {
        Ok(send::<()>(&mut client.connection(), &["SET", "data", "0"]).await?)
    });
    let writes = prepared.actors(2, |client| async move {
        let token = send(&mut client.connection(), &["INCR", "data"]).await?;
        client.accepted("data", token);
        Ok(())
    });
    exhaustive(&writes).unwrap();
}

/// One client may write again with its token.
#[test]
fn a_token_is_accepted_twice() {
    let twice = Scenario::new("twice").always(Fenced::of("data")).actors(1, |client| async move {
        for _ in 0..2 {
            send::<()>(&mut client.connection(), &["INCR", "data"]).await?;
            client.accepted("data", 1);
        }
        Ok(())
    });
    exhaustive(&twice).unwrap();
}

const A: Actor = Actor(0);
const B: Actor = Actor(1);

/// Events of one step each, with their times in milliseconds.
fn history(events: &[(u64, EventKind)]) -> History {
    let event = |(nth, (at, kind)): (usize, &(u64, EventKind))| Event {
        step: nth + 1,
        at: Duration::from_millis(*at),
        kind: kind.clone(),
    };
    History { events: events.iter().enumerate().map(event).collect(), ..History::default() }
}

/// A client enters. It has one hold, and its lease ends then.
fn enter(actor: Actor, section: &'static str, until: u64) -> EventKind {
    let until = Duration::from_millis(until);
    EventKind::Enter { hold: (actor, 0), actor, section, decided: None, until, is_recorded: false }
}

fn extend(actor: Actor, section: &'static str, until: u64) -> EventKind {
    EventKind::Extended { hold: (actor, 0), actor, section, until: Duration::from_millis(until) }
}

fn leave(actor: Actor, section: &'static str) -> EventKind {
    EventKind::Leave { hold: (actor, 0), actor, section, by: LeftBy::Release }
}

#[track_caller]
fn expect(oracle: &dyn Oracle, is_violated: bool, events: &[(u64, EventKind)]) {
    let violation = oracle.check(&history(events));
    assert_eq!(violation.is_some(), is_violated, "{}: {events:#?}", oracle.name());
}

#[test]
fn a_lease_that_ends_now_is_over() {
    let read_write = WriterAlone::of("reading", "cs");
    let reads = [(0, enter(A, "reading", 10)), (9, enter(B, "cs", 20))];
    let holds = [(0, enter(A, "cs", 10)), (9, enter(B, "cs", 20))];
    for at in [9, 10] {
        let then = |events: &[(u64, EventKind); 2]| [events[0].clone(), (at, events[1].1.clone())];
        expect(&ExclusiveFact::of("cs"), at < 10, &then(&holds));
        expect(&OverIssue::of("cs", 1), at < 10, &then(&holds));
        expect(&read_write, at < 10, &then(&reads));
        expect(&WriterAlone::believed("reading", "cs"), true, &then(&reads));
        // A grant that arrives when its lease is over is none, neither B's nor A's next one.
        let unbroken = Unbroken::of("cs");
        let arrives_late = [(0, enter(A, "cs", 30)), (at, enter(B, "cs", 10)), (12, extend(A, "cs", 40))];
        expect(&unbroken, at < 10, &arrives_late);
        let extended_late = [(0, enter(A, "cs", 30)), (1, enter(B, "cs", 30)), (at, extend(A, "cs", 10))];
        expect(&unbroken, at < 10, &extended_late);
    }
}

#[test]
fn a_hold_is_broken_only_while_it_lasts_and_in_its_section() {
    let held_by_b = [(0, enter(A, "cs", 30)), (1, enter(B, "cs", 30))];
    let then = |event: EventKind| [held_by_b.as_slice(), &[(2, event), (3, extend(A, "cs", 40))]].concat();
    expect(&Unbroken::of("cs"), true, &then(leave(B, "cs")));
    expect(&Unbroken::of("cs"), false, &then(leave(A, "cs")));
    let of_two_sections = [(0, enter(A, "cs", 30)), (1, enter(B, "other", 30)), (2, extend(A, "cs", 40))];
    expect(&Unbroken::of("cs"), false, &of_two_sections);
}

#[test]
fn resources_and_sections_of_others_do_not_count() {
    let accepts = |actor, resource, token, nth| EventKind::Accepted { actor, resource, token, nth };
    let writes = |second| [(0, accepts(A, second, 2, 1)), (1, accepts(B, "data", 1, 2))];
    expect(&Fenced::of("data"), true, &writes("data"));
    expect(&Fenced::of("data"), false, &writes("other"));
    let overtakes = |section| [(0, enter(A, "waiting", 30)), (1, enter(B, section, 30))];
    expect(&NotOvertaken::of("waiting", "cs"), true, &overtakes("cs"));
    expect(&NotOvertaken::of("waiting", "cs"), false, &overtakes("other"));
}

/// After a crash, the section may be empty for two leases and the millisecond that ends the second
/// one. Other faults give no time.
#[test]
fn a_crash_gives_the_next_client_another_lease() {
    let oracle = NoLostWakeUp::of("cs", Duration::from_millis(10));
    let empty_for = |fault, span| {
        let fault = EventKind::Fault { fault: Fault::new(fault, Target::Client(A)), request: None };
        let by = Duration::from_millis(span);
        [(0, fault), (span, EventKind::Advanced { by, is_wait: true })]
    };
    expect(&oracle, false, &empty_for(FaultKind::Crash, 20));
    expect(&oracle, true, &empty_for(FaultKind::Crash, 21));
    expect(&oracle, false, &empty_for(FaultKind::Cancel, 9));
    expect(&oracle, true, &empty_for(FaultKind::Cancel, 10));
}

/// Work, probes and objects of others are no reason to say that something was judged.
#[test]
fn what_belongs_to_others_is_nothing_to_judge() {
    const MINUTE: Duration = Duration::from_secs(60);
    let did = |what| EventKind::Did { actor: A, what, decided: None };
    let probed = |after| EventKind::Probed { granted: 1, wanted: 1, after };
    let popped = |object| {
        let what = Call { object, name: "pop", args: serde_json::Value::Null };
        EventKind::Returned { call: (A, 0), what: what.into(), answer: serde_json::Value::Null.into() }
    };
    let rows: [(&dyn Oracle, EventKind, EventKind); 9] = [
        (&AtMostOnce::of("job"), did("job"), did("mail")),
        (&Rate::of("job", 1, MINUTE), did("job"), did("mail")),
        (&AtLeastOnce::of("job"), EventKind::AllEnded, did("job")),
        (&ExactlyOnce::of("job"), EventKind::AllEnded, did("job")),
        (&NoLeak, probed(None), probed(Some(MINUTE))),
        (&Progress::of(&["cs"]), probed(None), probed(Some(MINUTE))),
        (&Recovers, probed(Some(MINUTE)), probed(None)),
        (&Recovers::within(MINUTE), probed(Some(MINUTE)), probed(None)),
        (&Linearizable::of("jobs", Queue::default()), popped("jobs"), popped("mails")),
    ];
    for (oracle, own, other) in rows {
        assert!(oracle.judges(&history(&[(0, own)])), "{}", oracle.name());
        assert!(!oracle.judges(&history(&[(0, other)])), "{}", oracle.name());
    }
}

/// What another object lacks, or answers wrongly, is for another oracle.
#[test]
fn operations_of_other_objects_do_not_count() {
    let call = |object, name| Call { object, name, args: serde_json::Value::Null };
    let pops = |object, answer: &str| {
        let (id, what) = ((A, 0), Arc::new(call(object, "pop")));
        let answer = serde_json::Value::from(answer).into();
        [
            (0, EventKind::Called { call: id, what: what.clone() }),
            (1, EventKind::Returned { call: id, what, answer }),
        ]
    };
    let queue = Linearizable::of("jobs", Queue::default());
    for (object, is_own) in [("jobs", true), ("mails", false)] {
        expect(&queue, is_own, &pops(object, "a job that nobody pushed"));
        let unknown = EventKind::Called { call: (A, 0), what: call(object, "peek").into() };
        expect(&queue, is_own, &[(0, unknown)]);
    }
    // The other object cannot explain what this one answers.
    let [others, own] = ["mails", "jobs"].map(|object| pops(object, "a job that nobody pushed"));
    let violation = queue.check(&history(&[others, own].concat())).unwrap();
    assert_eq!(violation.what.matches("pop()").count(), 1, "{violation:?}");
}

/// A window has its first instant, and not its last.
#[test]
fn a_window_ends_before_the_next_one_begins() {
    let at = |ms| (0, EventKind::Did { actor: A, what: "job", decided: Some(Timestamp::from_millis(ms)) });
    let once_in_ten = Rate::of("job", 1, Duration::from_millis(10));
    expect(&once_in_ten, true, &[at(5), at(14)]);
    expect(&once_in_ten, false, &[at(5), at(15)]);
    expect(&once_in_ten.fixed(), false, &[at(9), at(10)]);
}

/// A pass says that a holder was inside after its lease, unless an oracle judges that.
#[test]
fn oracles_of_beliefs_and_of_tokens_judge_overruns() {
    let of_leases: [&dyn Oracle; 3] =
        [&ExclusiveFact::of("cs"), &WriterAlone::of("reading", "cs"), &OwnerSafe];
    assert!(of_leases.iter().all(|oracle| !oracle.judges_overruns()));
    let others: [&dyn Oracle; 3] =
        [&ExclusiveBelief::of("cs", 1), &WriterAlone::believed("reading", "cs"), &Fenced::of("data")];
    assert!(others.iter().all(|oracle| oracle.judges_overruns()));
}

/// If no client took a step, no client tried.
#[test]
fn no_progress_is_expected_of_clients_that_do_nothing() {
    let probed = EventKind::Probed { granted: 1, wanted: 1, after: None };
    let mut history = history(&[(0, probed)]);
    assert!(Progress::of(&["cs"]).check(&history).is_some());
    history.events[0].step = 0;
    assert!(Progress::of(&["cs"]).check(&history).is_none());
}

#[test]
fn code_that_fails_is_no_success() {
    expect(&Success, true, &[(0, EventKind::Failed { actor: A, error: "no".into() })]);
    expect(&Success, false, &[(0, EventKind::Started { actor: A })]);
    assert!(Success.judges(&History::default()));
}

/// The numbers of the rule stand in the text of its violation, and its section.
#[test]
fn a_violation_names_the_permits_and_the_section() {
    let crowd = [(0, enter(A, "cs", 10)), (1, enter(B, "cs", 10))];
    let text = |oracle: &dyn Oracle| oracle.check(&history(&crowd)).unwrap().what;
    assert_eq!(text(&ExclusiveBelief::of("cs", 1)), "A and B are inside at once, but only one may be");
    let three = [crowd.as_slice(), &[(2, enter(Actor(2), "cs", 10))]].concat();
    let of_fact = |section| {
        let held = [(0, enter(A, section, 10)), (1, enter(B, section, 10))];
        ExclusiveFact::of(section).check(&history(&held)).unwrap().what
    };
    assert_eq!(of_fact("cs"), "A and B hold the lock, each with a lease that still runs");
    assert_eq!(of_fact("stock"), "A and B hold «stock», each with a lease that still runs");
    let of_two = ExclusiveBelief::of("cs", 2).check(&history(&three)).unwrap().what;
    assert_eq!(of_two, "A, B and C are inside at once, but only 2 may be");
}

/// One of two permits is never given back. A fresh client whose guard gives its permit back by a
/// task must not hide that from the next one.
#[test]
fn fresh_clients_keep_their_grants() {
    let permits = Scenario::new("permits").always(NoLeak).actors(1, |client| async move {
        Ok(send::<()>(&mut client.connection(), &["INCR", "used"]).await?)
    });
    let permits = permits.probe(2, |client| async move {
        let used: i64 = send(&mut client.connection(), &["INCR", "used"]).await?;
        let mut link = client.connection();
        tokio::spawn(async move { send::<()>(&mut link, &["DECR", "used"]).await });
        Ok(used <= 2)
    });
    expect_violation(&permits, "no-leak", 1);
}

/// A task that a client left behind keeps its lock for it. Fresh clients notice, after a lease.
#[test]
fn tasks_go_on_after_their_client() {
    let left = Scenario::new("left behind").faults(Faults::none().lost(1)).always(Recovers);
    let left = left.actors(1, |client| async move {
        let mut link = client.connection();
        () = send(&mut link, &["SET", "lock", "1", "PX", "10000"]).await?;
        let mut renewing = client.connection();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(5)).await;
                // The server does not know the script, so this takes several requests.
                let renew = redis::Script::new("return redis.call('PEXPIRE', 'lock', 10000)");
                _ = renew.invoke_async::<_, i64>(&mut renewing).await;
            }
        });
        Ok(send::<()>(&mut link, &["DEL", "lock"]).await?)
    });
    let left = left.probe(1, |client| async move {
        Ok(send::<Option<String>>(&mut client.connection(), &["GET", "lock"]).await?.is_none())
    });
    expect_violation(&left, "recovers", 2);
}
