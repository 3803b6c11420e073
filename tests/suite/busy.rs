//! Scripts that take long, at sockets: what other clients are told, and how they end them. The real server says the same.

use emulator::Emulator;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::redis_server;

/// How often a client asks until the script has begun: it does so within milliseconds.
const ASKS_MAX: usize = 100_000;

struct Client(BufReader<TcpStream>);

impl Client {
    async fn connect(addr: &str) -> Client {
        Client(BufReader::new(TcpStream::connect(addr).await.unwrap()))
    }

    async fn send(&mut self, command: &str) {
        self.0.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
    }

    /// The first line of a reply.
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    async fn ask(&mut self, command: &str) -> String {
        self.send(command).await;
        self.line().await
    }

    /// Asks until the server is busy.
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

/// What two clients see, line by line.
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
    seen.push(runner.line().await);
    seen.push(newcomer.ask("PING").await);

    // In a transaction, too; what was refused meanwhile does not run.
    seen.push(other.ask("MULTI").await);
    runner.send(r#"EVAL "while true do end" 0"#).await;
    seen.push(newcomer.ask_until_busy().await);
    seen.push(other.ask("SET k v").await);
    seen.push(newcomer.ask("SCRIPT KILL").await);
    seen.push(runner.line().await);
    seen.push(other.ask("EXEC").await);

    // `EXEC` is refused like any other command, and ends the transaction.
    seen.extend([other.ask("WATCH k").await, other.ask("MULTI").await]);
    runner.send(r#"EVAL "while true do end" 0"#).await;
    seen.push(newcomer.ask_until_busy().await);
    for command in ["EXEC", "GET k", "EXEC", "EXEC now"] {
        seen.push(other.ask(command).await);
    }
    seen.push(newcomer.ask("SCRIPT KILL").await);
    seen.push(runner.line().await);
    for command in ["EXEC", "MULTI", "DISCARD"] {
        seen.push(other.ask(command).await);
    }

    runner
        .send(
            "FUNCTION LOAD \"#!lua name=l\\nredis.register_function('f', function() while true do end end)\"",
        )
        .await;
    seen.extend([runner.line().await, runner.line().await]);
    runner.send("FCALL f 0").await;
    seen.push(other.ask_until_busy().await);
    seen.extend([other.ask("SCRIPT KILL").await, other.ask("FUNCTION KILL").await]);
    seen.push(runner.line().await);

    seen.push(other.ask("CONFIG SET busy-reply-threshold 5000").await);
    seen
}

const BUSY: &str = "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_script_that_takes_long_can_be_killed() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let seen = converse(&server.addr().to_string()).await;
    assert!(seen.iter().any(|line| line == BUSY), "{seen:#?}");
    if let Some(real) = redis_server::start_own(1).first() {
        let addr = real.connect().peer_addr().unwrap();
        assert_eq!(seen, converse(&addr.to_string()).await);
    }
}

#[tokio::test]
async fn on_a_single_thread_a_script_has_a_budget() {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await.unwrap();
    let mut client = Client::connect(&server.addr().to_string()).await;
    let reply = client.ask(r#"EVAL "while true do pcall(function() while true do end end) end" 0"#).await;
    assert!(reply.contains("took more than"), "{reply}");
}
