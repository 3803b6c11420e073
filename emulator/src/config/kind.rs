//! The values that parameters take, how they are shown, and Redis's errors for other values.

use std::borrow::Cow;

use bytes::Bytes;

use crate::keyspace::Classes;

/// The kind of values that a parameter takes.
#[derive(Clone, Copy, Debug)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// `yes` or `no`.
    YesNo,
    /// An integer between these two.
    Integer {
        /// The smallest value.
        min: i128,
        /// The largest value.
        max: i128,
    },
    /// A number of bytes: `100`, `1k` (1000), `1kb` (1024), …
    Memory {
        /// The smallest value.
        min: i128,
        /// The largest value.
        max: i128,
    },
    /// A number of bytes, or a percentage such as `5%`. A percentage is kept as a negative number.
    MemoryOrPercent,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Letters for classes of events, kept as the number [`Classes::bits`].
    Events,
    /// Some of these words. The first word stands for none.
    Flags(&'static [&'static str]),
    /// A value that this function checks.
    Special(Check),
}

/// Makes the text of the new setting from a value and the setting before.
pub type Check = fn(value: &str, before: &str) -> Result<String, Cow<'static, str>>;

/// A value that a parameter takes.
#[derive(Debug)]
pub struct Parsed {
    pub text: Bytes,
    pub number: i64,
}

impl ParameterKind {
    /// Parses a value of `CONFIG SET`.
    ///
    /// # Errors
    /// Redis's reason why the parameter does not take it.
    pub fn parse(self, value: &[u8], before: &str) -> Result<Parsed, Cow<'static, str>> {
        let word = String::from_utf8_lossy(value);
        let text = match self {
            ParameterKind::Text => return Ok(Parsed { text: Bytes::copy_from_slice(value), number: 0 }),
            ParameterKind::YesNo => {
                let word = ["no", "yes"].iter().position(|own| word.eq_ignore_ascii_case(own));
                let is_on = word.ok_or("argument must be 'yes' or 'no'")?;
                return Ok(Parsed {
                    text: Bytes::from_static([&b"no"[..], b"yes"][is_on]),
                    number: is_on as i64,
                });
            }
            ParameterKind::Integer { min, max } => {
                let number = crate::parse::parse_integer(value)
                    .ok_or("argument couldn't be parsed into an integer")?;
                return within(number.into(), min, max);
            }
            ParameterKind::Memory { min, max } => {
                let bytes = parse_memory(&word).ok_or("argument must be a memory value")?;
                return within(bytes.into(), min, max);
            }
            ParameterKind::MemoryOrPercent => return memory_or_percent(&word),
            ParameterKind::Events => {
                let classes = Classes::parse(value);
                let classes = classes.ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
                return Ok(Parsed { text: Bytes::from(classes.to_string()), number: classes.bits().into() });
            }
            ParameterKind::OneOf(words) => one_of(&word, words)?.to_owned(),
            ParameterKind::Flags(words) => flags(&word, words)?,
            ParameterKind::Special(check) => check(&word, before)?,
        };
        Ok(Parsed { number: text.parse().unwrap_or_default(), text: Bytes::from(text) })
    }
}

fn within(number: i128, min: i128, max: i128) -> Result<Parsed, Cow<'static, str>> {
    if !(min..=max).contains(&number) {
        return Err(format!("argument must be between {min} and {max} inclusive").into());
    }
    Ok(Parsed { text: Bytes::from(number.to_string()), number: i64::try_from(number).unwrap_or(i64::MAX) })
}

/// Parses digits and a unit as C does: no digits are 0, and a number that is too large becomes the
/// largest.
fn parse_memory(value: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("k", 1000),
        ("kb", 1 << 10),
        ("m", 1_000_000),
        ("mb", 1 << 20),
        ("g", 1_000_000_000),
        ("gb", 1 << 30),
    ];
    let unit_at = value.find(|char: char| !char.is_ascii_digit()).unwrap_or(value.len());
    let (digits, unit) = value.split_at(unit_at);
    let (_, factor) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    let number = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(u64::MAX) };
    Some(number.wrapping_mul(*factor))
}

fn memory_or_percent(value: &str) -> Result<Parsed, Cow<'static, str>> {
    const REASON: &str = "argument must be a memory or percent value";
    let Some(digits) = value.strip_suffix('%') else {
        return within(parse_memory(value).ok_or(REASON)?.into(), 0, u64::MAX.into());
    };
    let percent =
        crate::parse::parse_integer(digits.as_bytes()).filter(|&percent| percent >= 0).ok_or(REASON)?;
    if percent > 100 {
        return Err("percentage argument must be less or equal to 100".into());
    }
    let text = if percent == 0 { "0".to_owned() } else { format!("{percent}%") };
    Ok(Parsed { text: Bytes::from(text), number: -percent })
}

/// Finds a word. `relative` is shown as `yes`, which has the same meaning.
fn one_of(word: &str, words: &[&'static str]) -> Result<&'static str, Cow<'static, str>> {
    let own = words.iter().find(|own| word.eq_ignore_ascii_case(own)).ok_or_else(|| not_one_of(words))?;
    Ok(if *own == "relative" { "yes" } else { own })
}

fn not_one_of(words: &[&str]) -> Cow<'static, str> {
    format!("argument(s) must be one of the following: {}", words.join(", ")).into()
}

fn flags(value: &str, words: &[&'static str]) -> Result<String, Cow<'static, str>> {
    let given: Vec<&str> = value.split(' ').collect();
    for word in &given {
        one_of(word, words)?;
    }
    let has = |own: &str| given.iter().any(|word| word.eq_ignore_ascii_case(own));
    if has("save") && has("nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let set: Vec<&str> = words[1..].iter().copied().filter(|own| has(own)).collect();
    Ok(if set.is_empty() { words[0].to_owned() } else { set.join(" ") })
}

/// Splits a value that takes several words. An empty value has none.
fn words(value: &str) -> Vec<&str> {
    if value.is_empty() { Vec::new() } else { value.split(' ').collect() }
}

/// `save`: pairs of seconds and changes.
pub fn save_points(value: &str, _: &str) -> Result<String, Cow<'static, str>> {
    let numbers: Option<Vec<i64>> = words(value).into_iter().map(|word| word.parse().ok()).collect();
    let numbers = numbers.filter(|numbers| {
        numbers.len() % 2 == 0 && numbers.chunks(2).all(|point| point[0] >= 1 && point[1] >= 0)
    });
    Ok(join(&numbers.ok_or("Invalid save parameters")?))
}

/// `client-output-buffer-limit`: classes of clients, each with a hard limit, a soft limit and its
/// seconds.
pub fn buffer_limits(value: &str, before: &str) -> Result<String, Cow<'static, str>> {
    const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];
    let given = words(value);
    if !given.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits: Vec<String> = before.split(' ').map(ToOwned::to_owned).collect();
    limits.resize(4 * CLASSES.len(), String::new());
    for class in given.chunks(4) {
        let name = class[0].to_ascii_lowercase();
        let name = if name == "replica" { "slave" } else { name.as_str() };
        let idx = CLASSES.iter().position(|own| *own == name);
        let idx = idx.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let seconds: Option<u32> = class[3].parse().ok();
        let (Some(hard), Some(soft), Some(seconds)) =
            (parse_memory(class[1]), parse_memory(class[2]), seconds)
        else {
            return Err("Error in hard, soft or soft_seconds setting in buffer limit configuration.".into());
        };
        let own = [name.to_owned(), hard.to_string(), soft.to_string(), seconds.to_string()];
        limits.splice(4 * idx..4 * idx + 4, own);
    }
    Ok(limits.join(" "))
}

/// `oom-score-adj-values`
pub fn oom_scores(value: &str, _: &str) -> Result<String, Cow<'static, str>> {
    let given = words(value);
    if given.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let scores: Option<Vec<i64>> = given
        .into_iter()
        .map(|word| word.parse().ok().filter(|score| (-2000..=2000).contains(score)))
        .collect();
    let scores = scores.ok_or("Invalid oom-score-adj-values, elements must be between -2000 and 2000.")?;
    Ok(join(&scores))
}

/// `latency-tracking-info-percentiles`
pub fn percentiles(value: &str, _: &str) -> Result<String, Cow<'static, str>> {
    let percentiles = words(value).into_iter().map(|word| {
        let percentile = word.parse::<f64>().ok().filter(|percentile| !percentile.is_nan());
        let percentile = percentile.ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        Ok(((percentile * 1e6).round() / 1e6).to_string())
    });
    Ok(percentiles.collect::<Result<Vec<_>, Cow<'static, str>>>()?.join(" "))
}

/// `cluster-announce-hostname`
pub fn hostname(value: &str, _: &str) -> Result<String, Cow<'static, str>> {
    const LENGTH_MAX: usize = 256;
    if value.len() >= LENGTH_MAX {
        return Err("Hostnames must be less than 256 characters".into());
    }
    if !value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte)) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots".into());
    }
    Ok(value.to_owned())
}

/// `proc-title-template`
pub fn title_template(value: &str, _: &str) -> Result<String, Cow<'static, str>> {
    const EMPTY_HERE: [&str; 4] = ["{title}", "{server-mode}", "{unixsocket}", "{config-file}"];
    const FILLED: [&str; 3] = ["{listen-addr}", "{port}", "{tls-port}"];
    let title = EMPTY_HERE.iter().fold(value.to_owned(), |title, variable| title.replace(variable, ""));
    let title = FILLED.iter().fold(title, |title, variable| title.replace(variable, "0"));
    if title.trim().is_empty() || title.contains('{') {
        return Err("template format is invalid or contains unknown variables".into());
    }
    Ok(value.to_owned())
}

/// `activedefrag`: cannot be switched on, as in a Redis without the modified jemalloc.
pub fn no_defragmentation(value: &str, before: &str) -> Result<String, Cow<'static, str>> {
    let parsed = ParameterKind::YesNo.parse(value.as_bytes(), before)?;
    if parsed.number != 0 {
        return Err("Active defragmentation cannot be enabled: it requires a Redis server compiled with a \
                    modified Jemalloc like the one shipped by default with the Redis source distribution"
            .into());
    }
    Ok("no".into())
}

/// `tls-port`: only 0, because there are no certificates.
pub fn no_tls(value: &str, before: &str) -> Result<String, Cow<'static, str>> {
    let parsed = ParameterKind::Integer { min: 0, max: 65535 }.parse(value.as_bytes(), before)?;
    if parsed.number != 0 {
        return Err("Unable to update TLS configuration. Check server logs.".into());
    }
    Ok("0".into())
}

/// `hz`: a value out of range is clamped.
pub fn frequency(value: &str, before: &str) -> Result<String, Cow<'static, str>> {
    let parsed = ParameterKind::Integer { min: 0, max: i32::MAX.into() }.parse(value.as_bytes(), before)?;
    Ok(parsed.number.clamp(1, 500).to_string())
}

fn join(numbers: &[i64]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
