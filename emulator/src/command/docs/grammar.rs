//! Parses the arguments of a command from its grammar line:
//! `key [NX | XX] score member [score member ...]`.
//!
//! - Words in capitals are tokens. A token before a name or a group belongs to it.
//! - `[ ]` is optional, `|` separates alternatives, `< >` groups.
//! - `[x ...]` after x means that x may be repeated.
//! - Most names determine their type. If one does not, its type follows it: `increment:double`.

use std::iter::Peekable;
use std::vec::IntoIter;

/// One argument of a command, or several that belong together.
#[derive(Debug, PartialEq)]
pub struct Argument {
    pub token: Option<&'static str>,
    pub shape: Shape,
    pub is_optional: bool,
    pub is_multiple: bool,
    /// The token is repeated with each repetition.
    pub repeats_token: bool,
}

/// The form of an argument.
#[derive(Debug, PartialEq)]
pub enum Shape {
    /// Only its token.
    Token,
    /// A value with its name and its type.
    Value(&'static str, &'static str),
    /// One of several arguments.
    OneOf(Vec<Argument>),
    /// All of several arguments.
    Block(Vec<Argument>),
}

/// The types of values by their names. All other values are strings.
const TYPES: &[(&str, &[&str])] = &[
    ("key", &["destination", "dst", "key", "key1", "key2", "newkey", "source", "src"]),
    (
        "integer",
        &[
            "client-id",
            "config-epoch",
            "count",
            "cursor",
            "db",
            "decrement",
            "destination-db",
            "end",
            "end-slot",
            "frequency",
            "increment",
            "index",
            "index1",
            "index2",
            "len",
            "limit",
            "milliseconds",
            "num-matches",
            "numkeys",
            "numreplicas",
            "offset",
            "protover",
            "rank",
            "seconds",
            "slot",
            "start",
            "start-slot",
            "stop",
            "ttl",
            "version",
            "weight",
        ],
    ),
    ("double", &["max", "min", "score", "timeout"]),
    ("pattern", &["pattern"]),
    ("unix-time", &["unix-time-seconds", "unix-time-milliseconds"]),
];

impl Argument {
    fn new(shape: Shape) -> Argument {
        Argument { token: None, shape, is_optional: false, is_multiple: false, repeats_token: false }
    }

    /// The name of a value or a token. A group has the names of all its parts.
    pub fn name(&self) -> String {
        match &self.shape {
            Shape::Token => self.token.unwrap_or_default().to_ascii_lowercase(),
            Shape::Value(name, _) => (*name).to_owned(),
            Shape::OneOf(parts) | Shape::Block(parts) => {
                parts.iter().map(Argument::name).collect::<Vec<_>>().join("_")
            }
        }
    }

    /// Redis's word for the type.
    pub fn type_name(&self) -> &'static str {
        match self.shape {
            Shape::Token => "pure-token",
            Shape::Value(_, type_name) => type_name,
            Shape::OneOf(_) => "oneof",
            Shape::Block(_) => "block",
        }
    }
}

/// Parses the grammar after the name of the command.
pub fn arguments(grammar: &'static str) -> Vec<Argument> {
    let words: Vec<&str> =
        grammar.split(' ').flat_map(split_brackets).filter(|word| !word.is_empty()).collect();
    sequence(&mut words.into_iter().peekable()).0
}

type Words = Peekable<IntoIter<&'static str>>;

/// Splits brackets from a word. `[score` and `...]` have one bracket, `[[x]]` has several.
fn split_brackets(word: &'static str) -> Vec<&'static str> {
    let inner = word.trim_start_matches(['[', '<']);
    let (opening, rest) = word.split_at(word.len() - inner.len());
    let inner = rest.trim_end_matches([']', '>']);
    let closing = &rest[inner.len()..];
    let each = |brackets: &'static str| (0..brackets.len()).map(move |idx| &brackets[idx..=idx]);
    each(opening).chain([inner]).chain(each(closing)).collect()
}

/// Parses arguments up to a bar or a closing bracket. Also returns whether they end in dots.
fn sequence(words: &mut Words) -> (Vec<Argument>, bool) {
    let mut arguments = Vec::new();
    while let Some(word) = words.next_if(|word| !["|", "]", ">"].contains(word)) {
        match word {
            "..." => return (arguments, true),
            "[" => match alternatives(words) {
                Group::Repeats(repeated) => repeat(&mut arguments, &repeated),
                Group::Is(argument) => arguments.push(Argument { is_optional: true, ..argument }),
            },
            "<" => arguments.extend(group(words)),
            token if is_token(token) => arguments.push(with_token(token, words)),
            name => arguments.push(value(name)),
        }
    }
    (arguments, false)
}

enum Group {
    /// The arguments before it may be repeated.
    Repeats(Vec<Argument>),
    Is(Argument),
}

/// Parses the rest of a bracket, including the closing one.
fn alternatives(words: &mut Words) -> Group {
    let mut branches = Vec::new();
    loop {
        let (branch, repeats) = sequence(words);
        let closing = words.next();
        if repeats {
            return Group::Repeats(branch);
        }
        branches.push(join(branch));
        if closing != Some("|") {
            break;
        }
    }
    Group::Is(if branches.len() == 1 { branches.remove(0) } else { Argument::new(Shape::OneOf(branches)) })
}

fn group(words: &mut Words) -> Option<Argument> {
    if let Group::Is(argument) = alternatives(words) { Some(argument) } else { None }
}

/// Joins several arguments into a block. A token before the first is the token of the block.
fn join(mut branch: Vec<Argument>) -> Argument {
    if branch.len() == 1 {
        return branch.remove(0);
    }
    let token = match branch.first_mut() {
        Some(first) if first.shape != Shape::Token => first.token.take(),
        _ => None,
    };
    Argument { token, ..Argument::new(Shape::Block(branch)) }
}

fn repeat(arguments: &mut Vec<Argument>, repeated: &[Argument]) {
    let first = arguments.len().saturating_sub(repeated.len());
    let repeats_token = repeated.first().is_some_and(|first| first.token.is_some());
    let argument = join(arguments.split_off(first));
    arguments.push(Argument { is_multiple: true, repeats_token, ..argument });
}

fn with_token(token: &'static str, words: &mut Words) -> Argument {
    let has_value =
        words.peek().is_some_and(|next| !is_token(next) && !["|", "]", ">", "[", "..."].contains(next));
    let argument = match words.next_if(|_| has_value) {
        None => Argument::new(Shape::Token),
        Some("<") => group(words).unwrap_or_else(|| Argument::new(Shape::Token)),
        Some(name) => value(name),
    };
    Argument { token: Some(token), ..argument }
}

fn value(name: &'static str) -> Argument {
    let (name, type_name) = match name.rsplit_once(':') {
        Some((name, type_name)) if name != "ip" => (name, type_name),
        _ => {
            let known = TYPES.iter().find(|(_, names)| names.contains(&name));
            (name, known.map_or("string", |(type_name, _)| type_name))
        }
    };
    Argument::new(Shape::Value(name, type_name))
}

fn is_token(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes the arguments as a line of text, each with its type and flags.
    fn render(arguments: &[Argument]) -> String {
        let each = arguments.iter().map(|argument| {
            let parts = match &argument.shape {
                Shape::OneOf(parts) | Shape::Block(parts) => format!("({})", render(parts)),
                Shape::Value(name, _) => format!(" {name}"),
                Shape::Token => String::new(),
            };
            let token = argument.token.map(|token| format!("{token}=")).unwrap_or_default();
            let flags =
                [(argument.is_optional, "?"), (argument.is_multiple, "*"), (argument.repeats_token, "+")];
            let flags: String = flags.iter().filter(|(has, _)| *has).map(|(_, flag)| *flag).collect();
            format!("{token}{}{parts}{flags}", argument.type_name())
        });
        each.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn grammar_lines() {
        for (line, arguments_expected) in [
            ("", ""),
            ("key [count]", "key key, integer count?"),
            ("key [key ...] timeout", "key key*, double timeout"),
            ("[key [key ...]]", "key key?*"),
            ("score member [score member ...]", "block(double score, string member)*"),
            ("[NX | XX] [CH]", "oneof(NX=pure-token, XX=pure-token)?, CH=pure-token?"),
            ("[EX seconds | PERSIST]", "oneof(EX=integer seconds, PERSIST=pure-token)?"),
            ("[LIMIT offset count]", "LIMIT=block(integer offset, integer count)?"),
            ("[GET pattern [GET pattern ...]]", "GET=pattern pattern?*+"),
            ("[WEIGHTS weight [weight ...]]", "WEIGHTS=integer weight?*"),
            ("[AGGREGATE <SUM | MIN>]", "AGGREGATE=oneof(SUM=pure-token, MIN=pure-token)?"),
            ("[count [WITHSCORES]]", "block(integer count, WITHSCORES=pure-token?)?"),
            ("increment:double", "double increment"),
        ] {
            assert_eq!(render(&arguments(line)), arguments_expected, "{line}");
        }
    }
}
