//! What the table says of a command.

use super::{Argv, Ctx, KeySpec, Outcome, docs};
use crate::error;

/// A row of the command table.
pub struct Row {
    /// Lower case; a subcommand is `client|id`.
    pub name: &'static str,
    /// The number of arguments, the name included; `-n` means n or more.
    pub arity: i32,
    /// What the command does and where it may be called.
    pub flags: &'static [Flag],
    /// Where its keys stand.
    pub keys: &'static [KeySpec],
    /// ACL categories beyond those that group and flags imply.
    pub categories: &'static [&'static str],
    /// Redis does not count it into the ACL category of its group.
    pub is_outsider: bool,
    /// Hints for clients, in Redis's words.
    pub tips: &'static [&'static str],
    /// It tells what the server counts, or what its clients do.
    pub tells_counts: bool,
    /// A setting says who may call it (Redis: `CMD_PROTECTED`).
    pub is_protected: bool,
    /// Commands under this one.
    pub subcommands: &'static [Row],
    /// The function.
    pub run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome,
}

impl Row {
    /// A command without keys.
    pub const fn new(
        name: &'static str,
        arity: i32,
        flags: &'static [Flag],
        run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome,
    ) -> Row {
        Row {
            name,
            arity,
            flags,
            run,
            keys: &[],
            categories: &[],
            is_outsider: false,
            tips: &[],
            tells_counts: false,
            is_protected: false,
            subcommands: &[],
        }
    }

    /// A command that is nothing but its subcommands.
    pub const fn container(name: &'static str, subcommands: &'static [Row]) -> Row {
        let mut row =
            Row::new(name, -2, &[], |ctx, argv| Err(error::unknown_subcommand(ctx.row.name, argv[1])));
        row.subcommands = subcommands;
        row
    }

    /// The subcommand that lists the others: `client|help`.
    pub const fn help(name: &'static str) -> Row {
        Row::new(name, 2, &[Flag::Loading, Flag::Stale], docs::help)
    }

    /// With keys.
    pub const fn keys(mut self, keys: &'static [KeySpec]) -> Row {
        self.keys = keys;
        self
    }

    /// With ACL categories of its own.
    pub const fn categories(mut self, categories: &'static [&'static str]) -> Row {
        self.categories = categories;
        self
    }

    /// With ACL categories of its own in place of its group's.
    pub const fn outside(mut self, categories: &'static [&'static str]) -> Row {
        self.categories = categories;
        self.is_outsider = true;
        self
    }

    /// With hints for clients.
    pub const fn tips(mut self, tips: &'static [&'static str]) -> Row {
        self.tips = tips;
        self
    }

    /// One that tells what the server counts, or what its clients do.
    pub const fn telling_counts(mut self) -> Row {
        self.tells_counts = true;
        self
    }

    /// One that not everybody may call.
    pub const fn protected(mut self) -> Row {
        self.is_protected = true;
        self
    }

    /// Whether it is a name for its subcommands, and no command.
    pub fn is_container(&self) -> bool {
        self.flags.is_empty() && !self.subcommands.is_empty()
    }

    pub(super) fn accepts(&self, argc: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argc >= arity } else { argc == arity }
    }
}

/// What a command does, and where it may be called. Redis's words.
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
}

impl Flag {
    /// The word in `COMMAND INFO`.
    pub fn word(self) -> &'static str {
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
        }
    }
}
