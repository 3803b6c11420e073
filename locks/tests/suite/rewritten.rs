//! A connection that changes the text of each script on its way. With it, a test runs mutants of
//! the scripts of a lock, or lets them record.

use locks::{Subscribe, Subscription};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisFuture, Value};

/// A piece of a script, and the text in its place. Scripts without the piece stay as they are.
pub(crate) type Change = (&'static str, &'static str);

/// Knows no hash of a script, and changes the text of each `EVAL`.
#[derive(Clone)]
pub(crate) struct Rewritten<C> {
    inner: C,
    changes: &'static [Change],
}

impl<C> Rewritten<C> {
    pub(crate) fn new(inner: C, changes: &'static [Change]) -> Rewritten<C> {
        Rewritten { inner, changes }
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
                [b"EVALSHA", ..] => {
                    redis::parse_redis_value(b"-NOSCRIPT No matching script.\r\n")?.extract_error()
                }
                [b"EVAL", text, ref rest @ ..] => {
                    let text = std::str::from_utf8(text).unwrap().to_owned();
                    let changed =
                        self.changes.iter().fold(text, |text, (piece, other)| text.replace(piece, other));
                    let mut eval = redis::cmd("EVAL");
                    eval.arg(changed);
                    rest.iter().for_each(|arg| _ = eval.arg(*arg));
                    self.inner.req_packed_command(&eval).await
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
