//! A key or a string as the emulator stores it.
//!
//! Most are short, and short ones are stored in place, without an allocation or an indirection.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// The longest string that is stored in place, in bytes. With it a [`Text`] is as large as a
/// [`Bytes`] and one word.
const SHORT_BYTES_MAX: usize = 38;

/// A string of bytes.
#[derive(Clone)]
pub struct Text(Kept);

#[derive(Clone)]
enum Kept {
    Short { len: u8, bytes: [u8; SHORT_BYTES_MAX] },
    Long(Bytes),
}

impl Text {
    /// The bytes as [`Bytes`]. A long text is shared, a short one is copied.
    pub fn to_bytes(&self) -> Bytes {
        match &self.0 {
            Kept::Short { .. } => Bytes::copy_from_slice(self),
            Kept::Long(bytes) => bytes.clone(),
        }
    }

    fn short(text: &[u8]) -> Option<Text> {
        let mut bytes = [0; SHORT_BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text);
        Some(Text(Kept::Short { len: text.len() as u8, bytes }))
    }
}

impl Default for Text {
    fn default() -> Text {
        Text::from(&[][..])
    }
}

impl From<&[u8]> for Text {
    fn from(text: &[u8]) -> Text {
        Text::short(text).unwrap_or_else(|| Text(Kept::Long(Bytes::copy_from_slice(text))))
    }
}

impl From<Bytes> for Text {
    fn from(text: Bytes) -> Text {
        Text::short(&text).unwrap_or(Text(Kept::Long(text)))
    }
}

impl From<Text> for Bytes {
    fn from(text: Text) -> Bytes {
        match text.0 {
            Kept::Short { len, bytes } => Bytes::copy_from_slice(&bytes[..usize::from(len)]),
            Kept::Long(bytes) => bytes,
        }
    }
}

impl Deref for Text {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kept::Short { len, bytes } => &bytes[..usize::from(*len)],
            Kept::Long(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Allows lookups by slice in a table of texts.
impl Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

/// Bytes as text for people: all that is not printable ASCII is escaped. A precision limits how
/// many bytes are shown.
///
/// ```
/// # use emulator::Escaped;
/// assert_eq!(Escaped(b"ab\r\n").to_string(), "ab\\r\\n");
/// assert_eq!(format!("{:.2}", Escaped(b"abcdef")), "ab… (6 bytes)");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Escaped(bytes) = self;
        match f.precision() {
            Some(max) if bytes.len() > max => {
                write!(f, "{}… ({} bytes)", bytes[..max].escape_ascii(), bytes.len())
            }
            _ => write!(f, "{}", bytes.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Value;

    #[test]
    fn a_text_is_what_it_was_made_of() {
        for len in [0, 1, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 1000] {
            let bytes = vec![b'x'; len];
            let text = Text::from(&bytes[..]);
            assert_eq!((&*text, &text.to_bytes()[..]), (&bytes[..], &bytes[..]));
            assert_eq!(text, Text::from(Bytes::from(bytes.clone())));
            assert_eq!(Bytes::from(text), bytes);
        }
    }

    #[test]
    fn a_value_is_no_larger_than_its_text() {
        assert_eq!(size_of::<Text>(), 40);
        assert_eq!(size_of::<Value>(), 40);
    }
}
