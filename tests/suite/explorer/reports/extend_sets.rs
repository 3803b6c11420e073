//! *Extend sets.* A lock is held on most of several servers. If a server no longer has its key,
//! because it was restarted, the extension sets the key there again: this was proposed in
//! go-redsync/redsync#147. A slow holder then takes the lock once more, although another client had
//! it meanwhile.
//!
//! Repair: an extension needs the key.

use std::time::Duration;

use harness::oracle::{ExclusiveFact, Unbroken};
use harness::{ActorError, Client, Faults, Record, Scenario, exhaustive, sample};
use redis::{RedisResult, Script, cmd};
use tokio::time::sleep;

use super::{Code, LEASE, finds, passes, shows};

const EXTEND: &str = "--extend
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0";

const EXTEND_OR_SET: &str = "--extend
local owner = redis.call('GET', KEYS[1])
if owner == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if not owner and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0";

const RELEASE: &str = "--release
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0";

async fn acquire(client: &Client) -> bool {
    let mut count = 0;
    for server in 0..client.servers() {
        let mut set = cmd("SET");
        set.arg("lock").arg(client.name()).arg("NX").arg("PX").arg(client.lease().as_millis() as u64);
        count += usize::from(set.query_async(&mut client.connection_to(server)).await.unwrap_or(false));
    }
    count * 2 > client.servers()
}

/// Runs a script on all servers. Returns whether most have agreed.
async fn on_all(client: &Client, script: &str) -> bool {
    let (mut count, script) = (0, Script::new(script));
    for server in 0..client.servers() {
        let mut call = script.key("lock");
        call.arg(client.name()).arg(client.lease().as_millis() as u64);
        let reply: RedisResult<bool> = call.invoke_async(&mut client.connection_to(server)).await;
        count += usize::from(reply.unwrap_or(false));
    }
    count * 2 > client.servers()
}

/// Acquires the lock, works, extends it, and releases it.
async fn act(client: Client, work: Duration, code: Code) -> Result<(), ActorError> {
    let extend = match code {
        Code::Reported => EXTEND_OR_SET,
        Code::Repaired => EXTEND,
    };
    let record = Record::Majority("lock".into(), client.name());
    let since = client.now();
    if !acquire(&client).await {
        on_all(&client, RELEASE).await;
        return Ok(());
    }
    let hold = client.hold("section").since(since).record(record.clone()).enter();
    if !work.is_zero() {
        sleep(work).await;
    }
    let since = client.now();
    if on_all(&client, extend).await {
        hold.extend(since, record);
        hold.until(on_all(&client, RELEASE)).await;
    } else {
        drop(hold);
        on_all(&client, RELEASE).await;
    }
    Ok(())
}

fn clients(servers: usize, work: Duration, code: Code) -> Scenario {
    Scenario::new("lock on most servers")
        .servers(servers)
        .lease(LEASE)
        .faults(Faults::none().stalls(1))
        .script(&Script::new(EXTEND))
        .script(&Script::new(EXTEND_OR_SET))
        .script(&Script::new(RELEASE))
        .actors(2, move |client| act(client, work, code))
        .interchangeable()
        .always(ExclusiveFact::of("section"))
        .always(Unbroken::of("section"))
}

const WORK: [Duration; 2] = [Duration::ZERO, Duration::from_secs(5)];

#[test]
fn a_slow_holder_takes_the_lock_once_more() {
    for (work, steps) in WORK.into_iter().zip([8, 9]) {
        let clients = clients(1, work, Code::Reported);
        finds(&clients, "unbroken", steps, "although B held it meanwhile");
        finds(&clients.prompt_replies(), "unbroken", steps, "although B held it meanwhile");
    }
}

#[test]
fn a_slow_holder_takes_most_servers_once_more() {
    let report = sample(&clients(3, WORK[1], Code::Reported), 1_000, 0).unwrap_err();
    shows(&report, "unbroken", 15, "although B held it meanwhile");
}

#[test]
fn an_extension_needs_the_key() {
    for work in WORK {
        let clients = clients(1, work, Code::Repaired);
        passes(exhaustive(&clients));
        passes(exhaustive(&clients.prompt_replies()));
    }
    passes(sample(&clients(3, WORK[1], Code::Repaired), 1_000, 0));
}
