//! Reads and writes whole strings.

use super::super::{Argv, Ctx, Outcome};
use crate::keyspace::{Class, Db, Expiry, Text, Value};
use crate::reply::Reply;

pub(super) fn string(bytes: &[u8]) -> Value {
    Value::String(bytes.into())
}

/// Sets a key to a string, and publishes the event.
pub(super) fn put(db: &mut Db<'_>, key: &[u8], bytes: &[u8], expiry: Expiry) {
    db.insert(key, string(bytes), expiry);
    db.notify(Class::String, "set", key);
    if matches!(expiry, Expiry::At(_)) {
        db.notify(Class::Generic, "expire", key);
    }
}

/// `GET key`
pub(super) fn get(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::bulk_or_nil(ctx.db().reading().lookup_as::<Text>(argv[1])?.map(Text::to_bytes)))
}
