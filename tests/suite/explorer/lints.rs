//! Each lint catches a lock that has its habit, and is silent on the repaired lock and on all locks
//! for use. `tests/guide/lints.md` shows how each habit does harm.

use std::time::Duration;

use expect_test::expect;
use harness::check::{Participants, scenario};
use harness::explore::lints;
use harness::lint::{LINTS, slot};
use harness::oracle::{ExclusiveBelief, ExclusiveFact, NoLostWakeUp, OwnerSafe, Recovers, WriterAlone};
use harness::{Client, Faults, Record, Scenario, exhaustive, from_fn};
use locks::registry::{Ability, AlgorithmKind, FaultClass, locks};
use redis::RedisResult;
use redis::aio::ConnectionLike;

use crate::bounds::LINTS_OF_LOCKS;
use crate::program::readme::check_page;

const LEASE: Duration = Duration::from_secs(10);

/// A lock as commands, one a line. The first command of `take` replies whether it is granted.
#[derive(Clone, Copy)]
struct Recipe {
    take: &'static [&'static str],
    inside: &'static [&'static str],
    release: &'static [&'static str],
}

const SOUND: Recipe = Recipe {
    take: &["SET lock $me NX PX 10000"],
    inside: &["EVAL $renew 1 lock $me"],
    release: &["EVAL $delete 1 lock $me"],
};

/// The scripts and values that stand in recipes.
fn value(client: &Client, word: &str) -> String {
    match word {
        "$me" => client.name(),
        "$deadline" => (client.env().now_ms() + LEASE.as_millis() as i64).to_string(),
        "$renew" => {
            "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], 10000) or 0"
                .into()
        }
        "$delete" => {
            "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0".into()
        }
        // These two push to a list for which others wait. Its name is declared, or built.
        "$notify" => "-- release
            if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
            redis.call('DEL', KEYS[1])
            return redis.call('RPUSH', KEYS[2], 1)"
            .into(),
        "$notify_secretly" => value(client, "$notify").replace("KEYS[2]", "KEYS[1] .. ':signal'"),
        // The second key is that of the other kind of clients.
        "$enter" => "-- enter
            if redis.call('EXISTS', KEYS[2]) == 1 then return false end
            return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 10000)"
            .into(),
        word => word.into(),
    }
}

async fn send<T: redis::FromRedisValue>(client: &Client, line: &str) -> RedisResult<T> {
    let words: Vec<String> = line.split(' ').map(|word| value(client, word)).collect();
    let node = if client.servers() == 1 { 0 } else { node_of(&words) };
    redis::cmd(&words[0]).arg(&words[1..]).query_async(&mut client.connection_to(node)).await
}

/// The node to which a proxy of two nodes sends a command: that of its first key. The nodes have
/// equal parts of the slots.
fn node_of(words: &[String]) -> usize {
    let first_key = if words[0] == "EVAL" { &words[3] } else { &words[1] };
    usize::from(slot(first_key.as_bytes()) >= 8192)
}

async fn send_all(client: &Client, lines: &[&str]) -> RedisResult<()> {
    for line in lines {
        send::<redis::Value>(client, line).await?;
    }
    Ok(())
}

/// Two clients of a lock.
fn lock(recipe: Recipe) -> Scenario {
    let take = move |client: Client| async move {
        let is_granted: Option<bool> = send(&client, recipe.take[0]).await?;
        if is_granted == Some(true) {
            send_all(&client, &recipe.take[1..]).await?;
        }
        RedisResult::Ok(is_granted == Some(true))
    };
    let act = move |client: Client| async move {
        let since = client.true_time();
        if take(client.clone()).await? {
            let record = Record::Value("lock".into(), client.name());
            let hold = client.hold("section").since(since).record(record).enter();
            send_all(&client, recipe.inside).await?;
            hold.until(send_all(&client, recipe.release)).await?;
        }
        RedisResult::Ok(())
    };
    Scenario::new("a lock with a habit")
        .lease(LEASE)
        .actors(2, from_fn(act))
        .or_fewer()
        .probe(1, from_fn(take))
        .always(ExclusiveFact::of("section"))
        .always(OwnerSafe)
}

/// The names of the lints that a scenario shows.
fn names(scenario: &Scenario) -> Vec<&'static str> {
    lints(scenario).into_iter().map(|warning| warning.lint.name).collect()
}

#[track_caller]
fn check_lint(lint: &str, scenarios: [Scenario; 2], faults: Faults) {
    check_lints(&[lint], scenarios, faults);
}

/// A lock shows these lints alone, and the repaired lock shows none. The lock breaks under these
/// faults, and the repaired one does not: `tests/guide/lints.md` has the schedule, in the section
/// of the first lint.
#[track_caller]
fn check_lints(lints: &[&str], [broken, repaired]: [Scenario; 2], faults: Faults) {
    for scenario in [&broken, &broken.clone().faults(faults)] {
        assert_eq!(names(scenario), lints);
    }
    let repaired = repaired.faults(faults);
    assert_eq!(names(&repaired), [""; 0]);
    assert!(exhaustive(&repaired).unwrap().lints.is_empty());
    let report = exhaustive(&broken.faults(faults)).expect_err("the lock is broken");
    assert_eq!(report.lints.len(), lints.len());
    let text = report.to_string();
    let (timeline, _) = text.split_once("\nSave this schedule").unwrap();
    check_page("tests/guide/lints.md", lints[0], &format!("```text\n{}\n\n{timeline}```\n", report.lints[0]));
}

#[test]
fn no_ttl() {
    let broken = Recipe { take: &["SET lock $me NX"], inside: &[], ..SOUND };
    let recovering = |recipe| lock(recipe).always(Recovers);
    check_lint("no-ttl", [broken, SOUND].map(recovering), Faults::none().crashes(1));
}

#[test]
fn setnx_then_expire() {
    let broken = Recipe { take: &["SETNX lock $me", "PEXPIRE lock 10000"], ..SOUND };
    let recovering = |recipe| lock(recipe).always(Recovers);
    check_lint("setnx-then-expire", [broken, SOUND].map(recovering), Faults::none().crashes(1));
    let set = Recipe { take: &["SET lock $me NX", "EXPIRE lock 10"], ..SOUND };
    assert_eq!(names(&lock(set)), ["setnx-then-expire"]);
}

#[test]
fn plain_del() {
    let broken = Recipe { release: &["DEL lock"], ..SOUND };
    check_lint("plain-del", [broken, SOUND].map(lock), Faults::none().stalls(1));
    let checked = Recipe { release: &["GET lock", "UNLINK lock"], ..SOUND };
    assert_eq!(names(&lock(checked)), ["plain-del"]);
}

#[test]
fn client_time() {
    let broken = Recipe { take: &["SET lock $me NX PXAT $deadline"], ..SOUND };
    check_lint("client-time", [broken, SOUND].map(lock), Faults::none().skew(2 * LEASE));
}

#[test]
fn creating_renewal() {
    let broken = Recipe { inside: &["SET lock $me PX 10000"], ..SOUND };
    check_lint("creating-renewal", [broken, SOUND].map(lock), Faults::none().stalls(1));
    let only_existing = Recipe { inside: &["SET lock $me XX PX 10000"], ..SOUND };
    assert_eq!(names(&lock(only_existing)), [""; 0]);
}

/// The key ends before the lease by which grants are judged, and a client comes in between.
#[test]
fn other_lease() {
    let broken = Recipe { take: &["SET lock $me NX PX 5000"], inside: &[], ..SOUND };
    let sound = Recipe { inside: &[], ..SOUND };
    check_lint("other-lease", [broken, sound].map(lock), Faults::none().stalls(1));
    let longer = Recipe { take: &["SET lock $me NX EX 30"], ..SOUND };
    assert_eq!(names(&lock(longer)), ["other-lease"]);
}

/// A lock on two nodes that wakes a client when it is released. The client waits for the list
/// `free`, to which this release pushes.
fn notifying(release: &'static str, free: &'static str) -> Scenario {
    let act = move |client: Client| async move {
        let take = "SET lock $me NX PX 10000";
        let mut is_granted: Option<bool> = send(&client, take).await?;
        if is_granted.is_none() {
            send::<redis::Value>(&client, &format!("BLPOP {free} 10")).await?;
            is_granted = send(&client, take).await?;
        }
        if is_granted == Some(true) {
            client.hold("section").until(send_all(&client, &[release])).await?;
        }
        RedisResult::Ok(())
    };
    let oracle = NoLostWakeUp::of("section", LEASE / 2);
    Scenario::new("a lock on two nodes").lease(LEASE).servers(2).actors(2, from_fn(act)).always(oracle)
}

/// A list that a script names by itself is on the node of the script, and its readers ask another.
#[test]
fn undeclared_key() {
    let broken = notifying("EVAL $notify_secretly 1 lock $me", "lock:signal");
    let repaired = notifying("EVAL $notify 2 lock {lock}:signal $me", "{lock}:signal");
    check_lints(&["undeclared-key", "cross-slot"], [broken, repaired], Faults::none());
    let release = &["EVAL $notify_secretly 1 {lock} $me"];
    let same_slot = Recipe { take: &["SET {lock} $me NX PX 10000"], inside: &[], release };
    assert_eq!(names(&lock(same_slot)), ["undeclared-key"]);
}

/// A read-write lock on two nodes, which has these keys for readers and for writers.
fn read_write([reading, writing]: [&'static str; 2]) -> Scenario {
    let act = |section: &'static str, own: &'static str, other: &'static str| {
        from_fn(move |client: Client| async move {
            let take = format!("EVAL $enter 2 {own} {other} $me");
            if send::<Option<bool>>(&client, &take).await? == Some(true) {
                let release = format!("EVAL $delete 1 {own} $me");
                client.hold(section).until(send::<redis::Value>(&client, &release)).await?;
            }
            RedisResult::Ok(())
        })
    };
    Scenario::new("a read-write lock on two nodes")
        .lease(LEASE)
        .servers(2)
        .actors(1, act("reading", reading, writing))
        .actors(1, act("writing", writing, reading))
        .always(WriterAlone::of("reading", "writing"))
}

/// Scripts with the same keys run on different nodes if their first keys differ.
#[test]
fn cross_slot() {
    let scenarios = [["lock:readers", "lock:writer"], ["{lock}:readers", "{lock}:writer"]].map(read_write);
    check_lints(&["cross-slot"], scenarios, Faults::none());
}

/// Reports show why, and warn of an allowance that hides nothing.
#[test]
fn a_scenario_allows_a_lint() {
    let broken = Recipe { release: &["DEL lock"], ..SOUND };
    let allowing = lock(broken).allow("plain-del", "the lease is a year").allow("no-ttl", "of no use");
    assert_eq!(names(&allowing), [""; 0]);
    let passed = exhaustive(&allowing).unwrap();
    assert!(passed.lints.is_empty());
    expect!["no violation of exclusive-fact and owner-safe in 7 schedules; reached: contention; allowed: plain-del (the lease is a year); allowed without need: no-ttl (of no use)"].assert_eq(&passed.to_string());
    expect![[r#"
        The scenario allows no-ttl (of no use), but no execution that was looked at shows it.
          If no other one does, remove Scenario::allow("no-ttl", …)"#]]
    .assert_eq(&passed.allowances[1].to_string());
    let report = exhaustive(&allowing.faults(Faults::none().stalls(1))).unwrap_err();
    let fulfilled: Vec<bool> = report.allowances.iter().map(|allowance| allowance.is_fulfilled).collect();
    assert_eq!((report.lints.len(), &fulfilled[..]), (0, &[true, false][..]));
}

#[test]
#[should_panic(expected = "there is no lint \"plain-dell\"; the lints are no-ttl, setnx-then-expire, ")]
fn an_allowance_of_no_lint_is_an_error() {
    _ = Scenario::new("my lock").allow("plain-dell", "the lease is a year");
}

/// A holder that renews its grant while it waits for a message, and a client that comes after the
/// first lease. `shares` is whether the holder waits on the connection on which it renews.
fn waiting(shares: fn() -> bool) -> Scenario {
    async fn take(client: &Client, link: &mut impl ConnectionLike) -> RedisResult<bool> {
        let mut set = redis::cmd("SET");
        set.arg("lock").arg(client.name()).arg("NX").arg("PX").arg(LEASE.as_millis() as u64);
        set.query_async(link).await
    }
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    Scenario::new("a holder that waits")
        .always(ExclusiveBelief::of("section", 1))
        .actors(1, move |client| {
            let patient = patient.clone();
            async move {
                let mut link = client.multiplexed_with_config(patient.clone()).await?;
                let mut waiting = link.clone();
                if !shares() {
                    waiting = client.multiplexed_with_config(patient).await?;
                }
                if take(&client, &mut link).await? {
                    let inside = client.hold("section").enter();
                    let message = tokio::spawn(async move {
                        redis::cmd("BLPOP").arg("news").arg(12).exec_async(&mut waiting).await
                    });
                    tokio::time::sleep(LEASE / 2).await;
                    redis::cmd("PEXPIRE").arg("lock").arg(10_000).exec_async(&mut link).await?;
                    message.await??;
                    drop(inside);
                }
                Ok(())
            }
        })
        .actors(1, |client| async move {
            tokio::time::sleep(LEASE + Duration::from_secs(1)).await;
            if take(&client, &mut client.connection()).await? {
                client.hold("section").until(async {}).await;
            }
            Ok(())
        })
}

#[test]
fn shared_blocking() {
    check_lint("shared-blocking", [waiting(|| true), waiting(|| false)], Faults::none());
}

/// A lint that a lock for use shows is wrong. Many published locks show some.
#[test]
fn locks_for_use_show_no_lint() {
    if LINTS_OF_LOCKS.is_left_out() {
        return;
    }
    let first = locks().position(|algorithm| algorithm.name == "mutex").unwrap();
    let mut published = String::new();
    for (place, algorithm) in locks().enumerate() {
        let shown = |class| -> Vec<String> {
            let readers = (algorithm.spec.kind == AlgorithmKind::ReadWrite).then_some(1);
            let size = Participants { clients: 2, permits: 1, readers };
            let shown = lints(&scenario(algorithm, class, size));
            if place >= first {
                shown.iter().map(ToString::to_string).collect()
            } else {
                shown.iter().map(|warning| warning.lint.name.to_owned()).collect()
            }
        };
        let classes = [FaultClass::Order, FaultClass::Slow, FaultClass::Rounds];
        let shown: std::collections::BTreeSet<_> = classes.into_iter().flat_map(shown).collect();
        // A grant that is a subscription has no key.
        let persists = algorithm.spec.can(Ability::Persists) && !algorithm.spec.can(Ability::Subscribes);
        // The value of its key says when a grant ends.
        let has_key_for_ever = algorithm.name == "del_setnx_takeover";
        let shows = shown.contains("no-ttl");
        assert_eq!(shows, persists || has_key_for_ever, "whether grants of {} end", algorithm.name);
        if place >= first {
            assert!(shown.is_empty(), "{} shows {shown:?}", algorithm.name);
        } else {
            published += &format!("{}: {}\n", algorithm.name, Vec::from_iter(shown).join(", "));
        }
    }
    expect![[r#"
        exists_set: no-ttl, plain-del
        setnx: no-ttl, plain-del
        setnx_expire: plain-del, setnx-then-expire
        del_setnx_takeover: client-time, no-ttl, plain-del
        getset_takeover: client-time, plain-del, setnx-then-expire
        lua_setnx_expire: plain-del
        lua_token: 
        set_nx_ex_del: plain-del
        set_nx_get_del: plain-del
        set_nx_px_cad: 
        redlock: 
        redlock_3: 
        reentrant_hash: 
        renewed_hash: 
        local_reentrant: 
        redisson: 
        redisson_process: 
        subscribed: 
        rw_two_keys: cross-slot, plain-del
        rw_hash: client-time
        zset_semaphore: client-time
        fair_semaphore_posted: client-time, cross-slot
        fair_semaphore_comment: client-time, cross-slot
        fair_semaphore_weighted: client-time, cross-slot
        fair_semaphore_locked: client-time, cross-slot
        quorum_semaphore: client-time
        leader_set: plain-del
        leader_set_checked: plain-del
    "#]]
    .assert_eq(&published);
}

#[test]
fn every_lint_has_a_section() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../guide/lints.md")).unwrap();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, LINTS.iter().map(|lint| lint.name).collect::<Vec<_>>());
    let row = |lint: &harness::lint::Lint| {
        format!("| [{0}](#{0}) | {1} | {2} |\n", lint.name, lint.summary, lint.advice)
    };
    let rows: String = LINTS.iter().map(row).collect();
    check_page(
        "tests/guide/lints.md",
        "lints",
        &format!("| lint | habit | what to do |\n| --- | --- | --- |\n{rows}"),
    );
}
