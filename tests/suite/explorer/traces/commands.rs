//! The language of the programs: each command is a text, and an actor sends its commands in order.

use std::time::Duration;

use harness::client::{GatedConnection, HoldGuard};
use harness::{Client, Scenario};
use locks::{Record, Subscribe as _, Subscription};
use redis::aio::ConnectionLike;
use redis::{RedisResult, Value, cmd};

/// Sends one command, whose words are separated by spaces.
pub async fn call<C: ConnectionLike>(connection: &mut C, command: &str) -> RedisResult<Value> {
    let mut words = command.split(' ');
    let mut cmd = cmd(words.next().unwrap());
    words.for_each(|word| _ = cmd.arg(word));
    cmd.query_async(connection).await
}

/// An actor that sends these commands until a reply is an error. An error from a fault does not end
/// it. A command can have these forms:
///
/// - `2:SET …` goes to the second server, `3:SET …` to the third;
/// - `within 5ms: …` gives up after that time;
/// - `after 5ms: …` runs later in a task of its own;
/// - `cancellably: …; …` runs several commands that a cancel may end;
/// - `{now}` is what the client's clock shows;
/// - `hold: …` enters a section after the command and leaves it after one more;
/// - `sleep 5ms` sleeps;
/// - `listen c` subscribes to a channel, and `leave` unsubscribes;
/// - `hear 5ms` waits that long for a message. It then sends one of three commands: for a message,
///   for none, or for a broken subscription;
/// - `lock k` sets `k` to the client's name for 10 ms if it is free. Then the client is inside
///   until `unlock k`, which deletes the key, or `release k`, which deletes it only if it has the
///   name;
/// - `extend k` gives the key 12 ms more, and the client is inside for a lease more;
/// - `majority k` locks `k` on three servers; the client is inside if it got two of them;
/// - `accept` draws a number, and a resource accepts a write with it;
/// - `feed: … -> …` puts the reply to one command in place of `{}` in another;
/// - `both: … | …` sends two commands at once, to two servers;
/// - `either: … | …` does so, too, and drops the slower one;
/// - `every 4ms: …` runs a command twice, in an interval;
/// - `call: …; …` runs several commands as one operation, with the last reply as its answer;
/// - `arrive` waits for something from outside;
/// - `do x` has done `x`;
/// - `pass: …` goes on whatever the reply is.
pub fn sends(scenario: Scenario, commands: Vec<String>) -> Scenario {
    sends_alike(scenario, 1, commands)
}

/// A service that sends these commands again and again.
pub fn serves(scenario: Scenario, commands: Vec<String>) -> Scenario {
    scenario.services(1, move |client| {
        let commands = commands.clone();
        async move {
            let mut sender = Sender::new(client);
            loop {
                for command in &commands {
                    sender.send(command).await?;
                }
            }
        }
    })
}

/// Several actors that send the same commands.
pub fn sends_alike(scenario: Scenario, actors: usize, commands: Vec<String>) -> Scenario {
    scenario.actors(actors, move |client| {
        let commands = commands.clone();
        async move {
            let mut sender = Sender::new(client);
            for command in &commands {
                sender.send(command).await?;
            }
            Ok(())
        }
    })
}

/// A client, its connections to the servers, its last subscription, and its stay inside.
struct Sender {
    subscription: Option<Subscription>,
    guard: Option<HoldGuard>,
    connections: Vec<GatedConnection>,
    client: Client,
}

impl Sender {
    fn new(client: Client) -> Sender {
        let connections = vec![client.connection_to(0), client.connection_to(1)];
        Sender { subscription: None, guard: None, connections, client }
    }

    async fn send(&mut self, command: &str) -> RedisResult<()> {
        let command = &if command.contains("{now}") {
            command.replace("{now}", &self.client.env().now_ms().to_string())
        } else {
            command.to_owned()
        };
        let (form, rest) = command.split_once(' ').unwrap_or((command, ""));
        match form {
            "listen" => self.listen(rest).await,
            "leave" => match self.subscription.take() {
                Some(subscription) => go_on(subscription.unsubscribe().await),
                None => Ok(()),
            },
            "hear" => self.hear(millis(rest)).await,
            "sleep" => {
                tokio::time::sleep(millis(rest)).await;
                Ok(())
            }
            "after" => {
                self.send_later(rest);
                Ok(())
            }
            "hold:" => self.hold_after(rest).await,
            "cancellably:" => self.send_cancellably(rest).await,
            "lock" => self.lock(rest).await,
            "unlock" => self.unlock(&format!("DEL {rest}")).await,
            "release" => {
                let script = format!(
                    "return(redis.call('GET','{rest}')=='{}'and(redis.call('DEL','{rest}')))",
                    self.client.name()
                );
                self.unlock(&format!("EVAL {script} 0")).await
            }
            "extend" => self.extend(rest).await,
            "majority" => self.majority(rest).await,
            "member" => {
                let name = self.client.name();
                self.add(&format!("ZADD {rest} NX 1 {name}"), Record::Member(rest.into(), name)).await
            }
            "field" => {
                let name = self.client.name();
                self.add(&format!("HSETNX {rest} {name} 1"), Record::Field(rest.into(), name)).await
            }
            "key" => self.add(&format!("SETNX {rest} 1"), Record::Key(rest.into())).await,
            "accept" => self.accept().await,
            "feed:" => self.feed(rest).await,
            "both:" | "either:" => self.send_two(form == "both:", rest).await,
            "every" => self.send_every(rest).await,
            "call:" => self.call(rest).await,
            "arrive" => {
                self.client.arrival().await;
                Ok(())
            }
            "do" => {
                self.client.did(rest);
                Ok(())
            }
            "pass:" => {
                let outcome = Box::pin(self.send(rest)).await;
                outcome.or(Ok(()))
            }
            "within" => {
                let (limit, command) = rest.split_once(": ").expect("a command after the limit");
                self.send_within(millis(limit), command).await
            }
            _ => self.send_within(Duration::MAX, command).await,
        }
    }

    async fn listen(&mut self, channel: &str) -> RedisResult<()> {
        match self.connections[0].subscribe(channel).await {
            Ok(listening) => self.subscription = Some(listening),
            Err(error) => go_on(Err(error))?,
        }
        Ok(())
    }

    async fn hear(&mut self, span: Duration) -> RedisResult<()> {
        let Some(subscription) = &mut self.subscription else { return Ok(()) };
        let heard = tokio::time::timeout(span, subscription.message()).await;
        let next = match heard {
            Ok(Ok(_)) => "INCR heard",
            Ok(Err(_)) => "INCR a",
            Err(_) => "GET a",
        };
        go_on(call(&mut self.connections[0], next).await.map(|_| ()))
    }

    fn send_later(&self, delayed: &str) {
        let (delay, command) = delayed.split_once(": ").expect("a command after the delay");
        let (delay, command) = (millis(delay), command.to_owned());
        let mut connection = self.client.connection();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            _ = call(&mut connection, &command).await;
        });
    }

    async fn hold_after(&mut self, command: &str) -> RedisResult<()> {
        let connection = &mut self.connections[0];
        go_on(call(connection, command).await.map(|_| ()))?;
        go_on(self.client.hold("cs").until(call(connection, "GET b")).await.map(|_| ()))
    }

    async fn send_cancellably(&mut self, commands: &str) -> RedisResult<()> {
        let connection = &mut self.connections[0];
        let operation = async {
            for command in commands.split("; ") {
                match command.strip_prefix("sleep ") {
                    Some(span) => tokio::time::sleep(millis(span)).await,
                    None => _ = call(connection, command).await?,
                }
            }
            Ok(())
        };
        go_on(self.client.cancellable(operation).await.unwrap_or(Ok(())))
    }

    async fn send_within(&mut self, limit: Duration, command: &str) -> RedisResult<()> {
        let (server, command) = match command.split_once(':') {
            Some(("2", command)) => (1, command),
            Some(("3", command)) => (2, command),
            _ => (0, command),
        };
        let call = call(self.connection(server), command);
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => go_on(answer.map(|_| ())),
            Err(_) => Ok(()),
        }
    }
}

impl Sender {
    fn connection(&mut self, server: usize) -> &mut GatedConnection {
        while self.connections.len() <= server {
            self.connections.push(self.client.connection_to(self.connections.len()));
        }
        &mut self.connections[server]
    }

    async fn set_if_free(&mut self, server: usize, key: &str) -> RedisResult<bool> {
        let set = format!("SET {key} {} NX PX 10", self.client.name());
        match call(self.connection(server), &set).await {
            Ok(reply) => Ok(reply == Value::Okay),
            Err(error) => go_on(Err(error)).map(|()| false),
        }
    }

    async fn lock(&mut self, key: &str) -> RedisResult<()> {
        if self.set_if_free(0, key).await? {
            let record = Record::Value(key.to_owned(), self.client.name());
            self.guard = Some(self.client.hold("cs").record(record).enter());
        }
        Ok(())
    }

    async fn unlock(&mut self, command: &str) -> RedisResult<()> {
        let Some(guard) = self.guard.take() else { return Ok(()) };
        let released = guard.until(call(&mut self.connections[0], command)).await;
        go_on(released.map(|_| ()))
    }

    async fn extend(&mut self, key: &str) -> RedisResult<()> {
        let since = self.client.true_time();
        let extended = call(&mut self.connections[0], &format!("PEXPIRE {key} 12")).await;
        if let (Ok(Value::Int(1)), Some(guard)) = (&extended, &self.guard) {
            guard.extend(since, Record::Value(key.to_owned(), self.client.name()));
        }
        go_on(extended.map(|_| ()))
    }

    async fn majority(&mut self, key: &str) -> RedisResult<()> {
        let (since, mut n_granted) = (self.client.true_time(), 0);
        for server in 0..3 {
            n_granted += u32::from(self.set_if_free(server, key).await?);
        }
        if n_granted >= 2 {
            let record = Record::Majority(key.to_owned(), self.client.name());
            self.guard = Some(self.client.hold("cs").since(since).record(record).enter());
        }
        Ok(())
    }

    /// Enters the section if the command adds the record.
    async fn add(&mut self, command: &str, record: Record) -> RedisResult<()> {
        match call(&mut self.connections[0], command).await {
            Ok(Value::Int(1)) => {
                self.guard = Some(self.client.hold("cs").record(record).enter());
                Ok(())
            }
            reply => go_on(reply.map(|_| ())),
        }
    }

    async fn accept(&mut self) -> RedisResult<()> {
        match call(&mut self.connections[0], "INCR token").await {
            Ok(Value::Int(token)) => {
                self.client.accepted("resource", token);
                Ok(())
            }
            reply => go_on(reply.map(|_| ())),
        }
    }

    async fn feed(&mut self, commands: &str) -> RedisResult<()> {
        let (first, second) = commands.split_once(" -> ").expect("two commands");
        match call(&mut self.connections[0], first).await {
            Ok(reply) => {
                let text: Option<String> = redis::from_redis_value(reply)?;
                let second = second.replace("{}", text.as_deref().unwrap_or("nil"));
                go_on(call(&mut self.connections[0], &second).await.map(|_| ()))
            }
            Err(error) => go_on(Err(error)),
        }
    }

    async fn call(&mut self, commands: &str) -> RedisResult<()> {
        let connection = &mut self.connections[0];
        let operation = self.client.operation("run", commands).run(async {
            let mut last = Value::Nil;
            for command in commands.split("; ") {
                last = call(connection, command).await?;
            }
            Ok(format!("{last:?}"))
        });
        go_on(operation.await.map(|_| ()))
    }

    async fn send_two(&mut self, both: bool, commands: &str) -> RedisResult<()> {
        let (one, other) = commands.split_once(" | ").expect("two commands");
        let [first, second, ..] = &mut self.connections[..] else { unreachable!("there are two") };
        let (one, other) = (call(first, one), call(second, other));
        if both {
            let (one, other) = tokio::join!(one, other);
            go_on(one.map(|_| ()))?;
            return go_on(other.map(|_| ()));
        }
        let faster = tokio::select! {
            biased;
            reply = one => reply,
            reply = other => reply,
        };
        go_on(faster.map(|_| ()))
    }

    async fn send_every(&mut self, command: &str) -> RedisResult<()> {
        let (period, command) = command.split_once(": ").expect("a command after the period");
        let mut interval = tokio::time::interval(millis(period));
        for _ in 0..2 {
            interval.tick().await;
            go_on(call(&mut self.connections[0], command).await.map(|_| ()))?;
        }
        Ok(())
    }
}

/// An error from a fault is not an error of the server.
fn go_on(answer: RedisResult<()>) -> RedisResult<()> {
    answer.or_else(|error| if error.is_io_error() { Ok(()) } else { Err(error) })
}

pub fn millis(text: &str) -> Duration {
    Duration::from_millis(text.strip_suffix("ms").and_then(|n| n.parse().ok()).expect("milliseconds"))
}

/// `n` actors; the number of each decides its commands.
pub fn each(n: usize, commands: impl Fn(usize) -> Vec<String>) -> Scenario {
    (0..n).fold(Scenario::new("program").servers(2), |scenario, nth| sends(scenario, commands(nth)))
}

pub fn of(commands: &[&str]) -> Vec<String> {
    commands.iter().map(|&command| command.to_owned()).collect()
}
