//! Requests that need keys of several nodes of a cluster.

use super::habit::Lint;
use super::usage::{Key, Usage, show};

pub(super) const LINT: Lint = Lint {
    name: "cross-slot",
    summary: "One request touches keys in different slots of a cluster.",
    advice: "A cluster refuses it with CROSSSLOT: put one hash tag into all keys that belong together, as in {lock} and {lock}:queue.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.calls.iter().find_map(|call| {
        let keys: Vec<Key> = call.touched().map(|(key, ..)| key).collect();
        let (first, rest) = keys.split_first()?;
        let other = rest.iter().find(|(_, key)| slot(key) != slot(&first.1))?;
        let [one, two] = [first, other].map(|key| format!("{} is in slot {}", show(key), slot(&key.1)));
        Some(format!("{} {one}, and {two}.", call.said()))
    })
}

/// The slot of a key in a cluster. A scenario with a server for each node finds the node by it.
///
/// <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>
pub fn slot(key: &[u8]) -> u16 {
    const SLOTS: u16 = 16_384;
    crc16(hash_tag(key).unwrap_or(key)) % SLOTS
}

/// The part of a key between its first `{` and the next `}`, if that is not empty.
fn hash_tag(key: &[u8]) -> Option<&[u8]> {
    let start = key.iter().position(|&byte| byte == b'{')? + 1;
    let len = key[start..].iter().position(|&byte| byte == b'}')?;
    (len > 0).then(|| &key[start..start + len])
}

/// CRC16 of the kind XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    const POLYNOMIAL: u16 = 0x1021;
    bytes.iter().fold(0, |crc, &byte| {
        let shift = |crc: u16, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL };
        (0..8).fold(crc ^ u16::from(byte) << 8, shift)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first value is that of the specification.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{user1000}.following"), slot(b"user1000"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16_384);
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }
}
