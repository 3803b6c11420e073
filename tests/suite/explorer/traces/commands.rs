//! The language of the programs: each command is a text, and an actor sends its commands in order.

use std::time::Duration;

use harness::client::GatedConnection;
use harness::{Client, Scenario};
use locks::{Subscribe as _, Subscription};
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
/// - `2:SET …` goes to the second server;
/// - `within 5ms: …` gives up after that time;
/// - `after 5ms: …` runs later in a task of its own;
/// - `cancellably: …; …` runs several commands that a cancel may end;
/// - `{now}` is what the client's clock shows;
/// - `hold: …` enters a section after the command and leaves it after one more;
/// - `sleep 5ms` sleeps;
/// - `listen c` subscribes to a channel;
/// - `hear 5ms` waits that long for a message. It then sends one of three commands: for a message,
///   for none, or for a broken subscription.
pub fn sends(scenario: Scenario, commands: Vec<String>) -> Scenario {
    sends_alike(scenario, 1, commands)
}

/// Several actors that send the same commands.
pub fn sends_alike(scenario: Scenario, actors: usize, commands: Vec<String>) -> Scenario {
    scenario.actors(actors, move |client| {
        let commands = commands.clone();
        async move {
            let connections = [client.connection_to(0), client.connection_to(1)];
            let mut sender = Sender { subscription: None, connections, client };
            for command in &commands {
                sender.send(command).await?;
            }
            Ok(())
        }
    })
}

/// A client, its connections to both servers, and its last subscription.
struct Sender {
    subscription: Option<Subscription>,
    connections: [GatedConnection; 2],
    client: Client,
}

impl Sender {
    async fn send(&mut self, command: &str) -> RedisResult<()> {
        let command = &if command.contains("{now}") {
            command.replace("{now}", &self.client.env().now_ms().to_string())
        } else {
            command.to_owned()
        };
        let (form, rest) = command.split_once(' ').unwrap_or((command, ""));
        match form {
            "listen" => self.listen(rest).await,
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
        let second = command.strip_prefix("2:");
        let connection = &mut self.connections[usize::from(second.is_some())];
        let call = call(connection, second.unwrap_or(command));
        match tokio::time::timeout(limit, call).await {
            Ok(answer) => go_on(answer.map(|_| ())),
            Err(_) => Ok(()),
        }
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
