//! Grants that end by a client's clock.

use emulator::Timestamp;

use super::habit::Lint;
use super::usage::{Call, Usage};

pub(super) const LINT: Lint = Lint {
    name: "client-time",
    summary: "A client sends the time of its own clock to the server.",
    advice: "If the clocks of two clients differ, one of them acts too early: use TIME in a script, or a time to live.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.calls.iter().enumerate().find_map(|(nth, call)| {
        // The client may send a time that it got from the server.
        let earlier = usage.calls[..nth].iter().filter(|earlier| earlier.actor == call.actor);
        if earlier.into_iter().any(|earlier| numbers(earlier.reply).any(is_time)) {
            return None;
        }
        let sent = times(call).next()?;
        Some(format!("{} {sent} is the time of its clock.", call.said()))
    })
}

/// The arguments of a request that are times.
fn times<'a>(call: &'a Call<'_>) -> impl Iterator<Item = &'a str> {
    let words = call.sent.commands.iter().flat_map(|words| words.iter().skip(1));
    words.filter_map(|word| std::str::from_utf8(word).ok()).filter(|word| numbers(word).any(is_time))
}

fn numbers(text: &str) -> impl Iterator<Item = f64> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|word| !word.is_empty());
    words.filter_map(|number| number.parse().ok())
}

/// Whether a number is a time of an execution, in seconds, milliseconds or microseconds.
fn is_time(number: f64) -> bool {
    /// Clocks may be wrong, and executions take some leases.
    const NEAR_MS: f64 = 24.0 * 60.0 * 60.0 * 1000.0;
    let start_ms = Timestamp::EPOCH.millis() as f64;
    [1000.0, 1.0, 0.001].into_iter().any(|unit| (number * unit - start_ms).abs() < NEAR_MS)
}
