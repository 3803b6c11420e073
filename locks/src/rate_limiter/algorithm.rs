//! An algorithm of a rate limiter, as the client sees it.

use std::time::Duration;

use crate::script::{SPAN_MAX, Script};

/// An algorithm with its settings.
#[derive(Debug)]
pub(super) struct Algorithm {
    /// `ARGV[1]` is the token of the request, `ARGV[2]` the number of permits. The reply is
    /// `{1, remaining}` if they are granted, or have been, and otherwise `{0, wait}`: they cannot
    /// be granted before `wait` microseconds have passed.
    pub(super) script: &'static Script,
    pub(super) keys: Vec<String>,
    /// Further arguments.
    pub(super) more: Vec<u64>,
    /// The most permits of one request.
    pub(super) permits_max: u32,
}

/// The microseconds of the span of a rate, rounded up, or why it makes no sense.
pub(super) fn micros(per: Duration) -> Result<u64, String> {
    if per < Duration::from_millis(1) {
        return Err("the span of a rate is at least one millisecond".into());
    }
    if per > SPAN_MAX {
        return Err(format!("the span of a rate is at most {SPAN_MAX:?}, and not {per:?}"));
    }
    Ok(per.as_nanos().div_ceil(1000) as u64)
}
