//! Clients that repeat commands. A loop that goes on for ever is explored as a wait; a loop that
//! gives up is not.

use std::time::Duration;

use harness::actor::Actor;
use harness::execution::{Choice, Policy, Runner};
use harness::explore::run;
use harness::oracle::{ExclusiveBelief, ExclusiveFact};
use harness::schedule::Step;
use harness::trace::History;
use harness::{ActorError, Client, Faults, Scenario, exhaustive};

use super::oracles::{SOUND, expect_violation, send};

/// Lets A act as long as it does not wait, but for at most this many steps.
struct Prefers(usize);

impl Policy for Prefers {
    fn choose(&mut self, enabled: &[Step], history: &History) -> Choice {
        let of_a = enabled.iter().position(|step| step.actor() == Some(Actor(0)));
        Choice::Take(of_a.filter(|_| history.steps.len() < self.0).unwrap_or(enabled.len() - 1))
    }
}

/// Each try begins with a heartbeat, to which the reply is always the same. Two equal reads follow.
/// Such a client does not wait: others can see how often its heart has beaten.
#[test]
fn a_client_that_sends_heartbeats_does_not_wait() {
    let scenario =
        Scenario::new("heartbeats").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
            let mut connection = client.connection();
            for beat in 0.. {
                () = redis::cmd("SET").arg("beat").arg(beat).query_async(&mut connection).await?;
                for _ in 0..2 {
                    if redis::cmd("EXISTS").arg("go").query_async(&mut connection).await? {
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
    let scenario = scenario.actors(1, |client| async move {
        Ok(redis::cmd("SET").arg("go").arg(1).exec_async(&mut client.connection()).await?)
    });
    let history = run(&mut Runner::new(), &scenario, &mut Prefers(30)).unwrap();
    let first_of_b = history.steps.iter().position(|step| step.actor() == Some(Actor(1)));
    assert_eq!(first_of_b, Some(30));
}

/// The tries are equal, but time passes between them, or between their commands. The client may
/// count it.
#[test]
fn a_client_that_sleeps_between_its_tries_does_not_wait() {
    for is_amid in [false, true] {
        let scenario = Scenario::new("polls").always(ExclusiveFact::of("cs"));
        let scenario = scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            let pause = Duration::from_secs(1);
            while !send(&mut link, &["EXISTS", "go"]).await? {
                if is_amid {
                    tokio::time::sleep(pause).await;
                }
                send::<()>(&mut link, &["PING"]).await?;
                if !is_amid {
                    tokio::time::sleep(pause).await;
                }
            }
            Ok(())
        });
        let scenario = scenario.actors(1, |client| async move {
            tokio::time::sleep(Duration::from_millis(9_500)).await;
            Ok(send::<()>(&mut client.connection(), &["SET", "go", "1"]).await?)
        });
        let history = run(&mut Runner::new(), &scenario, &mut Prefers(0)).unwrap();
        let of_a = history.steps.iter().filter(|step| step.actor() == Some(Actor(0)));
        assert_eq!(of_a.count(), 21);
    }
}

/// Waits until the other client says so, and then tries five times to get the lock. It goes
/// on without it.
async fn waits_and_tries(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    while !send(&mut link, &["EXISTS", "go"]).await? {}
    for _ in 0..5 {
        if send(&mut link, &["SET", "lock", "B", "NX"]).await? {
            return Ok(());
        }
    }
    let _hold = client.hold("cs").enter();
    Ok(send(&mut link, &["PING"]).await?)
}

async fn lets_go(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    if send(&mut link, &["SET", "lock", "A", "NX"]).await? {
        send::<()>(&mut link, &["SET", "go", "1"]).await?;
        client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
    }
    Ok(())
}

#[test]
fn each_loop_of_a_client_is_judged_by_itself() {
    let scenario = || Scenario::new("two loops").always(ExclusiveFact::of("cs"));
    let waits_first = scenario().actors(1, waits_and_tries).actors(1, lets_go);
    expect_violation(&waits_first, "exclusive-fact", 8);
    let waits_last = scenario().actors(1, lets_go).actors(1, waits_and_tries);
    expect_violation(&waits_last, "exclusive-fact", 8);
}

/// The command that ends the tries looks like one more try: it has the same name and key.
#[test]
fn a_client_that_takes_the_lock_by_force_gives_up_its_tries() {
    let scenario = Scenario::new("by force").always(ExclusiveFact::of("cs"));
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        let mut is_granted = false;
        for _ in 0..5 {
            is_granted = is_granted || send(&mut link, &["SET", "lock", "A", "NX"]).await?;
        }
        if !is_granted {
            send::<()>(&mut link, &["SET", "lock", "A"]).await?;
        }
        client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        while !send(&mut link, &["EXISTS", "go"]).await? {}
        Ok(())
    });
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        if send(&mut link, &["SET", "lock", "B", "NX"]).await? {
            client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(send(&mut link, &["SET", "go", "1"]).await?)
    });
    expect_violation(&scenario, "exclusive-fact", 7);
}

/// Takes the lock, and keeps it until the lease ends or another client has given up.
async fn keeps(client: Client) -> Result<(), ActorError> {
    let mut link = client.connection();
    if send(&mut link, &["SET", "lock", "A", "NX", "PX", "10000"]).await? {
        let _hold = client.hold("cs").enter();
        while !send(&mut link, &["EXISTS", "gave-up"]).await? && client.true_time() < Duration::from_secs(10)
        {
        }
    }
    Ok(())
}

/// Nothing expires at the deadline of the second client, and nobody wakes up.
#[test]
fn a_spinning_client_gives_up_at_its_deadline() {
    let scenario = Scenario::new("a deadline").always(ExclusiveFact::of("cs")).actors(1, keeps);
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        let start = client.true_time();
        while !send(&mut link, &["SET", "lock", "B", "NX", "PX", "10000"]).await? {
            if client.true_time() - start >= Duration::from_secs(2) {
                client.hold("cs").until(send::<()>(&mut link, &["SET", "gave-up", "1"])).await?;
                return Ok(());
            }
        }
        Ok(())
    });
    expect_violation(&scenario, "exclusive-fact", 9);
}

/// The first client never ends, and its key does not expire.
#[test]
fn a_timeout_ends_the_tries_of_a_client() {
    let scenario =
        Scenario::new("a timeout").always(ExclusiveFact::of("cs")).actors(2, |client| async move {
            let mut link = client.connection();
            let takes = async {
                while !send(&mut link, &["SET", "lock", &client.name(), "NX"]).await? {}
                Ok::<_, ActorError>(client.hold("cs").enter())
            };
            let is_granted = tokio::time::timeout(Duration::from_secs(2), takes).await;
            is_granted.map_or(Ok(()), |hold| hold.map(drop))
        });
    exhaustive(&scenario).unwrap();
}

/// A client that stops waiting for a reply after half a second tries until a lease ends.
#[test]
fn a_client_that_spins_gets_its_replies_in_time() {
    let holder = |name| {
        Scenario::new(name).always(ExclusiveFact::of("cs")).actors(1, |client| async move {
            let mut link = client.connection();
            send::<()>(&mut link, &["SET", "lock", "A", "PX", "10000"]).await?;
            drop(client.hold("cs").enter());
            Ok(())
        })
    };
    let multiplexed = holder("multiplexed").actors(1, |client| async move {
        let mut link = client.multiplexed().await?;
        let mut take = redis::cmd("SET");
        take.arg(&["lock", "B", "NX"]);
        while !take.query_async::<bool>(&mut link).await? {}
        Ok(())
    });
    exhaustive(&multiplexed).unwrap();
    let impatient = holder("response timeout").response_timeout(Duration::from_millis(500));
    let impatient = impatient.actors(1, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["SET", "lock", "B", "NX"]).await? {}
        Ok(())
    });
    exhaustive(&impatient).unwrap();
}

/// A client ends its tries by another command, or by entering.
#[test]
fn a_client_that_goes_on_without_the_lock_gives_up_its_tries() {
    for (notes_it, steps) in [(true, 7), (false, 6)] {
        let scenario =
            Scenario::new("goes on").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
                let mut link = client.connection();
                if send(&mut link, &["SET", "lock", "A", "NX"]).await? {
                    client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
                }
                Ok(send(&mut link, &["SET", "go", "1"]).await?)
            });
        let scenario = scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            for _ in 0..5 {
                if send(&mut link, &["SET", "lock", "B", "NX"]).await? {
                    return Ok(());
                }
            }
            if notes_it {
                send::<()>(&mut link, &["SET", "without", "1"]).await?;
            }
            let _hold = client.hold("cs").enter();
            while !send(&mut link, &["EXISTS", "go"]).await? {}
            Ok(())
        });
        expect_violation(&scenario, "exclusive-fact", steps);
    }
}

/// The first execution lets A run to its end, so B gives up when nobody else has a step left. B
/// tries on its second connection.
#[test]
fn the_last_client_gives_up_its_tries() {
    let scenario = Scenario::new("last").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        if send(&mut link, &["SET", "lock", "A", "NX"]).await? {
            let _hold = client.hold("cs").enter();
            send::<()>(&mut link, &["INCR", "counter"]).await?;
        }
        Ok(())
    });
    let scenario = scenario.actors(1, |client| async move {
        let (_idle, mut link) = (client.connection(), client.connection());
        for _ in 0..5 {
            if send(&mut link, &["SET", "lock", "B", "NX"]).await? {
                return Ok(());
            }
        }
        drop(client.hold("cs").enter());
        Ok(())
    });
    expect_violation(&scenario, "exclusive-fact", 6);
}

/// One client tries for ever to get the lock, and later on only five times, with equal commands.
#[test]
fn a_loop_in_the_second_round_is_judged_by_itself() {
    let scenario = Scenario::new("rounds").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        for _ in 0..2 {
            while !send(&mut link, &["SET", "lock", "1", "NX"]).await? {}
            let hold = client.hold("cs").enter();
            send::<()>(&mut link, &["INCR", "counter"]).await?;
            hold.until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        }
        Ok(())
    });
    let scenario = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["SET", "lock", "1", "NX"]).await? {}
        client.hold("cs").until(send::<()>(&mut link, &["DEL", "lock"])).await?;
        for _ in 0..5 {
            if send(&mut link, &["SET", "lock", "1", "NX"]).await? {
                return Ok(send(&mut link, &["DEL", "lock"]).await?);
            }
        }
        drop(client.hold("cs").enter());
        Ok(())
    });
    expect_violation(&scenario, "exclusive-fact", 8);
}

/// The first client waits for ever. The second one has a timeout, and the first one waits for that.
#[test]
fn a_timeout_ends_tries_after_another_client_has_waited() {
    let waits = Scenario::new("waits").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, &["EXISTS", "go"]).await? {}
        drop(client.hold("cs").enter());
        Ok(())
    });
    let times_out = waits.actors(1, |client| async move {
        let mut link = client.connection();
        while send(&mut link, &["SET", "lock", "B", "NX"]).await? {}
        let takes = async { while let Ok(false) = send(&mut link, &["SET", "lock", "B", "NX"]).await {} };
        assert!(tokio::time::timeout(Duration::from_secs(2), takes).await.is_err());
        Ok(send(&mut client.connection(), &["SET", "go", "1"]).await?)
    });
    exhaustive(&times_out).unwrap();
}

/// The key ends before the timer, and one client waits for that. A stall of the other client goes
/// on. No threshold leads to the timer, because it is above two leases.
#[test]
fn a_stall_does_not_end_with_the_next_change() {
    let scenario = Scenario::new("stalls").always(ExclusiveFact::of("cs"));
    let scenario = scenario.before(|client| async move {
        Ok(send::<()>(&mut client.connection(), &["SET", "lock", "1", "PX", "3000"]).await?)
    });
    let spins = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        while send(&mut link, &["EXISTS", "lock"]).await? {}
        drop(client.hold("cs").enter());
        Ok(())
    });
    let is_slow = spins.faults(Faults::none().stalls(1)).actors(1, |client| async move {
        let mut link = client.connection();
        tokio::select! {
            _ = send::<()>(&mut link, &["PING"]) => {}
            () = tokio::time::sleep(Duration::from_secs(30)) => panic!("no reply in time"),
        }
        Ok(())
    });
    let report = exhaustive(&is_slow).unwrap_err().to_string();
    assert!(report.contains("no reply in time"), "{report}");
}

/// One client is granted the lock after ten seconds in which it spins. Its lease begins then, and
/// the other client comes two seconds later.
#[test]
fn the_lease_of_a_client_that_spins_begins_with_its_last_try() {
    let locked = |is_timed: bool| {
        let scenario = Scenario::new("spins").always(ExclusiveFact::of("cs"));
        let scenario = scenario.before(|client| async move {
            Ok(send::<()>(&mut client.connection(), &["SET", "lock", "1", "PX", "10000"]).await?)
        });
        let spins = scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            let mut since = client.true_time();
            while !send(&mut link, SOUND.take).await? {
                since = client.true_time();
            }
            let hold = client.hold("cs");
            let _hold = if is_timed { hold.since(since).enter() } else { hold.enter() };
            tokio::time::sleep(Duration::from_secs(30)).await;
            Ok(())
        });
        spins.actors(1, |client| async move {
            tokio::time::sleep(Duration::from_secs(12)).await;
            drop(client.hold("cs").since(client.true_time()).enter());
            Ok(())
        })
    };
    expect_violation(&locked(false), "exclusive-fact", 7);
    expect_violation(&locked(true), "exclusive-fact", 7);
}

/// The first client sleeps inside and releases. The second one is granted the lock then.
#[test]
fn the_lease_of_a_client_that_spins_begins_after_the_holder_has_slept() {
    let scenario = Scenario::new("sleeps").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["MSET", "lock", "1", "taken", "1"]).await?;
        tokio::time::sleep(Duration::from_secs(8)).await;
        send::<()>(&mut link, &["DEL", "lock"]).await?;
        tokio::time::sleep(Duration::from_secs(8)).await;
        drop(client.hold("cs").since(client.true_time()).enter());
        Ok(())
    });
    let spins = scenario.actors(1, |client| async move {
        let mut link = client.connection();
        let has_spun = client.true_time().is_zero();
        while !send(&mut link, &["EXISTS", "taken"]).await? {}
        while !send(&mut link, SOUND.take).await? {}
        if has_spun {
            let _hold = client.hold("cs").enter();
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        Ok(())
    });
    expect_violation(&spins, "exclusive-fact", 9);
}

/// The server restarts without the data of the holder. It refuses all requests for a while, and the
/// other client sends them again at once.
#[test]
fn a_client_that_is_refused_waits_for_the_end_of_the_outage() {
    let restart = Faults::none().restarts(1).outage(Duration::from_secs(5));
    let scenario = Scenario::new("refused").always(ExclusiveFact::of("cs")).faults(restart);
    let tries = scenario.actors(2, |client| async move {
        let mut link = client.connection();
        while !send(&mut link, SOUND.take).await.unwrap_or(false) {}
        let _hold = client.hold("cs").enter();
        tokio::time::sleep(Duration::from_secs(8)).await;
        Ok(())
    });
    expect_violation(&tries, "exclusive-fact", 7);
}

/// B stops trying after 30 seconds, which no threshold says. Before its next command, C can start.
/// That command may look like one more try.
#[test]
fn the_command_after_a_timeout_is_no_try() {
    const LATE: Duration = Duration::from_secs(30);
    for (tried, steps) in [(SOUND.take, 15), (&["EXISTS", "late"], 7)] {
        let scenario = Scenario::new("after").always(ExclusiveBelief::of("cs", 1));
        let scenario = scenario.actors(1, |client| async move {
            send::<()>(&mut client.connection(), &["SET", "lock", "1"]).await?;
            let _hold = client.hold("cs").enter();
            tokio::time::sleep(2 * LATE).await;
            Ok(())
        });
        let times_out = scenario.actors(1, move |client| async move {
            let mut link = client.connection();
            let tries = async { while let Ok(false) = send(&mut link, tried).await {} };
            _ = tokio::time::timeout(LATE, tries).await;
            if send(&mut client.connection(), &["EXISTS", "late"]).await? {
                drop(client.hold("cs").enter());
            }
            Ok(())
        });
        let comes_late = times_out.actors(1, |client| async move {
            if client.true_time() >= LATE {
                send::<()>(&mut client.connection(), &["SET", "late", "1"]).await?;
            }
            Ok(())
        });
        expect_violation(&comes_late, "exclusive-belief", steps);
    }
}
