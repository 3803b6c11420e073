//! The keys of a lock. If it has one name, all of them are in one slot of a cluster.
//! <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags>

use std::collections::BTreeSet;

/// Most names of one lock. A script asks for all of them in one step, and blocks its server
/// meanwhile.
const NAMES_MAX: usize = 100;

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

    /// The part of the main key that decides its slot.
    fn tag(&self) -> &str {
        let tagged = self.key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
        tagged.map_or(&self.key, |(tag, _)| tag)
    }

    /// A further key of the lock.
    pub(crate) fn side_key(&self, part: &str) -> String {
        match self.is_tagged {
            true => format!("{}:{part}", self.key),
            false => format!("{{{}}}:{part}", self.key),
        }
    }
}

/// The keys of one lock with these names and this prefix, or why that makes no sense. If one of the
/// names is tagged, all of them share its slot.
pub(crate) fn together(prefix: &str, names: &[String]) -> Result<Vec<Name>, &'static str> {
    if names.is_empty() {
        return Err("there is no name");
    }
    if names.len() > NAMES_MAX {
        return Err("a lock has at most 100 names");
    }
    let distinct: BTreeSet<&String> = names.iter().collect();
    if distinct.len() < names.len() {
        return Err("a name occurs twice");
    }
    let names = names.iter().map(|name| Name::new(prefix, name)).collect::<Result<Vec<_>, _>>()?;
    let is_tagged = names.iter().any(|name| name.is_tagged);
    if is_tagged && names.iter().any(|name| name.tag() != names[0].tag()) {
        return Err("names with braces have to share what is in them: {user}:1 and {user}:2");
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_braces_share_a_slot() {
        let check = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            together("", &names).map(|names| names.len())
        };
        assert_eq!(check(&["a", "b"]), Ok(2));
        assert_eq!(check(&["{user}:1", "{user}:2"]), Ok(2));
        assert_eq!(check(&["{user}", "user"]), Ok(2), "the whole name is the tag");
        for wrong in [&["{a}:1", "{b}:1"][..], &["{a}:1", "b"], &["a", "a"], &[], &[""]] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

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
