//! Passes that mean nothing, which are errors: an oracle had nothing to judge, or something that
//! had to happen never did.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use expect_test::expect;
use harness::oracle::{
    ExclusiveBelief, ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, NotOvertaken, OverIssue, OwnerSafe,
    Progress, Recovers, Unbroken, WriterAlone,
};
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive, sample};

use super::oracles::{SOUND, send};

fn pings() -> Scenario {
    Scenario::new("pings")
        .actors(1, |client| async move { Ok(redis::cmd("PING").exec_async(&mut client.connection()).await?) })
}

/// A pass of an oracle that judged nothing is an error, for each oracle. The report says what was
/// missing. If that was known before the first schedule, none was run.
#[test]
fn each_oracle_says_that_it_had_nothing_to_judge() {
    let probed = || pings().probe(1, |_| async { Ok(true) });
    let unprobed = [
        pings().always(ExclusiveBelief::of("cs", 1)),
        pings().always(ExclusiveFact::of("cs")),
        pings().always(OverIssue::of("cs", 1)),
        pings().always(WriterAlone::of("reading", "writing")),
        pings().always(WriterAlone::believed("reading", "writing")),
        pings().always(Unbroken::of("cs")),
        pings().always(NoLostWakeUp::of("cs", Duration::from_secs(10))),
        pings().always(NotOvertaken::of("waiting", "cs")),
        pings().always(OwnerSafe),
        pings().always(Fenced::of("data")),
        pings().always(NoLeak),
        pings().always(Recovers),
        pings().always(Progress::of(&["cs"])),
        probed().always(Recovers),
    ];
    let text = unprobed.iter().map(|scenario| exhaustive(scenario).unwrap_err().to_string() + "\n");
    expect![[r#"
        pings: vacuous: in 1 schedule exclusive-belief had nothing to judge: no client entered "cs", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule exclusive-fact had nothing to judge: no client entered "cs", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule over-issue had nothing to judge: no client entered "cs", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule writer-alone had nothing to judge: no client entered "reading" and "writing", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule exclusive-belief had nothing to judge: no client entered "reading" and "writing", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule unbroken had nothing to judge: no client inside "cs" was granted it once more (call `extend` on the guard of its hold), so the pass means nothing
        pings: vacuous: in 1 schedule no-lost-wake-up had nothing to judge: no client entered "cs", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule not-overtaken had nothing to judge: no client entered "waiting", nor any other section (mark it by `client.hold(…)`), so the pass means nothing
        pings: vacuous: in 1 schedule owner-safe had nothing to judge: no hold named a place where a server kept its grant (add `.record(…)` to `client.hold(…)`, with the key and the value that the code writes), so the pass means nothing
        pings: vacuous: in 1 schedule fenced had nothing to judge: "data" accepted no write (call `client.accepted("data", token)` after each), so the pass means nothing
        pings: vacuous: no-leak judges what fresh clients get at the end, and there are none: add them by `Scenario::probe`. Without that, a pass would mean nothing
        pings: vacuous: recovers judges what fresh clients get at the end, and there are none: add them by `Scenario::probe`. Without that, a pass would mean nothing
        pings: vacuous: progress judges what fresh clients get at the end, and there are none: add them by `Scenario::probe`. Without that, a pass would mean nothing
        pings: vacuous: recovers judges what is free after a crash, a lost message or a cancellation, and no budget allows one: add `crashes(1)`, `lost(1)` or `cancels(1)` to `Scenario::faults`. Without that, a pass would mean nothing
    "#]].assert_eq(&text.collect::<String>());
}

/// The report of a section that nobody entered names those that clients entered.
#[test]
fn sections_that_were_entered_are_named() {
    let enter = |sections: &'static [&'static str]| {
        Scenario::new("two sections").actors(1, move |client| async move {
            for section in sections {
                drop(client.hold(section).enter());
                () = send(&mut client.connection(), &["PING"]).await?;
            }
            Ok(())
        })
    };
    let missing = |scenario: Scenario| exhaustive(&scenario).unwrap_err().to_string() + "\n";
    let text = missing(enter(&["lock", "queue"]).always(ExclusiveFact::of("lcok")))
        + &missing(enter(&["reading"]).always(WriterAlone::of("reading", "writing")));
    expect![[r#"
        two sections: vacuous: in 1 schedule exclusive-fact had nothing to judge: no client entered "lcok", but clients entered "lock" and "queue", so the pass means nothing
        two sections: vacuous: in 1 schedule writer-alone had nothing to judge: no client entered "writing", but clients entered "reading", so the pass means nothing
    "#]].assert_eq(&text);
}

/// No schedule can have what is missing, so none is run.
#[test]
fn a_pass_that_can_mean_nothing_is_an_error_before_the_first_schedule() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let counted = || {
        let scenario = Scenario::new("counted").actors(1, |client| async move {
            RUNS.fetch_add(1, Ordering::Relaxed);
            drop(client.hold("cs").enter());
            Ok(send::<()>(&mut client.connection(), &["PING"]).await?)
        });
        scenario.probe(1, |_| async { Ok(true) }).always(Recovers)
    };
    let crash = Reached { crash: true, ..Reached::default() };
    for faults in [Faults::none(), Faults::none().stalls(2).skew(Duration::from_secs(1))] {
        let report = exhaustive(&counted().faults(faults)).unwrap_err();
        assert!(report.to_string().contains("no budget allows one: add `crashes(1)`"), "{report}");
        let report = sample(&counted().faults(faults.lost(1)).must_reach(crash), 10, 0).unwrap_err();
        assert!(
            report.to_string().contains("no client ever crashed, because no budget allows it"),
            "{report}"
        );
    }
    assert_eq!(RUNS.load(Ordering::Relaxed), 0);
    // If requests have a timeout, stalls lose them.
    let timeout = counted().faults(Faults::none().stalls(1)).response_timeout(Duration::from_millis(500));
    exhaustive(&timeout).unwrap();
    let none = Faults::none();
    for budget in [none.crashes(1), none.lost(1), none.drops(1), none.partitions(1)] {
        exhaustive(&counted().faults(budget)).unwrap();
    }
    let nobody = Scenario::new("nobody").always(ExclusiveFact::of("cs"));
    let report = exhaustive(&nobody).unwrap_err().to_string();
    assert!(report.contains("the scenario has no actors: add some by `Scenario::actors`"), "{report}");
}

/// Two oracles of one kind are judged by themselves.
#[test]
fn a_second_oracle_of_the_same_name_says_that_it_had_nothing_to_judge() {
    let both = Scenario::new("both").always(ExclusiveFact::of("cs")).always(ExclusiveFact::of("sc"));
    let enters = both.actors(1, |client| async move {
        let ping = redis::cmd("PING");
        Ok(client.hold("cs").until(ping.exec_async(&mut client.connection())).await?)
    });
    let report = exhaustive(&enters).unwrap_err();
    assert!(report.to_string().contains("exclusive-fact had nothing to judge"), "{report}");
}

/// Nobody but the code before the actors enters the section.
#[test]
fn the_code_before_the_actors_is_nothing_to_judge() {
    let scenario = Scenario::new("before").always(ExclusiveFact::of("cs")).before(|client| async move {
        drop(client.hold("cs").enter());
        Ok(())
    });
    let pings = scenario.actors(1, |client| async move {
        Ok(redis::cmd("PING").exec_async(&mut client.connection()).await?)
    });
    let report = exhaustive(&pings).unwrap_err();
    assert!(report.to_string().contains("exclusive-fact had nothing to judge"), "{report}");
}

/// Takes the lock, looks at it, and releases it.
fn alone() -> Scenario {
    Scenario::new("alone").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        if send(&mut link, SOUND.take).await? {
            let hold = client.hold("cs").enter();
            send::<()>(&mut link, &["GET", "lock"]).await?;
            hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(())
    })
}

#[test]
fn a_pass_without_contention_is_vacuous() {
    let must_reach = Reached { contention: true, ..Reached::default() };
    let report = exhaustive(&alone().must_reach(must_reach)).unwrap_err();
    assert_eq!(
        report.to_string(),
        "alone: vacuous: in 1 schedule no two clients ever contended, so the pass means nothing"
    );
}

/// A fault that has to strike strikes within its budget, and is missing without one.
#[test]
fn a_pass_without_its_fault_is_vacuous() {
    let (none, second) = (Reached::default(), Duration::from_secs(1));
    let rows = [
        (Reached { overrun: true, ..none }, Faults::none().stalls(1), "no lease ever ended"),
        (Reached { crash: true, ..none }, Faults::none().crashes(1), "no client ever crashed"),
        (Reached { lost: true, ..none }, Faults::none().lost(1), "no message was ever lost"),
        (Reached { skew: true, ..none }, Faults::none().skew(second), "no clock was ever wrong"),
        (Reached { skew: true, ..none }, Faults::none().server_skew(second), "no clock was ever wrong"),
        (Reached { server: true, ..none }, Faults::none().restarts(1), "no fault ever struck a server"),
    ];
    for (must_reach, faults, missing) in rows {
        let scenario = alone().must_reach(must_reach);
        exhaustive(&scenario.clone().faults(faults)).unwrap();
        let report = exhaustive(&scenario).unwrap_err().to_string();
        assert!(report.contains(missing), "{report}");
    }
}

/// A restart while nobody is inside cannot end a grant.
#[test]
fn a_server_fault_while_nobody_is_inside_is_vacuous() {
    let pings = Scenario::new("pings").faults(Faults::none().restarts(1)).actors(1, |client| async move {
        let mut link = client.connection();
        drop(client.hold("cs").enter());
        Ok(send::<()>(&mut link, &["PING"]).await?)
    });
    let must_reach = Reached { server: true, ..Reached::default() };
    let report = exhaustive(&pings.always(ExclusiveFact::of("cs")).must_reach(must_reach)).unwrap_err();
    assert!(report.to_string().contains("no fault ever struck a server"), "{report}");
}

/// Failovers and moves strike servers, and a failover loses a write.
#[test]
fn failovers_and_moves_are_reached() {
    let must_reach = Reached { server: true, ..Reached::default() };
    for faults in [Faults::none().failovers(1), Faults::none().planned_failovers(1)] {
        exhaustive(&alone().replicas(1).faults(faults).must_reach(must_reach)).unwrap();
    }
    let on_cluster =
        Scenario::new("on a cluster").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
            let mut link = client.cluster_connection();
            () = redis::cmd("INCR").arg("n").query_async(&mut link).await?;
            let get = redis::cmd("GET").arg("n").to_owned();
            Ok(client.hold("cs").until(get.exec_async(&mut link)).await?)
        });
    exhaustive(&on_cluster.cluster(2).faults(Faults::none().moves(1)).must_reach(must_reach)).unwrap();
    let recovers = alone().probe(1, |_| async { Ok(true) }).always(Recovers).replicas(1);
    exhaustive(&recovers.clone().faults(Faults::none().failovers(1).behind(1))).unwrap();
    let report = exhaustive(&recovers.faults(Faults::none().moves(1))).unwrap_err().to_string();
    assert!(report.contains("recovers judges what is free after"), "{report}");
}
