//! The record of a client inside a section: how long a server keeps it, and which client ends it.

use std::time::Duration;

use expect_test::expect;
use harness::execution::Runner;
use harness::oracle::{ExclusiveFact, Oracle, OwnerSafe, Violation};
use harness::sim::Recording;
use harness::trace::{EventKind, History};
use harness::{Faults, Scenario, exhaustive, replay};
use locks::Record;

use super::oracles::{SOUND, expect_violation, send};

/// A client takes the lock, and then keeps it elsewhere.
fn renamed(first: &'static str) -> Scenario {
    let scenario = Scenario::new("renamed").always(OwnerSafe).actors(1, move |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["SET", "first", "1"]).await?;
        let hold = client.hold("cs").record(Record::Key(first.into())).enter();
        send::<()>(&mut link, &["SET", "second", "1"]).await?;
        hold.extend(client.true_time(), Record::Key("second".into()));
        Ok(hold.until(send::<()>(&mut link, &["DEL", "second"])).await?)
    });
    scenario
        .actors(1, |client| async move { Ok(send::<()>(&mut client.connection(), &["DEL", "first"]).await?) })
}

#[test]
fn a_grant_is_ended_before_it_is_kept_elsewhere() {
    expect_violation(&renamed("first"), "owner-safe", 2);
}

#[test]
fn a_record_that_never_exists_is_nothing_to_judge() {
    let report = exhaustive(&renamed("frist")).unwrap_err();
    assert!(report.to_string().contains("owner-safe had nothing to judge"), "{report}");
}

/// Another client's `PEXPIRE` leaves the record, but not for long enough.
#[test]
fn a_shortened_grant_is_not_owner_safe() {
    let scenario = |shortened: &'static str| {
        let scenario = Scenario::new("shortened").always(OwnerSafe).actors(1, |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, SOUND.take).await?;
            let hold = client.hold("cs").record(Record::Key("lock".into()));
            Ok(hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?)
        });
        scenario.actors(1, move |client| async move {
            Ok(send::<()>(&mut client.connection(), &["PEXPIRE", "lock", shortened]).await?)
        })
    };
    expect_violation(&scenario("9999"), "owner-safe", 2);
    exhaustive(&scenario("10000")).unwrap();
}

/// A client may be inside of several sections. Another client ends its stay in the last one.
#[test]
fn each_grant_of_a_client_is_judged() {
    let scenario = Scenario::new("two locks").always(OwnerSafe).actors(1, |client| async move {
        let mut link = client.connection();
        let mut holds = Vec::new();
        for (key, section) in [("first", "cs"), ("second", "other")] {
            send::<()>(&mut link, &["SET", key, "1"]).await?;
            holds.push(client.hold(section).record(Record::Key(key.into())).enter());
        }
        Ok(send::<()>(&mut link, &["PING"]).await?)
    });
    let ends = scenario.actors(1, |client| async move {
        Ok(send::<()>(&mut client.connection(), &["DEL", "second"]).await?)
    });
    expect_violation(&ends, "owner-safe", 3);
}

/// A client that takes the lock and stays inside, and another one that sends a command after that.
fn stays(take: &'static [&'static str], later: Duration, command: &'static [&'static str]) -> Scenario {
    let scenario = Scenario::new("stays").always(OwnerSafe).actors(1, move |client| async move {
        send::<()>(&mut client.connection(), take).await?;
        let _hold = client.hold("cs").record(Record::Value("lock".into(), "A".into())).enter();
        send::<()>(&mut client.connection(), &["SET", "go", "1"]).await?;
        tokio::time::sleep(Duration::from_secs(30)).await;
        Ok(())
    });
    scenario.actors(1, move |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["EXISTS", "go"]).await? {}
        tokio::time::sleep(later).await;
        Ok(send::<()>(&mut link, command).await?)
    })
}

/// The server keeps the grant for a second. The client that takes the lock after it ends nothing.
#[test]
fn a_grant_that_expires_early_is_ended_by_nobody() {
    let take = &["SET", "lock", "A", "PX", "1000"];
    let takes = |later| stays(take, Duration::from_millis(later), &["SET", "lock", "B"]);
    expect_violation(&takes(1_000), "owner-safe", 5);
    exhaustive(&takes(1_001)).unwrap();
}

/// The server keeps the grant for ever, but its lease ends after ten seconds.
#[test]
fn a_grant_that_ends_now_is_ended_by_nobody() {
    let ends = |later| stays(&["SET", "lock", "A"], Duration::from_millis(later), &["DEL", "lock"]);
    expect_violation(&ends(9_999), "owner-safe", 5);
    exhaustive(&ends(10_000)).unwrap();
}

/// A client that takes the lock and releases it, and another one that sends one command.
fn written(faults: Faults, command: &'static [&'static str]) -> Scenario {
    let scenario = Scenario::new("written").always(OwnerSafe).faults(faults).actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, SOUND.take).await?;
        let hold = client.hold("cs").record(Record::Value("lock".into(), "1".into()));
        Ok(hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?)
    });
    scenario.actors(1, move |client| async move { Ok(send::<()>(&mut client.connection(), command).await?) })
}

/// A jump of the server's clock shortens what is left of the grant. The command only writes to it.
#[test]
fn a_grant_that_a_fault_shortens_is_shortened_by_nobody() {
    let jump = Faults::none().server_jump(Duration::from_secs(5));
    exhaustive(&written(jump, &["SET", "lock", "1", "XX", "KEEPTTL"])).unwrap();
    expect_violation(&written(jump, &["SET", "lock", "1", "XX", "PX", "4999"]), "owner-safe", 2);
}

/// The data is lost in a restart. The client that takes the lock next ends nothing.
#[test]
fn a_grant_that_a_fault_ends_is_ended_by_nobody() {
    let restart = Faults::none().restarts(1);
    exhaustive(&written(restart, &["SET", "lock", "B", "NX"])).unwrap();
    expect_violation(&written(restart, &["SET", "lock", "B"]), "owner-safe", 2);
}

/// If a client is granted the section once more, its lease ends later.
#[test]
fn an_extended_grant_counts() {
    let scenario = Scenario::new("extended").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let hold = client.hold("cs").enter();
        tokio::time::sleep(Duration::from_secs(6)).await;
        hold.extend(client.true_time(), Record::Key("lock".into()));
        tokio::time::sleep(Duration::from_secs(6)).await;
        Ok(())
    });
    let scenario = scenario.actors(1, |client| async move {
        tokio::time::sleep(Duration::from_secs(11)).await;
        drop(client.hold("cs").since(client.true_time()).enter());
        Ok(())
    });
    expect_violation(&scenario, "exclusive-fact", 3);
}

/// The grant is extended by less than a lease, so no other client shortens it later.
#[test]
fn an_extension_that_is_short_is_shortened_by_nobody() {
    let scenario = Scenario::new("extends").always(OwnerSafe).actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, SOUND.take).await?;
        let hold = client.hold("cs").record(Record::Key("lock".into()));
        let hold = hold.enter();
        send::<()>(&mut link, &["PEXPIRE", "lock", "5000"]).await?;
        hold.extend(client.true_time(), Record::Key("lock".into()));
        Ok(hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?)
    });
    let writes = scenario.actors(1, |client| async move {
        Ok(send::<()>(&mut client.connection(), &["APPEND", "lock", "B"]).await?)
    });
    exhaustive(&writes).unwrap();
}

/// A grant on several servers ends with the server that makes it half of them or fewer.
#[test]
fn a_grant_ends_with_its_majority() {
    for (servers, ended) in [(3, 2), (4, 2), (5, 3)] {
        let scenario = |deleted: usize| {
            let scenario = Scenario::new("majority").servers(servers).always(OwnerSafe);
            let scenario = scenario.actors(1, move |client| async move {
                for server in 0..servers {
                    send::<()>(&mut client.connection_to(server), &["SET", "lock", "A"]).await?;
                }
                let hold = client.hold("cs").record(Record::Majority("lock".into(), "A".into())).enter();
                send::<()>(&mut client.connection(), &["SET", "done", "1"]).await?;
                drop(hold);
                Ok(())
            });
            scenario.actors(1, move |client| async move {
                for server in 0..deleted {
                    send::<()>(&mut client.connection_to(server), &["DEL", "lock"]).await?;
                }
                Ok(())
            })
        };
        expect_violation(&scenario(ended), "owner-safe", servers + ended);
        exhaustive(&scenario(ended - 1)).unwrap();
    }
}

/// How long the grant lasts on one server says nothing about most of them.
#[test]
fn a_grant_of_a_majority_is_not_shortened_on_one_server() {
    let scenario = Scenario::new("one of three").servers(3).always(OwnerSafe);
    let holder = scenario.actors(1, |client| async move {
        for server in 0..3 {
            send::<()>(&mut client.connection_to(server), &["SET", "lock", "A"]).await?;
        }
        let hold = client.hold("cs").record(Record::Majority("lock".into(), "A".into()));
        Ok(hold.until(send::<()>(&mut client.connection(), &["DEL", "lock"])).await?)
    });
    let shortens = holder.actors(1, |client| async move {
        Ok(send::<()>(&mut client.connection(), &["PEXPIRE", "lock", "1"]).await?)
    });
    exhaustive(&shortens).unwrap();
}

/// The holder leaves without a command that touches its record.
#[test]
fn a_grant_is_ended_before_its_holder_leaves() {
    type Row = (&'static [&'static str], fn() -> Record, &'static [&'static str]);
    let value: fn() -> Record = || Record::Value("lock".into(), "A".into());
    let rows: [Row; 3] = [
        (&["SET", "lock", "A"], value, &["SET", "lock", "B"]),
        (&["SET", "lock", "A"], value, &["FLUSHALL"]),
        (&["ZADD", "lock", "1", "A"], || Record::Member("lock".into(), "A".into()), &["ZREM", "lock", "A"]),
    ];
    for (take, record, end) in rows {
        let holder = Scenario::new("leaves").always(OwnerSafe).actors(1, move |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, take).await?;
            let hold = client.hold("cs").record(record());
            Ok(hold.until(send::<()>(&mut link, &["PING"])).await?)
        });
        let ends = holder
            .actors(1, move |client| async move { Ok(send::<()>(&mut client.connection(), end).await?) });
        expect_violation(&ends, "owner-safe", 2);
    }
}

/// A client's clock shows time since the Unix epoch, of which the execution has not seen much.
#[test]
fn a_lease_that_begins_in_the_future_is_a_failure() {
    let marks = Scenario::new("marks").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        drop(client.hold("cs").since(client.now() + Duration::from_secs(1)).enter());
        Ok(())
    });
    let report = exhaustive(&marks).unwrap_err().to_string();
    assert!(report.contains("take the time from Client::true_time or Client::now"), "{report}");
}

/// A lease counts from when the client read its clock, however wrong that is, and jumps meanwhile.
#[test]
fn a_mark_takes_a_time_of_the_clock() {
    let span = Duration::from_secs(60);
    let wrong = Faults::none().skew(span).jump(span).stalls(1);
    let scenario = Scenario::new("marks").faults(wrong).actors(2, |client| async move {
        let (by_clock, truly) = (client.now(), client.true_time());
        send::<()>(&mut client.connection(), &["PING"]).await?;
        drop(client.hold("by clock").since(by_clock).enter());
        drop(client.hold("truly").since(truly).enter());
        Ok(())
    });
    exhaustive(&scenario.always(EqualEnds)).unwrap();
}

/// The stays of a client end alike.
#[derive(Debug)]
struct EqualEnds;

impl Oracle for EqualEnds {
    fn name(&self) -> &'static str {
        "equal-ends"
    }

    fn judges(&self, history: &History) -> bool {
        ends(history).len() > 1
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let ends = ends(history);
        let (step, ..) = ends.chunks_exact(2).find(|pair| pair[0].1 != pair[1].1)?[1];
        Some(Violation { step, what: format!("the leases differ: {ends:?}") })
    }
}

/// The ends of leases, each with its step.
fn ends(history: &History) -> Vec<(usize, Duration)> {
    let enters = history.events.iter().filter_map(|event| match event.kind {
        EventKind::Enter { until, .. } => Some((event.step, until)),
        _ => None,
    });
    enters.collect()
}

/// Texts say whether the server keeps a grant when its lease ends, and when it lapses there. Only a
/// full history has that.
#[test]
fn a_grant_lapses_before_its_lease_ends_or_after_it() {
    let ends = |lease_ms, record_ms: &'static str, recording| {
        let scenario = Scenario::new("ends").lease(Duration::from_millis(lease_ms));
        let scenario = scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, &["SET", "lock", "A", "PX", record_ms]).await?;
            let _guard = client.hold("cs").record(Record::Key("lock".into())).enter();
            for _ in 0..9 {
                tokio::time::sleep(Duration::from_millis(4)).await;
                send::<()>(&mut link, &["PING"]).await?;
            }
            Ok(())
        });
        let history = replay(&mut Runner::new(), &scenario, &"A".parse().unwrap(), recording);
        let ends = history.events.iter().filter_map(|event| match event.kind {
            EventKind::Overrun { is_kept: true, .. } => Some(format!("overrun at {:?}, is kept", event.at)),
            EventKind::Overrun { .. } => Some(format!("overrun at {:?}", event.at)),
            EventKind::Lapsed { .. } => Some(format!("lapse at {:?}", event.at)),
            _ => None,
        });
        ends.collect::<Vec<_>>().join("; ")
    };
    let lines = ["6", "12", "13", "30"].map(|record_ms| {
        let [full, lean] = [Recording::Full, Recording::Lean].map(|recording| ends(10, record_ms, recording));
        format!("{record_ms} ms: {full}. Lean: {lean}\n")
    });
    expect![[r#"
        6 ms: lapse at 8ms; overrun at 12ms. Lean: overrun at 12ms
        12 ms: overrun at 12ms. Lean: overrun at 12ms
        13 ms: overrun at 12ms. Lean: overrun at 12ms
        30 ms: overrun at 12ms, is kept; lapse at 32ms. Lean: overrun at 12ms
    "#]]
    .assert_eq(&lines.concat());
    // The client wakes up at the end of its lease.
    assert_eq!(ends(8, "30", Recording::Lean), "overrun at 8ms");
}
