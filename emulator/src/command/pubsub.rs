//! Pub/sub commands. <https://redis.io/docs/latest/develop/pubsub/>

use std::collections::BTreeSet;

use bytes::Bytes;

use super::Flag::{Fast, Loading, NoScript, Pubsub, Stale};
use super::{Argv, Ctx, KeySpec, Outcome, Row};
use crate::client::CallContext;
use crate::error::{self, Error};
use crate::glob;
use crate::reply::Reply;
use crate::topic::Topic;

const LISTENING: &[super::Flag] = &[Pubsub, NoScript, Loading, Stale];
const SHARD_CHANNELS: &[KeySpec] = &[KeySpec::every(1, &["not_key"])];

pub(super) const ROWS: &[Row] = &[
    Row::new("psubscribe", -2, LISTENING, |ctx, argv| subscribe(ctx, argv, Topic::Pattern))
        .on_sentinels_too(),
    Row::new("publish", 3, &[Pubsub, Loading, Stale, Fast], |ctx, argv| publish(ctx, argv, Topic::Channel))
        .on_sentinels_too(),
    Row::container(
        "pubsub",
        &[
            Row::new("pubsub|channels", -2, &[Pubsub, Loading, Stale], |ctx, argv| {
                channels(ctx, argv, Topic::Channel)
            }),
            Row::help("pubsub|help").outside(&[]),
            Row::new("pubsub|numpat", 2, &[Pubsub, Loading, Stale], numpat),
            Row::new("pubsub|numsub", -2, &[Pubsub, Loading, Stale], |ctx, argv| {
                numsub(ctx, argv, Topic::Channel)
            }),
            Row::new("pubsub|shardchannels", -2, &[Pubsub, Loading, Stale], |ctx, argv| {
                channels(ctx, argv, Topic::ShardChannel)
            }),
            Row::new("pubsub|shardnumsub", -2, &[Pubsub, Loading, Stale], |ctx, argv| {
                numsub(ctx, argv, Topic::ShardChannel)
            }),
        ],
    ),
    Row::new("punsubscribe", -1, LISTENING, |ctx, argv| unsubscribe(ctx, argv, Topic::Pattern))
        .on_sentinels_too(),
    Row::new("spublish", 3, &[Pubsub, Loading, Stale, Fast], |ctx, argv| {
        publish(ctx, argv, Topic::ShardChannel)
    })
    .keys(&[KeySpec::one(&["not_key"])]),
    Row::new("ssubscribe", -2, LISTENING, |ctx, argv| subscribe(ctx, argv, Topic::ShardChannel))
        .keys(SHARD_CHANNELS),
    Row::new("subscribe", -2, LISTENING, |ctx, argv| subscribe(ctx, argv, Topic::Channel)).on_sentinels_too(),
    Row::new("sunsubscribe", -1, LISTENING, |ctx, argv| unsubscribe(ctx, argv, Topic::ShardChannel))
        .keys(SHARD_CHANNELS),
    Row::new("unsubscribe", -1, LISTENING, |ctx, argv| unsubscribe(ctx, argv, Topic::Channel))
        .on_sentinels_too(),
];

/// Whether a RESP2 client with subscriptions may call this command.
pub(super) fn is_allowed(row: &Row) -> bool {
    matches!(row.name, "ping" | "quit" | "reset") || row.name.ends_with("subscribe")
}

/// `PUBLISH channel message` and `SPUBLISH shardchannel message`: returns the number of receivers
///
/// A Sentinel takes only the messages of other Sentinels. Here they have other ways, so it ignores
/// them.
fn publish(ctx: &mut Ctx<'_>, argv: &Argv<'_>, topic: Topic) -> Outcome {
    if ctx.engine.sentinel.is_some() {
        return if argv[1] == b"__sentinel__:hello" {
            Ok(Reply::Integer(1))
        } else {
            Err(Error::from_static("ERR Only HELLO messages are accepted by Sentinel instances."))
        };
    }
    let [channel, message] = [argv[1], argv[2]].map(Bytes::copy_from_slice);
    if ctx.engine.cluster.is_some() {
        if ctx.engine.cluster_place().is_none() {
            // Whoever knows the other servers takes it there.
            ctx.replicate_as_is(argv);
        }
        return Ok(Reply::count(ctx.engine.publish_to_cluster(topic, &channel, &message)));
    }
    ctx.replicate_as_is(argv);
    Ok(Reply::count(ctx.engine.publish(topic, &channel, &message)))
}

/// `SUBSCRIBE channel [channel ...]`, PSUBSCRIBE and SSUBSCRIBE: one reply for each name
fn subscribe(ctx: &mut Ctx<'_>, argv: &Argv<'_>, topic: Topic) -> Outcome {
    // Redis allows the other two, because old clients call them inside transactions.
    if topic == Topic::ShardChannel && ctx.client.context == CallContext::InTransaction {
        return Err(error::SSUBSCRIBE_IN_MULTI);
    }
    ctx.engine.use_connection();
    let replies = argv[1..].iter().map(|name| {
        let name = Bytes::copy_from_slice(name);
        ctx.engine.subscribe(ctx.client, topic, &name);
        confirm(ctx, topic, Reply::Bulk(name))
    });
    Ok(Reply::Several(replies.collect()))
}

/// `UNSUBSCRIBE [channel [channel ...]]`, PUNSUBSCRIBE and SUNSUBSCRIBE: one reply for each name;
/// without names, for all
fn unsubscribe(ctx: &mut Ctx<'_>, argv: &Argv<'_>, topic: Topic) -> Outcome {
    let names: Vec<Bytes> = match &argv[1..] {
        [] => ctx.client.subscriptions[topic as usize].iter().cloned().collect(),
        names => names.iter().map(|name| Bytes::copy_from_slice(name)).collect(),
    };
    if names.is_empty() {
        return Ok(confirm(ctx, topic, Reply::Nil));
    }
    let replies = names.into_iter().map(|name| {
        ctx.engine.unsubscribe(ctx.client, topic, &name);
        confirm(ctx, topic, Reply::Bulk(name))
    });
    Ok(Reply::Several(replies.collect()))
}

/// The reply for one name: the command's name, the channel, and the client's number of
/// subscriptions.
fn confirm(ctx: &Ctx<'_>, topic: Topic, name: Reply) -> Reply {
    let [channels, patterns, shard_channels] = ctx.client.subscriptions.each_ref().map(BTreeSet::len);
    let count = if topic == Topic::ShardChannel { shard_channels } else { channels + patterns };
    Reply::Push(vec![Reply::bulk(ctx.row.name), name, Reply::count(count)])
}

/// `PUBSUB CHANNELS [pattern]` and `PUBSUB SHARDCHANNELS [pattern]`
fn channels(ctx: &mut Ctx<'_>, argv: &Argv<'_>, topic: Topic) -> Outcome {
    let pattern = match &argv[2..] {
        [] => None,
        [pattern] => Some(*pattern),
        _ => return Err(error::unknown_subcommand_or_arity("PUBSUB", argv[1])),
    };
    let names = ctx.engine.subscribers(topic).keys();
    Ok(Reply::Array(
        names
            .filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name)))
            .cloned()
            .map(Reply::Bulk)
            .collect(),
    ))
}

/// `PUBSUB NUMPAT`
fn numpat(ctx: &mut Ctx<'_>, _: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.engine.subscribers(Topic::Pattern).len()))
}

/// `PUBSUB NUMSUB [channel [channel ...]]` and
/// `PUBSUB SHARDNUMSUB [shardchannel [shardchannel ...]]`
fn numsub(ctx: &mut Ctx<'_>, argv: &Argv<'_>, topic: Topic) -> Outcome {
    let counts = argv[2..]
        .iter()
        .flat_map(|name| [Reply::bulk(name), Reply::count(ctx.engine.count_subscribers(topic, name))]);
    Ok(Reply::Array(counts.collect()))
}
