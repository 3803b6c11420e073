//! What a replica lacks when it takes over: scripts, the last number of a counter, the right time.

use std::time::Duration;

use harness::oracle::{ExclusiveBelief, Fenced, NoLeak};
use harness::trace::Reached;
use harness::{ActorError, Client, Faults, Scenario};
use redis::{ErrorKind, RedisResult, Script, ServerErrorKind};

use super::debate::{Claim, Debate, KLEPPMANN};
use super::fencing::{TOKEN, acquire};
use super::lock::{RELEASE, release, take};
use super::pauses::work_once;

pub(super) const DEBATE: Debate = Debate {
    name: "promotion",
    about: "What does a replica lack when it takes over?",
    sources: &[
        "Redis, \"Scripting with Lua\", https://redis.io/docs/latest/develop/programmability/eval-intro/",
        "redlock-rb, issue 148, https://github.com/leandromoreira/redlock-rb/issues/148",
        KLEPPMANN,
        "Redis, pull request 8474, https://github.com/redis/redis/pull/8474",
    ],
    claims: &[
        Claim {
            scenario: "a release by EVALSHA alone",
            says: "Scripts are not replicated. A client that sends only EVALSHA cannot release its lock after a failover, \
                not even after one that loses nothing.",
            passes: false,
            make: |name, lease| releases(name, lease, Fallback::None),
        },
        Claim {
            scenario: "a release by EVALSHA, or else by EVAL",
            says: "A client that sends EVAL after the error NOSCRIPT releases it.",
            passes: true,
            make: |name, lease| releases(name, lease, Fallback::Eval),
        },
        Claim {
            scenario: "fencing tokens from a counter",
            says: "A counter on one server does not do for fencing tokens, says Kleppmann. \
                The replica has not got the last increment, so a token repeats.",
            passes: false,
            make: tokens,
        },
        Claim {
            scenario: "servers whose clocks differ",
            says: "Replicas get deadlines, not spans. If the clock of the new primary is ahead of the old one's, the lock ends early.",
            passes: false,
            make: deadlines,
        },
    ],
};

/// What a client sends if the server does not know its script.
#[derive(Clone, Copy)]
enum Fallback {
    None,
    Eval,
}

fn scenario(name: &str, lease: Duration, faults: Faults) -> Scenario {
    Scenario::new(name)
        .replicas(1)
        .lease(lease)
        .faults(faults)
        .interchangeable()
        .must_reach(Reached { server: true, ..Reached::default() })
}

fn releases(name: &str, lease: Duration, fallback: Fallback) -> Scenario {
    scenario(name, lease, Faults::none().planned_failovers(1))
        .script(&Script::new(RELEASE))
        .actors(2, move |client| release_once(client, fallback))
        .probe(1, |client| async move { Ok(take(&client, &mut client.connection()).await?) })
        .always(NoLeak)
}

/// Nobody notices if the release fails: the lock ends by itself one day.
async fn release_once(client: Client, fallback: Fallback) -> Result<(), ActorError> {
    let mut link = client.connection();
    if take(&client, &mut link).await? {
        _ = client.hold("work").until(send_release(&client, fallback)).await;
    }
    Ok(())
}

async fn send_release(client: &Client, fallback: Fallback) -> RedisResult<()> {
    let mut link = client.connection();
    let mut command = redis::cmd("EVALSHA");
    command.arg(Script::new(RELEASE).get_hash()).arg(1).arg("lock").arg(client.name());
    match (command.exec_async(&mut link).await, fallback) {
        (Err(error), Fallback::Eval) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            release(client, &mut link).await
        }
        (released, _) => released,
    }
}

/// The storage is none of the servers that fail. It takes a token that is not older than the last.
fn tokens(name: &str, lease: Duration) -> Scenario {
    scenario(name, lease, Faults::none().failovers(1).behind(1))
        .actors(2, |client| async move {
            let mut link = client.connection();
            let Some(token) = acquire(&client, &mut link, TOKEN).await? else { return Ok(()) };
            client.accepted("storage", token);
            Ok(release(&client, &mut link).await?)
        })
        .always(Fenced::of("storage"))
}

fn deadlines(name: &str, lease: Duration) -> Scenario {
    scenario(name, lease, Faults::none().failovers(1).server_skew(lease + Duration::from_millis(1)))
        .actors(2, |client| work_once(client, None))
        .always(ExclusiveBelief::of("work", 1))
}
