//! `COMMAND`: the contents of the command table.

use super::super::Flag::{Admin, Blocking, Fast, Loading, ReadOnly, Stale, Write};
use super::super::{
    Argv, Ctx, FindKeys, Flag, Group, KeySpec, Outcome, Row, Table, docs, is_word, subcommand,
};
use crate::error;
use crate::reply::Reply;

pub(super) const COMMAND: Row = Row {
    subcommands: &[
        Row::new("command|count", 2, &[Loading, Stale], command_count).categories(&["connection"]),
        Row::new("command|docs", -2, &[Loading, Stale], docs::command_docs)
            .categories(&["connection"])
            .tips(&["nondeterministic_output_order"]),
        Row::new("command|getkeys", -4, &[Loading, Stale], command_getkeys).categories(&["connection"]),
        Row::new("command|getkeysandflags", -4, &[Loading, Stale], command_getkeysandflags)
            .categories(&["connection"]),
        Row::help("command|help").categories(&["connection"]),
        Row::new("command|info", -2, &[Loading, Stale], command_info)
            .categories(&["connection"])
            .tips(&["nondeterministic_output_order"]),
        Row::new("command|list", -2, &[Loading, Stale], command_list)
            .categories(&["connection"])
            .tips(&["nondeterministic_output_order"]),
    ],
    ..Row::new("command", -1, &[Loading, Stale], command)
        .categories(&["connection"])
        .tips(&["nondeterministic_output_order"])
        .on_sentinels_too()
};

/// `COMMAND`
fn command(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Array(ctx.table.rows().map(|(row, group)| describe(row, group)).collect()))
}

/// `COMMAND COUNT`
fn command_count(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.table.rows().count()))
}

/// `COMMAND GETKEYS command [arg [arg ...]]`
fn command_getkeys(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keys = keys_of(ctx.table, &argv[2..])?;
    Ok(Reply::Array(keys.into_iter().map(|(key, _)| Reply::bulk(key)).collect()))
}

/// `COMMAND GETKEYSANDFLAGS command [arg [arg ...]]`
fn command_getkeysandflags(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keys = keys_of(ctx.table, &argv[2..])?.into_iter().map(|(key, flags)| {
        let flags = flags.iter().copied().map(Reply::status);
        Reply::Array(vec![Reply::bulk(key), Reply::Set(flags.collect())])
    });
    Ok(Reply::Array(keys.collect()))
}

/// The flags of a key. Only those of `SET` depend on its arguments: on whether `GET` is one.
fn effective_flags(spec: &KeySpec, called: &Argv<'_>) -> &'static [&'static str] {
    if !spec.flags.contains(&"variable_flags") {
        spec.flags
    } else if called[3..].iter().any(|arg| is_word(arg, "get")) {
        &["RW", "access", "update"]
    } else {
        &["OW", "update"]
    }
}

/// A key, and the flags that say what the command does with it.
type Key<'a> = (&'a [u8], &'static [&'static str]);

/// Returns the keys in the arguments of a command.
fn keys_of<'a>(table: &Table, called: &'a Argv<'a>) -> Result<Vec<Key<'a>>, error::Error> {
    let (row, _) = table.lookup(called[0]).ok_or(error::INVALID_COMMAND)?;
    let row = called.get(1).and_then(|name| subcommand(row, name)).unwrap_or(row);
    if row.keys.is_empty() {
        return Err(error::NO_KEY_ARGUMENTS);
    }
    if !row.accepts(called.len()) {
        return Err(error::INVALID_ARGUMENT_COUNT);
    }
    match keys_by_specs(row, called).or_else(|| keys_by_count(row, called)) {
        Some(keys) => Ok(keys),
        None if row.has(Flag::NoMandatoryKeys) => Ok(Vec::new()),
        None => Err(error::INVALID_ARGUMENTS),
    }
}

/// Finds the keys by the key specs. Returns `None` if one of the specs does not fit the arguments.
fn keys_by_specs<'a>(row: &'static Row, called: &'a Argv<'a>) -> Option<Vec<Key<'a>>> {
    let mut keys = Vec::new();
    for spec in row.keys {
        let positions = spec.positions(called);
        if positions.is_empty() && !matches!(spec.find, FindKeys::Unknown(_)) {
            return None;
        }
        keys.extend(positions.into_iter().map(|idx| (called[idx], effective_flags(spec, called))));
    }
    Some(keys)
}

/// Finds the keys as Redis does if a spec of a command with `numkeys` does not fit: counted keys
/// first, without flags.
fn keys_by_count<'a>(row: &'static Row, called: &'a Argv<'a>) -> Option<Vec<Key<'a>>> {
    let (counted, others): (Vec<_>, Vec<_>) =
        row.keys.iter().partition(|spec| matches!(spec.find, FindKeys::Keynum));
    let counted = counted.first()?.lenient_positions(called);
    if counted.is_empty() {
        return None;
    }
    let others = others.into_iter().flat_map(|spec| spec.positions(called));
    Some(counted.into_iter().chain(others).map(|idx| (called[idx], &[][..])).collect())
}

/// `COMMAND INFO [command-name [command-name ...]]`
fn command_info(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    if argv.len() == 2 {
        return command(ctx, argv);
    }
    let infos = argv[2..]
        .iter()
        .map(|name| ctx.table.lookup_full(name).map_or(Reply::Nil, |(row, group)| describe(row, group)));
    Ok(Reply::Array(infos.collect()))
}

/// `COMMAND LIST [FILTERBY <MODULE module-name | ACLCAT category | PATTERN pattern>]`
fn command_list(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    type Filter<'a> = Box<dyn Fn(&Row, &Group) -> bool + 'a>;
    let keep: Filter<'_> = match &argv[2..] {
        [] => Box::new(|_, _| true),
        [filter, kind, _] if is_word(filter, "filterby") && is_word(kind, "module") => Box::new(|_, _| false),
        [filter, kind, category] if is_word(filter, "filterby") && is_word(kind, "aclcat") => {
            Box::new(|row, group| categories(row, group).iter().any(|name| is_word(category, name)))
        }
        [filter, kind, pattern] if is_word(filter, "filterby") && is_word(kind, "pattern") => {
            Box::new(|row, _| crate::glob::matches(&pattern.to_ascii_lowercase(), row.name.as_bytes()))
        }
        _ => return Err(error::SYNTAX),
    };
    let with_subcommands = |(row, group): (&'static Row, &'static Group)| {
        std::iter::once(row).chain(row.subcommands).map(move |row| (row, group))
    };
    let kept = ctx.table.rows().flat_map(with_subcommands).filter(|(row, group)| keep(row, group));
    Ok(Reply::Array(kept.map(|(row, _)| Reply::bulk(row.name)).collect()))
}

/// Describes a row as `COMMAND INFO` does.
fn describe(row: &Row, group: &Group) -> Reply {
    let words = |words: &[&'static str]| Reply::Set(words.iter().copied().map(Reply::status).collect());
    let flags = Reply::Set(row.flags.iter().map(|flag| Reply::status(flag.word())).collect());
    let categories = categories(row, group).into_iter().map(|name| Reply::Status(format!("@{name}").into()));
    let (first, last, step) = first_range(row);
    Reply::Array(vec![
        Reply::bulk(row.name),
        Reply::Integer(row.arity.into()),
        flags,
        Reply::Integer(first),
        Reply::Integer(last),
        Reply::Integer(step),
        Reply::Set(categories.collect()),
        Reply::Array(row.tips.iter().map(Reply::bulk).collect()),
        Reply::Array(row.keys.iter().map(|spec| describe_keys(spec, &words)).collect()),
        Reply::Array(row.subcommands.iter().map(|sub| describe(sub, group)).collect()),
    ])
}

/// Returns the first key, last key and step of the old-style description.
///
/// It joins the ranges that follow one another from the front. If the first keys are in no range,
/// all three are 0.
fn first_range(row: &Row) -> (i64, i64, i64) {
    let mut whole = (0, 0, 0);
    for spec in row.keys {
        let FindKeys::Range { last, step } = spec.find else { break };
        let begin = spec.begin as i64;
        let last = if last < 0 { last.into() } else { begin + i64::from(last) };
        whole = match whole {
            (0, ..) => (begin, last, step as i64),
            (first, before, 1) if before + 1 == begin && step == 1 => (first, last, 1),
            _ => break,
        };
    }
    whole
}

fn describe_keys(spec: &KeySpec, words: &dyn Fn(&[&'static str]) -> Reply) -> Reply {
    let field = |name: &str, value: Reply| (Reply::bulk(name), value);
    let number = |name: &str, n: i64| field(name, Reply::Integer(n));
    let (find_type, find_spec) = match spec.find {
        FindKeys::Range { last, step } => (
            "range",
            vec![number("lastkey", last.into()), number("keystep", step as i64), number("limit", 0)],
        ),
        FindKeys::Keynum => {
            ("keynum", vec![number("keynumidx", 0), number("firstkey", 1), number("keystep", 1)])
        }
        FindKeys::Unknown(_) => ("unknown", Vec::new()),
    };
    let (begin_type, begin_spec) = match spec.find {
        FindKeys::Unknown(_) => ("unknown", Vec::new()),
        _ => ("index", vec![number("index", spec.begin as i64)]),
    };
    let typed = |kind: &str, spec: Vec<(Reply, Reply)>| {
        Reply::Map(vec![field("type", Reply::bulk(kind)), field("spec", Reply::Map(spec))])
    };
    let notes = (!spec.notes.is_empty()).then(|| field("notes", Reply::bulk(spec.notes)));
    let fields = [
        field("flags", words(spec.flags)),
        field("begin_search", typed(begin_type, begin_spec)),
        field("find_keys", typed(find_type, find_spec)),
    ];
    Reply::Map(notes.into_iter().chain(fields).collect())
}

/// Returns the ACL categories of a row: those that its flags and its group imply, and its own.
fn categories(row: &Row, group: &Group) -> Vec<&'static str> {
    let has = |flag| row.has(flag);
    let mut categories: Vec<&'static str> = Vec::new();
    // A container is no command: only its subcommands belong to the group.
    categories.extend(group.category.filter(|_| !row.is_container() && !row.is_outsider));
    categories.extend(row.categories);
    categories.extend(has(Write).then_some("write"));
    categories.extend((has(ReadOnly) && group.category != Some("scripting")).then_some("read"));
    categories.extend(has(Blocking).then_some("blocking"));
    categories.extend(has(Admin).then_some("admin"));
    categories.extend(has(Admin).then_some("dangerous"));
    categories.push(if has(Fast) { "fast" } else { "slow" });
    categories
}
