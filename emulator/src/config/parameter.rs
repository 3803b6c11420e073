//! A row of the table of parameters.

use super::kind::ParameterKind;

/// One parameter.
#[derive(Debug)]
pub struct Parameter {
    /// The name, as in redis.conf.
    pub name: &'static str,
    /// The older name.
    pub alias: Option<&'static str>,
    pub(super) default: &'static str,
    pub(super) kind: ParameterKind,
    pub(super) access: Mutability,
    /// Its values are not shown in logs: it is a password, for example.
    pub(super) is_secret: bool,
}

/// Whether `CONFIG SET` may change a parameter.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mutability {
    Mutable,
    Refused(&'static str),
}

impl Parameter {
    pub(super) const fn new(name: &'static str, default: &'static str, kind: ParameterKind) -> Parameter {
        Parameter { name, alias: None, default, kind, access: Mutability::Mutable, is_secret: false }
    }

    pub(super) const fn alias(mut self, alias: &'static str) -> Parameter {
        self.alias = Some(alias);
        self
    }

    pub(super) const fn immutable(mut self) -> Parameter {
        self.access = Mutability::Refused("can't set immutable config");
        self
    }

    pub(super) const fn secret(mut self) -> Parameter {
        self.is_secret = true;
        self
    }

    pub(super) const fn protected(mut self) -> Parameter {
        self.access = Mutability::Refused("can't set protected config");
        self
    }

    /// All its names: the name and the older one.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.alias)
    }
}
