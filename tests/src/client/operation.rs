//! Operations on an object: what a client calls, and the answer that it gets.

use std::sync::Arc;

use serde::Serialize;

use super::Client;
use crate::interned::interned;
use crate::linearizability::Call;
use crate::live::Act;

/// An operation that a client is about to call.
#[must_use = "an operation is called by `run`"]
pub struct Operation<'a> {
    client: &'a Client,
    call: Call,
}

impl Client {
    /// An operation on an object that Redis code implements: `push` on a queue, `cas` on a
    /// register. Its call and its answer are recorded, so that
    /// [`Linearizable`](crate::oracle::Linearizable) can judge whether the code is such an object.
    ///
    /// The arguments are a value, a tuple of several, or `()`. They and the answer are kept as
    /// JSON.
    ///
    /// ```
    /// use harness::linearizability::Queue;
    /// use harness::oracle::Linearizable;
    /// use harness::{Client, Scenario};
    /// use redis::AsyncCommands as _;
    ///
    /// let queue = Scenario::new("queue")
    ///     .actors(2, |client: Client| async move {
    ///         let mut link = client.connection();
    ///         () = client.operation("push", client.name()).run(link.lpush("jobs", client.name())).await?;
    ///         let _: Option<String> = client.operation("pop", ()).run(link.rpop("jobs", None)).await?;
    ///         Ok(())
    ///     })
    ///     .always(Linearizable::new(Queue::default()));
    /// harness::exhaustive(&queue).unwrap();
    /// ```
    ///
    /// # Panics
    /// The arguments cannot be JSON, such as a map whose keys are no strings.
    #[track_caller]
    pub fn operation(&self, name: impl AsRef<str>, args: impl Serialize) -> Operation<'_> {
        let args = serde_json::to_value(args).unwrap_or_else(|error| panic!("the arguments: {error}"));
        Operation { client: self, call: Call { object: "", name: interned(name.as_ref()), args } }
    }
}

impl Operation<'_> {
    /// The object, if the code has several: [`Linearizable::of`](crate::oracle::Linearizable::of).
    pub fn on(mut self, object: impl AsRef<str>) -> Self {
        self.call.object = interned(object.as_ref());
        self
    }

    /// Calls the operation, and returns its result. After an error it is not known whether the
    /// operation took effect, and it may still do so.
    ///
    /// # Panics
    /// The answer cannot be JSON.
    pub async fn run<T: Serialize, E>(self, operation: impl Future<Output = Result<T, E>>) -> Result<T, E> {
        let live = &self.client.0;
        let id = live.call(self.call);
        let result = operation.await;
        if let Ok(answer) = &result {
            let answer = serde_json::to_value(answer).unwrap_or_else(|error| panic!("the answer: {error}"));
            live.note(Act::Return { id, answer: Arc::new(answer) });
        }
        result
    }
}
