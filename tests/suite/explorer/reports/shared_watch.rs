//! *Shared watch.* A service has one multiplexed connection, and each request uses a clone of it
//! for `WATCH`, `GET` and a transaction. The requests share what is watched: the `EXEC` of one ends
//! the watch of the other, and a sale is lost (davechallis/ocypod#26, redis-rs/redis-rs#565).
//!
//! Repair: a connection for each request.

use harness::{Client, Scenario, exhaustive, from_fn, sample};
use redis::{AsyncCommands, RedisResult, cmd, pipe};

use super::{Code, finds, passes};

/// Takes one piece from the stock, unless it is empty.
async fn buy(mut link: impl AsyncCommands, order: String) -> RedisResult<()> {
    loop {
        cmd("WATCH").arg("stock").exec_async(&mut link).await?;
        let stock: i64 = link.get("stock").await?;
        if stock < 1 {
            return cmd("UNWATCH").exec_async(&mut link).await;
        }
        let mut sale = pipe();
        sale.atomic().set("stock", stock - 1).ignore().sadd("orders", &order).ignore();
        if sale.query_async::<Option<()>>(&mut link).await?.is_some() {
            return Ok(());
        }
    }
}

/// Serves two requests at the same time.
async fn serve(client: Client, code: Code) -> RedisResult<()> {
    let [one, other] = [1, 2].map(|nth| format!("{}{nth}", client.name()));
    match code {
        Code::Reported => {
            let link = client.multiplexed().await?;
            tokio::try_join!(biased; buy(link.clone(), one), buy(link, other))?;
        }
        Code::Repaired => {
            tokio::try_join!(biased; buy(client.connection(), one), buy(client.connection(), other))?;
        }
    }
    Ok(())
}

fn shop(processes: usize, code: Code) -> Scenario {
    Scenario::new("watched stock")
        .before(|client| async move { Ok(client.connection().set("stock", 3).await?) })
        .actors(processes, from_fn(move |client| serve(client, code)))
        .interchangeable()
        .finally("each order takes a piece", |client, _| async move {
            let mut link = client.connection();
            let (stock, orders): (usize, usize) = (link.get("stock").await?, link.scard("orders").await?);
            if stock + orders == 3 {
                Ok(())
            } else {
                Err(format!("of 3 pieces, {stock} are left after {orders} orders").into())
            }
        })
}

#[test]
fn two_requests_share_a_watch() {
    let words = "of 3 pieces, 2 are left after 2 orders";
    finds(&shop(1, Code::Reported), "each order takes a piece", 12, words);
}

#[test]
fn each_request_has_its_watch() {
    passes(exhaustive(&shop(1, Code::Repaired)));
    passes(sample(&shop(2, Code::Repaired), 2_000, 0));
}
