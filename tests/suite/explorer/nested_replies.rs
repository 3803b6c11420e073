//! Replies that are nested as deep as a reply can be, and deeper: executions survive them.

#[path = "../../../emulator/tests/suite/script_limits/nested.rs"]
mod nested;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::execution::Runner;
use harness::sim::Recording;
use harness::{Scenario, Schedule, replay};
use nested::NESTED;

#[test]
fn clients_continue_after_a_reply_that_is_nested_too_deep() {
    for script in NESTED {
        let n_ended = Arc::new(AtomicUsize::new(0));
        let counter = n_ended.clone();
        let scenario = Scenario::new("nested").actors(2, move |client| {
            let counter = counter.clone();
            async move {
                let mut link = client.connection();
                // The client of the tests may refuse a reply that is nested as deep.
                _ = redis::cmd("EVAL").arg(script).arg(0).query_async::<redis::Value>(&mut link).await;
                () = redis::cmd("PING").query_async(&mut client.connection()).await?;
                counter.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        });
        let schedule: Schedule = "A\nB\nA\nB".parse().unwrap();
        replay(&mut Runner::new(), &scenario, &schedule, Recording::Full);
        assert!(n_ended.load(Ordering::Relaxed) >= 2, "{script}");
    }
}
