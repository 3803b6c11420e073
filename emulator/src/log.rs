//! Log lines of scripts and of `DEBUG LOG`, and the hook that receives them.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::clock::Timestamp;

/// The importance of a line, in ascending order, as in `loglevel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// `redis.LOG_DEBUG`
    Debug,
    /// `redis.LOG_VERBOSE`
    Verbose,
    /// `redis.LOG_NOTICE`
    Notice,
    /// `redis.LOG_WARNING`
    Warning,
}

impl LogLevel {
    /// All levels, indexed by the numbers that scripts use.
    pub const ALL: [LogLevel; 4] = [LogLevel::Debug, LogLevel::Verbose, LogLevel::Notice, LogLevel::Warning];

    /// The level that a value of `loglevel` names.
    pub(crate) fn of_setting(word: &[u8]) -> LogLevel {
        match word {
            b"debug" => LogLevel::Debug,
            b"verbose" => LogLevel::Verbose,
            b"warning" => LogLevel::Warning,
            _ => LogLevel::Notice,
        }
    }
}

/// The function that is called with every line.
pub(crate) type Hook = dyn Fn(&LogLine) + Send + Sync;

/// Receives what the server logs until it is dropped. The server does not keep it alive, because it
/// may hold a handle to the server.
#[must_use = "the hook receives no more lines once this is dropped"]
pub struct LogHook {
    pub(crate) _alive: Arc<Hook>,
}

impl fmt::Debug for LogHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogHook").finish_non_exhaustive()
    }
}

/// A line of the log. It is displayed as `1700000000.262 * text`, with Redis's sign for the level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When it was logged, by the server's clock.
    pub at: Timestamp,
    /// The level.
    pub level: LogLevel,
    /// The text.
    pub text: Bytes,
}

impl fmt::Display for LogLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = [".", "-", "*", "#"][self.level as usize];
        let (seconds, millis) = (self.at.millis().div_euclid(1000), self.at.millis().rem_euclid(1000));
        write!(f, "{seconds}.{millis:03} {sign} {}", String::from_utf8_lossy(&self.text))
    }
}
