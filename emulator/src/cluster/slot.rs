//! Hash slots: the part of a cluster to which a key belongs.

use std::ops::RangeInclusive;

/// A part of the keys of a cluster, from 0 to 16383.
pub type HashSlot = u16;

/// The number of hash slots.
pub const SLOTS: HashSlot = 16_384;

/// The hash slot of a key, by which Redis Cluster finds its server. If the key has a tag, as in
/// `{user}:cart`, only the tag counts.
pub fn key_slot(key: &[u8]) -> HashSlot {
    crc16(tag(key).unwrap_or(key)) % SLOTS
}

/// What stands between the first `{` and the next `}`, unless that is empty.
fn tag(key: &[u8]) -> Option<&[u8]> {
    let (_, behind) = key.split_at(key.iter().position(|&byte| byte == b'{')? + 1);
    let len = behind.iter().position(|&byte| byte == b'}').filter(|&len| len > 0)?;
    Some(&behind[..len])
}

/// CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, &byte| crc << 8 ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

const POLYNOMIAL: u16 = 0x1021;

static CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ POLYNOMIAL };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// All slots in ranges of the same length, as `redis-cli --cluster create` divides them.
pub(super) fn even_ranges(count: usize) -> impl Iterator<Item = RangeInclusive<HashSlot>> {
    let length = f64::from(SLOTS) / count as f64;
    let mut first = 0;
    (0..count).map(move |nth| {
        let is_last = nth + 1 == count;
        let last = if is_last { SLOTS - 1 } else { (length * (nth + 1) as f64 - 1.0).round() as HashSlot };
        let range = first..=last;
        first = last + 1;
        range
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The slots are those of `CLUSTER KEYSLOT` of a real server.
    #[test]
    fn only_a_tag_counts_if_it_is_not_empty() {
        let slots = [
            ("", 0),
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("foo{}bar", 14_292),
            ("{{foo}}bar", 13_308),
        ];
        for (key, slot) in slots {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
        assert_eq!(key_slot(b"{user1000}.following"), key_slot(b"user1000"));
        assert_eq!(key_slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(key_slot(b"foo{{bar}}zap"), key_slot(b"{bar"));
    }

    #[test]
    fn slots_are_divided_as_redis_cli_divides_them() {
        assert!(even_ranges(3).eq([0..=5460, 5461..=10922, 10923..=16383]));
        assert!(even_ranges(1).eq([0..=16383]));
        assert_eq!(even_ranges(5).last(), Some(13107..=16383));
    }
}
