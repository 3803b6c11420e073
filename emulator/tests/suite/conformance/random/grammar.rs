//! Turns the notation of [`super::forms`] into proptest strategies.

use std::borrow::Cow;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use super::forms;

/// A word of a command.
pub type Word = Cow<'static, str>;
/// A command with its arguments.
pub type Argv = Vec<Word>;

/// Commands of this form. They shrink towards fewer arguments and towards the first word of each
/// pool.
pub fn form(text: &'static str, keys: &'static [&'static str]) -> BoxedStrategy<Argv> {
    let spaced = text.replace('[', " [ ").replace(']', " ] ").replace('(', " ( ").replace(")+", " )+ ");
    let spaced = spaced.replace(')', " ) ").replace(") +", ")+").replace('|', " | ");
    // There are few forms, and each is needed as long as the test runs.
    let tokens: Vec<&'static str> = spaced.leak().split_whitespace().collect();
    let mut parser = Parser { tokens: &tokens, keys };
    let commands = parser.alternatives();
    assert!(parser.tokens.is_empty(), "{text:?} closes what it did not open");
    commands
}

/// One of many choices, none of which is simpler than another.
pub fn one_of<T: std::fmt::Debug + 'static>(choices: Vec<BoxedStrategy<T>>) -> BoxedStrategy<T> {
    assert!(!choices.is_empty(), "there is nothing to choose from");
    (0..choices.len()).prop_ind_flat_map(move |idx| choices[idx].clone()).boxed()
}

/// Parses a form from left to right.
struct Parser<'a> {
    tokens: &'a [&'static str],
    keys: &'static [&'static str],
}

impl Parser<'_> {
    fn next(&mut self) -> Option<&'static str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn alternatives(&mut self) -> BoxedStrategy<Argv> {
        let mut branches = vec![self.sequence()];
        while self.tokens.first() == Some(&"|") {
            self.next();
            branches.push(self.sequence());
        }
        if branches.len() == 1 { branches.remove(0) } else { Union::new(branches).boxed() }
    }

    fn sequence(&mut self) -> BoxedStrategy<Argv> {
        let mut items = Vec::new();
        while let Some(&token) = self.tokens.first()
            && !matches!(token, "|" | "]" | ")" | ")+")
        {
            self.next();
            items.push(match token {
                "[" | "(" => self.group(),
                word => self.word(word),
            });
        }
        items.prop_map(|parts: Vec<Argv>| parts.concat()).boxed()
    }

    /// The contents of brackets, repeated as the closing bracket says.
    fn group(&mut self) -> BoxedStrategy<Argv> {
        let inner = self.alternatives();
        match self.next() {
            Some("]") => option::of(inner).prop_map(Option::unwrap_or_default).boxed(),
            Some(")+") => vec(inner, 1..=3).prop_map(|parts| parts.concat()).boxed(),
            Some(")") => inner,
            other => panic!("a bracket is not closed, but followed by {other:?}"),
        }
    }

    fn word(&self, word: &'static str) -> BoxedStrategy<Argv> {
        let is_pool = word.bytes().all(|byte| byte.is_ascii_uppercase());
        match word {
            "K" => select(self.keys).prop_map(|key| vec![key.into()]).boxed(),
            pool if is_pool => select(forms::pool(pool)).prop_map(|word| vec![word.into()]).boxed(),
            literal => Just(vec![Word::from(literal)]).boxed(),
        }
    }
}
