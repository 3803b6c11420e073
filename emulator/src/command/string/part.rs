//! Commands that extend strings, and commands on parts of strings.

use bytes::{Bytes, BytesMut};

use super::super::{Argv, Ctx, Outcome, integer};
use super::value::string;
use crate::config::Id;
use crate::error::{self, Error};
use crate::keyspace::{Class, Expiry, Text};
use crate::reply::Reply;

/// The longest string, in bytes, that a command may build beyond the length of its arguments.
pub(super) const PROTO_MAX_BULK_LEN: Id = Id::of("proto-max-bulk-len");

/// `APPEND key value`
pub(super) fn append(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let mut db = ctx.db();
    let end = match db.lookup_as::<Text>(argv[1])?.map(|text| text.len()) {
        Some(len) => overwrite(ctx, argv[1], len, argv[2])?,
        None => {
            db.insert(argv[1], string(argv[2]), Expiry::Never);
            argv[2].len()
        }
    };
    ctx.db().notify(Class::String, "append", argv[1]);
    Ok(Reply::count(end))
}

/// `SETRANGE key offset value`
pub(super) fn setrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let offset = usize::try_from(integer(argv[2])?).map_err(|_| error::OFFSET_OUT_OF_RANGE)?;
    let len = ctx.db().lookup_as::<Text>(argv[1])?.map_or(0, |text| text.len());
    if argv[3].is_empty() {
        return Ok(Reply::count(len));
    }
    let end = overwrite(ctx, argv[1], offset, argv[3])?;
    ctx.db().notify(Class::String, "setrange", argv[1]);
    Ok(Reply::count(end))
}

/// Writes bytes into a string from `offset` on, and pads a shorter string with zeros. Returns the
/// new length.
fn overwrite(ctx: &mut Ctx<'_>, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, Error> {
    let end = offset.saturating_add(bytes.len());
    if end > ctx.engine.config.size(PROTO_MAX_BULK_LEN) {
        return Err(error::STRING_TOO_LONG);
    }
    let mut edit = ctx.db().edit_or_create::<Text>(key)?;
    let value = edit.write();
    let mut longer = BytesMut::from(Bytes::from(std::mem::take(value)));
    longer.resize(longer.len().max(end), 0);
    longer[offset..end].copy_from_slice(bytes);
    *value = longer.freeze().into();
    Ok(value.len())
}

/// `GETRANGE key start end`, and `SUBSTR`: the older name
pub(super) fn getrange(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    let (start, end) = (integer(argv[2])?, integer(argv[3])?);
    let mut db = ctx.db();
    let value = db.lookup_as::<Text>(argv[1])?.map(Text::to_bytes).unwrap_or_default();
    let len = value.len() as i64;
    let from_front = |position: i64| if position < 0 { (len + position).max(0) } else { position };
    let range = from_front(start)..(from_front(end).min(len - 1) + 1);
    let is_backwards = start < 0 && end < 0 && start > end;
    Ok(Reply::Bulk(if range.is_empty() || is_backwards {
        Bytes::new()
    } else {
        value.slice(range.start as usize..range.end as usize)
    }))
}

/// `STRLEN key`
pub(super) fn strlen(ctx: &mut Ctx<'_>, argv: &Argv<'_>) -> Outcome {
    Ok(Reply::count(ctx.db().lookup_as::<Text>(argv[1])?.map_or(0, |text| text.len())))
}
