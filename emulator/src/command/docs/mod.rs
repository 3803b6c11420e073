//! The documentation of commands: their arguments, their version, their purpose. `COMMAND DOCS` and
//! every `HELP` are made from it.
//!
//! `docs.txt` has an entry for each row of the table: its grammar line, and then a second line. The
//! second line has the version that introduced the command, its complexity, a sentence, and what
//! has replaced the command. The arguments of a command are parsed from its grammar line.

mod grammar;

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use indexmap::IndexMap;

use super::argv::Argv;
use super::flag::Flag;
use super::row::{Ctx, Group, Outcome, Row, Table};
use super::table::subcommand;
use crate::keyspace::Hasher;
use crate::reply::Reply;

use grammar::{Argument, Shape};

/// An entry of `docs.txt`.
struct Doc {
    /// The grammar after the name: `key [count]`.
    grammar: &'static str,
    since: &'static str,
    complexity: &'static str,
    summary: &'static str,
    /// The version that deprecated it, and its replacement.
    deprecated: Option<(&'static str, &'static str)>,
}

/// All entries, by the names of rows.
fn docs(table: &Table) -> &'static IndexMap<String, Doc, Hasher> {
    static DOCS: OnceLock<IndexMap<String, Doc, Hasher>> = OnceLock::new();
    DOCS.get_or_init(|| {
        let lines = include_str!("docs.txt").lines();
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        lines.chunks(2).filter_map(|entry| parse(table, entry[0], entry.get(1)?)).collect()
    })
}

fn parse(table: &Table, line: &'static str, facts: &'static str) -> Option<(String, Doc)> {
    let words: Vec<&str> = line.splitn(3, ' ').collect();
    // Each table has an entry for each of its rows, and shares them with the other.
    let rows = table.groups.iter().flat_map(|group| group.rows);
    let row = rows.into_iter().find(|row| row.name.eq_ignore_ascii_case(words[0]));
    let name = match (row, words.get(1)) {
        (Some(row), Some(sub)) if !row.subcommands.is_empty() => {
            subcommand(row, sub.as_bytes())?.name.to_owned()
        }
        _ => words[0].to_ascii_lowercase(),
    };
    let grammar = line.get(name.len() + 1..).unwrap_or_default();
    let (since, rest) = facts.trim().split_once(", ")?;
    let (complexity, text) = rest.split_once(". ")?;
    let (summary, deprecated) = match text.split_once(" Deprecated since ") {
        Some((summary, deprecated)) => (summary, deprecated.trim_end_matches('.').split_once(": ")),
        None => (text, None),
    };
    Some((name, Doc { grammar, since, complexity, summary, deprecated }))
}

/// `COMMAND DOCS [command-name [command-name ...]]`
pub(super) fn command_docs(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let named = |(row, group): (&'static Row, &'static Group)| {
        (Reply::bulk(row.name), describe(ctx.table, row, group))
    };
    if argv.len() == 2 {
        return Ok(Reply::Map(ctx.table.rows().map(named).collect()));
    }
    Ok(Reply::Map(argv[2..].iter().filter_map(|name| ctx.table.lookup_full(name)).map(named).collect()))
}

fn describe(table: &Table, row: &'static Row, group: &'static Group) -> Reply {
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    let text = |name: &str, text: &str| field(name, Reply::bulk(text));
    let mut fields = Vec::new();
    if let Some(doc) = docs(table).get(row.name) {
        fields.extend([text("summary", doc.summary), text("since", doc.since), text("group", group.name)]);
        if doc.complexity != "-" {
            fields.push(text("complexity", doc.complexity));
        }
        if let Some((since, replacement)) = doc.deprecated {
            fields.push(field("doc_flags", Reply::Set(vec![Reply::status("deprecated")])));
            fields.extend([text("deprecated_since", since), text("replaced_by", replacement)]);
        }
        let arguments = grammar::arguments(doc.grammar);
        if !arguments.is_empty() {
            fields.push(field("arguments", Reply::Array(arguments.iter().map(describe_argument).collect())));
        }
    }
    if !row.subcommands.is_empty() {
        let subcommands =
            row.subcommands.iter().map(|sub| (Reply::bulk(sub.name), describe(table, sub, group)));
        fields.push(field("subcommands", Reply::Map(subcommands.collect())));
    }
    Reply::Map(fields)
}

fn describe_argument(argument: &Argument) -> Reply {
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    let mut fields =
        vec![field("name", Reply::bulk(argument.name())), field("type", Reply::bulk(argument.type_name()))];
    fields.extend(argument.token.map(|token| field("token", Reply::bulk(token))));
    let flags = [
        (argument.is_optional, "optional"),
        (argument.is_multiple, "multiple"),
        (argument.repeats_token, "multiple_token"),
    ];
    let flags: Vec<Reply> =
        flags.iter().filter(|(has, _)| *has).map(|(_, flag)| Reply::status(flag)).collect();
    if !flags.is_empty() {
        fields.push(field("flags", Reply::Set(flags)));
    }
    if let Shape::OneOf(parts) | Shape::Block(parts) = &argument.shape {
        fields.push(field("arguments", Reply::Array(parts.iter().map(describe_argument).collect())));
    }
    Reply::Map(fields)
}

impl Row {
    /// Creates the subcommand that lists the others: `client|help`.
    pub(crate) const fn help(name: &'static str) -> Row {
        Row::new(name, 2, &[Flag::Loading, Flag::Stale], help)
    }
}

/// `HELP` of any command with subcommands: their arguments and their purpose. Each is made once.
pub(super) fn help(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    static HELPS: Mutex<BTreeMap<&str, Reply>> = Mutex::new(BTreeMap::new());
    let mut helps = HELPS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(helps.entry(ctx.row.name).or_insert_with(|| new_help(ctx)).clone())
}

fn new_help(ctx: &Ctx<'_>) -> Reply {
    let container = ctx.row.name.split('|').next().unwrap_or_default();
    let Some((row, _)) = ctx.table.lookup(container.as_bytes()) else { return Reply::Array(Vec::new()) };
    let mut lines = Vec::new();
    if !row.is_container() {
        lines.extend(["(no subcommand)".to_owned(), indented(ctx.table, row.name)]);
    }
    for sub in row.subcommands.iter().filter(|sub| !sub.name.ends_with("|help")) {
        let name = sub.name[container.len() + 1..].to_uppercase();
        let grammar = docs(ctx.table).get(sub.name).map_or("", |doc| doc.grammar);
        lines.extend([format!("{name} {grammar}").trim_end().to_owned(), indented(ctx.table, sub.name)]);
    }
    lines.extend(["HELP".to_owned(), indented(ctx.table, ctx.row.name)]);
    help_of(container, lines)
}

/// The lines of a `HELP`, after the line that all have in common.
pub(super) fn help_of(container: &str, lines: impl IntoIterator<Item = String>) -> Reply {
    let container = container.to_uppercase();
    let first = format!("{container} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    Reply::Array(std::iter::once(first).chain(lines).map(|line| Reply::Status(line.into())).collect())
}

fn indented(table: &Table, name: &str) -> String {
    format!("    {}", docs(table).get(name).map_or("", |doc| doc.summary))
}

#[cfg(test)]
mod tests {
    use super::super::{TABLE, TABLE_OF_SENTINELS};
    use super::*;

    #[test]
    fn every_row_has_an_entry() {
        let rows = TABLE.rows().chain(TABLE_OF_SENTINELS.rows());
        for row in rows.flat_map(|(row, _)| std::iter::once(row).chain(row.subcommands)) {
            assert!(docs(&TABLE).contains_key(row.name), "{} is not in docs.txt", row.name);
        }
    }
}
