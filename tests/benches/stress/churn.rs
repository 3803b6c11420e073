//! Opens and closes many thousands of connections in every way. None of them may leave anything
//! behind in the server.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use redis::Value;

use crate::client::{Client, Lost, request, show};
use crate::server::{Program, Server, judge_growth};

/// How often the server's usage is printed.
const QUARTERS: usize = 4;
/// How many connections are open at once: half of what a process may have open by default.
const AT_ONCE: usize = 500;
/// The most by which the server's memory may be greater in the later quarters than in the earlier
/// ones.
const MEMORY_GROWTH_BYTES_MAX: u64 = 16 * 1024 * 1024;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How many connections in all
    #[arg(long, default_value_t = 40_000)]
    connections: usize,
    /// The server
    #[arg(long, value_enum, default_value_t = Program::Lockstep)]
    against: Program,
}

/// A way to use a connection before it closes.
struct Way {
    name: &'static str,
    enter: fn(&mut Client) -> Result<(), Lost>,
}

const WAYS: &[Way] = &[
    Way { name: "without a word", enter: |_| Ok(()) },
    Way { name: "after half a header", enter: |client| client.send_bytes(b"*2\r\n$4") },
    Way {
        name: "after half a bulk string",
        enter: |client| client.send_bytes(b"*2\r\n$4\r\nECHO\r\n$1000\r\nabc"),
    },
    Way { name: "after half an inline command", enter: |client| client.send_bytes(b"SET churn") },
    Way { name: "after a reply", enter: |client| tell(client, &["PING"]) },
    Way { name: "with a reply unread", enter: leave_unread },
    Way { name: "with megabytes unread", enter: leave_much_unread },
    Way {
        name: "with a request unanswered",
        enter: |client| client.send(&["LRANGE", "churn:list", "0", "-1"]),
    },
    Way { name: "after QUIT", enter: |client| tell(client, &["QUIT"]) },
    Way { name: "after a protocol error", enter: |client| client.send_bytes(b"*1\r\n:1\r\n") },
    Way { name: "in MULTI", enter: |client| tell_all(client, &[&["MULTI"], &["SET", "churn", "1"]]) },
    Way { name: "watching", enter: |client| tell_all(client, &[&["WATCH", "churn"], &["MULTI"]]) },
    Way {
        name: "subscribed",
        enter: |client| tell_all(client, &[&["SUBSCRIBE", "churn"], &["PSUBSCRIBE", "churn*"]]),
    },
    Way {
        name: "subscribed in RESP3",
        enter: |client| client.send_bytes(b"HELLO 3\r\nSUBSCRIBE churn\r\nSSUBSCRIBE churn\r\n"),
    },
    Way { name: "blocked", enter: |client| client.send(&["BLPOP", "churn:nothing", "0"]) },
    Way { name: "blocked, reset", enter: leave_unread_and_block },
    Way {
        name: "blocked with more behind",
        enter: |client| client.send_bytes(b"BLPOP churn:nothing 0\r\nSET churn 1\r\nMULTI\r\n"),
    },
    Way {
        name: "tracking",
        enter: |client| client.send_bytes(b"HELLO 3\r\nCLIENT TRACKING ON\r\nGET churn\r\n"),
    },
    Way { name: "monitoring", enter: |client| client.send(&["MONITOR"]) },
    Way { name: "with CLIENT REPLY OFF", enter: |client| client.send(&["CLIENT", "REPLY", "OFF"]) },
    Way { name: "having killed itself", enter: kill_itself },
];

/// Sends a command and reads its reply.
fn tell(client: &mut Client, argv: &[&str]) -> Result<(), Lost> {
    client.ask(argv).map(drop)
}

fn tell_all(client: &mut Client, commands: &[&[&str]]) -> Result<(), Lost> {
    commands.iter().try_for_each(|argv| tell(client, argv))
}

fn leave_unread(client: &mut Client) -> Result<(), Lost> {
    client.send(&["PING"])?;
    client.wait_unread()
}

/// The reply is larger than a socket's buffer, so the server still writes when the client
/// disconnects.
fn leave_much_unread(client: &mut Client) -> Result<(), Lost> {
    client.send_bytes(&request(&["GET", "churn:big"]).repeat(12))?;
    client.wait_unread()
}

fn leave_unread_and_block(client: &mut Client) -> Result<(), Lost> {
    client.send_bytes(b"PING\r\nBLMOVE churn:nothing churn:nowhere LEFT RIGHT 0\r\n")?;
    client.wait_unread()
}

fn kill_itself(client: &mut Client) -> Result<(), Lost> {
    let Value::Int(id) = client.ask(&["CLIENT", "ID"])? else {
        return Err(Lost::Garbled("no number".into()));
    };
    client.send(&["CLIENT", "KILL", "ID", &id.to_string(), "SKIPME", "no"])
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut server = Server::start(args.against, None)?;
    let mut observer = server.connect()?;
    for argv in [[&b"SET"[..], b"churn:big", &vec![b'.'; 1024 * 1024]], [b"RPUSH", b"churn:list", b"element"]]
    {
        observer.ask(&argv)?;
    }
    println!("churn of {}: {} connections in {} ways", args.against, args.connections, WAYS.len());
    let at_start = server.usage()?;
    println!("  at the start     {at_start}");
    let mut quarters = Vec::new();
    for quarter in 1..=QUARTERS {
        let mut open = Vec::new();
        for nth in 0..args.connections / QUARTERS {
            let way = &WAYS[nth % WAYS.len()];
            let mut client = server.connect()?;
            (way.enter)(&mut client).with_context(|| format!("a client that is to leave {}", way.name))?;
            open.push(client);
            if open.len() == AT_ONCE {
                open.clear();
                let reply = observer.ask(&["PING"])?;
                ensure!(reply == Value::SimpleString("PONG".into()), "PING: {}", show(&reply));
            }
        }
        drop(open);
        let usage = server.usage_alone(&mut observer, at_start)?;
        println!("  after quarter {quarter}  {usage}");
        quarters.push(usage);
    }
    judge_growth(at_start, &quarters, MEMORY_GROWTH_BYTES_MAX)?;
    ensure!(server.exited().is_none(), "FAILED: the server has ended: {}", server.said());
    println!("passed: nothing is left of {} connections", args.connections / QUARTERS * QUARTERS);
    Ok(ExitCode::SUCCESS)
}
