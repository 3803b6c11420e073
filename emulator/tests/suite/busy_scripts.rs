//! Long scripts at sockets: the replies that other clients get meanwhile, and how they end the
//! script. The real server replies the same.

use emulator::Emulator;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::conformance::wire::{mask, parse};
use crate::redis_server;

/// The most requests that a client sends until the script has begun.
const ASKS_MAX: usize = 100_000;

const ENDLESS: &str = r#"EVAL "while true do end" 0"#;

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    async fn connect(addr: &str) -> Client {
        Client { stream: TcpStream::connect(addr).await.unwrap(), received: Vec::new() }
    }

    async fn send(&mut self, command: &str) {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    /// The bytes of the next reply; empty if the connection is closed.
    async fn reply(&mut self) -> String {
        loop {
            if let Some((_, rest)) = parse(&self.received) {
                let len = self.received.len() - rest.len();
                let reply: Vec<u8> = self.received.drain(..len).collect();
                return String::from_utf8_lossy(&mask(&reply)).trim_end().to_owned();
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or_default() == 0 {
                return String::new();
            }
        }
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.reply().await
    }

    /// As `ask`, but the server may already have sent a reply and closed the connection.
    async fn ask_or_hear(&mut self, command: &str) -> String {
        _ = self.stream.write_all(format!("{command}\r\n").as_bytes()).await;
        self.reply().await
    }

    /// The replies to all of these commands, each after its command.
    async fn ask_all(&mut self, commands: &[&str]) -> Vec<String> {
        let mut seen = Vec::new();
        for command in commands {
            seen.push(format!("{command}: {}", self.ask(command).await));
        }
        seen
    }

    /// Sends `PING` until the server is busy.
    async fn ask_until_busy(&mut self) -> String {
        for _ in 0..ASKS_MAX {
            let reply = self.ask("PING").await;
            if reply != "+PONG" {
                return reply;
            }
        }
        panic!("the server never gets busy");
    }
}

/// The replies of one conversation.
async fn converse(addr: &str) -> Vec<String> {
    let (mut runner, mut other) = (Client::connect(addr).await, Client::connect(addr).await);
    let mut seen = vec![other.ask("CONFIG SET busy-reply-threshold 10").await];
    seen.push(other.ask("SCRIPT KILL").await);
    seen.push(other.ask("FUNCTION KILL").await);

    runner.send(r#"EVAL "while true do pcall(function() while true do end end) end" 0"#).await;
    seen.push(other.ask_until_busy().await);
    let mut newcomer = Client::connect(addr).await;
    for command in ["GET k", "NOSUCH", "GET", "FUNCTION KILL", "SCRIPT KILL now", "CLIENT ID", "SCRIPT KILL"]
    {
        seen.push(newcomer.ask(command).await);
    }
    seen.push(runner.reply().await);
    seen.push(newcomer.ask("PING").await);

    // Inside a transaction: a command that was refused while the script ran does not run.
    seen.push(other.ask("MULTI").await);
    runner.send(ENDLESS).await;
    seen.push(newcomer.ask_until_busy().await);
    seen.push(other.ask("SET k v").await);
    seen.push(newcomer.ask("SCRIPT KILL").await);
    seen.push(runner.reply().await);
    seen.push(other.ask("EXEC").await);

    // While a script runs, `EXEC` is refused like other commands, and that ends the transaction.
    seen.extend([other.ask("WATCH k").await, other.ask("MULTI").await]);
    runner.send(ENDLESS).await;
    seen.push(newcomer.ask_until_busy().await);
    for command in ["EXEC", "GET k", "EXEC", "EXEC now"] {
        seen.push(other.ask(command).await);
    }
    seen.push(newcomer.ask("SCRIPT KILL").await);
    seen.push(runner.reply().await);
    for command in ["EXEC", "MULTI", "DISCARD"] {
        seen.push(other.ask(command).await);
    }

    runner
        .send(
            "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() while true do end end)\"",
        )
        .await;
    seen.push(runner.reply().await);
    runner.send("FCALL f 0").await;
    seen.push(other.ask_until_busy().await);
    seen.extend([other.ask("SCRIPT KILL").await, other.ask("FUNCTION KILL").await]);
    seen.push(runner.reply().await);

    seen.push(other.ask("CONFIG SET busy-reply-threshold 5000").await);
    seen
}

/// The replies to commands that are allowed while a script runs.
async fn converse_meanwhile(addr: &str) -> Vec<String> {
    let (mut runner, mut other) = (Client::connect(addr).await, Client::connect(addr).await);
    let library =
        r##"FUNCTION LOAD "#!lua name=l\nredis.register_function('F', function() while true do end end)""##;
    let mut seen = other.ask_all(&["CONFIG SET busy-reply-threshold 10", library, "WATCH k", "MULTI"]).await;
    let mut killer = Client::connect(addr).await;

    runner.send(ENDLESS).await;
    seen.push(killer.ask_until_busy().await);
    seen.extend(
        other.ask_all(&["FUNCTION STATS", "HELLO 3", "WATCH k", "UNWATCH", "SCRIPT KILL", "DISCARD"]).await,
    );
    seen.extend(
        other.ask_all(&["FUNCTION STATS", "MULTI", "MULTI", "SCRIPT KILL", "EXEC", "EXEC now"]).await,
    );
    seen.extend(
        other.ask_all(&["MULTI", "HELLO 2", "RESET", "HELLO 9", "HELLO", "HELLO 3", "HELLO 2"]).await,
    );
    seen.extend(other.ask_all(&["AUTH a", "AUTH default a", "AUTH", "WATCH", "DISCARD", "UNWATCH"]).await);
    other.send("MULTI\r\nPING\r\n*1\r\n$7\r\nDISCARD").await;
    seen.extend([other.reply().await, other.reply().await]);
    seen.push(killer.ask("SCRIPT KILL").await);
    seen.extend([runner.reply().await, other.ask("\r\nEXEC").await, other.reply().await]);

    runner.send("FCALL f 1 key arg").await;
    seen.push(other.ask_until_busy().await);
    for command in ["FUNCTION STATS", "HELLO 3", "FUNCTION STATS"] {
        let reply = other.ask(command).await;
        // The replies differ only in the time that the script has run.
        seen.push(reply.lines().filter(|line| !line.starts_with(':')).collect());
    }
    seen.extend(other.ask_all(&["SCRIPT KILL", "FUNCTION KILL"]).await);
    seen.push(runner.reply().await);

    // A client that has not authenticated.
    seen.push(other.ask("CONFIG SET requirepass secret").await);
    let mut stranger = Client::connect(addr).await;
    runner.send(ENDLESS).await;
    seen.push(killer.ask_until_busy().await);
    seen.extend(
        stranger.ask_all(&["GET k", "NOSUCH", "GET", "SCRIPT KILL", "FUNCTION STATS", "HELLO"]).await,
    );
    seen.extend(
        stranger.ask_all(&["HELLO 3 AUTH default x", "AUTH x", "AUTH secret", "GET k", "RESET"]).await,
    );
    seen.extend(stranger.ask_all(&["MULTI", "HELLO 3 AUTH default secret SETNAME n", "MULTI", "QUIT"]).await);
    seen.push(stranger.reply().await);
    let mut newcomer = Client::connect(addr).await;
    seen.extend(newcomer.ask_all(&["CLIENT ID", "AUTH secret", "CLIENT ID", "SCRIPT KILL"]).await);
    seen.push(runner.reply().await);
    seen.extend(newcomer.ask_all(&["CLIENT GETNAME", "CONFIG SET requirepass ''", "INFO errorstats"]).await);

    seen.push(other.ask("CONFIG SET busy-reply-threshold 5000").await);
    seen
}

/// If clients disconnect while a script runs, new clients take their places and get `-BUSY`.
async fn go_and_come(addr: &str) -> Vec<String> {
    const CROWD: usize = 200;
    let (mut runner, mut other) = (Client::connect(addr).await, Client::connect(addr).await);
    let mut seen = other.ask_all(&["CONFIG SET busy-reply-threshold 10", "CONFIG GET maxclients"]).await;
    seen.push(other.ask(&format!("CONFIG SET maxclients {}", CROWD + 2)).await);
    let mut crowd = Vec::new();
    for n in 0..CROWD {
        let mut client = Client::connect(addr).await;
        assert_eq!(client.ask("SUBSCRIBE news").await, "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1", "{n}");
        crowd.push(client);
    }
    let mut refused = Client::connect(addr).await;
    seen.push(refused.reply().await);
    runner.send(ENDLESS).await;
    seen.push(other.ask_until_busy().await);
    drop(crowd);
    let mut newcomers = Vec::new();
    for _ in 0..ASKS_MAX {
        let mut newcomer = Client::connect(addr).await;
        let reply = newcomer.ask_or_hear("PING").await;
        if !reply.contains("max number of clients") {
            seen.push(reply);
            newcomers.push(newcomer);
        }
        if newcomers.len() == CROWD {
            break;
        }
    }
    seen.push(other.ask("SCRIPT KILL").await);
    seen.push(runner.reply().await);
    seen.push(other.ask("PUBLISH news text").await);
    seen.push(other.ask("CLIENT LIST").await.matches("id=").count().to_string());
    seen.push(other.ask("CONFIG SET maxclients 10000").await);
    seen.push(other.ask("CONFIG SET busy-reply-threshold 5000").await);
    seen
}

const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_script_that_takes_long_can_be_killed() {
    let seen = compare(converse).await;
    assert!(seen.iter().any(|line| line == BUSY), "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn some_commands_run_while_a_script_does() {
    let seen = compare(converse_meanwhile).await;
    assert!(seen.iter().any(|line| line == "WATCH k: +OK"), "{seen:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn clients_that_go_while_a_script_runs_make_room() {
    let seen = compare(go_and_come).await;
    assert!(seen.iter().filter(|line| *line == BUSY).count() > 200, "{seen:#?}");
}

/// The replies of the emulator, which must equal those of the real server.
async fn compare(converse: impl AsyncFn(&str) -> Vec<String>) -> Vec<String> {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let seen = converse(&server.addr().to_string()).await;
    if let Some(real) = redis_server::start_own(1).first() {
        let addr = real.connect().peer_addr().unwrap();
        assert_eq!(seen, converse(&addr.to_string()).await);
    }
    seen
}

#[tokio::test]
async fn on_a_single_thread_a_script_has_a_budget() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut client = Client::connect(&server.addr().to_string()).await;
    let reply = client.ask(r#"EVAL "while true do pcall(function() while true do end end) end" 0"#).await;
    assert!(reply.contains("took more than"), "{reply}");
}
