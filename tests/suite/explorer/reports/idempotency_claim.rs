//! *Idempotency claim.* A service reads the key of a request, and then writes that it works on it.
//! If a client sends the request twice, both copies find no key, and both are carried out
//! (idempot-dev/idempot-js#182).
//!
//! Repair: the key is written only if there is none.

use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, Commands as _, RedisResult, cmd};

use super::{Code, finds, passes};

const KEY: &str = "idempotency:7f3a";

async fn handle(client: Client, code: Code) -> RedisResult<()> {
    let mut link = client.connection();
    if link.exists(KEY).await? {
        return Ok(());
    }
    let mut claim = cmd("SET");
    claim.arg(KEY).arg("processing").arg("EX").arg(60);
    if code == Code::Repaired {
        claim.arg("NX");
    }
    if claim.query_async(&mut link).await? {
        () = link.sadd("charges", client.name()).await?;
        () = link.set_ex(KEY, "201 created", 86_400).await?;
    }
    Ok(())
}

fn payment(requests: usize, code: Code) -> Scenario {
    Scenario::new("idempotency key")
        .actors(requests, from_fn(move |client| handle(client, code)))
        .interchangeable()
        .invariant("the customer is charged once", |data| match data.scard("charges")? {
            0 | 1 => Ok(()),
            charges => Err(format!("there are {charges} charges").into()),
        })
}

#[test]
fn equal_requests_are_both_carried_out() {
    let words = "This breaks «the customer is charged once»: there are 2 charges.";
    finds(&payment(2, Code::Reported), "the customer is charged once", 6, words);
}

#[test]
fn one_of_equal_requests_is_carried_out() {
    passes(exhaustive(&payment(2, Code::Repaired)));
    passes(exhaustive(&payment(3, Code::Repaired)));
    passes(exhaustive(&payment(2, Code::Repaired).faults(Faults::none().lost(1))));
}

/// A claim ends after a minute, whatever its request does. No repair of the claim alone helps here.
#[test]
fn a_claim_does_not_outlive_its_minute() {
    let slow = payment(2, Code::Repaired).faults(Faults::none().stalls(1));
    finds(&slow, "the customer is charged once", 7, "there are 2 charges");
}
