//! Each oracle must catch a broken lock and must pass a sound one. An oracle that cannot fail, or
//! that fails without a reason, is worse than none.

use std::time::Duration;

use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{
    ExclusiveBelief, ExclusiveFact, Fenced, NoLeak, NoLostWakeUp, NotOvertaken, Oracle as _, OverIssue,
    OwnerSafe, Progress, Recovers, Unbroken, WriterAlone,
};
use harness::sim::Recording;
use harness::{Client, Faults, SavedSchedule, Scenario, exhaustive, replay, replay_saved};
use locks::Record;
use redis::RedisResult;

/// How a lock is taken and released. Each broken recipe differs from `SOUND` in one place.
#[derive(Clone, Copy)]
pub(crate) struct Recipe {
    pub(crate) take: &'static [&'static str],
    release: Option<&'static [&'static str]>,
}

pub(crate) const SOUND: Recipe =
    Recipe { take: &["SET", "lock", "1", "NX", "PX", "10000"], release: Some(&["DEL", "lock"]) };

pub(crate) async fn send<T: redis::FromRedisValue>(
    link: &mut impl redis::aio::ConnectionLike,
    words: &[&str],
) -> RedisResult<T> {
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
        .or_fewer()
        .probe(1, take)
}

#[track_caller]
pub(crate) fn expect_violation(scenario: &Scenario, property: &str, steps: usize) {
    match exhaustive(scenario).expect_err("the lock is broken").problem {
        Problem::Violated { property: found, schedule, saved, .. } => {
            assert_eq!(saved.to_string().parse::<SavedSchedule>().as_ref(), Ok(&saved));
            let replayed = replay_saved(&mut Runner::new(), scenario, &saved).unwrap();
            assert!(replayed.is_as_stated() && replayed.divergences.is_empty(), "{replayed}");
            assert_eq!((found, schedule.steps.len()), (property, steps), "{schedule}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn exclusive_fact() {
    // SET without NX: everybody is granted the lock.
    let broken = Recipe { take: &["SET", "lock", "1", "PX", "10000"], ..SOUND };
    let slow = |recipe| scenario(recipe).faults(Faults::none().stalls(1)).always(ExclusiveFact::of("cs"));
    expect_violation(&slow(broken), "exclusive-fact", 2);
    // The lease of the sound lock may end, but that does not violate this property. With only two
    // clients, a late `DEL` frees no third client's lock.
    exhaustive(&slow(SOUND)).unwrap();
}

#[test]
fn exclusive_belief() {
    let belief = |faults| scenario(SOUND).faults(faults).always(ExclusiveBelief::of("cs", 1));
    expect_violation(&belief(Faults::none().stalls(1)), "exclusive-belief", 3);
    exhaustive(&belief(Faults::none())).unwrap();
}

const READ: &str = "\
if redis.call('EXISTS', 'writer') == 1 then return 0 end
redis.call('INCR', 'readers')
return 1";
const WRITE: &str = "\
if redis.call('EXISTS', 'writer') == 1 or tonumber(redis.call('GET', 'readers') or 0) > 0 then return 0 end
redis.call('SET', 'writer', '1')
return 1";

/// Readers with one recipe and writers with another, each with their number.
fn read_write(readers: (usize, Recipe), writers: (usize, Recipe)) -> Scenario {
    let scenario = Scenario::new("a read-write lock by recipe");
    [(readers, "reading"), (writers, "writing")].into_iter().fold(
        scenario,
        |scenario, ((count, recipe), section)| {
            scenario.actors(count, move |client| async move {
                let mut link = client.connection();
                if send(&mut link, recipe.take).await? {
                    let release = recipe.release.expect("what is taken is given back");
                    client.hold(section).until(send::<()>(&mut link, release)).await?;
                }
                Ok(())
            })
        },
    )
}

#[test]
fn writer_alone() {
    let alone = || WriterAlone::of("reading", "writing");
    // A reader that leaves decrements the count. The broken one deletes the count.
    let read = Recipe { take: &["EVAL", READ, "0"], release: Some(&["DECR", "readers"]) };
    let write = Recipe { take: &["EVAL", WRITE, "0"], release: Some(&["DEL", "writer"]) };
    let broken = Recipe { release: Some(&["DEL", "readers"]), ..read };
    expect_violation(&read_write((2, broken), (1, write)).always(alone()), "writer-alone", 4);
    exhaustive(&read_write((2, read), (1, write)).always(alone())).unwrap();
    // A blind writer ignores readers and writers, and a blind reader ignores writers.
    let blind = Recipe { take: &["SET", "lock", "1", "PX", "10000"], ..SOUND };
    expect_violation(&read_write((1, SOUND), (1, blind)).always(alone()), "writer-alone", 2);
    expect_violation(&read_write((1, blind), (1, SOUND)).always(alone()), "writer-alone", 2);
    expect_violation(&read_write((0, SOUND), (2, blind)).always(alone()), "writer-alone", 2);
}

/// A writer may also read while it writes; it is still alone.
#[test]
fn a_writer_may_read() {
    let both =
        Scenario::new("both").always(WriterAlone::of("reading", "writing")).actors(2, |client| async move {
            let mut link = client.connection();
            if send(&mut link, SOUND.take).await? {
                let writing = client.hold("writing").enter();
                client.hold("reading").during(send::<()>(&mut link, &["PING"])).await?;
                writing.until(send::<()>(&mut link, &["DEL", "lock"])).await?;
            }
            Ok(())
        });
    exhaustive(&both).unwrap();
}

/// An exclusive lock is also a read-write lock: nobody is inside beside a writer unless a lease has
/// ended.
#[test]
fn writer_alone_by_belief() {
    let slow = || read_write((1, SOUND), (1, SOUND)).faults(Faults::none().stalls(1));
    exhaustive(&slow().always(WriterAlone::of("reading", "writing"))).unwrap();
    let believed = || WriterAlone::believed("reading", "writing");
    expect_violation(&slow().always(believed()), "exclusive-belief", 3);
    exhaustive(&slow().faults(Faults::none()).always(believed())).unwrap();
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
    expect_violation(&crash(Recipe { take: &["SET", "lock", "1", "NX"], ..SOUND }), "recovers", 1);
    exhaustive(&crash(SOUND)).unwrap();
}

#[test]
fn no_leak() {
    // A client that ends without a release leaks the lock until the lease ends.
    expect_violation(&scenario(Recipe { release: None, ..SOUND }).always(NoLeak), "no-leak", 1);
    exhaustive(&scenario(SOUND).always(NoLeak)).unwrap();
}

/// Two clients. If a client is refused, it tries again after a pause.
fn patient(pause_s: u64, faults: Faults) -> Scenario {
    let lease = Duration::from_secs(10);
    Scenario::new("patient").faults(faults).always(NoLostWakeUp::of("cs", lease)).actors(
        2,
        move |client| async move {
            let mut link = client.connection();
            while !send(&mut link, SOUND.take).await? {
                tokio::time::sleep(Duration::from_secs(pause_s)).await;
            }
            Ok(client.hold("cs").until(send(&mut link, &["DEL", "lock"])).await?)
        },
    )
}

#[test]
fn no_lost_wake_up() {
    // A takes the lock, B is refused, A releases it, and B sleeps for ten seconds.
    expect_violation(&patient(10, Faults::none()), "no-lost-wake-up", 4);
    exhaustive(&patient(9, Faults::none())).unwrap();
    // A pause because of a stall, or because a dead holder's lease must end, is no lost wake-up.
    exhaustive(&patient(5, Faults::none().stalls(1))).unwrap();
    exhaustive(&patient(5, Faults::none().crashes(1))).unwrap();
    // A waiter that sleeps for more than two leases misses the end of the dead holder's.
    let report = exhaustive(&patient(21, Faults::none().crashes(1))).unwrap_err();
    assert!(report.to_string().contains("no-lost-wake-up"), "{report}");
}

/// Two clients that acquire `rounds` times each. If a client is refused, it enters the section
/// `waiting` and tries again after a pause.
fn queueing(rounds: u32) -> Scenario {
    let scenario = Scenario::new("queueing").always(NotOvertaken::of("waiting", "cs"));
    scenario.actors(2, move |client| async move {
        let mut link = client.connection();
        for _round in 0..rounds {
            let mut waiting = None;
            while !send(&mut link, SOUND.take).await? {
                waiting.get_or_insert_with(|| client.hold("waiting").enter());
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            drop(waiting);
            client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(())
    })
}

#[test]
fn not_overtaken() {
    // A takes the lock, B is refused, A releases it, and A takes it again.
    expect_violation(&queueing(2), "not-overtaken", 4);
    exhaustive(&queueing(1)).unwrap();
}

/// Each of so many clients asks two servers, in this order.
fn majority(orders: &'static [[usize; 2]]) -> Scenario {
    let scenario = Scenario::new("two of two").servers(2).always(Progress::of(&["cs"]));
    let scenario = orders.iter().fold(scenario, |scenario, order| {
        scenario.actors(1, move |client| async move {
            let mut granted = Vec::new();
            for &server in order {
                let mut link = client.connection_to(server);
                if send(&mut link, SOUND.take).await? {
                    granted.push(link);
                }
            }
            let hold = (granted.len() == 2).then(|| client.hold("cs").enter());
            for mut link in granted {
                send::<()>(&mut link, &["DEL", "lock"]).await?;
            }
            drop(hold);
            Ok(())
        })
    });
    scenario
        .or_fewer()
        .probe(1, |client| async move { Ok(send(&mut client.connection(), SOUND.take).await?) })
}

#[test]
fn progress() {
    // A gets the first server, B the second, and both are refused by the other.
    let report = exhaustive(&majority(&[[0, 1], [1, 0]])).unwrap_err();
    assert!(report.to_string().contains("none of them was granted anything"), "{report}");
    exhaustive(&majority(&[[0, 1]])).unwrap();
}

/// Two clients that check inside the section whether they still have the lock.
fn asking(ask: fn(&str) -> [&str; 2]) -> Scenario {
    let slow = Scenario::new("asking").faults(Faults::none().stalls(1)).always(Unbroken::of("cs"));
    slow.actors(2, move |client| async move {
        let (mut link, name) = (client.connection(), client.name());
        if send(&mut link, &["SET", "lock", &name, "NX", "PX", "10000"]).await? {
            let hold = client.hold("cs").enter();
            let since = client.true_time();
            let holder: Option<String> = send(&mut link, &ask(&name)).await?;
            if holder == Some(name) {
                hold.extend(since, Record::Key("lock".into()));
            }
        }
        Ok(())
    })
}

#[test]
fn unbroken() {
    // A takes the lock, its lease ends, B takes it, and `ECHO` returns A's own name to A.
    expect_violation(&asking(|name| ["ECHO", name]), "unbroken", 6);
    exhaustive(&asking(|_| ["GET", "lock"])).unwrap();
}

/// Commands that a client sends inside a section do not end its stay.
#[test]
fn work_inside_a_section_is_inside() {
    // If a client finds the lock taken and its holder at work, the client enters all the same.
    let stolen =
        Scenario::new("stolen").always(ExclusiveBelief::of("cs", 1)).actors(2, |client| async move {
            let mut link = client.connection();
            if send(&mut link, &["SETNX", "lock", "1"]).await? || send(&mut link, &["EXISTS", "work"]).await?
            {
                let work = async {
                    send::<()>(&mut link, &["SET", "work", "1"]).await?;
                    send::<()>(&mut link, &["DEL", "work"]).await
                };
                client.hold("cs").during(work).await?;
            }
            Ok(())
        });
    expect_violation(&stolen, "exclusive-belief", 4);
    // A command of another task during the release does not end the stay either.
    let renewing =
        Scenario::new("renewing").always(ExclusiveBelief::of("cs", 1)).actors(2, |client| async move {
            let (mut link, mut other) = (client.connection(), client.connection());
            if send(&mut link, &["SETNX", "lock", "1"]).await? || send(&mut link, &["EXISTS", "work"]).await?
            {
                let work = tokio::spawn(async move { send::<()>(&mut other, &["SET", "work", "1"]).await });
                client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
                work.await??;
            }
            Ok(())
        });
    expect_violation(&renewing, "exclusive-belief", 4);
}

/// A client may be in two sections at once.
#[test]
fn sections_may_be_nested() {
    let nested = Scenario::new("nested").always(ExclusiveFact::of("outer")).actors(2, |client| async move {
        let mut link = client.connection();
        if send(&mut link, &["SETNX", "outer", "1"]).await? {
            let release = async {
                client.hold("inner").until(async {}).await;
                send::<()>(&mut link, &["DEL", "outer"]).await
            };
            client.hold("outer").until(release).await?;
        }
        Ok(())
    });
    exhaustive(&nested).unwrap();
}

/// A crash can still lose a release that the client left to a spawned task.
#[test]
fn a_detached_release_can_crash() {
    let detached = Scenario::new("detached")
        .faults(Faults::none().crashes(1))
        .always(Recovers)
        .actors(1, |client| async move {
            let mut link = client.connection();
            if send(&mut link, &["SETNX", "lock", "1"]).await? {
                tokio::spawn(async move { send::<()>(&mut link, &["DEL", "lock"]).await });
            }
            Ok(())
        })
        .or_fewer()
        .probe(1, |client| async move { Ok(send(&mut client.connection(), &["SETNX", "lock", "1"]).await?) });
    expect_violation(&detached, "recovers", 1);
}

/// During a stall the client's own timers fire, but the renewal waits at the gate and renews
/// nothing.
#[test]
fn a_stalled_client_does_not_renew() {
    let renewed = Scenario::new("renewed")
        .faults(Faults::none().stalls(1))
        .always(ExclusiveBelief::of("cs", 1))
        .actors(2, |client| async move {
            let mut link = client.connection();
            if send(&mut link, SOUND.take).await? {
                let renewal = async {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                    send::<()>(&mut link, &["PEXPIRE", "lock", "10000"]).await
                };
                client.hold("cs").during(renewal).await?;
            }
            Ok(())
        });
    expect_violation(&renewed, "exclusive-belief", 3);
}

const NEWER_ALONE: &str = "\
if tonumber(redis.call('GET', KEYS[1]) or 0) > tonumber(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1])
return 1";
const ANY: &str = "redis.call('SET', KEYS[1], ARGV[1]) return 1";

/// Fencing tokens do not help if the resource does not check them.
#[test]
fn fenced() {
    let guarded = |write: &'static str| {
        Scenario::new("a lock with fencing tokens")
            .faults(Faults::none().stalls(1))
            .always(Fenced::of("data"))
            .actors(2, move |client| async move {
                let mut link = client.connection();
                if send(&mut link, SOUND.take).await? {
                    let token: i64 = send(&mut link, &["INCR", "token"]).await?;
                    if send(&mut link, &["EVAL", write, "1", "data", &token.to_string()]).await? {
                        client.accepted("data", token);
                    }
                }
                Ok(())
            })
    };
    expect_violation(&guarded(ANY), "fenced", 7);
    exhaustive(&guarded(NEWER_ALONE)).unwrap();
}

/// If a key expires before the scenario's lease ends, no client is blamed.
#[test]
fn an_early_end_is_blamed_on_nobody() {
    let short = Scenario::new("short").faults(Faults::none().stalls(1)).always(OwnerSafe).actors(
        2,
        |client| async move {
            let mut link = client.connection();
            if client.name() == "A" && send(&mut link, &["SET", "lock", "1", "NX", "PX", "5000"]).await? {
                let hold = client.hold("cs").record(Record::Key("lock".into()));
                hold.until(send::<()>(&mut link, &["PING"])).await?;
            } else {
                send::<()>(&mut link, &["PING"]).await?;
            }
            Ok(())
        },
    );
    exhaustive(&short).unwrap();
}

#[test]
fn an_oracle_without_anything_to_judge_makes_a_pass_vacuous() {
    let take = |client: Client| async move { Ok(send::<()>(&mut client.connection(), SOUND.take).await?) };
    let idle = || Scenario::new("idle").actors(1, take);
    for (scenario, name) in [
        (idle().always(OwnerSafe), "owner-safe"),
        (idle().always(ExclusiveFact::of("misspelt")), "exclusive-fact"),
    ] {
        let report = exhaustive(&scenario).unwrap_err().to_string();
        let expected = format!("idle: vacuous: in 1 schedule {name} had nothing to judge: ");
        assert!(report.starts_with(&expected), "{report}");
    }
    // There are no readers.
    let writers = read_write((0, SOUND), (2, SOUND)).always(WriterAlone::of("reading", "writing"));
    let report = exhaustive(&writers).unwrap_err().to_string();
    assert!(report.contains("writer-alone had nothing to judge: no client entered \"reading\""), "{report}");
}

/// A client may be inside twice, in two of its tasks. When one stay ends, the other continues.
#[test]
fn stays_of_one_client_are_told_apart() {
    let scenario = Scenario::new("two stays")
        .actors(1, |client| async move {
            let mut link = client.connection();
            let (first, second) = (client.hold("cs").enter(), client.hold("cs").enter());
            () = first.until(send(&mut link, &["ECHO", "first"])).await?;
            () = second.until(send(&mut link, &["ECHO", "second"])).await?;
            Ok(())
        })
        .actors(2, |client| async move {
            let mut link = client.connection();
            () = send(&mut link, &["ECHO", "hello"]).await?;
            () = client.hold("cs").until(send(&mut link, &["ECHO", "bye"])).await?;
            Ok(())
        });
    let history = replay(&mut Runner::new(), &scenario, &"A\nB\nC".parse().unwrap(), Recording::Lean);
    let violation = OverIssue::of("cs", 2).check(&history).map(|violation| violation.step);
    assert_eq!(violation, Some(3));
}
