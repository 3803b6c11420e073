//! Each oracle has a broken lock that it must catch, and a sound one that it must let pass: an oracle that cannot fail, or that
//! fails for nothing, is worse than none.

use harness::history::Seen;
use harness::oracle::{ExclusiveBelief, ExclusiveFact, NoLeak, OverIssue, OwnerSafe, Recovers};
use harness::{Client, Faults, Problem, Scenario, Schedule, exhaustive};
use locks::{Lock as _, Record};
use redis::RedisResult;

/// How a lock takes and releases; the broken ones below differ from the sound one in a single place.
#[derive(Clone, Copy)]
struct Recipe {
    take: &'static [&'static str],
    release: Option<&'static [&'static str]>,
}

const SOUND: Recipe =
    Recipe { take: &["SET", "lock", "1", "NX", "PX", "10000"], release: Some(&["DEL", "lock"]) };

async fn send<T: redis::FromRedisValue>(link: &mut harness::Link, words: &[&str]) -> RedisResult<T> {
    redis::cmd(words[0]).arg(&words[1..]).query_async(link).await
}

/// Two clients that take and release by the recipe, and a probe that takes.
fn scenario(recipe: Recipe) -> Scenario {
    let take = move |client: Client| async move { Ok(send(&mut client.connection(), recipe.take).await?) };
    Scenario::new("a lock by recipe")
        .actors(2, move |client| async move {
            let mut link = client.connection();
            if send(&mut link, recipe.take).await? {
                let hold = client.hold("cs").record(Record::Key("lock".into()));
                match recipe.release {
                    Some(words) => hold.until(send(&mut link, words)).await?,
                    None => hold.until(async {}).await,
                }
            }
            Ok(())
        })
        .probe(1, take)
}

#[track_caller]
fn expect_violation(scenario: &Scenario, property: &str, steps: usize) {
    match exhaustive(scenario).expect_err("the lock is broken").problem {
        Problem::Violated { property: found, schedule, text, .. } => {
            assert_eq!(
                text.parse::<Schedule>(),
                Ok(schedule.clone()),
                "the text in the report can be replayed"
            );
            assert_eq!((found, schedule.steps.len()), (property, steps), "{schedule}");
        }
        Problem::Vacuous(what) => panic!("vacuous: {what}"),
    }
}

#[test]
fn exclusive_fact() {
    // SET without NX: everybody is granted the lock.
    let broken = Recipe { take: &["SET", "lock", "1", "PX", "10000"], ..SOUND };
    let slow = |recipe| scenario(recipe).faults(Faults::none().stalls(1)).always(ExclusiveFact::of("cs"));
    expect_violation(&slow(broken), "exclusive-fact", 2);
    // That the sound one's lease may run out is no violation of this property, and with two clients no DEL hits a third.
    exhaustive(&slow(SOUND)).unwrap();
}

#[test]
fn exclusive_belief() {
    let belief = |faults| scenario(SOUND).faults(faults).always(ExclusiveBelief::of("cs", 1));
    expect_violation(&belief(Faults::none().stalls(1)), "exclusive-belief", 3);
    exhaustive(&belief(Faults::none())).unwrap();
}

#[test]
fn over_issue() {
    let broken = Recipe { take: &["SET", "lock", "1", "PX", "10000"], ..SOUND };
    expect_violation(&scenario(broken).always(OverIssue::of("cs", 1)), "over-issue", 2);
    exhaustive(&scenario(broken).always(OverIssue::of("cs", 2))).unwrap();
}

#[test]
fn owner_safe() {
    let safe = |faults| scenario(SOUND).faults(faults).always(OwnerSafe);
    expect_violation(&safe(Faults::none().stalls(1)), "owner-safe", 4);
    exhaustive(&safe(Faults::none())).unwrap();
}

#[test]
fn recovers() {
    let crash = |recipe| scenario(recipe).faults(Faults::none().crashes(1)).always(Recovers);
    expect_violation(&crash(Recipe { take: &["SET", "lock", "1", "NX"], ..SOUND }), "recovers", 2);
    exhaustive(&crash(SOUND)).unwrap();
}

#[test]
fn no_leak() {
    // Whoever goes away without a release leaks the lock until its lease ends.
    expect_violation(&scenario(Recipe { release: None, ..SOUND }).always(NoLeak), "no-leak", 1);
    exhaustive(&scenario(SOUND).always(NoLeak)).unwrap();
}

#[test]
fn a_pass_that_saw_nothing_is_vacuous() {
    let must_see = Seen { contention: true, ..Seen::default() };
    let alone = Scenario::new("alone").must_see(must_see).always(OwnerSafe).actors(1, |client| async move {
        let mut mutex = locks::Mutex::new(client.connection(), client.env(), &crate::algorithms::terms(1));
        if mutex.try_acquire().await? {
            client.hold("cs").until(mutex.release()).await?;
        }
        Ok(())
    });
    let report = exhaustive(&alone).unwrap_err();
    assert_eq!(
        report.to_string(),
        "alone: vacuous: in 1 schedules nobody ever contended, so the pass means nothing"
    );
}
