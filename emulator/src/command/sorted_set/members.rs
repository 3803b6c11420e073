//! Members as replies, and as the value of another key.

use bytes::Bytes;

use super::super::Ctx;
use crate::keyspace::{Class, Expiry, ZSet};
use crate::reply::{Reply, pairs};
use crate::resp::Protocol;

/// The reply for members, with their scores if requested.
pub(super) fn members<M: Into<Bytes>>(
    protocol: Protocol,
    members: impl Iterator<Item = (M, f64)>,
    with_scores: bool,
) -> Reply {
    if with_scores {
        pairs(protocol, members.map(|(member, score)| (Reply::Bulk(member.into()), Reply::Double(score))))
    } else {
        Reply::Array(members.map(|(member, _)| Reply::Bulk(member.into())).collect())
    }
}

/// Replaces a key and its time to live, or removes the key if the sorted set is empty.
///
/// The event has the name of the command.
pub(super) fn store(ctx: &mut Ctx<'_>, key: &[u8], zset: ZSet) -> Reply {
    let (len, event) = (zset.len(), ctx.row.name);
    let mut db = ctx.db();
    if len > 0 {
        db.insert(key, zset.into(), Expiry::Never);
        db.answer();
        db.notify(Class::ZSet, event, key);
    } else if db.remove(key) {
        db.answer();
        db.notify(Class::Generic, "del", key);
    }
    Reply::count(len)
}
