//! The table of commands: finds rows by their names. It does not know which groups there are.

use indexmap::IndexMap;

use super::argv::Argv;
use super::missing;
use super::row::{Group, Row, Servers, Table};
use crate::error::{self, Error};

impl Table {
    /// The table of those commands of these groups that a server with data has, or a Sentinel.
    pub(super) fn new(groups: &'static [Group], is_sentinels: bool) -> Table {
        let mut table = Table { groups, is_sentinels, by_name: IndexMap::default() };
        let both_cases = |row: &Row| [row.name.into(), row.name.to_ascii_uppercase().into_bytes()];
        let names = table.rows().flat_map(|(row, group)| both_cases(row).map(|name| (name, (row, group))));
        table.by_name = names.collect();
        table
    }

    /// Returns the row of a command by its name, in any case.
    pub(crate) fn lookup(&self, name: &[u8]) -> Option<(&'static Row, &'static Group)> {
        // Nearly all clients write a name in one case.
        let known = self.by_name.get(name).or_else(|| {
            let mut buffer = [0; NAME_BYTES_MAX];
            let lower = buffer.get_mut(..name.len())?;
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            self.by_name.get(&*lower)
        });
        known.copied()
    }

    /// Returns the row of a command or of a subcommand such as `client|id`.
    pub(crate) fn lookup_full(&self, name: &[u8]) -> Option<(&'static Row, &'static Group)> {
        let Some(bar) = name.iter().position(|&byte| byte == b'|') else { return self.lookup(name) };
        let (row, group) = self.lookup(&name[..bar])?;
        subcommand(row, &name[bar + 1..]).map(|sub| (sub, group))
    }

    /// All commands, without their subcommands.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static Row, &'static Group)> + use<> {
        let without = if self.is_sentinels { Servers::WithData } else { Servers::Sentinels };
        let rows = self.groups.iter().flat_map(|group| group.rows.iter().map(move |row| (row, group)));
        rows.filter(move |(row, _)| row.servers != without)
    }

    /// Returns the row that `argv` calls: that of the command or of its subcommand.
    ///
    /// # Errors
    /// Redis's texts, for an unknown command or subcommand and for a wrong number of arguments.
    pub(crate) fn resolve(&self, argv: &Argv<'_>) -> Result<&'static Row, Error> {
        let (row, _) = self.lookup(argv[0]).ok_or_else(|| {
            let missing = missing::group_of(argv[0], self.is_sentinels);
            missing.map_or_else(|| error::unknown_command(argv), |what| error::not_emulated(argv[0], what))
        })?;
        resolve_under(row, argv)
    }

    /// The name of the command that `argv` calls, even if the number of its arguments is wrong.
    pub(super) fn named(&self, argv: &Argv<'_>) -> Option<&'static str> {
        let (row, _) = self.lookup(argv[0])?;
        let sub = argv.get(1).and_then(|name| subcommand(row, name));
        let is_unknown = row.is_container() && argv.len() > 1 && sub.is_none();
        (!is_unknown).then(|| sub.unwrap_or(row).name)
    }

    /// Whether the command exists and, if it has subcommands and an argument follows, whether that
    /// subcommand exists.
    pub(crate) fn is_known(&self, argv: &Argv<'_>) -> bool {
        self.lookup(argv[0]).is_some_and(|(row, _)| {
            row.subcommands.is_empty() || argv.get(1).is_none_or(|name| subcommand(row, name).is_some())
        })
    }

    /// Checks the name of a command or of a subcommand such as `client|id`.
    ///
    /// # Errors
    /// There is no such command.
    pub(crate) fn expect_known(&self, name: &str) -> Result<(), Error> {
        let words: Vec<&[u8]> = name.splitn(2, '|').map(str::as_bytes).collect();
        self.is_known(&words).then_some(()).ok_or_else(|| {
            Error::new(format!(
                "ERR there is no command '{name}'. COMMAND LIST lists all; write a subcommand as client|id"
            ))
        })
    }
}

pub(super) fn resolve_under(row: &'static Row, argv: &Argv<'_>) -> Result<&'static Row, Error> {
    let row = match argv.get(1) {
        Some(name) if !row.subcommands.is_empty() => {
            subcommand(row, name).ok_or_else(|| error::unknown_subcommand(row.name, name))?
        }
        _ => row,
    };
    if row.accepts(argv.len()) { Ok(row) } else { Err(error::wrong_arity(row.name)) }
}

/// Returns a subcommand by its own name, in any case. Only `COMMAND` has both a function and
/// subcommands.
pub(crate) fn subcommand(row: &'static Row, name: &[u8]) -> Option<&'static Row> {
    let own_name = |sub: &'static Row| &sub.name.as_bytes()[row.name.len() + 1..];
    row.subcommands.iter().find(|sub| own_name(sub).eq_ignore_ascii_case(name))
}

/// The length of the longest command name. A longer name is unknown in any case of letters.
pub(super) const NAME_BYTES_MAX: usize = 32;
