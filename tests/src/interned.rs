//! Names of sections, resources and operations: histories hold very many copies of few of them.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A copy of this name that lasts as long as the process. Equal names have one copy.
pub(crate) fn interned(name: &str) -> &'static str {
    static NAMES: Mutex<BTreeSet<&str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return known;
    }
    let name = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    name
}
