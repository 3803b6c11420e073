//! Clients that work together: queues and channels whose contents add up, and clients that disturb
//! others.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::{Rng, RngExt as _};
use redis::Value;

use super::draw::argv;
use super::state::{End, Member, Soak, lock};
use crate::client::{Client, Lost, bulk, is_error, request, show};
use crate::server::pause;

const QUEUE: &str = "shared:queue";
const CHANNEL: &str = "news";
/// The last message on the channel.
const LAST: &str = "last";
/// How long a consumer waits for an element before it checks whether to stop.
const WAIT_SECONDS: &str = "0.2";
/// After this time in a script, the server replies `BUSY` to others.
pub(super) const BUSY_THRESHOLD_MS: &str = "20";

/// Pushes elements with unique names.
pub(super) fn produce(soak: &Soak<'_>, name: &str, rng: &mut impl Rng) -> Result<(), End> {
    let mut member = soak.join_as_victim()?;
    let mut seq = 0;
    while !soak.is_stopping() {
        let elements: Vec<String> = (0..rng.random_range(1..4))
            .map(|_| {
                seq += 1;
                format!("{name}-{seq:09}")
            })
            .collect();
        let push = ["RPUSH", QUEUE].into_iter().chain(elements.iter().map(String::as_str));
        match soak.ask(&mut member.client, &argv(push)) {
            Ok(Value::Int(len)) if len >= elements.len() as i64 => {
                lock(&soak.ledger).pushed.extend(elements);
            }
            Ok(reply) => return Err(End::Wrong(format!("RPUSH of {elements:?}: {}", show(&reply)))),
            Err(lost) => {
                lock(&soak.ledger).perhaps_pushed.extend(elements);
                soak.mourn(&member, lost)?;
                member = soak.join_as_victim()?;
            }
        }
        // The pause lets consumers keep up, so that the queue is sometimes empty.
        pause(Duration::from_micros(rng.random_range(0..2000)));
    }
    soak.leave(member.id);
    Ok(())
}

/// Moves elements to a list of its own. The list shows what was moved even if the reply is lost.
pub(super) fn consume_by_move(soak: &Soak<'_>, name: &str) -> Result<(), End> {
    let mut member = soak.join_as_victim()?;
    let own = taken(name);
    while !soak.is_stopping() {
        match soak.ask(&mut member.client, &["BLMOVE", QUEUE, &own, "LEFT", "RIGHT", WAIT_SECONDS]) {
            Ok(Value::Nil | Value::BulkString(_)) => {}
            Ok(reply) => return Err(End::Wrong(format!("BLMOVE: {}", show(&reply)))),
            Err(lost) => {
                soak.mourn(&member, lost)?;
                member = soak.join_as_victim()?;
            }
        }
    }
    soak.leave(member.id);
    Ok(())
}

/// Pops elements. This client is not killed, because an element in a lost reply would be lost.
pub(super) fn consume_by_pop(soak: &Soak<'_>, name: &str) -> Result<(), End> {
    let mut member = soak.join()?;
    let mut popped = Vec::new();
    while !soak.is_stopping() {
        match soak.ask(&mut member.client, &["BLPOP", "shared:no-queue", QUEUE, WAIT_SECONDS])? {
            Value::Nil => {}
            Value::Array(items) => match &items[..] {
                [queue, Value::BulkString(element)] if *queue == bulk(QUEUE) => {
                    popped.push(String::from_utf8_lossy(element).into_owned());
                }
                _ => return Err(End::Wrong(format!("BLPOP: {items:?}"))),
            },
            reply => return Err(End::Wrong(format!("BLPOP: {}", show(&reply)))),
        }
    }
    lock(&soak.ledger).popped.insert(name.into(), popped);
    Ok(())
}

fn taken(consumer: &str) -> String {
    format!("shared:taken:{consumer}")
}

/// Each element must have been taken by one consumer or still be in the queue. Elements of one
/// producer must have been taken in order.
pub(super) fn check_queue(soak: &Soak<'_>, movers: &[String]) -> Result<(), End> {
    let mut member = soak.join()?;
    let mut list = |key: &str| match soak.ask(&mut member.client, &["LRANGE", key, "0", "-1"])? {
        Value::Array(items) => {
            let texts = items.iter().filter_map(|item| match item {
                Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
                _ => None,
            });
            Ok::<Vec<String>, End>(texts.collect())
        }
        other => Err(End::Wrong(format!("LRANGE {key}: {}", show(&other)))),
    };
    let mut ledger = lock(&soak.ledger);
    for mover in movers {
        let moved = list(&taken(mover))?;
        ledger.popped.insert(mover.clone(), moved);
    }
    let rest = list(QUEUE)?;
    ledger.popped.insert("nobody".into(), rest);
    let mut seen = std::collections::BTreeSet::new();
    for (consumer, elements) in &ledger.popped {
        let mut last_of = std::collections::BTreeMap::new();
        for element in elements {
            if !seen.insert(element) {
                return Err(End::Wrong(format!("{element} was taken twice, the second time by {consumer}")));
            }
            if !ledger.pushed.contains(element) && !ledger.perhaps_pushed.contains(element) {
                return Err(End::Wrong(format!("{consumer} took {element}, which nobody pushed")));
            }
            let producer = element.split('-').next().unwrap_or_default();
            if last_of.insert(producer, element).is_some_and(|last| last > element) {
                return Err(End::Wrong(format!("{consumer} took {element} after a later element")));
            }
        }
    }
    match ledger.pushed.iter().find(|element| !seen.contains(element)) {
        Some(element) => Err(End::Wrong(format!("{element} was pushed, and nobody has it"))),
        None => Ok(()),
    }
}

/// Publishes numbers, and finally a message that there are no more.
pub(super) fn publish(soak: &Soak<'_>, rng: &mut impl Rng) -> Result<(), End> {
    let mut member = soak.join()?;
    while !soak.is_heard.load(Ordering::Relaxed) && !soak.is_stopping() {
        pause(Duration::from_millis(1));
    }
    for seq in 1.. {
        if soak.is_stopping() {
            break;
        }
        match soak.ask(&mut member.client, &["PUBLISH", CHANNEL, &seq.to_string()])? {
            Value::Int(1..) => {}
            reply => return Err(End::Wrong(format!("PUBLISH {seq}: {}", show(&reply)))),
        }
        pause(Duration::from_micros(rng.random_range(0..1000)));
    }
    // A killed listener may subscribe once more.
    while soak.listeners.load(Ordering::Relaxed) > 0 {
        soak.ask(&mut member.client, &["PUBLISH", CHANNEL, LAST])?;
        pause(Duration::from_millis(1));
    }
    Ok(())
}

/// The first listener is never killed. Other listeners may miss messages between two connections.
pub(super) fn listen(soak: &Soak<'_>, name: &str) -> Result<(), End> {
    let end = if name.ends_with('0') { listen_to_all(soak) } else { listen_in_parts(soak) };
    soak.listeners.fetch_sub(1, Ordering::Relaxed);
    end
}

/// A listener that stays connected to the end must receive every message.
fn listen_to_all(soak: &Soak<'_>) -> Result<(), End> {
    let mut member = soak.join()?;
    subscribe(soak, &mut member)?;
    soak.is_heard.store(true, Ordering::Relaxed);
    let mut next = 1;
    loop {
        match message(&member.client.receive()?)? {
            Some(seq) if seq == next => next += 1,
            Some(seq) => return Err(End::Wrong(format!("message {seq} came in place of {next}"))),
            None => return Ok(()),
        }
        soak.counts.checked.fetch_add(1, Ordering::Relaxed);
    }
}

/// A listener that is killed at times must miss no message within one connection.
fn listen_in_parts(soak: &Soak<'_>) -> Result<(), End> {
    let mut before = 0;
    loop {
        let mut member = soak.join()?;
        subscribe(soak, &mut member)?;
        soak.offer(&member);
        let mut next = None;
        let lost = loop {
            match member.client.receive() {
                Err(lost) => break lost,
                Ok(reply) => match message(&reply)? {
                    Some(seq) if seq > before && next.is_none_or(|next| seq == next) => {
                        (before, next) = (seq, Some(seq + 1));
                    }
                    Some(seq) => {
                        return Err(End::Wrong(format!(
                            "message {seq} came after {before}; expected {next:?}"
                        )));
                    }
                    None => {
                        soak.leave(member.id);
                        return Ok(());
                    }
                },
            }
            soak.counts.checked.fetch_add(1, Ordering::Relaxed);
        };
        soak.mourn(&member, lost)?;
    }
}

fn subscribe(soak: &Soak<'_>, member: &mut Member) -> Result<(), End> {
    let confirmation = Value::Array(vec![bulk("subscribe"), bulk(CHANNEL), Value::Int(1)]);
    soak.expect(&mut member.client, &["SUBSCRIBE", CHANNEL], &confirmation)
}

/// The number of a message; `None` for the last message.
fn message(reply: &Value) -> Result<Option<u64>, End> {
    if let Value::Array(items) = reply
        && let [kind, channel, Value::BulkString(payload)] = &items[..]
        && *kind == bulk("message")
        && *channel == bulk(CHANNEL)
    {
        let payload = String::from_utf8_lossy(payload);
        if payload == LAST {
            return Ok(None);
        }
        if let Ok(seq) = payload.parse() {
            return Ok(Some(seq));
        }
    }
    Err(End::Wrong(format!("not a message: {}", show(reply))))
}

/// Closes the connections of other clients, and at times its own.
pub(super) fn kill(soak: &Soak<'_>, rng: &mut impl Rng) -> Result<(), End> {
    let mut member = soak.join()?;
    while !soak.is_stopping() {
        if rng.random_range(0..20) == 0 {
            let own = member.id.to_string();
            soak.expect(&mut member.client, &["CLIENT", "KILL", "ID", &own, "SKIPME", "no"], &Value::Int(1))?;
            match member.client.receive() {
                Err(Lost::Closed) => {}
                other => return Err(End::Wrong(format!("a client that killed itself receives {other:?}"))),
            }
            soak.counts.killed.fetch_add(1, Ordering::Relaxed);
            member = soak.join()?;
        }
        if let Some(id) = soak.take_victim(rng.random_range(0..1000)) {
            match soak.ask(&mut member.client, &["CLIENT", "KILL", "ID", &id.to_string()])? {
                Value::Int(n @ 0..=1) => soak.counts.killed.fetch_add(n as u64, Ordering::Relaxed),
                reply => return Err(End::Wrong(format!("CLIENT KILL ID {id}: {}", show(&reply)))),
            };
        }
        pause(Duration::from_millis(rng.random_range(0..20)));
    }
    Ok(())
}

/// Requests much data at once, reads it slowly, and at times leaves half of it unread.
pub(super) fn read_slowly(soak: &Soak<'_>, name: &str, rng: &mut impl Rng) -> Result<(), End> {
    const VALUE_BYTES: usize = 256 * 1024;
    const ASKED: usize = 32;
    let key = format!("shared:big:{name}");
    let value = vec![b'.'; VALUE_BYTES];
    let mut owner = soak.join()?;
    soak.expect(&mut owner.client, &[b"SET", key.as_bytes(), &value], &Value::Okay)?;
    let value = bulk(value);
    while !soak.is_stopping() {
        let mut client = Client::connect(soak.addr)?;
        client.send_bytes(&request(&["GET", &key]).repeat(ASKED))?;
        let read = if rng.random_range(0..3) == 0 { rng.random_range(0..ASKED) } else { ASKED };
        for _ in 0..read {
            let reply = client.receive()?;
            if reply != value && !is_error(&reply, "BUSY") {
                return Err(End::Wrong(format!(
                    "GET {key} has another reply in a pipeline that is read slowly"
                )));
            }
            soak.counts.checked.fetch_add(1, Ordering::Relaxed);
            pause(Duration::from_millis(rng.random_range(0..3)));
        }
        if read < ASKED {
            soak.counts.cut.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Writes all its requests before it reads the first reply.
pub(super) fn read_late(soak: &Soak<'_>, name: &str, pipeline_bytes: usize) -> Result<(), End> {
    const VALUE_BYTES: usize = 1024;
    let key = format!("shared:late:{name}");
    let value = vec![b'.'; VALUE_BYTES];
    let mut owner = soak.join()?;
    soak.expect(&mut owner.client, &[b"SET", key.as_bytes(), &value], &Value::Okay)?;
    let (request, value) = (request(&["GET", &key]), bulk(value));
    let asked = pipeline_bytes / request.len();
    while !soak.is_stopping() {
        let mut client = Client::connect(soak.addr)?;
        client.send_bytes(&request.repeat(asked))?;
        for _ in 0..asked {
            let reply = client.receive()?;
            if reply != value && !is_error(&reply, "BUSY") {
                return Err(End::Wrong(format!(
                    "GET {key}: {} in a pipeline that is read late",
                    show(&reply)
                )));
            }
        }
        soak.counts.checked.fetch_add(asked as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// Runs an endless script, lets other clients disconnect meanwhile, and kills the script.
pub(super) fn be_busy(soak: &Soak<'_>, leavers: usize, rng: &mut impl Rng) -> Result<(), End> {
    let mut runner = Client::connect(soak.addr)?;
    let mut killer = Client::connect(soak.addr)?;
    let script = "while true do pcall(function() while true do end end) end";
    while !soak.is_stopping() {
        let turn = soak.calm.write().unwrap_or_else(PoisonError::into_inner);
        runner.send(&["EVAL", script, "0"])?;
        killer.wait_until_busy()?;
        for nth in 0..leavers {
            let mut leaver = Client::connect(soak.addr)?;
            leaver.send(&["GET", "shared:nothing"])?;
            if nth % 2 == 0 {
                let reply = leaver.receive()?;
                if !is_error(&reply, "BUSY") {
                    return Err(End::Wrong(format!("GET in the middle of a script: {}", show(&reply))));
                }
            }
        }
        soak.counts.cut.fetch_add(leavers as u64, Ordering::Relaxed);
        let reply = killer.ask(&["SCRIPT", "KILL"])?;
        if reply != Value::Okay {
            return Err(End::Wrong(format!("SCRIPT KILL: {}", show(&reply))));
        }
        let reply = runner.receive()?;
        if !show(&reply).contains("Script killed by user with SCRIPT KILL") {
            return Err(End::Wrong(format!("a script was killed, and its client receives {}", show(&reply))));
        }
        soak.counts.busy.fetch_add(1, Ordering::Relaxed);
        drop(turn);
        pause(Duration::from_millis(rng.random_range(200..600)));
    }
    Ok(())
}
