//! Names on the command line: which there are, and which one was meant.

use anyhow::{Context as _, Result};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::Error;
use clap::{Arg, Command};
use locks::registry::{ALGORITHMS, Algorithm, FaultClass, Property};

use crate::debates::DEBATES;

/// How similar a name must be to be suggested: 1 for equal names, 0 for names without a common
/// letter.
const SIMILARITY_MIN: f64 = 0.75;
/// How much less similar than the best name another suggestion may be.
const SIMILARITY_SPREAD: f64 = 0.1;
/// Most names that are suggested.
const SUGGESTIONS_MAX: usize = 3;

/// The algorithm of this name.
pub(crate) fn find(name: &str) -> Result<&'static Algorithm> {
    ALGORITHMS.iter().find(|algorithm| algorithm.name == name).with_context(|| {
        let hint = did_you_mean(name, ALGORITHMS.iter().map(|algorithm| algorithm.name));
        format!("there is no algorithm named {name:?}: `lockstep list algorithms` prints all names{hint}")
    })
}

/// The fault class of this name.
pub(crate) fn find_class(name: &str) -> Result<FaultClass> {
    FaultClass::named(name).with_context(|| {
        let known = || FaultClass::ALL.iter().map(|class| class.name());
        let (all, hint) = (known().collect::<Vec<_>>().join(", "), did_you_mean(name, known()));
        format!("there is no class {name:?}; there are {all}{hint}")
    })
}

/// The end of a message about an unknown name: the names that may have been meant, if there are
/// any.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    let mut similar: Vec<(f64, &str)> =
        known.map(|known| (strsim::jaro_winkler(&name, known), known)).collect();
    similar.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let best = similar.first().map_or(0.0, |&(similarity, _)| similarity);
    similar.retain(|&(similarity, _)| similarity >= SIMILARITY_MIN.max(best - SIMILARITY_SPREAD));
    let names: Vec<&str> = similar.into_iter().map(|(_, known)| known).take(SUGGESTIONS_MAX).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", names.join(" or ")) }
}

/// An argument that is the name of what `explain` explains.
pub(crate) fn explained() -> Offered {
    Offered(|| {
        let debates = DEBATES.iter().map(|of| PossibleValue::new(of.name).help(of.about));
        (algorithms().0)().into_iter().chain(debates).collect()
    })
}

/// An argument that is an algorithm's name.
pub(crate) fn algorithms() -> Offered {
    Offered(|| ALGORITHMS.iter().map(|of| PossibleValue::new(of.name).help(of.spec.guarantees)).collect())
}

/// An argument that is a property's name.
pub(crate) fn properties() -> Offered {
    Offered(|| Property::ALL.iter().map(|of| PossibleValue::new(of.name()).help(of.description())).collect())
}

/// An argument that is a fault class's name.
pub(crate) fn classes() -> Offered {
    Offered(|| {
        FaultClass::ALL.iter().map(|of| PossibleValue::new(of.name()).help(of.description())).collect()
    })
}

/// Any text, and the names that help and completions offer. The command looks the text up itself,
/// because clap would answer an unknown name with the list of all names.
#[derive(Clone)]
pub(crate) struct Offered(fn() -> Vec<PossibleValue>);

impl TypedValueParser for Offered {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        text: &std::ffi::OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, arg, text)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::{ALGORITHMS, did_you_mean};

    #[test]
    fn similar_names_are_suggested() {
        let hint = |name| did_you_mean(name, ALGORITHMS.iter().map(|algorithm| algorithm.name));
        assert_eq!(hint("mutx"), "; did you mean mutex or mutex_fair?");
        assert_eq!(hint("Redlock"), "; did you mean redlock or redlock_3?");
        assert_eq!(hint("speed"), "");
        assert_eq!(hint(""), "");
    }
}
