//! Passes that mean nothing, which are errors: an oracle had nothing to judge, or something that
//! had to happen never did.

use std::time::Duration;

use harness::oracle::{
    ExclusiveBelief, ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, NotOvertaken, OverIssue, OwnerSafe,
    Progress, Recovers, Unbroken, WriterAlone,
};
use harness::trace::Reached;
use harness::{Faults, Scenario, exhaustive};

use super::oracles::{SOUND, send};

/// A pass of an oracle that judged nothing is an error, for each oracle.
#[test]
fn each_oracle_says_that_it_had_nothing_to_judge() {
    type Named = (&'static str, fn(Scenario) -> Scenario);
    let oracles: [Named; 13] = [
        ("exclusive-belief", |scenario| scenario.always(ExclusiveBelief::of("cs", 1))),
        ("exclusive-fact", |scenario| scenario.always(ExclusiveFact::of("cs"))),
        ("over-issue", |scenario| scenario.always(OverIssue::of("cs", 1))),
        ("writer-alone", |scenario| scenario.always(WriterAlone::of("reading", "writing"))),
        ("exclusive-belief", |scenario| scenario.always(WriterAlone::believed("reading", "writing"))),
        ("unbroken", |scenario| scenario.always(Unbroken::of("cs"))),
        ("no-lost-wake-up", |scenario| scenario.always(NoLostWakeUp::of("cs", Duration::from_secs(10)))),
        ("not-overtaken", |scenario| scenario.always(NotOvertaken::of("waiting", "cs"))),
        ("owner-safe", |scenario| scenario.always(OwnerSafe)),
        ("fenced", |scenario| scenario.always(Fenced::of("data"))),
        ("no-leak", |scenario| scenario.always(NoLeak)),
        ("recovers", |scenario| scenario.always(Recovers)),
        ("progress", |scenario| scenario.always(Progress::of(&["cs"]))),
    ];
    for (name, with_oracle) in oracles {
        let pings = Scenario::new("pings").actors(1, |client| async move {
            Ok(redis::cmd("PING").exec_async(&mut client.connection()).await?)
        });
        let report = exhaustive(&with_oracle(pings)).unwrap_err();
        assert!(report.to_string().contains(&format!("{name} had nothing to judge")), "{report}");
    }
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
