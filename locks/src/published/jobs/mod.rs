//! Work that is to be done once: a job, the operation of a request, the sale of an item, the fill
//! of a cache.

pub mod popped_queue;
pub mod lmove_queue;
pub mod stalled_queue;
pub mod delayed_queue;
pub mod idempotency_key;
pub mod stock;
pub mod cache_fill;

use redis::cmd;

use crate::task::{Doing, Side};

/// The only job.
const JOB: &str = "1";

/// Pushes the job.
fn push(Side { mut connection, terms, .. }: Side) -> Doing<'static, ()> {
    let list = waiting(&terms.key);
    Box::pin(async move { cmd("LPUSH").arg(list).arg(JOB).query_async(&mut connection).await })
}

/// The list of jobs that wait.
fn waiting(key: &str) -> String {
    format!("{{{key}}}:waiting")
}

/// The list of jobs that are worked on.
fn working(key: &str) -> String {
    format!("{{{key}}}:working")
}

/// The claim of the worker of a job. It ends with its lease.
fn claim(key: &str, job: &str) -> String {
    format!("{{{key}}}:{job}:claim")
}
