//! Tests idempotency keys: what they guarantee in every order of commands, and that the explorer
//! finds mutants of their scripts. Other tests see them as their callers do, in virtual time.

use std::time::Duration;

use emulator::{Clock, Effect, Emulator, Fault};
use harness::oracle::{AtMostOnce, ExactlyOnce, Recovers, Unbroken};
use harness::{ActorError, Client, Faults, Record, Scenario, exhaustive};
use locks::{Begin, Builder, Connection, Counters, Error, IdempotencyKeys, Release};
use tokio::time::{sleep, timeout};

use crate::bounds::LATE_CALLERS;

use super::judged::{fails, note, passes};
use super::rewritten::{Change, Rewritten};

const LEASE: Duration = Duration::from_secs(10);
/// After this and a lease, a key is gone.
const MOMENT: Duration = Duration::from_millis(10);
const RETENTION: Duration = Duration::from_secs(3_600);
const KEY: &str = "7f3a";

fn keys(client: &Client, changes: &'static [Change]) -> IdempotencyKeys {
    let connection = Connection::new(Rewritten::new(client.connection(), changes));
    let builder = IdempotencyKeys::builder(connection, "payments").env(client.env()).lease(LEASE);
    builder.retention(RETENTION).build().unwrap()
}

/// Begins, or finds that the reply came too late.
async fn begin(keys: &IdempotencyKeys) -> Result<Option<Begin>, ActorError> {
    match keys.begin(KEY).await {
        Err(Error::TooLate { .. }) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// Handles a request. If it is the first, the customer is charged, and the result is the name of
/// the client. Whoever has completed finds its own result later.
///
/// A claim must not be lost before its lease has ended in true time. A completion counts as one
/// more grant, before which no other caller may have begun. What happens after the first retention
/// is not judged.
async fn handle(client: Client, changes: &'static [Change]) -> Result<(), ActorError> {
    let keys = keys(&client, changes);
    let mut since = client.true_time();
    let claim = match begin(&keys).await? {
        Some(Begin::Begun(claim)) => claim,
        Some(Begin::Done(result)) => {
            assert!(result.len() == 1, "the result is {result:?}");
            note(&client);
            return Ok(());
        }
        Some(Begin::InProgress) | None => return Ok(()),
    };
    let hold = client.hold("operation").since(since).record(record()).enter();
    let renewed_at = client.true_time();
    match claim.extend().await {
        Ok(()) => {
            since = renewed_at;
            hold.extend(since, record());
        }
        Err(Error::Lost { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    client.did("charge");
    let completed_at = client.true_time();
    let is_early = || client.true_time() < RETENTION;
    match claim.complete(client.name()).await {
        Ok(()) => {
            hold.extend(completed_at, record());
            if is_early() {
                client.did("keep");
            }
            let again = begin(&keys).await?;
            let is_own = matches!(&again, Some(Begin::Done(result)) if *result == client.name().as_bytes());
            assert!(is_own || !is_early(), "it finds {again:?}");
        }
        Err(Error::Lost { .. }) => {
            let lasted = client.true_time() - since;
            assert!(lasted >= LEASE, "the claim is lost after {lasted:?}");
        }
        Err(error) => return Err(error.into()),
    }
    note(&client);
    Ok(())
}

fn record() -> Record {
    Record::Key("payments:7f3a".into())
}

/// Begins, and gives up.
async fn abandon(client: Client, changes: &'static [Change]) -> Result<(), ActorError> {
    if let Some(Begin::Begun(claim)) = begin(&keys(&client, changes)).await? {
        claim.abandon().await?;
    }
    note(&client);
    Ok(())
}

/// Whatever happens, one result is kept at most, and nobody else has begun before that. When all
/// clients are gone, the operation can be begun, or is done.
fn payment(requests: usize, changes: &'static [Change], faults: Faults) -> Scenario {
    let scenario = Scenario::new("payment")
        .lease(LEASE)
        .faults(faults)
        .actors(requests, move |client| handle(client, changes))
        .interchangeable()
        .always(AtMostOnce::of("keep"))
        .always(Unbroken::of("operation"));
    if faults.crashes == 0 {
        return scenario;
    }
    let fresh = |client| async move {
        let begun = begin(&keys(&client, &[])).await?;
        Ok(!matches!(begun, Some(Begin::InProgress)))
    };
    scenario.probe(1, fresh).always(Recovers)
}

/// One client gives up meanwhile.
fn abandoned(changes: &'static [Change], faults: Faults) -> Scenario {
    payment(2, changes, faults).actors(1, move |client| abandon(client, changes))
}

#[test]
fn an_operation_runs_once() {
    passes(payment(3, &[], Faults::none()).always(ExactlyOnce::of("charge")));
    let once = |scenario: Scenario| scenario.always(AtMostOnce::of("charge"));
    passes(once(payment(2, &[], Faults::none().lost(1))));
    passes(once(payment(2, &[], Faults::none().crashes(1))));
    passes(once(abandoned(&[], Faults::none())));
}

#[test]
fn a_late_caller_does_not_overwrite_the_result_of_another() {
    if LATE_CALLERS.is_left_out() {
        return passes(payment(2, &[], Faults::none().stalls(1)));
    }
    passes(payment(2, &[], Faults::none().stalls(1).crashes(1)));
    passes(payment(2, &[], Faults::none().stalls(1).lost(1)).prompt_replies());
    passes(abandoned(&[], Faults::none().stalls(1)).prompt_replies());
}

/// The server loses its data, and another caller may begin. No renewal of the first one succeeds
/// after that.
fn restarted(changes: &'static [Change]) -> Scenario {
    let scenario = Scenario::new("restart").lease(LEASE).faults(Faults::none().restarts(1));
    let scenario = scenario.actors(2, move |client| async move {
        let Some(Begin::Begun(claim)) = begin(&keys(&client, changes)).await? else { return Ok(()) };
        let hold = client.hold("operation").record(record()).enter();
        let since = client.true_time();
        if claim.extend().await.is_ok() {
            hold.extend(since, record());
        }
        hold.until(claim.abandon()).await?;
        Ok(())
    });
    scenario.interchangeable().always(Unbroken::of("operation"))
}

#[test]
fn a_renewal_needs_the_own_token() {
    println!("{} schedules", exhaustive(&restarted(&[])).unwrap().schedules);
}

/// The documentation says so: a lease cannot stop a caller that stalls.
#[test]
fn a_caller_that_outlives_its_claim_may_run_beside_the_next() {
    let slow = payment(2, &[], Faults::none().stalls(1)).always(AtMostOnce::of("charge"));
    fails(&[], slow, "has done «charge», and");
}

#[test]
fn mutants_are_found() {
    const CLAIMED_ANYWAY: Change = (
        "redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], 'token') ~= ARGV[1]",
        "redis.call('HEXISTS', KEYS[1], 'result') == 1",
    );
    const ENDLESS: Change = ("redis.call('PEXPIRE', KEYS[1], ARGV[2])\nreturn {1, 0}", "return {1, 0}");
    const OVERWRITES: Change =
        ("if redis.call('HGET', KEYS[1], 'token') == token then", "if result or true then");
    const RENEWS_ANOTHER: Change = (
        "if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then\n  return redis.call('PEXPIRE'",
        "if redis.call('EXISTS', KEYS[1]) == 1 then\n  return redis.call('PEXPIRE'",
    );
    const FORGETS: Change =
        ("return result and redis.call('HGET', KEYS[1], 'by') == token and 1 or 0", "return 0");
    const ENDS_ANOTHER: Change = (
        "local token, result = ARGV[1], ARGV[6]",
        "local token, result = redis.call('HGET', KEYS[1], 'token') or '', ARGV[6]",
    );
    let (slow, lost) = (Faults::none().stalls(1), Faults::none().lost(1));
    // A claim is written over another one (idempot-dev/idempot-js#182).
    fails(&[CLAIMED_ANYWAY], payment(2, &[CLAIMED_ANYWAY], Faults::none()), "the claim is lost after 0ns");
    fails(&[ENDLESS], payment(2, &[ENDLESS], Faults::none().crashes(1)), "recovers is violated");
    fails(&[OVERWRITES], payment(2, &[OVERWRITES], slow), "at-most-once is violated");
    fails(&[RENEWS_ANOTHER], restarted(&[RENEWS_ANOTHER]), "unbroken is violated");
    fails(&[FORGETS], payment(2, &[FORGETS], lost), "the claim is lost after");
    fails(&[ENDS_ANOTHER], abandoned(&[ENDS_ANOTHER], slow).prompt_replies(), "the claim is lost after");
}

fn server() -> Emulator {
    Emulator::with_clock(Clock::tokio())
}

fn payments(server: &Emulator) -> Builder<IdempotencyKeys> {
    IdempotencyKeys::builder(Connection::new(server.connection()), "payments").lease(LEASE)
}

#[tokio::test(start_paused = true)]
async fn a_result_is_kept_for_the_retention() {
    let (server, counters) = (server(), Counters::default());
    let payments = payments(&server).retention(RETENTION).counters(&counters).build().unwrap();
    let Begin::Begun(claim) = payments.begin("a").await.unwrap() else { panic!() };
    assert!(matches!(payments.begin("a").await.unwrap(), Begin::InProgress));
    let Begin::Begun(other) = payments.begin("b {").await.unwrap() else { panic!("keys are apart") };
    claim.complete([0, 255, 10]).await.unwrap();
    other.complete("").await.unwrap();
    sleep(RETENTION - LEASE).await;
    for (key, expected) in [("a", &[0, 255, 10][..]), ("b {", &[])] {
        let Begin::Done(result) = payments.begin(key).await.unwrap() else { panic!("{key}") };
        assert_eq!(result, expected);
    }
    assert_eq!((counters.acquired(), counters.refused(), counters.released()), (2, 3, 2));
    sleep(LEASE + MOMENT).await;
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new(), "nothing is left");
    assert!(matches!(payments.begin("a").await.unwrap(), Begin::Begun(_)));
}

#[tokio::test(start_paused = true)]
async fn a_claim_can_be_abandoned_or_dropped() {
    let server = server();
    let payments = payments(&server).build().unwrap();
    let Begin::Begun(claim) = payments.begin(KEY).await.unwrap() else { panic!() };
    assert_eq!(claim.abandon().await.unwrap(), Release::Released);
    let Begin::Begun(claim) = payments.begin(KEY).await.unwrap() else { panic!() };
    drop(claim);
    sleep(MOMENT).await;
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new());
}

#[tokio::test(start_paused = true)]
async fn a_claim_ends_with_its_lease_and_the_late_caller_learns_it() {
    let server = server();
    let payments = payments(&server).build().unwrap();
    let Begin::Begun(late) = payments.begin(KEY).await.unwrap() else { panic!() };
    sleep(LEASE + MOMENT).await;
    assert!(late.is_lost());
    let Begin::Begun(next) = payments.begin(KEY).await.unwrap() else { panic!() };
    let error = late.complete("late").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "lock \"payments:7f3a\": lost: its time is over, or the server no longer has it"
    );
    next.complete("next").await.unwrap();
    let Begin::Done(result) = payments.begin(KEY).await.unwrap() else { panic!() };
    assert_eq!(result, b"next");
    // Also if nobody has begun since.
    let Begin::Begun(late) = payments.begin("other").await.unwrap() else { panic!() };
    sleep(LEASE + MOMENT).await;
    assert!(matches!(late.complete("late").await, Err(Error::Lost { .. })));
    assert!(!server.exists("payments:other"));
}

#[tokio::test(start_paused = true)]
async fn without_a_lease_a_claim_is_renewed() {
    let server = server();
    let payments =
        IdempotencyKeys::builder(Connection::new(server.connection()), "payments").build().unwrap();
    let Begin::Begun(claim) = payments.begin(KEY).await.unwrap() else { panic!() };
    sleep(RETENTION).await;
    assert!(matches!(payments.begin(KEY).await.unwrap(), Begin::InProgress));
    claim.complete("done").await.unwrap();
    let ttl = server.ttl("payments:7f3a").unwrap();
    assert_eq!(ttl, Duration::from_secs(24 * 60 * 60));
    sleep(RETENTION).await;
    assert!(server.ttl("payments:7f3a").unwrap() < ttl, "no renewal outlives the completion");
}

/// The operation has run, so its claim must not be abandoned if the server fails, or if the caller
/// waits no longer.
#[tokio::test(start_paused = true)]
async fn a_completion_that_fails_is_tried_once_more() {
    let server = server();
    let payments = payments(&server).build().unwrap();
    let Begin::Begun(claim) = payments.begin(KEY).await.unwrap() else { panic!() };
    for _ in 0..3 {
        server.place(Fault::new(Effect::DropBefore).command("EVALSHA"));
    }
    let error = claim.complete("done").await.unwrap_err().to_string();
    assert!(error.starts_with("lock \"payments:7f3a\": cannot complete: "), "{error}");
    sleep(MOMENT).await;
    let Begin::Done(result) = payments.begin(KEY).await.unwrap() else { panic!() };
    assert_eq!(result, b"done");

    let Begin::Begun(claim) = payments.begin("other").await.unwrap() else { panic!() };
    server.place(Fault::new(Effect::DropBefore).command("EVALSHA"));
    assert!(timeout(MOMENT, claim.complete("done")).await.is_err());
    sleep(MOMENT).await;
    assert!(matches!(payments.begin("other").await.unwrap(), Begin::Done(_)));
}

#[tokio::test(start_paused = true)]
async fn settings_and_keys_that_make_no_sense_are_errors() {
    let server = server();
    for (retention, part) in
        [(Duration::ZERO, "`retention` is at least"), (Duration::MAX, "`retention` is at most")]
    {
        let error = payments(&server).retention(retention).build().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = payments(&server).fair().build().unwrap_err().to_string();
    assert!(error.contains("has no queue"), "{error}");
    let error = payments(&server).build().unwrap().begin("").await.unwrap_err().to_string();
    assert!(error.contains("the key is empty"), "{error}");
}
