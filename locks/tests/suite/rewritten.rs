//! A connection that changes the text of each script on its way. With it, a test runs mutants of
//! the scripts of a lock, or lets them record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use locks::{Subscribe, Subscription};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisFuture, Script, Value};

/// A piece of a script, and the text in its place. Scripts without the piece stay as they are.
pub(crate) type Change = (&'static str, &'static str);

/// Answers `SCRIPT LOAD` itself, and sends each `EVALSHA` as an `EVAL` of the changed text.
#[derive(Clone)]
pub(crate) struct Rewritten<C> {
    inner: C,
    changes: &'static [Change],
    /// The changed texts, by the hashes of the scripts.
    texts: Arc<Mutex<BTreeMap<Vec<u8>, String>>>,
}

impl<C> Rewritten<C> {
    pub(crate) fn new(inner: C, changes: &'static [Change]) -> Rewritten<C> {
        Rewritten { inner, changes, texts: Arc::default() }
    }
}

impl<C: ConnectionLike + Send + Clone> ConnectionLike for Rewritten<C> {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        let args: Vec<&[u8]> = cmd
            .args_iter()
            .map(|arg| match arg {
                Arg::Simple(bytes) => bytes,
                _ => b"",
            })
            .collect();
        Box::pin(async move {
            match args[..] {
                [b"EVALSHA", hash, ref rest @ ..] => {
                    let text = self.texts.lock().unwrap().get(hash).cloned();
                    let Some(text) = text else {
                        let error = redis::parse_redis_value(b"-NOSCRIPT No matching script.\r\n")?;
                        return error.extract_error();
                    };
                    let mut eval = redis::cmd("EVAL");
                    eval.arg(text);
                    rest.iter().for_each(|arg| {
                        eval.arg(*arg);
                    });
                    self.inner.req_packed_command(&eval).await
                }
                [b"SCRIPT", b"LOAD", text] => {
                    let text = std::str::from_utf8(text).unwrap();
                    let hash = Script::new(text).get_hash().as_bytes().to_vec();
                    let changed = self
                        .changes
                        .iter()
                        .fold(text.to_owned(), |text, (piece, other)| text.replace(piece, other));
                    self.texts.lock().unwrap().insert(hash.clone(), changed);
                    Ok(Value::BulkString(hash))
                }
                _ => self.inner.req_packed_command(cmd).await,
            }
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.inner.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.inner.get_db()
    }
}

impl<C: Subscribe + Send + Clone> Subscribe for Rewritten<C> {
    fn subscribe<'a>(&'a self, channel: &'a str) -> RedisFuture<'a, Subscription> {
        self.inner.subscribe(channel)
    }
}
