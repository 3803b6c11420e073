//! The parameters of `CONFIG`: a table of all parameters of Redis 7.0, and the settings of one
//! server.
//!
//! This module knows which values a parameter takes and how they are shown. The effect of a setting
//! is up to its readers. <https://redis.io/docs/latest/operate/oss_and_stack/management/config/>

mod kind;
mod parameter;
mod table;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use indexmap::IndexMap;

use crate::error::{self, Error};
use crate::keyspace::Hasher;

use parameter::Mutability;
pub use parameter::Parameter;
pub use table::PARAMETERS;

/// The index of a parameter in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id(usize);

impl Id {
    /// Returns the parameter with this name, at compile time. Older names are not found.
    pub const fn of(name: &str) -> Id {
        let mut idx = 0;
        while !is_equal(PARAMETERS[idx].name.as_bytes(), name.as_bytes()) {
            idx += 1;
        }
        Id(idx)
    }

    /// Whether its values are secret: only `CONFIG GET` shows them.
    pub fn is_secret(self) -> bool {
        PARAMETERS[self.0].is_secret
    }

    /// Finds a parameter by any of its names, in any case. Also returns that name as the table
    /// spells it.
    pub fn lookup(name: &[u8]) -> Option<(Id, &'static str)> {
        static NAMES: LazyLock<IndexMap<&'static str, Id, Hasher>> = LazyLock::new(|| {
            let ids = PARAMETERS.iter().enumerate();
            ids.flat_map(|(idx, parameter)| parameter.names().map(move |name| (name, Id(idx)))).collect()
        });
        let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
        NAMES.get_key_value(name.as_str()).map(|(&name, &id)| (id, name))
    }
}

/// A function, because `==` on slices is not `const`.
const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut idx = 0;
    while idx < a.len() && idx < b.len() && a[idx] == b[idx] {
        idx += 1;
    }
    idx == a.len() && idx == b.len()
}

/// The settings of one server. A copy is cheap until one of the two is changed.
#[derive(Clone, Debug)]
pub struct Config(Arc<Vec<Setting>>);

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    /// The value, as `CONFIG GET` shows it.
    text: Bytes,
    /// The value as a number, for numbers, for yes and no, and for classes of events.
    number: i64,
}

impl Default for Config {
    fn default() -> Config {
        static DEFAULTS: LazyLock<Config> = LazyLock::new(|| {
            let settings = PARAMETERS.iter().map(|parameter| {
                let number =
                    parameter.kind.parse(parameter.default.as_bytes(), "").map(|parsed| parsed.number);
                Setting {
                    text: Bytes::from_static(parameter.default.as_bytes()),
                    number: number.unwrap_or_default(),
                }
            });
            Config(Arc::new(settings.collect()))
        });
        DEFAULTS.clone()
    }
}

impl Config {
    /// Returns a value as `CONFIG GET` shows it.
    pub fn text(&self, id: Id) -> &Bytes {
        &self.0[id.0].text
    }

    /// Returns the value of a parameter that is a number.
    pub fn number(&self, id: Id) -> i64 {
        self.0[id.0].number
    }

    /// Returns the value of a parameter that is a number and never negative.
    pub fn size(&self, id: Id) -> usize {
        usize::try_from(self.number(id)).unwrap_or(0)
    }

    /// Whether a parameter that is yes or no is on.
    pub fn is_on(&self, id: Id) -> bool {
        self.number(id) != 0
    }

    /// Whether both are unchanged copies of the same settings.
    pub fn is_same(&self, other: &Config) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sets a parameter as a line of redis.conf does. It also sets parameters that `CONFIG SET`
    /// refuses.
    ///
    /// # Errors
    /// Redis's texts, for an unknown name or a value that the parameter does not take.
    pub fn start_with(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let (id, name) = Id::lookup(name.as_bytes()).ok_or_else(|| error::unknown_option(name.as_bytes()))?;
        let setting = self.parse(id, name, value.as_bytes())?;
        self.put(id, setting);
        Ok(())
    }

    /// Changes all these parameters or, on an error, none of them. Returns whether any value has
    /// changed.
    ///
    /// # Errors
    /// Redis's texts, for an unknown or repeated name, a parameter that may not be set, and a value
    /// that it does not take.
    pub fn set(&mut self, pairs: &[(&[u8], &[u8])]) -> Result<bool, Error> {
        let mut found: Vec<(Id, &'static str)> = Vec::with_capacity(pairs.len());
        for (name, _) in pairs {
            let (id, canonical) = Id::lookup(name).ok_or_else(|| error::unknown_option(name))?;
            if let Mutability::Refused(reason) = PARAMETERS[id.0].access {
                return Err(error::config_set(name, reason));
            }
            if found.iter().any(|(_, other)| *other == canonical) {
                return Err(error::config_set(name, "duplicate parameter"));
            }
            found.push((id, canonical));
        }
        let parsed = pairs.iter().zip(found);
        let parsed = parsed.map(|((_, value), (id, name))| Ok((id, self.parse(id, name, value)?)));
        let parsed: Vec<(Id, Setting)> = parsed.collect::<Result<_, Error>>()?;
        let is_other = parsed.iter().any(|(id, setting)| self.0[id.0] != *setting);
        if is_other {
            parsed.into_iter().for_each(|(id, setting)| self.put(id, setting));
        }
        Ok(is_other)
    }

    fn parse(&self, id: Id, name: &str, value: &[u8]) -> Result<Setting, Error> {
        let before = String::from_utf8_lossy(self.text(id));
        let parsed = PARAMETERS[id.0].kind.parse(value, &before);
        let parsed = parsed.map_err(|reason| error::config_set(name.as_bytes(), &reason))?;
        Ok(Setting { text: parsed.text, number: parsed.number })
    }

    fn put(&mut self, id: Id, setting: Setting) {
        Arc::make_mut(&mut self.0)[id.0] = setting;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_takes_its_own_defaults() {
        assert!(PARAMETERS.is_sorted_by_key(|parameter| parameter.name));
        let config = Config::default();
        for (idx, parameter) in PARAMETERS.iter().enumerate() {
            assert_eq!(Id::of(parameter.name), Id(idx));
            let parsed = parameter.kind.parse(parameter.default.as_bytes(), parameter.default);
            assert_eq!(
                parsed.map(|parsed| parsed.text),
                Ok(config.text(Id(idx)).clone()),
                "{}",
                parameter.name
            );
        }
    }

    #[test]
    fn all_or_nothing() {
        let mut config = Config::default();
        let copy = config.clone();
        config.set(&[(b"timeout", b"5"), (b"maxmemory", b"x")]).unwrap_err();
        assert!(config.is_same(&copy));
        config.set(&[(b"timeout", b"5"), (b"maxmemory", b"2kb")]).unwrap();
        assert_eq!(config.number(Id::of("timeout")), 5);
        assert_eq!(config.number(Id::of("maxmemory")), 2048);
        assert_eq!(copy.number(Id::of("timeout")), 0);
    }
}
