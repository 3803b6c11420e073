//! The subcommands of CLIENT, except tracking.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::super::Flag::{Admin, Loading, NoScript, Stale};
use super::super::{Argv, Ctx, Flag, Outcome, Row, blocking, integer, is_word};
use super::name::{is_printable, valid_name};
use super::tracking;
use crate::client::{Client, Closing, Slot};
use crate::clock::Timestamp;
use crate::engine::PauseMode;
use crate::error::{self, Error};
use crate::reply::Reply;

const ANYBODY: &[Flag] = &[NoScript, Loading, Stale];
const ADMIN: &[Flag] = &[Admin, NoScript, Loading, Stale];

pub(super) const ROWS: &[Row] = &[
    Row::new("client|caching", 3, ANYBODY, tracking::caching),
    Row::new("client|getname", 2, ANYBODY, getname),
    Row::new("client|getredir", 2, ANYBODY, tracking::getredir),
    Row::help("client|help"),
    Row::new("client|id", 2, ANYBODY, id),
    Row::new("client|info", 2, ANYBODY, info).tips(&["nondeterministic_output"]).telling_counts(),
    Row::new("client|kill", -3, ADMIN, kill).telling_counts(),
    Row::new("client|list", -2, ADMIN, list).tips(&["nondeterministic_output"]).telling_counts(),
    Row::new("client|no-evict", 3, ADMIN, no_evict),
    Row::new("client|pause", -3, ADMIN, pause),
    Row::new("client|reply", 3, ANYBODY, reply),
    Row::new("client|setinfo", 4, ANYBODY, setinfo),
    Row::new("client|setname", 3, ANYBODY, setname),
    Row::new("client|tracking", -3, ANYBODY, tracking::tracking),
    Row::new("client|trackinginfo", 2, ANYBODY, tracking::trackinginfo),
    Row::new("client|unblock", -3, ADMIN, unblock),
    Row::new("client|unpause", 2, ADMIN, unpause),
];

/// Selects clients.
type Filter = Box<dyn Fn(&Client) -> bool>;

/// `CLIENT GETNAME`
fn getname(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let name = ctx.client.name.clone();
    Ok(if name.is_empty() { Reply::Nil } else { Reply::Bulk(name) })
}

/// `CLIENT ID`
fn id(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::Integer(ctx.read_id() as i64))
}

/// `CLIENT INFO`
fn info(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    let now = ctx.engine.keyspace.now();
    Ok(Reply::Verbatim(*b"txt", (describe(ctx.client, now) + "\n").into()))
}

/// `CLIENT LIST [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]`
fn list(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let keep: Filter = match &argv[2..] {
        [] => Box::new(|_| true),
        [word, kind] if is_word(word, "type") => {
            let kind = ClientType::parse(kind)?;
            Box::new(move |client| ClientType::of(client) == kind)
        }
        [word, ids @ ..] if is_word(word, "id") && !ids.is_empty() => {
            let ids = ids.iter().map(|id| crate::parse::parse_integer(id).ok_or(error::INVALID_CLIENT_ID));
            let ids: Vec<i64> = ids.collect::<Result<_, _>>()?;
            Box::new(move |client| ids.contains(&(client.id as i64)))
        }
        _ => return Err(error::SYNTAX),
    };
    let now = ctx.engine.keyspace.now();
    let mut lines = Vec::new();
    let mut clients = ctx.engine.clients.others();
    clients.push(ctx.client);
    clients.sort_by_key(|client| client.id);
    for client in clients.into_iter().filter(|client| keep(client)) {
        lines.push(describe(client, now) + "\n");
    }
    Ok(Reply::Verbatim(*b"txt", lines.concat().into()))
}

/// The kinds of clients. No client here is a replica or a master.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClientType {
    Normal,
    Pubsub,
    Replication,
}

impl ClientType {
    fn parse(word: &[u8]) -> Result<ClientType, Error> {
        match word {
            word if is_word(word, "normal") => Ok(ClientType::Normal),
            word if is_word(word, "pubsub") => Ok(ClientType::Pubsub),
            word if ["master", "replica", "slave"].iter().any(|own| is_word(word, own)) => {
                Ok(ClientType::Replication)
            }
            _ => Err(Error::new([b"ERR Unknown client type '", word, b"'"].concat())),
        }
    }

    fn of(client: &Client) -> ClientType {
        if client.is_subscriber() { ClientType::Pubsub } else { ClientType::Normal }
    }
}

/// Describes a client in one line. Values that an emulator does not have, such as buffers of its
/// own, are 0.
fn describe(client: &Client, now: Timestamp) -> String {
    let [channels, patterns, shard_channels] = client.subscriptions.each_ref().map(BTreeSet::len);
    let queued = client.transaction.as_ref().map_or(-1, |transaction| transaction.queue.len() as i64);
    let [addr, laddr] =
        client.addresses.each_ref().map(|address| if address.is_empty() { "inprocess:0" } else { address });
    let redirect = match &client.tracking {
        None => -1,
        Some(tracking) => tracking.redirect.map_or(0, |id| id as i64),
    };
    format!(
        "id={} addr={addr} laddr={laddr} fd={} name={} age={} idle={} flags={} db={} sub={channels} psub={patterns} \
         ssub={shard_channels} multi={queued} qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll={} omem={} \
         tot-mem={} events=r cmd={} user=default redir={redirect} resp={}",
        client.id,
        client.id + 7,
        String::from_utf8_lossy(&client.name),
        now.since(client.opened_at).as_secs(),
        now.since(client.active_at).as_secs(),
        flags(client),
        client.db,
        client.unread_len(),
        client.output_bytes(),
        size_of::<Client>() + client.output_bytes(),
        if client.last_command.is_empty() { "NULL" } else { client.last_command },
        client.protocol.version(),
    )
}

fn flags(client: &Client) -> String {
    let flags = [
        ('O', client.is_monitor),
        ('P', client.is_subscriber()),
        ('x', client.transaction.is_some()),
        ('b', client.is_blocked),
        ('t', client.tracking.is_some()),
        ('B', client.tracking.as_ref().is_some_and(|tracking| tracking.is_broadcast)),
        ('c', client.closing == Closing::WhenWritten),
        ('A', client.closing == Closing::Now),
        ('r', client.reads_replicas),
        ('e', client.is_no_evict),
    ];
    let set: String = flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag).collect();
    if set.is_empty() { "N".into() } else { set }
}

/// `CLIENT KILL <ip:port | [ID client-id] [TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [USER
/// username] [ADDR ip:port] [LADDR ip:port] [SKIPME <YES | NO>]>`
fn kill(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut filters: Vec<Filter> = Vec::new();
    let (mut is_me_spared, is_old_form) = (true, argv.len() == 3);
    if let [_, _, addr] = argv {
        let addr = String::from_utf8_lossy(addr).into_owned();
        is_me_spared = false;
        filters.push(Box::new(move |client| client.addresses[0] == addr));
    } else {
        let (pairs, []) = argv[2..].as_chunks::<2>() else { return Err(error::SYNTAX) };
        for [option, value] in pairs {
            let text = String::from_utf8_lossy(value).into_owned();
            match option {
                word if is_word(word, "id") => {
                    let id = crate::parse::parse_integer(value)
                        .filter(|&id| id > 0)
                        .ok_or(error::CLIENT_ID_NOT_POSITIVE)?;
                    filters.push(Box::new(move |client| client.id as i64 == id));
                }
                word if is_word(word, "type") => {
                    let kind = ClientType::parse(value)?;
                    filters.push(Box::new(move |client| ClientType::of(client) == kind));
                }
                word if is_word(word, "addr") => {
                    filters.push(Box::new(move |client| client.addresses[0] == text));
                }
                word if is_word(word, "laddr") => {
                    filters.push(Box::new(move |client| client.addresses[1] == text));
                }
                word if is_word(word, "user") => {
                    if text != "default" {
                        return Err(Error::new(format!("ERR No such user '{text}'")));
                    }
                }
                word if is_word(word, "skipme") && is_word(value, "yes") => is_me_spared = true,
                word if is_word(word, "skipme") && is_word(value, "no") => is_me_spared = false,
                _ => return Err(error::SYNTAX),
            }
        }
    }
    let is_meant = |client: &Client| filters.iter().all(|filter| filter(client));
    let others = ctx.engine.clients.others();
    let slots: Vec<Slot> =
        others.into_iter().filter(|client| is_meant(client)).map(|client| client.slot).collect();
    let is_me_meant = !is_me_spared && is_meant(ctx.client);
    if is_me_meant {
        ctx.client.closing = Closing::WhenWritten;
    }
    for slot in &slots {
        ctx.engine.kill(*slot);
    }
    let killed = slots.len() + usize::from(is_me_meant);
    match (is_old_form, killed) {
        (true, 0) => Err(error::NO_SUCH_CLIENT),
        (true, _) => Ok(Reply::OK),
        (false, _) => Ok(Reply::count(killed)),
    }
}

/// `CLIENT NO-EVICT <ON | OFF>`: the emulator never evicts a client
fn no_evict(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.client.is_no_evict = match argv[2] {
        word if is_word(word, "on") => true,
        word if is_word(word, "off") => false,
        _ => return Err(error::SYNTAX),
    };
    Ok(Reply::OK)
}

/// `CLIENT PAUSE timeout [WRITE | ALL]`
fn pause(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mode = match &argv[3..] {
        [] => PauseMode::All,
        [word] if is_word(word, "all") => PauseMode::All,
        [word] if is_word(word, "write") => PauseMode::Write,
        [_] => return Err(error::PAUSE_MODE),
        _ => return Err(error::unknown_subcommand_or_arity("CLIENT", argv[1])),
    };
    ctx.engine.concern_all();
    let now = ctx.engine.keyspace.now();
    let until = blocking::millis(ctx, argv[2])?.unwrap_or(now);
    // A longer or stricter pause that is active is not shortened.
    let (before, mode_before) = ctx.engine.pause.unwrap_or((until, mode));
    let mode = if mode_before == PauseMode::All { PauseMode::All } else { mode };
    ctx.engine.pause = Some((until.max(before), mode));
    Ok(Reply::OK)
}

/// `CLIENT UNPAUSE`
fn unpause(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    ctx.engine.concern_all();
    ctx.engine.unpause();
    Ok(Reply::OK)
}

/// `CLIENT REPLY <ON | OFF | SKIP>`
fn reply(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let replies = &mut ctx.client.replies;
    match argv[2] {
        word if is_word(word, "on") => {
            (replies.is_off, replies.skips_this) = (false, false);
            return Ok(Reply::OK);
        }
        word if is_word(word, "off") => replies.is_off = true,
        word if is_word(word, "skip") => replies.skips_next |= !replies.is_off,
        _ => return Err(error::SYNTAX),
    }
    Ok(Reply::NOTHING)
}

/// `CLIENT SETINFO <LIB-NAME libname | LIB-VER libver>`
///
/// It came with Redis 7.2. It is accepted because clients send it when they connect.
fn setinfo(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let option = String::from_utf8_lossy(argv[2]).to_lowercase();
    let Some(idx) = ["lib-name", "lib-ver"].iter().position(|own| *own == option) else {
        let option = String::from_utf8_lossy(argv[2]);
        return Err(Error::new(format!("ERR Unrecognized option '{option}'")));
    };
    if !is_printable(argv[3]) {
        return Err(Error::new(format!(
            "ERR {option} cannot contain spaces, newlines or special characters."
        )));
    }
    ctx.client.library[idx] = Bytes::copy_from_slice(argv[3]);
    Ok(Reply::OK)
}

/// `CLIENT SETNAME connection-name`
fn setname(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    ctx.client.name = valid_name(argv[2])?;
    Ok(Reply::OK)
}

/// `CLIENT UNBLOCK client-id [TIMEOUT | ERROR]`: returns whether the client was blocked
fn unblock(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let is_error = match &argv[3..] {
        [] => false,
        [word] if is_word(word, "timeout") => false,
        [word] if is_word(word, "error") => true,
        [_] => return Err(error::UNBLOCK_REASON),
        _ => return Err(error::unknown_subcommand_or_arity("CLIENT", argv[1])),
    };
    let id = integer(argv[2])?;
    ctx.engine.concern_all();
    let slot = u64::try_from(id).ok().and_then(|id| ctx.engine.clients.by_id(id));
    let Some(slot) = slot.filter(|&slot| ctx.engine.waiting.can_be_unblocked(slot)) else {
        return Ok(Reply::Integer(0));
    };
    let blocked = ctx.engine.unblock(slot).map(|blocked| blocked.on_timeout);
    let reply = if is_error { Some(Reply::Error(error::UNBLOCKED)) } else { blocked };
    reply.into_iter().for_each(|reply| ctx.engine.outbox.send(slot, reply));
    Ok(Reply::Integer(1))
}
