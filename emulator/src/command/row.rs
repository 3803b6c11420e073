//! The description of a command in the table.

use super::{Argv, Ctx, KeySpec, Outcome, docs};
use crate::error;

/// A row of the command table.
pub struct Row {
    /// The name in lower case. A subcommand is `client|id`.
    pub name: &'static str,
    /// The number of arguments, the name included; `-n` means n or more.
    pub arity: i32,
    /// The behaviour of the command, and where it may be called.
    pub flags: &'static [Flag],
    /// A bit for each of the flags.
    pub(super) flag_bits: u32,
    /// The positions of its keys.
    pub keys: &'static [KeySpec],
    /// ACL categories that its group and its flags do not imply.
    pub categories: &'static [&'static str],
    /// It is not in the ACL category of its group.
    pub is_outsider: bool,
    /// Hints for clients, as Redis writes them.
    pub tips: &'static [&'static str],
    /// It returns the server's counters, or the state of clients.
    pub reads_counters: bool,
    /// A setting decides which clients may call it (Redis: `CMD_PROTECTED`).
    pub is_protected: bool,
    /// Its subcommands.
    pub subcommands: &'static [Row],
    /// The function that runs it.
    pub(crate) run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome,
}

impl Row {
    /// Creates a command without keys.
    pub(crate) const fn new(
        name: &'static str,
        arity: i32,
        flags: &'static [Flag],
        run: fn(&mut Ctx<'_>, &Argv<'_>) -> Outcome,
    ) -> Row {
        Row {
            name,
            arity,
            flags,
            flag_bits: bits(flags),
            run,
            keys: &[],
            categories: &[],
            is_outsider: false,
            tips: &[],
            reads_counters: false,
            is_protected: false,
            subcommands: &[],
        }
    }

    /// Creates a command that has only subcommands.
    pub(crate) const fn container(name: &'static str, subcommands: &'static [Row]) -> Row {
        let mut row =
            Row::new(name, -2, &[], |ctx, argv| Err(error::unknown_subcommand(ctx.row.name, argv[1])));
        row.subcommands = subcommands;
        row
    }

    /// Creates the subcommand that lists the others: `client|help`.
    pub(crate) const fn help(name: &'static str) -> Row {
        Row::new(name, 2, &[Flag::Loading, Flag::Stale], docs::help)
    }

    /// Adds keys.
    pub(crate) const fn keys(mut self, keys: &'static [KeySpec]) -> Row {
        self.keys = keys;
        self
    }

    /// Adds ACL categories of its own.
    pub(crate) const fn categories(mut self, categories: &'static [&'static str]) -> Row {
        self.categories = categories;
        self
    }

    /// Sets its own ACL categories, which replace that of its group.
    pub(crate) const fn outside(mut self, categories: &'static [&'static str]) -> Row {
        self.categories = categories;
        self.is_outsider = true;
        self
    }

    /// Adds hints for clients.
    pub(crate) const fn tips(mut self, tips: &'static [&'static str]) -> Row {
        self.tips = tips;
        self
    }

    /// Marks a command that returns the server's counters, or the state of clients.
    pub(crate) const fn telling_counts(mut self) -> Row {
        self.reads_counters = true;
        self
    }

    /// Marks a command that not every client may call.
    pub(crate) const fn protected(mut self) -> Row {
        self.is_protected = true;
        self
    }

    /// Whether it has a flag.
    pub(crate) const fn has(&self, flag: Flag) -> bool {
        self.flag_bits & 1 << flag as u32 != 0
    }

    /// Whether it is only a container of subcommands.
    pub(crate) fn is_container(&self) -> bool {
        self.flags.is_empty() && !self.subcommands.is_empty()
    }

    pub(super) fn accepts(&self, argc: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argc >= arity } else { argc == arity }
    }
}

const fn bits(flags: &[Flag]) -> u32 {
    match flags {
        [] => 0,
        [first, rest @ ..] => 1 << *first as u32 | bits(rest),
    }
}

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
        }
    }
}
