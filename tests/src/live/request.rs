//! Requests, each of which is one step: how they run, how they are shown, and how they are told
//! apart.

use std::hash::{BuildHasher as _, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::quality::FixedState;
use redis::{Arg, Cmd, Pipeline, RedisResult, Value};

use crate::fingerprint::fingerprint;
use crate::render::{
    Format as _, brief, brief_command, bytes_of, first_key, format_command, format_words, script_name,
};
use crate::trace::{HoldId, Script};

/// One step of a client. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) kind: RequestKind,
    /// It follows an `ASK`: `ASKING` comes right before it.
    pub(crate) is_asking: bool,
    /// A hash of all words, and of what the reply is to have.
    pub(crate) hash: u64,
}

/// A request whose client waits for the reply.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pending {
    pub(crate) request: Request,
    /// A hash of its server, name and first key.
    pub(crate) brief: u64,
    /// When it was made.
    pub(crate) sent: Duration,
    /// The release that it belongs to.
    pub(crate) release: Option<HoldId>,
    /// The task that made it, as [`Sent::task`](crate::trace::Sent::task) says.
    pub(crate) task: usize,
}

/// The commands of a request.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    Command(Arc<Cmd>),
    /// The command that subscribes to this channel, or that `ends` the subscription.
    Subscribe {
        cmd: Arc<Cmd>,
        channel: String,
        ends: bool,
    },
    /// Something comes to the client from outside, and no server has a part in it.
    Arrival,
    /// Commands that run together. The reply is an array of `count` replies, from `offset` on.
    Transaction {
        pipeline: Arc<Pipeline>,
        offset: usize,
        count: usize,
    },
}

/// Whether the words are equal, and the part of the replies that counts.
impl PartialEq for Request {
    fn eq(&self, other: &Request) -> bool {
        self.hash == other.hash
    }
}

impl From<&Cmd> for Request {
    fn from(cmd: &Cmd) -> Request {
        RequestKind::Command(Arc::new(cmd.clone())).into()
    }
}

impl From<RequestKind> for Request {
    fn from(kind: RequestKind) -> Request {
        let hash = kind.hash();
        Request { kind, is_asking: false, hash }
    }
}

impl Request {
    /// The same after an `ASK`.
    pub(crate) fn asking(&self) -> Request {
        Request { kind: self.kind.clone(), is_asking: true, hash: fingerprint((self.hash, "ASKING")) }
    }

    /// Subscribes to a channel.
    pub(crate) fn subscribe(channel: &str) -> Request {
        let cmd = redis::cmd("SUBSCRIBE").arg(channel).to_owned();
        RequestKind::Subscribe { cmd: Arc::new(cmd), channel: channel.to_owned(), ends: false }.into()
    }

    /// Ends the subscription to a channel.
    pub(crate) fn unsubscribe(channel: &str) -> Request {
        let cmd = redis::cmd("UNSUBSCRIBE").arg(channel).to_owned();
        RequestKind::Subscribe { cmd: Arc::new(cmd), channel: channel.to_owned(), ends: true }.into()
    }

    /// A step without a command.
    pub(crate) fn arrival() -> Request {
        RequestKind::Arrival.into()
    }

    /// The commands that it consists of.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &Cmd> {
        self.kind.commands()
    }

    /// The request as one would type it; and its name with its first key.
    pub(crate) fn text(&self) -> (String, String) {
        let (text, brief) = self.kind.text();
        (if self.is_asking { format!("ASKING; {text}") } else { text }, brief)
    }

    /// The reply on one line. Of the reply to `HELLO` only the protocol: the rest tells which
    /// server it is, and how many connections came before.
    pub(crate) fn format_reply(&self, reply: &Value) -> String {
        match (&self.kind, reply) {
            (RequestKind::Command(cmd), Value::Map(pairs)) if brief_command(cmd).starts_with("HELLO") => {
                let protocol = pairs.iter().filter(|(key, _)| *key == Value::BulkString(b"proto".into()));
                Value::Map(protocol.cloned().collect()).show()
            }
            _ => reply.show(),
        }
    }

    /// The database that it selects for its connection, if it is a single command.
    pub(crate) fn selects(&self) -> Option<i64> {
        let RequestKind::Command(cmd) = &self.kind else { return None };
        let mut words = cmd.args_iter().map(|word| bytes_of(&word));
        words.next().filter(|name| name.eq_ignore_ascii_case(b"select"))?;
        std::str::from_utf8(words.next()?).ok()?.parse().ok()
    }

    /// The script or function that the request calls, if it is a single command. `source` returns
    /// the source of a script by its SHA1, if the server knows it.
    pub(crate) fn script(&self, source: impl Fn(&str) -> Option<Bytes>) -> Option<Script> {
        let RequestKind::Command(cmd) = &self.kind else { return None };
        let words: Vec<&[u8]> = cmd.args_iter().map(|word| bytes_of(&word)).collect();
        let [name, program, _, arguments @ ..] = &words[..] else { return None };
        let text = String::from_utf8_lossy(program);
        let (sha, name) = match &*name.to_ascii_lowercase() {
            b"eval" | b"eval_ro" => (sha_of(program), Some(script_name(&text))),
            b"evalsha" | b"evalsha_ro" => {
                let name = source(&text).map(|source| script_name(&String::from_utf8_lossy(&source)));
                (text.to_ascii_lowercase(), name)
            }
            b"fcall" | b"fcall_ro" => (String::new(), Some(text.into_owned())),
            _ => return None,
        };
        let arguments = format_words(arguments.iter().copied());
        Some(Script { sha, name, arguments, commands: Vec::new() })
    }

    /// The sources of the scripts that it sends to the server, each with its SHA1.
    pub(crate) fn scripts(&self) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.words().into_iter().filter_map(|words| {
            let [name, first, ..] = &words[..] else { return None };
            let source = match &*name.to_ascii_lowercase() {
                b"eval" | b"eval_ro" => first,
                b"script" if first.eq_ignore_ascii_case(b"load") => words.get(2)?,
                _ => return None,
            };
            Some((sha_of(source), source.clone()))
        })
    }

    /// The words of each command.
    pub(crate) fn words(&self) -> Vec<Vec<Vec<u8>>> {
        let words = |command: &Cmd| command.args_iter().map(|word| bytes_of(&word).to_vec()).collect();
        self.commands().map(words).collect()
    }

    /// Whether a command of it waits on its server without a limit, if it has to wait.
    pub(crate) fn waits_without_limit(&self) -> bool {
        let limit = |words: &[Vec<u8>]| {
            let limit = match &*words.first()?.to_ascii_lowercase() {
                b"blpop" | b"brpop" | b"bzpopmin" | b"bzpopmax" | b"blmove" | b"brpoplpush" => {
                    words.last()?
                }
                b"blmpop" | b"bzmpop" => words.get(1)?,
                _ => return None,
            };
            std::str::from_utf8(limit).ok()?.parse::<f64>().ok()
        };
        self.words().iter().any(|words| limit(words) == Some(0.0))
    }

    /// How many replicas it waits for if it is `WAIT`, and whether for a limited time.
    pub(crate) fn waits_for_replicas(&self) -> Option<(i64, bool)> {
        let RequestKind::Command(cmd) = &self.kind else { return None };
        let mut words = cmd.args_iter();
        let is_meant = bytes_of(&words.next()?).eq_ignore_ascii_case(b"wait");
        let mut number = || std::str::from_utf8(bytes_of(&words.next()?)).ok()?.parse::<i64>().ok();
        if is_meant { Some((number()?, number()? > 0)).filter(|_| words.next().is_none()) } else { None }
    }

    /// How many bytes its words take.
    pub(crate) fn value_bytes(&self) -> usize {
        let words = self.commands().flat_map(Cmd::args_iter);
        words.map(|word| if let Arg::Simple(bytes) = word { bytes.len() } else { 0 }).sum()
    }

    /// A hash of the server, the name and the first key.
    pub(crate) fn hash_brief(&self, server: usize) -> u64 {
        let (RequestKind::Command(cmd) | RequestKind::Subscribe { cmd, .. }) = &self.kind else {
            return fingerprint((server, self.text().1));
        };
        let mut words = cmd.args_iter().map(|arg| if let Arg::Simple(word) = arg { word } else { &[] });
        let (name, second, key) = (words.next(), words.next(), first_key(cmd));
        // Without a key, the second word tells commands apart: it is the script, if they run one.
        let second = second.filter(|_| key.is_none());
        fingerprint((server, name, key, second))
    }
}

impl RequestKind {
    fn text(&self) -> (String, String) {
        if let RequestKind::Command(cmd) | RequestKind::Subscribe { cmd, .. } = self {
            return (format_command(cmd), brief_command(cmd));
        }
        let commands: Vec<_> = self.commands().map(format_command).collect();
        let key = self.commands().find_map(first_key);
        (format!("MULTI; {}; EXEC", commands.join("; ")), brief("MULTI", key))
    }

    fn commands(&self) -> impl Iterator<Item = &Cmd> {
        let (command, pipeline) = match self {
            RequestKind::Command(cmd) | RequestKind::Subscribe { cmd, .. } => (Some(&**cmd), None),
            RequestKind::Transaction { pipeline, .. } => (None, Some(pipeline.cmd_iter())),
            RequestKind::Arrival => (None, None),
        };
        command.into_iter().chain(pipeline.into_iter().flatten())
    }

    fn hash(&self) -> u64 {
        let mut hasher = FixedState::default().build_hasher();
        if let RequestKind::Transaction { offset, count, .. } = self {
            (offset, count).hash(&mut hasher);
        }
        for command in self.commands() {
            for arg in command.args_iter() {
                match arg {
                    Arg::Simple(bytes) => bytes.hash(&mut hasher),
                    _ => 0_u8.hash(&mut hasher),
                }
            }
            hasher.write_u8(0);
        }
        hasher.finish()
    }
}

/// The SHA1 by which clients call the script of this source.
fn sha_of(source: &[u8]) -> String {
    redis::Script::new(&String::from_utf8_lossy(source)).get_hash().to_owned()
}

/// A hash of a reply, or of the error of a request that the server refused.
pub(crate) fn hash_result(result: &RedisResult<Value>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    match result {
        Ok(reply) => hash_value(reply, &mut hasher),
        Err(error) => error.to_string().hash(&mut hasher),
    }
    hasher.finish()
}

fn hash_value(value: &Value, hasher: &mut impl std::hash::Hasher) {
    std::mem::discriminant(value).hash(hasher);
    match value {
        Value::Int(number) => number.hash(hasher),
        Value::BulkString(bytes) => bytes.hash(hasher),
        Value::Array(values) => {
            values.len().hash(hasher);
            values.iter().for_each(|value| hash_value(value, hasher));
        }
        Value::SimpleString(text) => text.hash(hasher),
        Value::Nil | Value::Okay => {}
        _ => format!("{value:?}").hash(hasher),
    }
}

/// About how many bytes a reply takes.
pub(crate) fn value_bytes(value: &Value) -> usize {
    match value {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(values) => values.iter().map(value_bytes).sum(),
        _ => size_of::<Value>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &str) -> Request {
        let mut words = words.split(' ');
        let mut cmd = redis::cmd(words.next().unwrap());
        words.for_each(|word| _ = cmd.arg(word));
        (&cmd).into()
    }

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    /// A map is also the reply to `HGETALL`, of which nothing is left out.
    #[test]
    fn only_the_protocol_of_hello_is_shown() {
        let reply = Value::Map(vec![(bulk("id"), Value::Int(7)), (bulk("proto"), Value::Int(3))]);
        assert_eq!(request("HELLO 3").format_reply(&reply), r#"{"proto": 3}"#);
        assert_eq!(request("HGETALL h").format_reply(&reply), r#"{"id": 7, "proto": 3}"#);
    }

    #[test]
    fn a_wait_is_limited_unless_its_limit_is_zero() {
        let waits = |words| request(words).waits_for_replicas();
        assert_eq!([waits("WAIT 1 0"), waits("wait 2 10")], [Some((1, false)), Some((2, true))]);
        assert_eq!([waits("WAIT 1"), waits("WAIT 1 0 0"), waits("GET 1 0"), waits("WAIT 1 x")], [None; 4]);
    }

    /// Of the script `return`.
    const SHA: &str = "63143b6f8007b98c53ca2149822777b3566f9241";

    #[test]
    fn scripts_are_known_by_their_sha1() {
        let sent = |words| request(words).scripts().collect::<Vec<_>>();
        let script = (SHA.to_owned(), b"return".to_vec());
        for words in ["EVAL return 0", "eval_ro return 0", "SCRIPT LOAD return", "script load return"] {
            assert_eq!(sent(words), std::slice::from_ref(&script), "{words}");
        }
        for words in ["SCRIPT EXISTS return", "GET return"] {
            assert_eq!(sent(words), [], "{words}");
        }
    }

    /// A function has a name, and no SHA1.
    #[test]
    fn a_call_names_its_script_or_function() {
        let called = |words: &str| {
            let script = request(words).script(|_| Some("return".into()));
            script.map(|Script { sha, name, arguments, .. }| (sha, name.unwrap_or_default(), arguments))
        };
        let script = (SHA.to_owned(), r#""return""#.to_owned(), "k".to_owned());
        for words in ["EVAL return 1 k".to_owned(), format!("evalsha_ro {SHA} 1 k")] {
            assert_eq!(called(&words), Some(script.clone()), "{words}");
        }
        let function = (String::new(), "take".to_owned(), "k".to_owned());
        assert_eq!(called("FCALL take 1 k"), Some(function));
        assert_eq!(called("SET return 1 k"), None);
    }

    #[test]
    fn a_timeout_of_zero_is_no_limit() {
        for words in
            ["BLPOP l 0", "bzpopmin z 0.0", "BRPOPLPUSH l m 0", "BLMPOP 0 1 l LEFT", "BZMPOP 0 1 z MIN"]
        {
            assert!(request(words).waits_without_limit(), "{words}");
        }
        for words in ["BLPOP l 1", "BLMPOP 1 1 l LEFT COUNT 0", "GETRANGE k 0 0"] {
            assert!(!request(words).waits_without_limit(), "{words}");
        }
    }

    #[test]
    fn bytes_of_words_and_of_replies_are_counted() {
        assert_eq!(request("SET k value").value_bytes(), "SETkvalue".len());
        assert_eq!(value_bytes(&Value::Array(vec![bulk("one"), bulk("three")])), "onethree".len());
    }

    /// Clients try in vain if they send the same command for the same key of the same server. Its
    /// other arguments may be tokens, which differ.
    #[test]
    fn equal_tries_have_the_same_server_name_and_key() {
        let brief = |server, words| request(words).hash_brief(server);
        assert_eq!(brief(0, "SET lock A NX"), brief(0, "SET lock B NX"));
        for (server, words) in [(1, "SET lock A NX"), (0, "SETNX lock A"), (0, "SET other A NX")] {
            assert_ne!(brief(0, "SET lock A NX"), brief(server, words), "{words}");
        }
        assert_ne!(brief(0, "SCRIPT LOAD return"), brief(0, "SCRIPT FLUSH"));
    }
}
