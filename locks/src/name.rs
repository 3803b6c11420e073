//! The keys of a lock. All of them are in one slot of a cluster.
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>

/// The main key of a lock: its prefix and its name.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) key: String,
    /// The part of the key that decides its slot is marked with braces.
    is_tagged: bool,
}

impl Name {
    /// The keys of the lock with this name and prefix, or why that is no name.
    pub(crate) fn new(prefix: &str, name: &str) -> Result<Name, &'static str> {
        if name.is_empty() {
            return Err("the name is empty");
        }
        let key = format!("{prefix}{name}");
        let is_tagged = match (key.find('{'), key.find('}')) {
            (None, None) => false,
            (Some(open), Some(close)) if open + 1 < close => true,
            _ => return Err("braces in a name or prefix have to enclose something: {like this}"),
        };
        Ok(Name { key, is_tagged })
    }

    /// A further key of the lock.
    pub(crate) fn side_key(&self, part: &str) -> String {
        match self.is_tagged {
            true => format!("{}:{part}", self.key),
            false => format!("{{{}}}:{part}", self.key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keys_of_a_name_share_its_slot() {
        let side = |name| Name::new("lock:", name).map(|name| name.side_key("queue"));
        assert_eq!(side("report"), Ok("{lock:report}:queue".into()));
        assert_eq!(side("{user}:1"), Ok("lock:{user}:1:queue".into()));
        for wrong in ["", "{", "}", "a}b", "{}", "}{"] {
            assert!(side(wrong).is_err(), "{wrong:?}");
        }
    }
}
