//! The errors of native functions, before Lua sees them.

use crate::error::Error;

/// An error that a native function raises.
#[derive(Clone, Debug)]
pub(super) enum Raised {
    /// `{err = '…'}`
    Table(Error),
    /// The script must end, for the reason that its state contains: see [`Running::fatal`].
    ///
    /// [`Running::fatal`]: super::running::Running::fatal
    Fatal,
    /// A string, as Lua's own functions raise it.
    Text(Vec<u8>),
}

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raised::Table(error) => error.fmt(f),
            Raised::Fatal => f.write_str("the script must end"),
            Raised::Text(text) => f.write_str(&String::from_utf8_lossy(text)),
        }
    }
}

impl std::error::Error for Raised {}
