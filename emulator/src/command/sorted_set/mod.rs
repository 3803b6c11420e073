//! Sorted set commands on members and scores. Ranges, combinations, pops and random members have
//! their own files.

pub(super) mod score;
mod members;
mod bounds;
mod range;
mod combine;
mod pop;
mod blocking;
mod member;

use super::Flag::{Blocking, DenyOom, Fast, MovableKeys, NoScript, ReadOnly, Write};
use super::{KeySpec, Row};

use blocking::{bzmpop, bzpopmax, bzpopmin};
use bounds::By;
use combine::{combined, combined_store, difference, intersection, union, zintercard};
use member::{AddOptions, add, zcard, zmscore, zrandmember, zrank, zrem, zrevrank, zscan, zscore};
use pop::{End, zmpop, zpop};
use range::{Fixed, count, range, remove, zrange, zrangestore};

const ANY_OUTPUT: &[&str] = &["nondeterministic_output"];
const AWAITED: &[KeySpec] = &[KeySpec::all_but_last(&["RW", "access", "delete"])];
const COMBINED: &[KeySpec] = &[KeySpec::numkeys(1, &["RO", "access"])];
const COMBINED_STORE: &[KeySpec] = &[KeySpec::one(&["OW", "update"]), KeySpec::numkeys(2, &["RO", "access"])];
const DELETED: &[KeySpec] = &[KeySpec::one(&["RW", "delete"])];
const LOOKED_AT: &[KeySpec] = &[KeySpec::one(&["RO", "access"])];
const POPPED: &[KeySpec] = &[KeySpec::one(&["RW", "access", "delete"])];

/// The options of combinations.
const AGGREGATED: &[&str] = &["weights", "aggregate"];
const AGGREGATED_AND_SHOWN: &[&str] = &["weights", "aggregate", "withscores"];
const SHOWN: &[&str] = &["withscores"];

pub(super) const ROWS: &[Row] = &[
    Row::new("bzmpop", -5, &[Write, Blocking, MovableKeys], bzmpop)
        .keys(&[KeySpec::numkeys(2, &["RW", "access", "delete"])]),
    Row::new("bzpopmax", -3, &[Write, NoScript, Blocking, Fast], bzpopmax).keys(AWAITED),
    Row::new("bzpopmin", -3, &[Write, NoScript, Blocking, Fast], bzpopmin).keys(AWAITED),
    Row::new("zadd", -4, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv, AddOptions::default()))
        .keys(&[KeySpec::one(&["RW", "update"])]),
    Row::new("zcard", 2, &[ReadOnly, Fast], zcard).keys(&[KeySpec::one(&["RO"])]),
    Row::new("zcount", 4, &[ReadOnly, Fast], |ctx, argv| count(ctx, argv, By::Score)).keys(LOOKED_AT),
    Row::new("zdiff", -3, &[ReadOnly, MovableKeys], |ctx, argv| combined(ctx, argv, difference, SHOWN))
        .keys(COMBINED),
    Row::new("zdiffstore", -4, &[Write, DenyOom, MovableKeys], |ctx, argv| {
        combined_store(ctx, argv, difference, &[])
    })
    .keys(COMBINED_STORE),
    Row::new("zincrby", 4, &[Write, DenyOom, Fast], |ctx, argv| add(ctx, argv, AddOptions::INCR))
        .keys(&[KeySpec::one(&["RW", "access", "update"])]),
    Row::new("zinter", -3, &[ReadOnly, MovableKeys], |ctx, argv| {
        combined(ctx, argv, intersection, AGGREGATED_AND_SHOWN)
    })
    .keys(COMBINED),
    Row::new("zintercard", -3, &[ReadOnly, MovableKeys], zintercard).keys(COMBINED),
    Row::new("zinterstore", -4, &[Write, DenyOom, MovableKeys], |ctx, argv| {
        combined_store(ctx, argv, intersection, AGGREGATED)
    })
    .keys(COMBINED_STORE),
    Row::new("zlexcount", 4, &[ReadOnly, Fast], |ctx, argv| count(ctx, argv, By::Lex)).keys(LOOKED_AT),
    Row::new("zmpop", -4, &[Write, MovableKeys], zmpop)
        .keys(&[KeySpec::numkeys(1, &["RW", "access", "delete"])]),
    Row::new("zmscore", -3, &[ReadOnly, Fast], zmscore).keys(LOOKED_AT),
    Row::new("zpopmax", -2, &[Write, Fast], |ctx, argv| zpop(ctx, argv, End::Max)).keys(POPPED),
    Row::new("zpopmin", -2, &[Write, Fast], |ctx, argv| zpop(ctx, argv, End::Min)).keys(POPPED),
    Row::new("zrandmember", -2, &[ReadOnly], zrandmember).keys(LOOKED_AT).tips(ANY_OUTPUT),
    Row::new("zrange", -4, &[ReadOnly], zrange).keys(LOOKED_AT),
    Row::new("zrangebylex", -4, &[ReadOnly], |ctx, argv| range(ctx, argv, Fixed::ZRANGEBYLEX))
        .keys(LOOKED_AT),
    Row::new("zrangebyscore", -4, &[ReadOnly], |ctx, argv| range(ctx, argv, Fixed::ZRANGEBYSCORE))
        .keys(LOOKED_AT),
    Row::new("zrangestore", -5, &[Write, DenyOom], zrangestore)
        .keys(&[KeySpec::one(&["OW", "update"]), KeySpec::at(2, &["RO", "access"])]),
    Row::new("zrank", 3, &[ReadOnly, Fast], zrank).keys(LOOKED_AT),
    Row::new("zrem", -3, &[Write, Fast], zrem).keys(DELETED),
    Row::new("zremrangebylex", 4, &[Write], |ctx, argv| remove(ctx, argv, By::Lex)).keys(DELETED),
    Row::new("zremrangebyrank", 4, &[Write], |ctx, argv| remove(ctx, argv, By::Rank)).keys(DELETED),
    Row::new("zremrangebyscore", 4, &[Write], |ctx, argv| remove(ctx, argv, By::Score)).keys(DELETED),
    Row::new("zrevrange", -4, &[ReadOnly], |ctx, argv| range(ctx, argv, Fixed::ZREVRANGE)).keys(LOOKED_AT),
    Row::new("zrevrangebylex", -4, &[ReadOnly], |ctx, argv| range(ctx, argv, Fixed::ZREVRANGEBYLEX))
        .keys(LOOKED_AT),
    Row::new("zrevrangebyscore", -4, &[ReadOnly], |ctx, argv| range(ctx, argv, Fixed::ZREVRANGEBYSCORE))
        .keys(LOOKED_AT),
    Row::new("zrevrank", 3, &[ReadOnly, Fast], zrevrank).keys(LOOKED_AT),
    Row::new("zscan", -3, &[ReadOnly], zscan).keys(LOOKED_AT).tips(ANY_OUTPUT),
    Row::new("zscore", 3, &[ReadOnly, Fast], zscore).keys(LOOKED_AT),
    Row::new("zunion", -3, &[ReadOnly, MovableKeys], |ctx, argv| {
        combined(ctx, argv, union, AGGREGATED_AND_SHOWN)
    })
    .keys(COMBINED),
    Row::new("zunionstore", -4, &[Write, DenyOom, MovableKeys], |ctx, argv| {
        combined_store(ctx, argv, union, AGGREGATED)
    })
    .keys(COMBINED_STORE),
];
