//! Redis's glob patterns, as `KEYS` takes them: `*`, `?`, `[a-c]`, `[^a]`, and `\` before a literal
//! character.
//!
//! They work on bytes. If a set is not closed, it ends with the pattern.

/// Whether a pattern that selects keys or items matches `text`. The pattern `*` matches
/// everything, also an empty text.
pub(crate) fn selects(pattern: &[u8], text: &[u8]) -> bool {
    pattern == b"*" || matches(pattern, text)
}

/// Whether `pattern` matches the whole of `text`. An empty text matches only an empty pattern.
///
/// The time is at most proportional to the product of the two lengths.
pub(crate) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    // Where to continue when a match fails: after the last star, which then matches one more byte.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let step = match text.split_first() {
            None => return pattern.is_empty(),
            Some((&byte, text)) => element(pattern, byte).map(|pattern| (pattern, text)),
        };
        (pattern, text) = match (step, retry) {
            (Some(step), _) => step,
            (None, Some((behind_star, swallowed))) => {
                let swallowed = &swallowed[1..];
                retry = Some((behind_star, swallowed));
                (behind_star, swallowed)
            }
            (None, None) => return false,
        };
    }
}

/// If the first element of a pattern matches `byte`, returns the rest of the pattern. The pattern
/// does not begin with a star.
fn element(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (takes, rest) = match pattern {
        [] => return None,
        [b'?', rest @ ..] => (true, rest),
        [b'[', b'^', set @ ..] => {
            let (contains, rest) = member(set, byte);
            (!contains, rest)
        }
        [b'[', set @ ..] => member(set, byte),
        [b'\\', literal, rest @ ..] | [literal, rest @ ..] => (byte == *literal, rest),
    };
    takes.then_some(rest)
}

/// Returns whether a set contains `byte`, and the rest of the pattern after the set.
fn member(mut set: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut contains = false;
    loop {
        let (low, high, rest) = match set {
            [] => return (contains, set),
            [b']', rest @ ..] => return (contains, rest),
            [b'\\', literal, rest @ ..] => (literal, literal, rest),
            [low, b'-', high, rest @ ..] => (low.min(high), low.max(high), rest),
            [literal, rest @ ..] => (literal, literal, rest),
        };
        contains |= (low..=high).contains(&&byte);
        set = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["a", "lock:a"], &[""]),
            ("a**", &["a", "ab"], &[""]),
            ("lock:*", &["lock:", "lock:a"], &["lock", "xlock:a"]),
            ("*a*b", &["ab", "aab", "xaxb", "abb"], &["ba", "a"]),
            ("h?llo", &["hello", "hxllo"], &["hllo", "heello"]),
            ("h[ae]llo", &["hallo", "hello"], &["hillo"]),
            ("h[^e]llo", &["hallo"], &["hello"]),
            ("h[c-a]llo", &["hallo", "hbllo"], &["hdllo"]),
            (r"\*", &["*"], &["a"]),
            (r"[\]]", &["]"], &["a"]),
            ("[a", &["a"], &["b"]),
        ] {
            for text in yes {
                assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} should match {text:?}");
            }
            for text in no {
                assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} should not match {text:?}");
            }
        }
    }

    #[test]
    fn many_stars_do_not_blow_up() {
        let pattern = "*a".repeat(40) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(2_000).as_bytes()));
    }
}
