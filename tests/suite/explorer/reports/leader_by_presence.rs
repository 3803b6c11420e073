//! *Leader by presence.* Each process checks once in a while whether it leads. It asks whether
//! there is a leader, and not who it is. So a leader that stood still does not notice that another
//! one leads now, and prolongs the lease of that one as its own (n8n-io/n8n#7964).
//!
//! The remedy of the report compares the name, but in a command of its own: the lease may end
//! before `EXPIRE`, whose reply nobody reads. Repair: one script compares and prolongs.

use std::time::Duration;

use harness::client::HoldGuard;
use harness::oracle::{ExclusiveFact, Unbroken};
use harness::{Client, Faults, Record, Scenario, exhaustive, from_fn, sample};
use redis::{AsyncCommands as _, RedisResult, Script, cmd};
use tokio::time::sleep;

use super::{LEASE, finds, passes};

const PAUSE: Duration = Duration::from_secs(4);

const RENEW: &str = "--renew
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('EXPIRE', KEYS[1], ARGV[2])";

#[derive(Clone, Copy)]
enum Code {
    Reported,
    Compares,
    Repaired,
}

/// Checks once. Returns whether the process leads now.
async fn check(client: &Client, leading: Option<HoldGuard>, code: Code) -> RedisResult<Option<HoldGuard>> {
    let (mut link, me, lease_s) = (client.connection(), client.name(), client.lease().as_secs());
    let record = Record::Value("leader".into(), me.clone());
    let mut since = client.now();
    let leader: Option<String> = link.get("leader").await?;
    let Some(leader) = leader else {
        drop(leading);
        since = client.now();
        let mut set = cmd("SET");
        set.arg("leader").arg(&me).arg("NX").arg("EX").arg(lease_s);
        let is_set: bool = set.query_async(&mut link).await?;
        return Ok(is_set.then(|| client.hold("leading").since(since).record(record).enter()));
    };
    let Some(leading) = leading else { return Ok(None) };
    let is_renewed = match code {
        Code::Compares if leader != me => false,
        Code::Reported | Code::Compares => {
            () = link.expire("leader", lease_s as i64).await?;
            true
        }
        Code::Repaired => {
            Script::new(RENEW).key("leader").arg(me).arg(lease_s).invoke_async(&mut link).await?
        }
    };
    if is_renewed {
        leading.extend(since, record);
    }
    Ok(is_renewed.then_some(leading))
}

async fn run(client: Client, checks: usize, code: Code) -> RedisResult<()> {
    let mut leading = check(&client, None, code).await?;
    for _ in 1..checks {
        sleep(PAUSE).await;
        leading = check(&client, leading, code).await?;
    }
    Ok(())
}

fn processes(count: usize, checks: usize, code: Code) -> Scenario {
    Scenario::new("leader")
        .lease(LEASE)
        .faults(Faults::none().stalls(1))
        .script(&Script::new(RENEW))
        .actors(count, from_fn(move |client| run(client, checks, code)))
        .interchangeable()
        .always(ExclusiveFact::of("leading"))
        .always(Unbroken::of("leading"))
}

#[test]
fn a_leader_takes_another_one_for_itself() {
    finds(&processes(2, 2, Code::Reported), "exclusive-fact", 7, "B is inside");
}

#[test]
fn a_comparison_in_a_command_of_its_own() {
    finds(&processes(2, 2, Code::Compares), "exclusive-fact", 8, "B is inside");
}

#[test]
fn a_script_compares_and_prolongs() {
    passes(exhaustive(&processes(2, 2, Code::Repaired)));
    passes(exhaustive(&processes(2, 3, Code::Repaired)));
    passes(sample(&processes(3, 2, Code::Repaired), 1_000, 0));
}
