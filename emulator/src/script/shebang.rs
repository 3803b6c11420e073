//! The first line of a script, which is for Redis and not for Lua: `#!lua flags=no-writes,allow-stale`.

use crate::error::Error;

const FLAGS: &[&str] = &["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

/// A script, with what its first line says about it.
#[derive(Debug)]
pub(super) struct Shebang<'a> {
    /// What Lua compiles. The first line is blank in it, so that lines keep their numbers.
    pub body: &'a [u8],
    /// `flags=no-writes`
    pub is_read_only: bool,
}

impl<'a> Shebang<'a> {
    /// # Errors
    /// A first line that begins as one of these and is none.
    pub(super) fn parse(source: &'a [u8]) -> Result<Shebang<'a>, Error> {
        if !source.starts_with(b"#!") {
            return Ok(Shebang { body: source, is_read_only: false });
        }
        let end = source.iter().position(|&byte| byte == b'\n');
        let end = end.ok_or(Error::from_static("ERR Invalid script shebang"))?;
        let line = String::from_utf8_lossy(&source[..end]);
        let mut words = line.split_ascii_whitespace();
        let engine = words.next().unwrap_or_default();
        if engine != "#!lua" {
            return Err(Error::new(format!("ERR Unexpected engine in script shebang: {engine}")));
        }
        let mut is_read_only = false;
        for word in words {
            let Some(flags) = word.strip_prefix("flags=") else {
                return Err(Error::new(format!("ERR Unknown lua shebang option: {word}")));
            };
            for flag in flags.split(',').filter(|_| !flags.is_empty()) {
                if !FLAGS.contains(&flag) {
                    return Err(Error::new(format!("ERR Unexpected flag in script shebang: {flag}")));
                }
                is_read_only |= flag == "no-writes";
            }
        }
        Ok(Shebang { body: &source[end..], is_read_only })
    }
}
