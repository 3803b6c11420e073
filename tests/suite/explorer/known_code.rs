//! The code of a client runs again only where it is not known what it does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use expect_test::expect;
use harness::client::GatedConnection;
use harness::execution::{Learning, Runner};
use harness::explore::{Dpor, Exploration, explore_all};
use harness::oracle::ExclusiveFact;
use harness::{ActorError, Client, Faults, Scenario, exhaustive};
use locks::Subscribe as _;
use tokio::task::JoinSet;

use super::oracles::{SOUND, send};

/// Explores a client, and returns how often its code ran.
fn explore<F>(faults: Faults, act: fn(Client) -> F) -> (Exploration, u64)
where
    F: Future<Output = Result<(), ActorError>> + Send + 'static,
{
    let runs: Arc<AtomicU64> = Arc::default();
    let counted = runs.clone();
    let scenario = Scenario::new("counts").always(ExclusiveFact::of("cs")).faults(faults);
    let scenario = scenario.actors(3, move |client| {
        counted.fetch_add(1, Ordering::Relaxed);
        act(client)
    });
    (exhaustive(&scenario).unwrap(), runs.load(Ordering::Relaxed))
}

/// It holds a lock, which a task renews meanwhile.
async fn renews(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    if !send(&mut link, SOUND.take).await? {
        return Ok(());
    }
    let mut renewal = JoinSet::new();
    let mut second = link.clone();
    renewal.spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            if send::<i64>(&mut second, &["PEXPIRE", "lock", "10000"]).await.is_err() {
                return;
            }
        }
    });
    let released = client.hold("cs").during(tokio::time::sleep(Duration::from_secs(5))).await;
    drop(renewal);
    send::<()>(&mut link, &["DEL", "lock"]).await?;
    Ok(released)
}

/// It waits for the lock until it is told that the lock is free.
async fn listens(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    let mut subscription = link.subscribe("free").await?;
    while !send(&mut link, SOUND.take).await? {
        subscription.message().await?;
    }
    drop(subscription);
    client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
    Ok(send(&mut link, &["PUBLISH", "free", "now"]).await?)
}

/// It spawns a task when its guard is dropped.
async fn spawns_when_dropped(client: Client) -> Result<(), ActorError> {
    struct Guard(Option<GatedConnection>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let mut link = self.0.take().expect("a guard is dropped once");
            tokio::spawn(async move { send::<()>(&mut link, &["PING"]).await });
        }
    }
    let mut link = client.connection();
    if send(&mut link, SOUND.take).await? {
        let _guard = Guard(Some(link.clone()));
        client.hold("cs").during(send::<()>(&mut link, &["PING"])).await?;
    }
    Ok(())
}

/// A crashed client's destructors run. Their tasks are its own, and do nothing. If they counted as
/// tasks of another client, that one could wait for ever.
#[test]
fn a_task_of_a_destructor_belongs_to_the_client_that_crashed() {
    explore(Faults::none().crashes(1).stalls(1), spawns_when_dropped);
}

/// It gives up a request, closes that connection, and then opens two others. The places that these
/// take must not depend on whether the request has run.
async fn gives_up(client: Client) -> Result<(), ActorError> {
    _ = send::<bool>(&mut client.connection(), SOUND.take).await;
    let mut second = client.connection();
    send::<()>(&mut second, &["GET", "lock"]).await?;
    let mut third = client.connection();
    Ok(send(&mut third, &["GET", "lock"]).await?)
}

#[test]
fn a_request_on_its_way_takes_no_connection_away() {
    let scenario = Scenario::new("gives up").faults(Faults::none().delays(1)).actors(2, gives_up);
    explore_all(&mut Runner::new().learning(Learning::Eager), &scenario).unwrap();
}

/// With three clients, most executions repeat what some client has done before.
#[test]
fn a_client_runs_once_for_each_local_state() {
    let rows = [
        ("a task of its own", explore(Faults::none().crashes(2), renews)),
        ("a subscription", explore(Faults::none(), listens)),
    ];
    for (what, (Exploration { schedules, .. }, runs)) in rows {
        assert!(runs < schedules, "{what}: the code ran {runs} times in {schedules} schedules");
    }
}

/// It waits for another client at most for a while.
async fn waits_for_a_while(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    for _ in 0..2 {
        if send(&mut link, SOUND.take).await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    let get = send::<Option<String>>(&mut link, &["GET", "lock"]);
    Ok(_ = tokio::time::timeout(Duration::from_secs(1), get).await)
}

/// It reads its clock inside of an operation that may be cancelled.
async fn reads_its_clock(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    let set = async |link: &mut GatedConnection| {
        let now = client.now().as_millis().to_string();
        send::<()>(link, &["SET", "now", &now]).await
    };
    _ = client.cancellable(set(&mut link)).await;
    Ok(send(&mut link, &["DEL", "now"]).await?)
}

/// How many executions there are, and how often code starts in them. If a lesson shows what an
/// execution needs, the code of one client starts once more, and not that of all.
#[test]
fn code_starts_as_often_as_there_are_lessons() {
    fn starts<F>(faults: Faults, act: fn(Client) -> F) -> (u64, u64)
    where
        F: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let starts: Arc<AtomicU64> = Arc::default();
        let counted = starts.clone();
        let scenario = Scenario::new("starts").faults(faults).actors(2, move |client| {
            counted.fetch_add(1, Ordering::Relaxed);
            act(client)
        });
        let (mut runner, mut dpor) = (Runner::new().learning(Learning::Eager), Dpor::default());
        let mut executions = 0;
        while dpor.run_next(&mut runner, &scenario).is_some() {
            executions += 1;
        }
        (executions, starts.load(Ordering::Relaxed))
    }
    let none = Faults::none();
    let rows = [
        ("a task of its own", starts(none.crashes(1), renews)),
        ("a subscription", starts(none.lost(1), listens)),
        ("a timeout", starts(none.stalls(1), waits_for_a_while)),
        ("lost messages", starts(none.lost(1), waits_for_a_while)),
        ("a clock that jumps", starts(none.jump(Duration::from_secs(1)), reads_its_clock)),
        ("a cancel", starts(none.cancels(1).stalls(1), reads_its_clock)),
    ];
    let lines = rows.map(|(what, (executions, starts))| format!("{what}: {executions} {starts}\n"));
    expect![[r#"
        a task of its own: 74 24
        a subscription: 192 93
        a timeout: 164 152
        lost messages: 39 36
        a clock that jumps: 54 28
        a cancel: 1016 82
    "#]]
    .assert_eq(&lines.concat());
}
