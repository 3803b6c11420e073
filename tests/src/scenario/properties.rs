//! What must hold in a scenario by the data of its servers: always, or after all actors have ended.

use std::future::Future;
use std::sync::Arc;

use super::Scenario;
use super::code::{ActorError, Judge, boxed};
use crate::actor::{Actor, PROBES_MAX};
use crate::client::Client;
use crate::interned::interned;
use crate::oracle::{self, Finally, list};
use crate::sim::{Invariant, ServerData};
use crate::trace::Ended;

impl Scenario {
    /// Adds a property that the data of the servers must always have: a stock is never below zero.
    /// `judge` reads the data. If it returns an error or panics, the property is violated, and the
    /// error is the text of the violation.
    ///
    /// It is judged before the first step, and after each step that changes what it read. So what
    /// it says must follow from the data alone. On a real server it is judged after each step.
    ///
    /// ```
    /// use harness::{Client, Scenario};
    /// use redis::{AsyncCommands as _, Commands as _};
    ///
    /// let shop = Scenario::new("shop")
    ///     .before(|client| async move { Ok(client.connection().set("stock", 1).await?) })
    ///     .actors(2, |client: Client| async move {
    ///         let mut link = client.connection();
    ///         if link.get::<_, i64>("stock").await? > 0 {
    ///             () = link.decr("stock", 1).await?;
    ///         }
    ///         Ok(())
    ///     })
    ///     .invariant("the stock is never below 0", |data| {
    ///         let stock: i64 = data.get("stock")?;
    ///         if stock < 0 { Err(format!("the stock is {stock}").into()) } else { Ok(()) }
    ///     });
    /// let report = harness::exhaustive(&shop).unwrap_err();
    /// assert!(report.to_string().contains("the stock is -1"));
    /// ```
    pub fn invariant<F>(mut self, name: impl AsRef<str>, judge: F) -> Scenario
    where
        F: Fn(&mut ServerData) -> Result<(), ActorError> + Send + Sync + 'static,
    {
        let name = interned(name.as_ref());
        self.invariants.push(Invariant { name, judges: Arc::new(judge) });
        self.always(oracle::Invariant { name })
    }

    /// Adds an invariant: the sum of these keys is always `total`. A string counts with its
    /// integer, any other key with the number of its elements. So this is for stock that is free,
    /// reserved or sold, and for jobs that wait, run or are done.
    ///
    /// If code moves something in two commands, the sum is another one in between: then judge it at
    /// the end, by [`finally`](Scenario::finally).
    pub fn conserved<K>(
        self,
        name: impl AsRef<str>,
        keys: impl IntoIterator<Item = K>,
        total: i64,
    ) -> Scenario
    where
        K: Into<String>,
    {
        let keys: Vec<String> = keys.into_iter().map(Into::into).collect();
        self.invariant(name, move |data| {
            let amounts: Vec<i64> = keys.iter().map(|key| amount(data, key)).collect::<Result<_, _>>()?;
            if amounts.iter().sum::<i64>() == total {
                return Ok(());
            }
            let told = keys.iter().zip(&amounts).map(|(key, amount)| format!("{key} has {amount}"));
            Err(format!("{}: together that is not {total}", list(&told.collect::<Vec<_>>())).into())
        })
    }

    /// Adds fresh clients that try to get everything after all actors have ended. Each returns
    /// whether it was granted, and keeps its grant: no task that it spawns runs after its end.
    /// [`crate::oracle::NoLeak`] and [`crate::oracle::Recovers`] use the results.
    ///
    /// # Panics
    /// There are more than 1,000 probes.
    #[track_caller]
    pub fn probe<F, Fut>(mut self, count: u32, act: F) -> Scenario
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<bool, ActorError>> + Send + 'static,
    {
        assert!(count <= PROBES_MAX, "a scenario has at most {PROBES_MAX} probes, not {count}");
        self.probe = Some((count, boxed(act)));
        self
    }

    /// Adds a property that must hold after all actors have ended: each job is in one queue, a sum
    /// is what it was. `judge` looks at the servers by a client of its own. If it returns an error
    /// or panics, the property is violated, and the error is the text of the violation.
    ///
    /// It runs once in each execution in which every actor of the scenario has started. After a
    /// crash, a lost message or a cancellation it runs when the longest lease and two more seconds
    /// have passed. [`Ended`] says how the actors ended. Several such properties are judged in
    /// their order, before the [`probe`](Scenario::probe).
    ///
    /// ```
    /// use harness::{Client, Scenario};
    /// use redis::AsyncCommands as _;
    ///
    /// let counter = Scenario::new("counter")
    ///     .actors(2, |client: Client| async move {
    ///         let mut link = client.connection();
    ///         let count: i64 = link.get::<_, Option<i64>>("count").await?.unwrap_or(0);
    ///         Ok(link.set("count", count + 1).await?)
    ///     })
    ///     .finally("no count is lost", |client, ended| async move {
    ///         let count: usize = client.connection().get("count").await?;
    ///         if count == ended.finished.len() {
    ///             return Ok(());
    ///         }
    ///         Err(format!("{} clients have counted, and the count is {count}", ended.finished.len()).into())
    ///     });
    /// let report = harness::exhaustive(&counter).unwrap_err();
    /// assert!(report.to_string().contains("2 clients have counted, and the count is 1"));
    /// ```
    pub fn finally<F, Fut>(mut self, name: impl AsRef<str>, judge: F) -> Scenario
    where
        F: Fn(Client, Arc<Ended>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), ActorError>> + Send + 'static,
    {
        let property = Finally { name: interned(name.as_ref()), judge: Actor::of_final(self.finals.len()) };
        let judge: Judge = Arc::new(move |client, ended| Box::pin(judge(client, ended)));
        self.finals.push(judge);
        self.always(property)
    }

    /// Declares that what is judged at the end means the same with fewer actors. A lock whose
    /// clients have all released it is free, however many there were.
    ///
    /// If all actors run equal code, explorations begin with one of them. Reports then have no more
    /// clients than a violation needs. Without this, a violation counts only if it stays when all
    /// other actors start after it.
    pub fn or_fewer(self) -> Scenario {
        Scenario { may_be_fewer: true, ..self }
    }
}

/// How much a key counts in a sum.
fn amount(data: &mut ServerData, key: &str) -> redis::RedisResult<i64> {
    let kind: String = redis::cmd("TYPE").arg(key).query(data)?;
    let count = match &*kind {
        "string" => "GET",
        "list" => "LLEN",
        "set" => "SCARD",
        "zset" => "ZCARD",
        "hash" => "HLEN",
        _ => return Ok(0),
    };
    redis::cmd(count).arg(key).query(data)
}
