//! Tests the election: its guarantees in every order of commands, and that the explorer finds
//! mutants of its scripts. Other tests see it as its callers do, in virtual time.

use std::time::Duration;

use emulator::{Clock, Emulator};
use harness::oracle::{ExclusiveBelief, ExclusiveFact, Fenced, Recovers, Unbroken};
use harness::{ActorError, Client, Faults, Record, Scenario, exhaustive};
use locks::{Connection, Election, Error, Leader, Leadership, Mutex, Release};
use tokio::time::sleep;

use crate::bounds::LATE_CALLERS;

use super::judged::{fails, note, passes};
use super::rewritten::{Change, Rewritten};

const LEASE: Duration = Duration::from_secs(10);
/// After this and a lease, a key is gone.
const MOMENT: Duration = Duration::from_millis(10);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Renewals of the tests are calls, so that they are marked.
fn election(client: &Client, changes: &'static [Change]) -> Election {
    let connection = Connection::new(Rewritten::new(client.connection(), changes));
    Election::builder(connection, "office").env(client.env()).lease(LEASE).renew(false).build().unwrap()
}

async fn try_campaign(client: &Client, election: &Election) -> Result<Option<Leadership>, ActorError> {
    match election.try_campaign(&client.name()).await {
        Err(Error::TooLate { .. }) => Ok(None),
        other => Ok(other?),
    }
}

/// Campaigns once. If the client is elected, it renews, looks who leads, and resigns. Its term
/// counts as a request to a follower.
async fn lead(client: Client, changes: &'static [Change]) -> Result<(), ActorError> {
    let election = election(&client, changes);
    let since = client.true_time();
    let Some(leadership) = try_campaign(&client, &election).await? else { return Ok(()) };
    client.accepted("follower", leadership.term());
    let record = Record::Key("office".into());
    let hold = client.hold("leading").since(since).record(record.clone()).enter();
    let since = client.true_time();
    match leadership.extend().await {
        Ok(()) => hold.extend(since, record),
        Err(Error::Lost { .. }) => assert!(leadership.is_lost()),
        Err(error) => return Err(error.into()),
    }
    let leader = election.leader().await?;
    let itself = Leader { candidate: client.name(), term: leadership.term() };
    assert!(leadership.is_lost() || leader == Some(itself), "the leader sees {leader:?}");
    note(&client);
    hold.until(leadership.resign()).await?;
    Ok(())
}

fn scenario(candidates: usize, changes: &'static [Change], faults: Faults) -> Scenario {
    let scenario = Scenario::new("election")
        .lease(LEASE)
        .faults(faults)
        .actors(candidates, move |client| lead(client, changes))
        .interchangeable()
        .always(ExclusiveFact::of("leading"))
        .always(Unbroken::of("leading"))
        .always(Fenced::of("follower"));
    if faults.crashes == 0 {
        return scenario;
    }
    let fresh = |client| async move {
        let election = election(&client, &[]);
        Ok(try_campaign(&client, &election).await?.is_some())
    };
    scenario.probe(1, fresh).always(Recovers)
}

#[test]
fn one_leads_at_a_time_and_terms_rise() {
    let alone = |scenario: Scenario| scenario.always(ExclusiveBelief::of("leading", 1));
    passes(alone(scenario(3, &[], Faults::none())));
    passes(alone(scenario(3, &[], Faults::none().lost(1).crashes(1))));
}

#[test]
fn a_late_leader_takes_nothing_back() {
    if LATE_CALLERS.is_left_out() {
        return passes(scenario(2, &[], Faults::none().stalls(1)));
    }
    passes(scenario(2, &[], Faults::none().stalls(1).lost(1)));
    passes(scenario(2, &[], Faults::none().stalls(1).crashes(1)));
    passes(scenario(3, &[], Faults::none().stalls(1)).prompt_replies());
}

/// The server loses its data, and another client may lead before the lease of the first one ends.
/// The first one cannot know, but no renewal of it succeeds after that.
fn restarted(changes: &'static [Change]) -> Scenario {
    let scenario = Scenario::new("restart").lease(LEASE).faults(Faults::none().restarts(1));
    let scenario = scenario.actors(2, move |client| async move {
        let election = election(&client, changes);
        let Some(leadership) = try_campaign(&client, &election).await? else { return Ok(()) };
        let record = Record::Key("office".into());
        let hold = client.hold("leading").record(record.clone()).enter();
        let since = client.true_time();
        if leadership.extend().await.is_ok() {
            hold.extend(since, record);
        }
        hold.until(leadership.resign()).await?;
        Ok(())
    });
    scenario.interchangeable().always(Unbroken::of("leading"))
}

#[test]
fn a_renewal_needs_the_own_token() {
    println!("{} schedules", exhaustive(&restarted(&[])).unwrap().schedules);
}

/// A client that never campaigns looks twice.
fn observed(changes: &'static [Change]) -> Scenario {
    let scenario = Scenario::new("observer").lease(LEASE).faults(Faults::none().stalls(1));
    let scenario = scenario.actors(2, move |client| async move {
        let election = election(&client, changes);
        if let Some(leadership) = try_campaign(&client, &election).await? {
            leadership.resign().await?;
        }
        Ok(())
    });
    scenario.actors(1, move |client| async move {
        let election = election(&client, changes);
        let (first, second) = (election.leader().await?, election.leader().await?);
        if let (Some(first), Some(second)) = (first, second) {
            assert!(first.term <= second.term, "the observer sees {first:?} and then {second:?}");
            let is_same = first.candidate == second.candidate;
            assert!(is_same || first.term < second.term, "the observer sees two of {first:?}");
            note(&client);
        }
        Ok(())
    })
}

#[test]
fn an_observer_sees_terms_rise() {
    passes(observed(&[]));
}

#[test]
fn mutants_are_found() {
    const OF_THE_KEY: Change =
        ("if redis.call('GET', KEYS[1]) ~= ARGV[1] then", "if redis.call('EXISTS', KEYS[1]) == 0 then");
    const OF_ANOTHER: Change =
        ("if holder == token then\n  redis.call('DEL'", "if holder then\n  redis.call('DEL'");
    const TAKEN: Change = ("holder and holder ~= token", "false");
    const EQUAL: Change = ("last + 1", "last");
    const NO_LEASE: Change = ("token, 'PX', lease", "token");
    const NOBODY: Change = ("'candidate', ARGV[6]", "'candidate', ''");
    let (slow, crash) = (Faults::none().stalls(1), Faults::none().crashes(1));
    // A leader renews if there is a leader (n8n-io/n8n#7964).
    fails(&[OF_THE_KEY], restarted(&[OF_THE_KEY]), "unbroken is violated");
    // A leader resigns for another one.
    fails(&[OF_ANOTHER], scenario(2, &[OF_ANOTHER], slow), "the leader sees None");
    fails(&[TAKEN], scenario(2, &[TAKEN], Faults::none()), "the leader sees Some");
    fails(&[EQUAL], scenario(2, &[EQUAL], Faults::none()), "fenced is violated");
    fails(&[NO_LEASE], scenario(2, &[NO_LEASE], crash), "recovers is violated");
    fails(&[NOBODY], scenario(2, &[NOBODY], Faults::none()), "the leader sees");
    fails(&[EQUAL], observed(&[EQUAL]), "the observer sees two");
}

fn server() -> Emulator {
    Emulator::with_clock(Clock::tokio())
}

fn office(server: &Emulator) -> locks::Builder<Election> {
    Election::builder(Connection::new(server.connection()), "office").lease(LEASE)
}

#[tokio::test(start_paused = true)]
async fn a_leader_leads_until_it_resigns_or_is_gone() {
    let server = server();
    let election = office(&server).build().unwrap();
    assert_eq!(election.leader().await.unwrap(), None);
    let first = election.campaign("first").await.unwrap();
    assert!(election.try_campaign("second").await.unwrap().is_none());
    let waits = election.campaign_timeout(LEASE / 2, "second").await;
    assert!(matches!(waits, Err(Error::TimedOut { .. })));
    let next = tokio::spawn({
        let election = election.clone();
        async move { election.campaign("second").await.unwrap() }
    });
    sleep(20 * LEASE).await;
    assert!(!first.is_lost(), "it is renewed");
    let leader = Leader { candidate: "first".into(), term: first.term() };
    assert_eq!(election.leader().await.unwrap(), Some(leader));
    let term = first.term();
    assert_eq!(first.resign().await.unwrap(), Release::Released);
    let second = next.await.unwrap();
    assert!(second.term() > term);
    let leader = Leader { candidate: "second".into(), term: second.term() };
    assert_eq!(election.leader().await.unwrap(), Some(leader));
    drop(second);
    sleep(MOMENT).await;
    assert_eq!(election.leader().await.unwrap(), None, "a task resigns");
    sleep(2 * DAY).await;
    assert_eq!(server.keys("*"), Vec::<bytes::Bytes>::new(), "nothing is left");
}

#[tokio::test(start_paused = true)]
async fn an_expired_leader_gets_nothing_back() {
    let server = server();
    let election = office(&server).renew(false).build().unwrap();
    let first = election.campaign("first").await.unwrap();
    sleep(LEASE + MOMENT).await;
    assert!(first.is_lost());
    assert_eq!(election.leader().await.unwrap(), None);
    // The same candidate is another leader, since the term is another one.
    let second = election.campaign("first").await.unwrap();
    assert!(second.term() > first.term());
    assert!(matches!(first.extend().await, Err(Error::Lost { .. })));
    assert_eq!(first.resign().await.unwrap(), Release::NotHeld);
    let leader = Leader { candidate: "first".into(), term: second.term() };
    assert_eq!(election.leader().await.unwrap(), Some(leader));
    // Also if nobody leads, a renewal takes nothing back.
    sleep(LEASE + MOMENT).await;
    assert!(matches!(second.extend().await, Err(Error::Lost { .. })));
    assert_eq!(election.leader().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn the_last_term_is_kept_for_a_day_after_the_last_renewal() {
    let server = server();
    let election = office(&server).build().unwrap();
    let leadership = election.campaign("first").await.unwrap();
    sleep(3 * DAY).await;
    assert!(!leadership.is_lost());
    assert!(server.ttl("{office}:fence").unwrap() > DAY - LEASE);
    let term = String::from_utf8(server.get("{office}:fence").unwrap().to_vec()).unwrap();
    assert_eq!(term, leadership.term().to_string());
}

#[tokio::test(start_paused = true)]
async fn a_mutex_of_its_name_excludes_it_and_does_not_lead() {
    let server = server();
    let mutex = Mutex::builder(Connection::new(server.connection()), "office").fenced().build().unwrap();
    let election = office(&server).build().unwrap();
    let leadership = election.campaign("first").await.unwrap();
    let term = leadership.term();
    assert!(mutex.try_lock().await.unwrap().is_none());
    leadership.resign().await.unwrap();
    let guard = mutex.try_lock().await.unwrap().unwrap();
    assert!(guard.fencing_token().unwrap() > term);
    assert!(election.try_campaign("second").await.unwrap().is_none());
    assert!(server.exists("{office}:leader"), "the last leader is still there");
    assert_eq!(election.leader().await.unwrap(), None);
    let fenced = guard.fencing_token().unwrap();
    guard.release().await.unwrap();
    assert!(election.campaign("second").await.unwrap().term() > fenced);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_has_a_name_of_some_length() {
    let server = server();
    let election = office(&server).build().unwrap();
    for (candidate, reason) in [("", "is empty"), (&*"x".repeat(1025), "at most 1024 bytes, and not 1025")] {
        let error = election.try_campaign(candidate).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    assert!(election.try_campaign(&"x".repeat(1024)).await.unwrap().is_some());
}
