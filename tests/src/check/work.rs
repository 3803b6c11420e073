//! The code of limiters, and of work that is done once, in their scenarios.

use std::sync::Arc;
use std::time::Duration;

use locks::Terms;
use locks::registry::{Algorithm, AlgorithmKind, Side, Task, Work};
use redis::AsyncCommands as _;
use tokio::time::sleep;

use super::code::{Code, Manner, load_scripts};
use crate::client::Client;
use crate::scenario::{Judge, boxed};

/// What clients do that a limiter lets through.
pub(super) const REQUEST: &str = "request";
/// What is to be done once.
pub(super) const JOB: &str = "job";
/// Where it has its effect.
const EFFECT: &str = "effect";
/// How often each client of a limiter comes. Half a window is between its requests.
const REQUESTS: usize = 2;

/// The code of a limiter, or of work that is done once.
///
/// A client of a limiter makes two requests. Any other client tries once, or twice if it has
/// rounds. What is done once is a command to the server, so a client may crash before it, or
/// between it and what follows.
pub(super) fn code(
    algorithm: &'static Algorithm,
    task: Task,
    manner: Manner,
    lease: Duration,
    permits: u32,
) -> Code {
    let is_limiter = algorithm.spec.kind == AlgorithmKind::Limiter;
    let side = move |client: &Client| Side {
        connection: manner.connect(client, 0),
        env: client.env(),
        terms: Terms { key: if is_limiter { "requests" } else { JOB }.into(), lease, permits },
    };
    let before = boxed(move |client: Client| async move {
        load_scripts(&client, algorithm).await?;
        Ok((task.prepare)(side(&client)).await?)
    });
    let takes = boxed(move |client: Client| async move {
        let mut last = Ok(());
        for request in 0..if is_limiter || manner.has_rounds { REQUESTS } else { 1 } {
            if is_limiter && request > 0 {
                sleep(lease / 2).await;
            }
            let tried =
                client.cancellable((task.run)(side(&client), work(&client, manner, is_limiter))).await;
            // An error that no fault explains is a failure.
            last = last.and(tried.transpose().map(drop));
        }
        Ok(last?)
    });
    let probes = boxed(move |client: Client| async move {
        Ok((task.run)(side(&client), work(&client, manner, is_limiter)).await?)
    });
    // Nothing but what they do is judged.
    let tries = move |client: Client, is_needed: bool| async move {
        if is_needed || !manner.connect(&client, 0).exists(EFFECT).await? {
            (task.run)(side(&client), work(&client, manner, is_limiter)).await?;
        }
        Ok(())
    };
    let last: [Judge; 2] = [false, true]
        .map(|is_needed| -> Judge { Arc::new(move |client, _| Box::pin(tries(client, is_needed))) });
    Code { before, reads: takes.clone(), takes, probes, last: (!is_limiter).then_some(last) }
}

/// What a client does if it may.
fn work(client: &Client, manner: Manner, is_request: bool) -> Work<'_> {
    Box::pin(async move {
        if is_request {
            client.did(REQUEST);
            return Ok(());
        }
        () = manner.connect(client, 0).incr(EFFECT, 1).await?;
        client.did(JOB);
        Ok(())
    })
}
