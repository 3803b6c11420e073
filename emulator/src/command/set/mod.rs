//! Set commands on members. Combinations of sets and random members have their own files.

mod members;
mod combine;
mod random;

use super::Flag::{DenyOom, Fast, MovableKeys, ReadOnly, Write};
use super::{Argv, Ctx, KeySpec, Outcome, Row, scan};
use crate::keyspace::{Class, Edit, Set};
use crate::reply::Reply;

use combine::{combined, difference, intersection, sintercard, store, union};
use members::members;
use random::{spop, srandmember};

const ALL_LOOKED_AT: &[KeySpec] = &[KeySpec::every(1, &["RO", "access"])];
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];
const COUNTED: &[KeySpec] = &[KeySpec::one(&["RO"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const STORED: &[KeySpec] = &[KeySpec::one(&["OW", "update"]), KeySpec::every(1, &["RO", "access"]).from(2)];

pub(super) const ROWS: &[Row] = &[
    Row::new("sadd", -3, &[Write, DenyOom, Fast], sadd).keys(&[KeySpec::one(&["RW", "insert"])]),
    Row::new("scard", 2, &[ReadOnly, Fast], scard).keys(COUNTED),
    Row::new("sdiff", -2, &[ReadOnly], |ctx, argv| combined(ctx, argv, difference))
        .keys(ALL_LOOKED_AT)
        .tips(ANY_ORDER),
    Row::new("sdiffstore", -3, &[Write, DenyOom], |ctx, argv| store(ctx, argv, difference)).keys(STORED),
    Row::new("sinter", -2, &[ReadOnly], |ctx, argv| combined(ctx, argv, intersection))
        .keys(ALL_LOOKED_AT)
        .tips(ANY_ORDER),
    Row::new("sintercard", -3, &[ReadOnly, MovableKeys], sintercard)
        .keys(&[KeySpec::numkeys(1, &["RO", "access"])]),
    Row::new("sinterstore", -3, &[Write, DenyOom], |ctx, argv| store(ctx, argv, intersection))
        .keys(&[KeySpec::one(&["RW", "update"]), KeySpec::every(1, &["RO", "access"]).from(2)]),
    Row::new("sismember", 3, &[ReadOnly, Fast], sismember).keys(COUNTED),
    Row::new("smembers", 2, &[ReadOnly], smembers).keys(LOOKED_AT).tips(ANY_ORDER),
    Row::new("smismember", -3, &[ReadOnly, Fast], smismember).keys(LOOKED_AT),
    Row::new("smove", 4, &[Write, Fast], smove)
        .keys(&[KeySpec::one(&["RW", "access", "delete"]), KeySpec::at(2, &["RW", "insert"])]),
    Row::new("spop", -2, &[Write, Fast], spop)
        .keys(&[KeySpec::one(&["RW", "access", "delete"])])
        .tips(&["nondeterministic_output"]),
    Row::new("srandmember", -2, &[ReadOnly], srandmember).keys(LOOKED_AT).tips(&["nondeterministic_output"]),
    Row::new("srem", -3, &[Write, Fast], srem).keys(&[KeySpec::one(&["RW", "delete"])]),
    Row::new("sscan", -3, &[ReadOnly], sscan).keys(LOOKED_AT).tips(&["nondeterministic_output"]),
    Row::new("sunion", -2, &[ReadOnly], |ctx, argv| combined(ctx, argv, union))
        .keys(ALL_LOOKED_AT)
        .tips(ANY_ORDER),
    Row::new("sunionstore", -3, &[Write, DenyOom], |ctx, argv| store(ctx, argv, union)).keys(STORED),
];

/// `SADD key member [member ...]`: returns the number of new members
fn sadd(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(add(ctx.db().edit_or_create::<Set>(argv[1])?, &argv[2..])))
}

/// `SCARD key`
fn scard(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<Set>(argv[1])?.map_or(0, Set::len)))
}

/// `SISMEMBER key member`
fn sismember(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::truth(ctx.db().lookup_as::<Set>(argv[1])?.is_some_and(|set| set.contains(argv[2]))))
}

/// `SMEMBERS key`
fn smembers(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(ctx.db().lookup_as::<Set>(argv[1])?.map_or(Reply::Set(Vec::new()), members))
}

/// `SMISMEMBER key member [member ...]`
fn smismember(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let set = db.lookup_as::<Set>(argv[1])?;
    let are_members = argv[2..].iter().map(|member| set.is_some_and(|set| set.contains(member)));
    Ok(Reply::Array(are_members.map(Reply::truth).collect()))
}

/// `SMOVE source destination member`
fn smove(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (source, destination, members) = (argv[1], argv[2], &argv[3..]);
    let mut db = ctx.db();
    let Some(set) = db.lookup_as::<Set>(source)? else { return Ok(Reply::Integer(0)) };
    let is_member = set.contains(argv[3]);
    db.lookup_as::<Set>(destination)?;
    if is_member && source != destination {
        if let Some(set) = ctx.db().edit::<Set>(source)? {
            remove(set, members);
        }
        add(ctx.db().edit_or_create::<Set>(destination)?, members);
    }
    Ok(Reply::truth(is_member))
}

/// `SREM key member [member ...]`
fn srem(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let Some(set) = ctx.db().edit::<Set>(argv[1])? else { return Ok(Reply::Integer(0)) };
    Ok(Reply::count(remove(set, &argv[2..])))
}

/// `SSCAN key cursor [MATCH pattern] [COUNT count]`
fn sscan(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let cursor = scan::cursor(argv[2])?;
    let mut db = ctx.db();
    let Some(set) = db.lookup_as::<Set>(argv[1])? else { return Ok(scan::nothing()) };
    let options = scan::Options::parse(&argv[3..])?;
    let page = options.page_of(set.encoding(), cursor, set.len());
    let members = page.places.clone().map(|idx| set.get(idx).to_bytes());
    let members = members.filter(|member| options.matches(member));
    let found = members.map(Reply::Bulk).collect();
    Ok(page.reply(found))
}

/// Adds members. Returns how many are new.
fn add(mut set: Edit<'_, Set>, members: &Argv<'_>) -> usize {
    let mut added = 0;
    for member in members {
        if !set.get().contains(member) {
            added += usize::from(set.write().insert(member));
        }
    }
    if added > 0 {
        set.notify(Class::Set, "sadd");
    }
    added
}

/// Removes members. Returns how many existed.
fn remove(mut set: Edit<'_, Set>, members: &Argv<'_>) -> usize {
    let mut removed = 0;
    for member in members {
        if set.get().contains(member) {
            removed += usize::from(set.write().remove(member));
        }
    }
    if removed > 0 {
        set.notify(Class::Set, "srem");
    }
    removed
}
