//! Names that clients give themselves.

use bytes::Bytes;

use crate::error::{self, Error};

pub(super) fn valid_name(name: &[u8]) -> Result<Bytes, Error> {
    if is_printable(name) { Ok(Bytes::copy_from_slice(name)) } else { Err(error::CLIENT_NAME) }
}

pub(super) fn is_printable(text: &[u8]) -> bool {
    text.iter().all(|byte| (b'!'..=b'~').contains(byte))
}
