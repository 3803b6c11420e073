//! The types of the command table: rows, groups of rows, and the context in which the function of a
//! row runs. They contain each other, because some functions find other rows.

use bytes::Bytes;
use indexmap::IndexMap;

use super::argv::{Argv, integer, own};
use super::flag::Flag;
use super::key_spec::KeySpec;
use crate::client::{Client, ClientId};
use crate::engine::Engine;
use crate::error::{self, Error};
use crate::keyspace::{Db, Hasher};
use crate::reply::Reply;

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
    /// The servers that have it.
    pub servers: Servers,
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
            servers: Servers::WithData,
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

    /// Marks a command that Sentinels have, too.
    pub(crate) const fn on_sentinels_too(mut self) -> Row {
        self.servers = Servers::All;
        self
    }

    /// Marks a command that only Sentinels have.
    pub(crate) const fn on_sentinels_only(mut self) -> Row {
        self.servers = Servers::Sentinels;
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

/// The servers that have a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// Those with data.
    WithData,
    /// Those with data, and Sentinels.
    All,
    /// Sentinels.
    Sentinels,
}

/// A group of commands, as Redis groups them, with the ACL category that it implies.
pub struct Group {
    /// The name, as on <https://redis.io/docs/latest/commands/>.
    pub name: &'static str,
    /// The ACL category of all its commands.
    pub category: Option<&'static str>,
    /// The commands.
    pub rows: &'static [Row],
}

/// The table of the commands of a server with data, or of a Sentinel.
pub(crate) struct Table {
    pub(super) groups: &'static [Group],
    pub(super) is_sentinels: bool,
    /// The commands by name, in lower case and in upper case.
    pub(super) by_name: IndexMap<Vec<u8>, (&'static Row, &'static Group), Hasher>,
}

/// The result of a command function. Most errors are returned by `?`.
pub(crate) type Outcome = Result<Reply, Error>;

/// The context in which a command runs.
pub(crate) struct Ctx<'a> {
    /// The server.
    pub engine: &'a mut Box<Engine>,
    /// The client that called.
    pub client: &'a mut Box<Client>,
    /// The row of this command.
    pub row: &'static Row,
    /// The table, for commands that find or run others.
    pub table: &'static Table,
}

impl Ctx<'_> {
    /// The client's selected database.
    pub fn db(&mut self) -> Db<'_> {
        let db = self.engine.keyspace.db(self.client.db);
        if self.row.has(Flag::ReadOnly) { db.reading() } else { db }
    }

    /// Gives replicas this command in place of the running one. It may be called more than once.
    pub(crate) fn replicate_as(&mut self, argv: &[&dyn AsRef<[u8]>]) {
        self.engine.name_effect(self.client.db, || {
            argv.iter().map(|arg| Bytes::copy_from_slice(arg.as_ref())).collect()
        });
    }

    /// Gives replicas nothing of the running command, although it counts as a change.
    pub(crate) fn spare_replicas(&mut self) {
        self.engine.outgoing.name_none();
    }

    /// Gives replicas the running command, although it changes no data.
    pub(crate) fn replicate_as_is(&mut self, argv: &Argv<'_>) {
        self.engine.name_effect(self.client.db, || own(argv));
    }

    /// The number of the client's connection. No snapshot has it.
    pub(crate) fn read_id(&mut self) -> ClientId {
        self.engine.stats.were_read = true;
        self.client.id
    }

    /// The client's selected database, for a command that reads more than single keys.
    pub fn whole_db(&mut self) -> Db<'_> {
        self.engine.keyspace.expire_rest();
        self.db()
    }

    /// Parses an argument that is the index of a database.
    pub(crate) fn database(&self, arg: &[u8]) -> Result<usize, Error> {
        let index = i32::try_from(integer(arg)?).map_err(|_| error::DB_NOT_AN_INT)?;
        let index = usize::try_from(index).ok().filter(|&index| index < self.engine.keyspace.databases());
        index.ok_or(error::DB_OUT_OF_RANGE)
    }
}
