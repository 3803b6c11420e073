//! Each fault has a bug that it finds and most others do not. Each test states all faults that find
//! its bug, and replays the counterexamples from their text.

use std::time::Duration;

use expect_test::{Expect, expect};
use harness::client::GatedConnection;
use harness::execution::Runner;
use harness::explore::Problem;
use harness::oracle::{ExclusiveFact, NoLeak, Recovers, Success};
use harness::scenario::RESPONSE_TIMEOUT;
use harness::{Client, Faults, SavedSchedule, Scenario, exhaustive, replay_saved};
use redis::{Cmd, FromRedisValue, RedisResult, cmd};

use crate::bounds::BROKEN_CONNECTIONS;
use crate::explorer::oracles::send;

/// The lease of every lock in this file.
const LEASE: Duration = Duration::from_secs(10);
/// One millisecond more than the lease.
const MORE: Duration = Duration::from_millis(10_001);

/// Every fault alone, or together with the fault that it needs.
fn faults() -> Vec<(&'static str, Faults, Option<Duration>)> {
    let none = Faults::none();
    let faults = [
        ("nothing", none),
        ("crash", none.crashes(1)),
        ("stall", none.stalls(1)),
        ("lost message", none.lost(1)),
        ("skew", none.skew(MORE)),
        ("server jump", none.server_jump(MORE)),
        ("restart", none.restarts(1)),
        ("reload", none.reloads(1)),
        ("unsynced reload", none.reloads(1).unsynced(1)),
        ("flush", none.flushes(1)),
        ("drop", none.drops(1)),
        ("cancel", none.cancels(1)),
        ("delay", none.delays(1)),
        ("response timeout", none.stalls(1)),
        ("jump", none.jump(MORE)),
        ("drift", none.drift(500_000).stalls(1)),
        ("server drift", none.server_drift(500_000).stalls(1)),
        ("server skew", none.server_skew(MORE)),
    ];
    let times_out = |name| (name == "response timeout").then_some(RESPONSE_TIMEOUT);
    faults.map(|(name, faults)| (name, faults, times_out(name))).into()
}

/// Expects that exactly the faults `finders` find the bug. The counterexample of the fault `shown`
/// must have the timeline `expected`.
#[track_caller]
fn check(scenario: &Scenario, shown: &str, finders: &[&str], expected: &Expect) {
    let mut found = Vec::new();
    for (name, faults, response_timeout) in faults() {
        let mut scenario = scenario.clone().faults(faults);
        if let Some(response_timeout) = response_timeout {
            scenario = scenario.response_timeout(response_timeout);
        }
        let Err(report) = exhaustive(&scenario) else { continue };
        match report.problem {
            Problem::Violated { timeline, saved, .. } | Problem::Failed { timeline, saved, .. } => {
                let text = saved.to_string();
                assert_eq!(text.parse::<SavedSchedule>().as_ref(), Ok(&saved), "{text}");
                let replayed = replay_saved(&mut Runner::new(), &scenario, &saved).unwrap();
                assert!(replayed.is_as_stated() && replayed.divergences.is_empty(), "{replayed}");
                found.push(name);
                if name == shown {
                    expected.assert_eq(&timeline);
                }
            }
            problem => panic!("{name}: {problem:?}"),
        }
    }
    assert_eq!(found, finders);
}

/// Takes a lock that nobody has. The lock has no lease, so no bug found here comes from a lease
/// that ended.
async fn take(link: &mut GatedConnection) -> RedisResult<bool> {
    send(link, &["SETNX", "lock", "1"]).await
}

async fn release(link: &mut GatedConnection) -> RedisResult<()> {
    send(link, &["DEL", "lock"]).await
}

/// Whether the answer is missing because of a fault.
fn is_fault<T>(answer: &RedisResult<T>) -> bool {
    answer.as_ref().is_err_and(redis::RedisError::is_io_error)
}

/// The time since 1970 on the client's own clock.
fn clock(client: &Client) -> Duration {
    Duration::from_millis(client.env().now_ms().unsigned_abs())
}

/// Two clients, and a probe that takes the lock. If a client gets an error from a fault and does
/// not handle it, the client ends.
fn locking<F>(name: &str, act: impl Fn(Client) -> F + Send + Sync + 'static) -> Scenario
where
    F: Future<Output = RedisResult<()>> + Send + 'static,
{
    Scenario::new(name)
        .actors(2, move |client| {
            let run = act(client);
            async move {
                let ended = run.await;
                if is_fault(&ended) { Ok(()) } else { Ok(ended?) }
            }
        })
        .or_fewer()
        .probe(1, |client| async move { Ok(take(&mut client.connection()).await?) })
}

/// The release runs a script by its hash. The script was loaded once, and the client ignores the
/// reply.
#[test]
fn a_server_has_lost_its_scripts() {
    const UNLOCK: &str = "return redis.call('DEL', KEYS[1])";
    let by_hash = locking("release by hash", |client| async move {
        let mut link = client.connection();
        if take(&mut link).await? {
            let hash = redis::Script::new(UNLOCK).get_hash().to_owned();
            let release = async { send::<()>(&mut link, &["EVALSHA", &hash, "1", "lock"]).await };
            _ = client.hold("section").until(release).await;
        }
        Ok(())
    });
    let by_hash = by_hash.always(NoLeak).before(|client| async move {
        Ok(send(&mut client.connection(), &["SCRIPT", "LOAD", UNLOCK]).await?)
    });
    check(
        &by_hash,
        "flush",
        &["restart", "reload", "unsynced reload", "flush"],
        &expect![[r#"
            step        time  A  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ·  server 1 forgets its scripts
               2       +0 ms  ●  A: SETNX lock 1 → 1
                              │      now lock = "1"
                              ┃    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ●  A: script "return redis.call('DEL',…" lock → NOSCRIPT No matching script. Please use EVAL.
                              │    ▸ A begins its release, and no longer counts as a holder.
                              │      probe1: SETNX lock 1 → 0
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}

/// The release is the last command before the server restarts. It was not yet on disk, so the lock
/// comes back.
#[test]
fn a_server_has_lost_its_last_write() {
    let for_ever = locking("lock without lease", |client| async move {
        let mut link = client.connection();
        if take(&mut link).await? {
            client.hold("section").until(release(&mut link)).await?;
        }
        Ok(())
    });
    check(
        &for_ever.always(NoLeak),
        "unsynced reload",
        &["unsynced reload"],
        &expect![[r#"
            step        time  A  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ●  A: SETNX lock 1 → 1
                              │      now lock = "1"
                              ┃    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ●  A: DEL lock → 1
                              │      now lock is gone
                              │    ▸ A begins its release, and no longer counts as a holder.
               3       +0 ms  │  server 1 restarts, without scripts and without what the last write changed
                              │      probe1: SETNX lock 1 → 0
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}

/// A server that is away gets no release, so the lock stays until its lease ends, but no longer.
/// The server is back before the probe runs.
#[test]
fn a_server_that_is_away_leaks_nothing() {
    let with_lease = locking("lock with lease", |client| async move {
        let mut link = client.connection();
        if send(&mut link, &["SET", "lock", "1", "NX", "PX", "10000"]).await? {
            client.hold("section").until(release(&mut link)).await?;
        }
        Ok(())
    });
    let away = Faults::none().reloads(1).outage(Duration::from_millis(7));
    exhaustive(&with_lease.always(NoLeak).always(Recovers).faults(away)).unwrap();
}

/// The transaction must run only if nobody else took the lock after the `WATCH`. After a fault, the
/// client repeats the failed command only. The new connection watches nothing.
#[test]
fn a_connection_is_no_longer_what_it_was() {
    if BROKEN_CONNECTIONS.is_left_out() {
        return;
    }
    let watching = locking("watch once", |client| async move {
        let mut link = client.connection();
        () = until_answered(&mut link, cmd("WATCH").arg("lock")).await?;
        if until_answered(&mut link, cmd("EXISTS").arg("lock")).await? {
            return Ok(());
        }
        let mut take = redis::pipe();
        take.atomic().cmd("SET").arg(&["lock", "1"]);
        let taken: Option<(String,)> = take.query_async(&mut link).await?;
        if taken.is_some() {
            client.hold("section").until(release(&mut link)).await?;
        }
        Ok(())
    });
    let watching = watching.always(ExclusiveFact::of("section"));
    check(
        &watching,
        "drop",
        &["lost message", "restart", "unsynced reload", "drop"],
        &expect![[r#"
            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: WATCH lock → OK
               2       +0 ms  ● ·  A: EXISTS lock never arrives: the connection has broken
               3       +0 ms  ● ·  A: EXISTS lock → 0
               4       +0 ms  │ ●  B: WATCH lock → OK
               5       +0 ms  │ ●  B: EXISTS lock → 0
               6       +0 ms  │ ●  B: MULTI; SET lock 1; EXEC → [[OK]]
                              │ │      now lock = "1"
                              │ ┃    ▸ B is inside. Its lease runs until +10000 ms.
               7       +0 ms  ● ┃  A: MULTI; SET lock 1; EXEC → [[OK]]
                              │ ┃      now lock = "1"
                              ┃ ┃    ▸ A is inside. Its lease runs until +10000 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

/// Sends a command again until the answer is not a fault.
async fn until_answered<T: FromRedisValue>(link: &mut GatedConnection, cmd: &Cmd) -> RedisResult<T> {
    loop {
        let answer = cmd.query_async(link).await;
        if !is_fault(&answer) {
            return answer;
        }
    }
}

/// If a client cancels a release, it does not know whether it still has the lock.
#[test]
fn a_release_is_cancelled() {
    let hasty = locking("cancelled release", |client| async move {
        let mut link = client.connection();
        if take(&mut link).await? {
            let released = client.hold("section").until(release(&mut link));
            match client.cancellable(released).await {
                Some(released) => released?,
                None => client.hold("section").until(release(&mut link)).await?,
            }
        }
        Ok(())
    });
    let hasty = hasty.always(ExclusiveFact::of("section"));
    check(
        &hasty,
        "cancel",
        &["restart", "unsynced reload", "cancel"],
        &expect![[r#"
            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: SETNX lock 1 → 1
                              │ ·      now lock = "1"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2       +0 ms  ● ·  A: DEL lock → 1
                              │ ·      now lock is gone
                              │ ·    ▸ A begins its release, and no longer counts as a holder.
                              │ ·    ▸ A cancels its operation before the reply arrives.
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ┃ ●  B: SETNX lock 1 → 1
                              ┃ │      now lock = "1"
                              ┃ ┃    ▸ B is inside. Its lease runs until +10000 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

/// A client gives up its release and takes the lock again, which is still its own. Then the late
/// release arrives and frees the lock, because the token is the same.
#[test]
fn a_release_comes_late() {
    const TAKE_OR_HAVE: &str = "--obtain
if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then return 1 end
return redis.call('GET', KEYS[1]) == ARGV[1]";
    const UNLOCK: &str = "--unlock
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end";
    let again = locking("one token for all", |client| async move {
        let token = client.name();
        for _ in 0..if token == "A" { 2 } else { 1 } {
            // One connection per round, as from a pool: a delayed request on one connection does
            // not hold up the next.
            let mut link = client.connection();
            if !send(&mut link, &["EVAL", TAKE_OR_HAVE, "1", "lock", &token]).await? {
                break;
            }
            let unlock = async { send::<()>(&mut link, &["EVAL", UNLOCK, "1", "lock", &token]).await };
            let released = client.hold("section").until(unlock).await;
            if !is_fault(&released) {
                released?;
            }
        }
        Ok(())
    });
    let again = again.always(ExclusiveFact::of("section"));
    check(
        &again,
        "response timeout",
        &["restart", "unsynced reload", "delay", "response timeout"],
        &expect![[r#"
            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A: script obtain lock A → 1
                              │ ·      now lock = "A"
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               2     +500 ms  ● ·  A: script unlock lock A is still on its way, and A gives up waiting
                              │ ·    ▸ A begins its release, and no longer counts as a holder.
                     +500 ms  │ ·  500 ms pass: a client is slow
               3     +500 ms  ● ·  A: script obtain lock A → 1
                              ┃ ·    ▸ A is inside. Its lease runs until +10500 ms.
               4     +500 ms  ● ·  A: script unlock lock A → 1
                              ┃ ·      now lock is gone
                              ┃ ·    ▸ This request comes late: A has given it up.
               5     +500 ms  ┃ ●  B: script obtain lock B → 1
                              ┃ │      now lock = "B"
                              ┃ ┃    ▸ B is inside. Its lease runs until +10500 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.
        "#]],
    );
}

/// A client that releases only while the lease lasts by its own clock. Nothing else ends that
/// lease, because the key has no time to live.
#[test]
fn a_lease_is_measured_by_a_clock_that_can_be_set() {
    let measuring = locking("lease of the client's own", |client| async move {
        let (mut link, since) = (client.connection(), clock(&client));
        if take(&mut link).await? {
            () = send(&mut link, &["PING"]).await?;
            if clock(&client).saturating_sub(since) < LEASE {
                client.hold("section").until(release(&mut link)).await?;
            }
        }
        Ok(())
    });
    check(
        &measuring.always(NoLeak),
        "jump",
        &["stall", "unsynced reload", "response timeout", "jump", "drift", "server drift"],
        &expect![[r#"
            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ●  A: SETNX lock 1 → 1
                              │      now lock = "1"
               2       +0 ms  │  the clock of A jumps by 10001 ms
               3       +0 ms  ●  A: PING → PONG
                              │      probe1: SETNX lock 1 → 0
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 0 of 1 succeed.

            ✗ no client crashed and no message was lost, but only 0 of 1 fresh clients got a grant.
        "#]],
    );
}

/// Two clients that take a lock with a lease. Each then reads the lock and expects to be its holder
/// while the lease lasts by its own clock.
fn looking(name: &str, take: impl Fn(&Client, Duration) -> Cmd + Clone + Send + Sync + 'static) -> Scenario {
    locking(name, move |client| {
        let take = take.clone();
        async move {
            let (mut link, since) = (client.connection(), clock(&client));
            let taken: Option<String> = take(&client, since).query_async(&mut link).await?;
            if taken.is_none() {
                return Ok(());
            }
            let holder: Option<String> = send(&mut link, &["GET", "lock"]).await?;
            let is_over = clock(&client).saturating_sub(since) >= LEASE;
            if is_over || holder == Some(client.name()) {
                return Ok(());
            }
            Err((redis::ErrorKind::Client, "the lock is gone before its lease is over").into())
        }
    })
    .always(Success)
}

#[test]
fn a_lease_is_measured_by_clocks_that_drift() {
    let by_span = looking("lease as a span", |client, _| {
        cmd("SET").arg("lock").arg(client.name()).arg("NX").arg("PX").arg(10_000).to_owned()
    });
    check(
        &by_span,
        "drift",
        &["server jump", "restart", "unsynced reload", "drift", "server drift"],
        &expect![[r#"
            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ·  the clock of A runs 500000 ppm too slow
               2       +0 ms  ●  A: SET lock A NX PX 10000 → OK
                              │      now lock = "A" (10000 ms left)
               3   +10001 ms  │  10001 ms pass: every client is slow
               4   +10001 ms  ●  A: GET lock → (nil)
                              │    ▸ A failed: the lock is gone before its lease is over - Client
                              │      probe1: SETNX lock 1 → 1
                              │      now lock = "1"
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 1 of 1 succeed.
        "#]],
    );
}

#[test]
fn a_lease_is_a_time_of_day() {
    let by_time = looking("lease as a time", |client, since| {
        let until = (since + LEASE).as_millis() as u64;
        cmd("SET").arg("lock").arg(client.name()).arg("NX").arg("PXAT").arg(until).to_owned()
    });
    check(
        &by_time,
        "server skew",
        &["skew", "server jump", "restart", "unsynced reload", "drift", "server drift", "server skew"],
        &expect![[r#"
            step        time  A  ● acts · not begun │ runs
               1       +0 ms  ·  the clock of server 1 is 10001 ms ahead
               2       +0 ms  ●  A: SET lock A NX PXAT 1700000010500 → OK
                              │      now lock is gone
               3       +0 ms  ●  A: GET lock → (nil)
                              │      now lock is gone
                              │    ▸ A failed: the lock is gone before its lease is over - Client
                              │      probe1: SETNX lock 1 → 1
                              │      now lock = "1"
                              │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 1 of 1 succeed.
        "#]],
    );
}

/// Each client first removes the grants that are over by its own lease, not by the lease of their
/// holders.
#[test]
fn leases_differ() {
    const TAKE: &str = "--permit
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, ARGV[1] - ARGV[2])
if redis.call('ZCARD', KEYS[1]) > 0 then return 0 end
return redis.call('ZADD', KEYS[1], ARGV[1], ARGV[3])";
    let act = |client: Client| async move {
        if client.name() == "B" {
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        let (mut link, since) = (client.connection(), client.true_time());
        let mut take = cmd("EVAL");
        take.arg(TAKE).arg(1).arg("permits").arg(since.as_millis() as u64);
        take.arg(client.lease().as_millis() as u64).arg(client.name());
        if take.query_async(&mut link).await? {
            let release = async { send::<()>(&mut link, &["ZREM", "permits", &client.name()]).await };
            client.hold("section").since(since).until(release).await?;
        }
        Ok(())
    };
    let with = |second: Duration| {
        Scenario::new("clean up by lease")
            .faults(Faults::none().stalls(1))
            .lease(LEASE)
            .always(ExclusiveFact::of("section"))
            .actors(1, act)
            .actors_with_lease(1, second, act)
    };
    exhaustive(&with(LEASE)).unwrap();
    let Problem::Violated { timeline, .. } = exhaustive(&with(Duration::from_secs(1))).unwrap_err().problem
    else {
        panic!("the shorter lease ends the longer one")
    };
    expect![[r#"
        step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
           1       +0 ms  ● ·  A: script permit permits 0 10000 A → 1
                          │ ·      now permits = [A 0]
                          ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
           2       +0 ms  ┃ ●  B starts, and has not sent its first command
           3    +2000 ms  ┃ │  2000 ms pass: a client is slow
           4    +2000 ms  ┃ ●  B: script permit permits 2000 1000 B → 1
                          ┃ │      now permits = [B 2000]
                          ┃ ┃    ▸ B is inside. Its lease runs until +3000 ms. Now A and B are inside.

        ✗ A and B hold the lock, each with a lease that still runs.
    "#]]
    .assert_eq(&timeline);
}
