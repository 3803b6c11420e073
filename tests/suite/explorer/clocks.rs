//! What clients and servers see of the faults of their clocks.

use std::time::Duration;

use harness::execution::Runner;
use harness::sim::Recording;
use harness::{Faults, Scenario, replay};

use super::oracles::send;

/// A client reads its clock and that of its server in the third step: with no fault, 60 seconds
/// after its first one. Returns how far each of them is ahead then, in milliseconds.
fn ahead(schedule: &str) -> (i64, i64) {
    const START_MS: i64 = 1_700_000_000_500;
    let five = Duration::from_millis(5);
    let faults = Faults::none().skew(five).drift(1000).jump(five);
    let faults = faults.server_skew(five).server_drift(1000).server_jump(five);
    let reading = Scenario::new("reading").faults(faults).actors(1, |client| async move {
        let mut link = client.connection();
        send::<()>(&mut link, &["PING"]).await?;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let [secs, micros]: [i64; 2] = send(&mut link, &["TIME"]).await?;
        let truth = START_MS + client.true_time().as_millis() as i64;
        let own = client.now().as_millis() as i64 - truth;
        Err(format!("{own} {}", secs * 1000 + micros / 1000 - truth).into())
    });
    let history = replay(&mut Runner::new(), &reading, &schedule.parse().unwrap(), Recording::Lean);
    let (_, text, _) = history.failure().unwrap();
    let (own, server) = text.trim_start_matches("failed: ").split_once(' ').unwrap();
    (own.parse().unwrap(), server.parse().unwrap())
}

#[test]
fn a_clock_is_ahead_or_behind_as_the_schedule_says() {
    for (schedule, expected) in [
        ("A\nwait\nA", (0, 0)),
        ("skew A +5ms\nA\nwait\nA", (5, 0)),
        ("skew A -5ms\nA\nwait\nA", (-5, 0)),
        ("skew 1 +5ms\nA\nwait\nA", (0, 5)),
        ("skew 1 -5ms\nA\nwait\nA", (0, -5)),
        ("A\njump A +5ms\nwait\nA", (5, 0)),
        ("A\njump A -5ms\nwait\nA", (-5, 0)),
        ("A\njump 1 +5ms\nwait\nA", (0, 5)),
        ("drift A +1000ppm\nA\nwait\nA", (60, 0)),
        ("drift A -1000ppm\nA\nwait\nA", (-60, 0)),
        ("drift 1 +1000ppm\nA\nwait\nA", (0, 60)),
        ("drift 1 -1000ppm\nA\nwait\nA", (0, -60)),
    ] {
        assert_eq!(ahead(schedule), expected, "{schedule}");
    }
}
