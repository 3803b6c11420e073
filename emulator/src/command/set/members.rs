//! The members of a set as a reply.

use crate::keyspace::Set;
use crate::reply::Reply;

/// All members, as most commands return them.
pub(super) fn members(set: &Set) -> Reply {
    Reply::Set(set.iter().map(|member| Reply::Bulk(member.to_bytes())).collect())
}
