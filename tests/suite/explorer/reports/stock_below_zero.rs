//! *Stock below zero.* A flash sale reads the stock, and decrements it if something is left. Two
//! buyers get the last piece (qiurunze123/miaosha#23).
//!
//! Another version decrements first, and refuses if the stock is below zero then. It does not
//! increment again. A piece that comes back after that cannot be sold (qiurunze123/miaosha#145).
//! That report also says that nobody may get the piece if all decrement at once, which is not so.
//!
//! Repair: a script reads and decrements.

use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, Commands as _, RedisResult, Script};

use super::{finds, passes};

const SELL: &str = "--sell
local stock = tonumber(redis.call('GET', KEYS[1]) or '0')
if stock < 1 then return 0 end
redis.call('DECR', KEYS[1])
return 1";

#[derive(Clone, Copy)]
enum Code {
    ReadsFirst,
    DecrementsFirst,
    Repaired,
}

/// Takes a piece from the stock, if there is one.
async fn take(client: &Client, code: Code) -> RedisResult<bool> {
    let mut link = client.connection();
    match code {
        Code::ReadsFirst => {
            let is_left = link.get::<_, i64>("stock").await? > 0;
            if is_left {
                () = link.decr("stock", 1).await?;
            }
            Ok(is_left)
        }
        Code::DecrementsFirst => Ok(link.decr::<_, _, i64>("stock", 1).await? >= 0),
        Code::Repaired => Script::new(SELL).key("stock").invoke_async(&mut link).await,
    }
}

async fn buy(client: Client, code: Code) -> RedisResult<()> {
    if take(&client, code).await? {
        () = client.connection().sadd("orders", client.name()).await?;
    }
    Ok(())
}

async fn take_and_give_back(client: Client, code: Code) -> RedisResult<()> {
    if take(&client, code).await? {
        () = client.connection().incr("stock", 1).await?;
    }
    Ok(())
}

fn sale() -> Scenario {
    Scenario::new("flash sale")
        .script(&Script::new(SELL))
        .before(|client| async move { Ok(client.connection().set("stock", 1).await?) })
        .interchangeable()
}

/// The piece is sold, and once.
fn buyers(count: usize, code: Code) -> Scenario {
    sale()
        .actors(count, from_fn(move |client| buy(client, code)))
        .invariant("the piece is sold once", |data| match data.scard("orders")? {
            0 | 1 => Ok(()),
            orders => Err(format!("{orders} buyers get it").into()),
        })
        .finally("somebody gets the piece", |client, _| async move {
            let is_sold: bool = client.connection().exists("orders").await?;
            if is_sold { Ok(()) } else { Err("nobody gets it".into()) }
        })
}

/// After all buyers have changed their minds, the piece can be sold.
fn buyers_who_cancel(count: usize, code: Code) -> Scenario {
    let cancelled = sale().actors(count, from_fn(move |client| take_and_give_back(client, code)));
    cancelled.finally("the piece is for sale again", move |client, _| async move {
        if take(&client, code).await? { Ok(()) } else { Err("it cannot be sold".into()) }
    })
}

#[test]
fn two_buyers_get_one_piece() {
    finds(&buyers(2, Code::ReadsFirst), "the piece is sold once", 6, "2 buyers get it");
}

#[test]
fn a_piece_that_came_back_cannot_be_sold() {
    let cancelled = buyers_who_cancel(2, Code::DecrementsFirst);
    finds(&cancelled, "the piece is for sale again", 3, "it cannot be sold");
}

#[test]
fn somebody_gets_the_piece_if_all_decrement_first() {
    passes(exhaustive(&buyers(3, Code::DecrementsFirst)));
}

#[test]
fn one_script_sells() {
    passes(exhaustive(&buyers(3, Code::Repaired)));
    passes(exhaustive(&buyers_who_cancel(3, Code::Repaired)));
}
