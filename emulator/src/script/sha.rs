//! The names of scripts.

/// A SHA1 in lower-case hexadecimal digits.
pub type Sha = [u8; 40];

/// The SHA1 of a source.
pub fn sha1_hex(source: &[u8]) -> Sha {
    let digits = sha1_smol::Sha1::from(source).digest().to_string();
    digits.into_bytes().try_into().expect("a SHA1 has 40 digits")
}
