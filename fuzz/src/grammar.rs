//! The arguments of commands as `COMMAND DOCS` describes them. If a command has documentation, it
//! is fuzzed with its own options.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use emulator::{Emulator, Reply};

/// One argument, or several that belong together.
#[derive(Debug, Default)]
pub struct Argument {
    pub name: String,
    /// The token before the argument.
    pub token: Option<Vec<u8>>,
    pub shape: Shape,
    pub is_optional: bool,
    pub is_multiple: bool,
    /// The token stands again before each repetition.
    pub repeats_token: bool,
}

#[derive(Debug, Default)]
pub enum Shape {
    /// A token without a value.
    #[default]
    Token,
    /// A value of this type.
    Value(String),
    OneOf(Vec<Argument>),
    Block(Vec<Argument>),
}

/// The arguments of each command and subcommand: `client|kill`.
pub static GRAMMAR: LazyLock<BTreeMap<String, Vec<Argument>>> = LazyLock::new(|| {
    let mut grammar = BTreeMap::new();
    let docs = Emulator::new().connection().execute(&[b"command", b"docs"]);
    fields(&docs).for_each(|(name, docs)| read_command(name, docs, &mut grammar));
    assert!(grammar.contains_key("client|kill"), "COMMAND DOCS says nothing of CLIENT KILL");
    grammar
});

fn read_command(name: String, docs: &Reply, grammar: &mut BTreeMap<String, Vec<Argument>>) {
    let mut arguments = Vec::new();
    for (field, value) in fields(docs) {
        match field.as_str() {
            "arguments" => arguments = items(value).map(read_argument).collect(),
            "subcommands" => fields(value).for_each(|(name, docs)| read_command(name, docs, grammar)),
            _ => {}
        }
    }
    grammar.insert(name, arguments);
}

fn read_argument(reply: &Reply) -> Argument {
    let mut argument = Argument::default();
    let (mut kind, mut inner) = (String::new(), Vec::new());
    for (field, value) in fields(reply) {
        match field.as_str() {
            "name" => argument.name = text(value),
            "type" => kind = text(value),
            "token" => argument.token = Some(text(value).into()),
            "arguments" => inner = items(value).map(read_argument).collect(),
            "flags" => {
                for flag in items(value).map(text) {
                    match flag.as_str() {
                        "optional" => argument.is_optional = true,
                        "multiple" => argument.is_multiple = true,
                        "multiple_token" => argument.repeats_token = true,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    argument.shape = match kind.as_str() {
        "pure-token" => Shape::Token,
        "oneof" => Shape::OneOf(inner),
        "block" => Shape::Block(inner),
        _ => Shape::Value(kind),
    };
    argument
}

fn fields(reply: &Reply) -> impl Iterator<Item = (String, &Reply)> {
    let Reply::Map(pairs) = reply else { panic!("COMMAND DOCS has {reply:?} where a map belongs") };
    pairs.iter().map(|(name, value)| (text(name), value))
}

fn items(reply: &Reply) -> impl Iterator<Item = &Reply> {
    let (Reply::Array(items) | Reply::Set(items)) = reply else {
        panic!("COMMAND DOCS has {reply:?} where a list belongs")
    };
    items.iter()
}

fn text(reply: &Reply) -> String {
    let (Reply::Bulk(text) | Reply::Status(text)) = reply else {
        panic!("COMMAND DOCS has {reply:?} where a text belongs")
    };
    String::from_utf8_lossy(text).into_owned()
}
