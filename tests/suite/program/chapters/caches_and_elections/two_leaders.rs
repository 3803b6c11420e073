use std::time::Duration;

use harness::oracle::Rate;
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

const TERM_MS: i64 = 10_000;
const PAUSE: Duration = Duration::from_secs(5);

async fn process(client: Client) -> RedisResult<()> {
    let mut connection = client.connection();
    let mut leads = false;
    for _ in 0..2 {
        if !connection.exists("leader").await? {
            let mut elect = redis::cmd("SET");
            elect.arg("leader").arg(client.name()).arg("NX").arg("PX").arg(TERM_MS);
            leads = elect.query_async(&mut connection).await?;
        } else if leads {
            () = connection.pexpire("leader", TERM_MS).await?;
        }
        if leads {
            client.did("poll"); // what only the leader may do: it polls a mailbox
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

fn main() {
    let election = Scenario::new("a leader by presence").actors(2, from_fn(process));
    let rate = Rate::of("poll", 1, PAUSE);
    exhaustive(&election.clone().always(rate.clone())).unwrap();

    let stalls = election.faults(Faults::none().stalls(1));
    let report = exhaustive(&stalls.always(rate)).unwrap_err();
    assert!(report.to_string().contains("«poll» is done 2 times in a window"));
    println!("{report}");
}
