//! The flags of commands.

/// The behaviour of a command, and where it may be called. The words are Redis's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    reason = "the words are Redis's: https://redis.io/docs/latest/commands/command/#flags"
)]
pub enum Flag {
    Write,
    ReadOnly,
    DenyOom,
    Admin,
    Pubsub,
    NoScript,
    Loading,
    Stale,
    SkipMonitor,
    SkipSlowlog,
    Fast,
    NoAuth,
    Blocking,
    NoMulti,
    NoMandatoryKeys,
    AllowBusy,
    MovableKeys,
    NoAsyncLoading,
}

impl Flag {
    /// The word that `COMMAND INFO` returns.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Flag::Write => "write",
            Flag::ReadOnly => "readonly",
            Flag::DenyOom => "denyoom",
            Flag::Admin => "admin",
            Flag::Pubsub => "pubsub",
            Flag::NoScript => "noscript",
            Flag::Loading => "loading",
            Flag::Stale => "stale",
            Flag::SkipMonitor => "skip_monitor",
            Flag::SkipSlowlog => "skip_slowlog",
            Flag::Fast => "fast",
            Flag::NoAuth => "no_auth",
            Flag::Blocking => "blocking",
            Flag::NoMulti => "no_multi",
            Flag::NoMandatoryKeys => "no_mandatory_keys",
            Flag::AllowBusy => "allow_busy",
            Flag::MovableKeys => "movablekeys",
            Flag::NoAsyncLoading => "no_async_loading",
        }
    }
}
