//! The first line of a script or of a library, for Redis and not for Lua: `#!lua flags=no-writes`,
//! `#!lua name=mylib`.

use bytes::Bytes;

use crate::error::{self, Error};
use crate::resp::split_words;

/// The flags that a script or a function may have.
pub(super) const FLAGS: &[&str] =
    &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];
/// The flag of a script that does not write.
const NO_WRITES: &str = "no-writes";

/// Whether a script or a function is called as read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `EVAL`, `FCALL`
    Any,
    /// `EVAL_RO`, `FCALL_RO`: no command that may write is allowed.
    ReadOnly,
}

/// A script and its first line.
#[derive(Debug)]
pub(super) struct Shebang<'a> {
    /// The source that Lua compiles. The first line is blank in it, so line numbers stay the same.
    pub body: &'a [u8],
    /// The flags, if the script has such a first line.
    pub flags: Option<Vec<&'static str>>,
}

impl<'a> Shebang<'a> {
    /// Splits the first line from a script.
    ///
    /// # Errors
    /// The first line begins with `#!` and is invalid.
    pub(super) fn parse(source: &'a [u8]) -> Result<Shebang<'a>, Error> {
        if !source.starts_with(b"#!") {
            return Ok(Shebang { body: source, flags: None });
        }
        let (line, body) = split_line(source).ok_or(Error::from_static("ERR Invalid script shebang"))?;
        let words = split_words(line).unwrap_or_default();
        let Some((engine, options)) = words.split_first() else {
            return Err(Error::from_static("ERR Invalid engine in script shebang"));
        };
        if engine != "#!lua" {
            return Err(with(b"ERR Unexpected engine in script shebang: ", engine));
        }
        let mut flags = Vec::new();
        for option in options {
            let Some(names) = option.strip_prefix(b"flags=") else {
                return Err(with(b"ERR Unknown lua shebang option: ", option));
            };
            for name in names.split(|&byte| byte == b',').filter(|_| !names.is_empty()) {
                let flag = FLAGS.iter().find(|flag| flag.as_bytes() == name);
                flags.push(*flag.ok_or_else(|| with(b"ERR Unexpected flag in script shebang: ", name))?);
            }
        }
        Ok(Shebang { body, flags: Some(flags) })
    }
}

/// The code of a library, with the name in its first line.
#[derive(Debug)]
pub(super) struct Metadata<'a> {
    /// The source that Lua compiles. The first line is blank in it, so line numbers stay the same.
    pub body: &'a [u8],
    /// The name of the library.
    pub name: Bytes,
}

impl<'a> Metadata<'a> {
    /// Splits the first line from the code of a library.
    ///
    /// # Errors
    /// The first line is missing or invalid. The checks have Redis's order.
    pub(super) fn parse(code: &'a [u8]) -> Result<Metadata<'a>, Error> {
        const INVALID: Error = Error::from_static("ERR Invalid library metadata");
        if !code.starts_with(b"#!") {
            return Err(Error::from_static("ERR Missing library metadata"));
        }
        let (line, body) = split_line(code).ok_or(INVALID)?;
        let words = split_words(line).ok_or(INVALID)?;
        let (engine, values) = words.split_first().ok_or(INVALID)?;
        let mut name = None;
        for value in values {
            match value.split_at_checked(5) {
                Some((key, _)) if key.eq_ignore_ascii_case(b"name=") => {
                    if name.replace(value.slice(5..)).is_some() {
                        return Err(Error::from_static(
                            "ERR Invalid metadata value, name argument was given multiple times",
                        ));
                    }
                }
                _ => return Err(with(b"ERR Invalid metadata value given: ", value)),
            }
        }
        let name = name.ok_or(Error::from_static("ERR Library name was not given"))?;
        check_name(&name)?;
        let engine = engine.strip_prefix(b"#!").unwrap_or(engine);
        if !engine.eq_ignore_ascii_case(b"lua") {
            return Err(Error::new([b"ERR Engine '", engine, b"' not found"].concat()));
        }
        Ok(Metadata { body, name })
    }
}

/// Whether the script may not write. Its flags decide; without flags, the calling command decides.
///
/// # Errors
/// A command that is read-only calls a script whose flags do not include `no-writes`.
pub(super) fn is_read_only(flags: Option<&[&'static str]>, mode: Mode) -> Result<bool, Error> {
    let Some(flags) = flags else { return Ok(mode == Mode::ReadOnly) };
    let is_read_only = flags.contains(&NO_WRITES);
    if mode == Mode::ReadOnly && !is_read_only { Err(error::WRITE_FLAG_IN_RO) } else { Ok(is_read_only) }
}

/// Checks the name of a library or of a function.
pub(super) fn check_name(name: &[u8]) -> Result<(), Error> {
    let is_name = !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if is_name { Ok(()) } else { Err(error::LIBRARY_NAME) }
}

/// The first line, and the rest that starts with its line break. As in C, no line goes on after a
/// NUL.
fn split_line(source: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = source.iter().position(|byte| matches!(byte, b'\n' | 0))?;
    (source[end] == b'\n').then(|| source.split_at(end))
}

fn with(text: &[u8], what: &[u8]) -> Error {
    Error::new([text, what].concat())
}
