//! Redis's glob patterns, as `KEYS` takes them: `*`, `?`, `[a-c]`, `[^a]` and `\` before a character that means itself.
//! Works on bytes; a set that is never closed ends with the pattern.

/// Whether `text` as a whole matches `pattern`. Takes time in the product of the two lengths at most.
pub(crate) fn matches(mut pattern: &[u8], mut text: &[u8]) -> bool {
    // Where to go on when a match fails: behind the last star, with one more byte swallowed by it.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let [b'*', rest @ ..] = pattern {
            pattern = rest;
            retry = Some((rest, text));
            continue;
        }
        let step = match (text.split_first(), one(pattern)) {
            (None, _) => return pattern.is_empty(),
            (Some((&byte, text)), Some((accepts, pattern))) if accepts(byte) => Some((pattern, text)),
            _ => None,
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

/// The first element of a pattern that does not begin with a star, and what follows it.
fn one<'a>(pattern: &'a [u8]) -> Option<(Box<dyn Fn(u8) -> bool + 'a>, &'a [u8])> {
    match pattern {
        [] => None,
        [b'?', rest @ ..] => Some((Box::new(|_| true), rest)),
        [b'\\', literal, rest @ ..] => Some((Box::new(|byte| byte == *literal), rest)),
        [b'[', rest @ ..] => {
            let (negated, mut body) = match rest {
                [b'^', body @ ..] => (true, body),
                body => (false, body),
            };
            let mut ranges = Vec::new();
            let rest = loop {
                body = match body {
                    [] => break body,
                    [b']', rest @ ..] => break rest,
                    [b'\\', literal, rest @ ..] => {
                        ranges.push((*literal, *literal));
                        rest
                    }
                    [low, b'-', high, rest @ ..] => {
                        ranges.push((*low.min(high), *low.max(high)));
                        rest
                    }
                    [literal, rest @ ..] => {
                        ranges.push((*literal, *literal));
                        rest
                    }
                };
            };
            let contains = move |byte| ranges.iter().any(|&(low, high)| (low..=high).contains(&byte));
            Some((Box::new(move |byte| contains(byte) != negated), rest))
        }
        [literal, rest @ ..] => Some((Box::new(|byte| byte == *literal), rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, yes, no) in [
            ("", &[""][..], &["a"][..]),
            ("*", &["", "a", "lock:a"], &[]),
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
