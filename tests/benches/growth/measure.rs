//! One measurement: the smallest CPU time of a call, over several batches.

use anyhow::{Context as _, Result};

use crate::rows::{Row, Template};
use crate::server::Server;

/// How many commands are sent at once when keys are made.
const CHUNK: usize = 1000;
/// A batch is repeated so often, and a long one less often. The smallest time counts.
const BATCHES: usize = 7;
const LONG_BATCHES: usize = 2;
const LONG_MICROS: f64 = 100_000.0;
/// The most calls in a batch.
const CALLS_MAX: usize = 256;
/// The least time of a batch, in microseconds, if it has fewer calls.
const BATCH_MICROS_MIN: f64 = 2_000.0;
/// By how much times may differ for no reason, in microseconds: calls in a row, and single calls.
const NOISE_MICROS: f64 = 1.0;
const NOISE_OF_ONE_MICROS: f64 = 20.0;

/// The time of one call, and of as many `PING`s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    call_micros: f64,
    ping_micros: f64,
    noise_micros: f64,
}

impl Sample {
    /// The smallest times of both. Each counts by itself: if a `PING` was disturbed, the difference
    /// to it would be too small.
    pub(crate) fn min(self, other: Sample) -> Sample {
        Sample {
            call_micros: self.call_micros.min(other.call_micros),
            ping_micros: self.ping_micros.min(other.ping_micros),
            noise_micros: self.noise_micros.max(other.noise_micros),
        }
    }

    /// The time beyond that of `PING`.
    pub(crate) fn micros(self) -> f64 {
        (self.call_micros - self.ping_micros).max(0.0)
    }

    /// The time with what it may differ by, so that ratios of short times mean something.
    pub(crate) fn padded(self) -> f64 {
        self.micros() + self.noise_micros
    }
}

/// Empties the server, and makes the keys.
pub(crate) fn prepare(server: &mut Server, templates: &[Template], size: usize) -> Result<()> {
    server.send(b"*1\r\n$8\r\nFLUSHALL\r\n", 1)?;
    templates.iter().try_for_each(|template| send_all(server, template, size))
}

/// Sends a command once, or for each member.
fn send_all(server: &mut Server, template: &Template, size: usize) -> Result<()> {
    let n_commands = if template.is_repeated() { size } else { 1 };
    let mut requests = Vec::new();
    for first in (0..n_commands).step_by(CHUNK) {
        let chunk = first..n_commands.min(first + CHUNK);
        requests.clear();
        chunk.clone().for_each(|nth| template.request(nth, size, &mut requests));
        server.send(&requests, chunk.len())?;
    }
    Ok(())
}

/// Measures a row.
pub(crate) fn measure(server: &mut Server, row: &Row, size: usize) -> Result<Sample> {
    let mut nth = 0;
    let mut batch = |server: &mut Server, n_calls: usize| -> Result<f64> {
        row.before.iter().try_for_each(|template| send_all(server, template, size))?;
        let mut requests = Vec::new();
        for call in nth..nth + n_calls {
            row.calls.iter().for_each(|template| template.request(call, size, &mut requests));
        }
        nth += n_calls;
        time(server, &requests, n_calls * row.calls.len())
            .with_context(|| format!("in the row `{}`", row.text))
    };
    // The first call warms the caches.
    let first = batch(server, 1)?.min(batch(server, 1)?);
    // Each call of these needs its own preparation.
    let n_calls = match row.before.is_empty() {
        true => 1 << ((BATCH_MICROS_MIN / first.max(1.0)) as usize).clamp(1, CALLS_MAX).ilog2(),
        false => 1,
    };
    let mut least = f64::INFINITY;
    for _ in 0..if first < LONG_MICROS { BATCHES } else { LONG_BATCHES } {
        least = least.min(batch(server, n_calls)? / n_calls as f64);
    }
    // Measured beside each row, because other work on the machine slows down all commands.
    let ping_micros = ping(server, n_calls)? * row.calls.len() as f64;
    let noise_micros = if n_calls == 1 { NOISE_OF_ONE_MICROS } else { NOISE_MICROS };
    Ok(Sample { call_micros: least, ping_micros, noise_micros })
}

/// The time of one `PING` of so many.
fn ping(server: &mut Server, n_calls: usize) -> Result<f64> {
    let requests = b"*1\r\n$4\r\nPING\r\n".repeat(n_calls);
    let mut least = f64::INFINITY;
    for _ in 0..BATCHES {
        least = least.min(time(server, &requests, n_calls)? / n_calls as f64);
    }
    Ok(least)
}

fn time(server: &mut Server, requests: &[u8], n_replies: usize) -> Result<f64> {
    let before = server.cpu_micros()?;
    server.send(requests, n_replies)?;
    Ok(server.cpu_micros()? - before)
}
