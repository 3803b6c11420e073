//! Transcripts: text files with commands and the real server's replies.
//!
//! ```text
//! ## a title: a section that starts with empty databases and new connections
//! > SET k v PX 5            a command, quoted as in redis-cli
//! OK                        its reply, printed as by redis-cli
//! advance 6ms               moves the emulator's clock; on a real server, waits that long
//! b> GET k                  a command from another connection
//! (nil)
//! sorted> SMEMBERS k        from the connection `sorted`: the reply is compared in any order
//! c?> BLPOP k 0             a command that is not answered yet
//! c<                        the next output to that connection: a late reply or a message
//! c<<                       all output to that connection so far
//! raw> "PING\r\n"           raw bytes, all replies, and (closed) if the server closed
//! PONG
//! emulator> CLIENT ID       not run on the real server: a documented exception
//! # a comment
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use emulator::{Clock, Emulator, resp::Decoder};

use super::wire::{Emulated, NOTHING, Peer, Real, Wire, mask, parse, request};
use crate::redis_server::RedisServer;

/// This command follows raw bytes, so that the end of their replies is known. It is unknown to the
/// server, which answers it with an error in every state in which it answers anything, even without
/// the password.
const SENTINEL: &str = "that was all";

pub struct Transcript {
    steps: Vec<Step>,
}

struct Step {
    /// The line number in the file, from 1.
    line_number: usize,
    line: String,
    action: Action,
    expected: Vec<String>,
}

enum Action {
    Nothing,
    Section,
    Advance(Duration),
    Command { client: String, argv: Vec<Vec<u8>> },
    Send { client: String, argv: Vec<Vec<u8>> },
    Receive { client: String },
    ReceiveAll { client: String },
}

/// The servers on which a transcript runs.
pub trait Servers {
    /// A connection to one of them.
    type Peer: Peer;
    /// Whether they are emulated.
    const IS_EMULATOR: bool;

    /// Makes them empty.
    fn begin_section(&mut self);
    /// Lets time pass.
    fn advance(&mut self, span: Duration);
    /// Connects a client.
    fn connect(&self, client: &str) -> Self::Peer;
    /// Returns when the server of a client has read what the client has sent.
    fn read(&mut self, client: &str);
    /// Returns when the effects of a command that was answered have reached the other servers.
    fn settle(&self, _client: &str, _argv: &[Vec<u8>]) {}
}

/// One emulator.
struct EmulatorAlone(Clock, Emulator);

impl Default for EmulatorAlone {
    fn default() -> EmulatorAlone {
        let clock = Clock::manual();
        EmulatorAlone(clock.clone(), Emulator::with_clock(clock))
    }
}

impl Servers for EmulatorAlone {
    type Peer = Emulated;
    const IS_EMULATOR: bool = true;

    fn begin_section(&mut self) {
        *self = EmulatorAlone::default();
    }

    fn advance(&mut self, span: Duration) {
        self.0.advance(span);
        self.1.tick();
    }

    fn connect(&self, _: &str) -> Emulated {
        Emulated::open(&self.1)
    }

    fn read(&mut self, _: &str) {}
}

impl Servers for &RedisServer {
    type Peer = Real;
    const IS_EMULATOR: bool = false;

    fn begin_section(&mut self) {
        self.clear();
    }

    fn advance(&mut self, span: Duration) {
        wait(&mut Servers::connect(self, ""), span);
    }

    fn connect(&self, _: &str) -> Real {
        Real::over(RedisServer::connect(self))
    }

    fn read(&mut self, client: &str) {
        // When the server answers another connection, it has read this command, too.
        Servers::connect(self, client).call(&["PING"]);
    }
}

/// The replies to one step. Raw bytes may have several. There are none if the step needs no reply
/// or did not run.
pub type Answer = Vec<Vec<u8>>;

impl Transcript {
    /// # Panics
    /// If a line does not belong to a transcript.
    pub fn parse(text: &str) -> Transcript {
        let mut steps: Vec<Step> = Vec::new();
        for (idx, line) in text.lines().enumerate() {
            match action(line) {
                Some(action) => {
                    steps.push(Step {
                        line_number: idx + 1,
                        line: line.into(),
                        action,
                        expected: Vec::new(),
                    });
                }
                None => {
                    let command = steps.last_mut().expect("a transcript begins with a command");
                    command.expected.push(line.into());
                }
            }
        }
        Transcript { steps }
    }

    /// Whether it changes more of a server than one database, possibly in a script.
    pub fn needs_whole_server(&self) -> bool {
        self.steps.iter().any(|step| {
            let line = step.line.to_ascii_lowercase();
            ["> select", "'select'", "flushall", "> swapdb", "> config", "> slowlog"]
                .iter()
                .any(|command| line.contains(command))
        })
    }

    pub fn run_on_emulator(&self) -> Vec<Answer> {
        self.run(&mut EmulatorAlone::default())
    }

    pub fn run_on_server(&self, mut server: &RedisServer) -> Vec<Answer> {
        self.run(&mut server)
    }

    /// Runs all steps.
    pub fn run<S: Servers>(&self, servers: &mut S) -> Vec<Answer> {
        let mut clients: BTreeMap<&str, S::Peer> = BTreeMap::new();
        let mut answers = Vec::new();
        for step in &self.steps {
            let mut given = Answer::new();
            match &step.action {
                Action::Nothing => {}
                Action::Section => {
                    clients.clear();
                    servers.begin_section();
                }
                Action::Advance(span) => servers.advance(*span),
                Action::Send { client, argv } => {
                    clients.entry(client).or_insert_with(|| servers.connect(client)).send(&request(argv));
                    servers.read(client);
                }
                Action::Receive { client } => given = next(clients.get_mut(client.as_str())),
                Action::ReceiveAll { client } => given = all(clients.get_mut(client.as_str())),
                Action::Command { .. } if step.is_exception() && !S::IS_EMULATOR => {}
                Action::Command { client, argv } => {
                    let name = if step.is_exception() { "" } else { client };
                    let peer = clients.entry(name).or_insert_with(|| servers.connect(name));
                    given = answer(peer, client, argv, || servers.connect(name));
                    servers.settle(client, argv);
                }
            }
            answers.push(given);
        }
        answers
    }

    /// Fails if the emulator's replies are not those in the file, or not those of the real servers.
    /// With `UPDATE_EXPECT=1`, writes the latter into the file.
    #[track_caller]
    pub fn judge(&self, path: &Path, real: Option<&[Answer]>, emulated: &[Answer]) {
        let mut report = real.map_or_else(Vec::new, |real| self.differences(real, emulated));
        match real {
            Some(real) if std::env::var_os("UPDATE_EXPECT").is_some() => {
                std::fs::write(path, self.render(real, emulated)).expect("the transcript can be written");
            }
            _ => report.extend(self.surprises(emulated)),
        }
        assert!(report.is_empty(), "{}\n{}", path.display(), report.concat());
    }

    /// The lines in which the replies differ, as readable text.
    fn differences(&self, real: &[Answer], emulated: &[Answer]) -> Vec<String> {
        let pairs = self.steps.iter().zip(real.iter().zip(emulated));
        let differing = pairs.filter(|(step, (real, emulated))| !step.is_exception() && real != emulated);
        let show =
            |answer: &Answer| answer.iter().map(|reply| reply.escape_ascii().to_string()).collect::<String>();
        differing
            .map(|(step, (real, emulated))| {
                let Step { line_number, line, .. } = step;
                format!(
                    "{line_number}: {line}\n    server:   {}\n    emulator: {}\n",
                    show(real),
                    show(emulated)
                )
            })
            .collect()
    }

    /// The lines in which the emulator's reply is not the one in the file.
    fn surprises(&self, answers: &[Answer]) -> Vec<String> {
        let unlike = self.steps.iter().zip(answers).filter(|(step, answer)| step.expected != print(answer));
        unlike
            .map(|(Step { line_number, line, expected, .. }, answer)| {
                format!(
                    "{line_number}: {line}\n    expected: {expected:?}\n    emulator: {:?}\n",
                    print(answer)
                )
            })
            .collect()
    }

    /// The file with these replies. An exception keeps the emulator's reply.
    fn render(&self, real: &[Answer], emulated: &[Answer]) -> String {
        let mut text = String::new();
        for (step, (real, emulated)) in self.steps.iter().zip(real.iter().zip(emulated)) {
            text += &format!("{}\n", step.line);
            for line in print(if step.is_exception() { emulated } else { real }) {
                text += &format!("{line}\n");
            }
        }
        text
    }
}

impl Step {
    fn is_exception(&self) -> bool {
        matches!(&self.action, Action::Command { client, .. } if client == "emulator")
    }
}

/// The action of a line; `None` if the line belongs to a reply.
fn action(line: &str) -> Option<Action> {
    if line.starts_with("## ") {
        return Some(Action::Section);
    }
    if line.is_empty() || line.starts_with('#') {
        return Some(Action::Nothing);
    }
    if let Some(span) = line.strip_prefix("advance ") {
        let millis = span.strip_suffix("ms").and_then(|millis| millis.parse().ok());
        let millis = millis.unwrap_or_else(|| panic!("{line:?}: time is written as 5ms"));
        return Some(Action::Advance(Duration::from_millis(millis)));
    }
    if let Some(client) = line.strip_suffix("<<")
        && client.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Some(Action::ReceiveAll { client: client.into() });
    }
    if let Some(client) = line.strip_suffix('<')
        && client.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return Some(Action::Receive { client: client.into() });
    }
    let (client, command) = line.split_once("> ")?;
    let (client, is_late) = client.strip_suffix('?').map_or((client, false), |client| (client, true));
    // `1> "message"` is the first line of a push, not a command.
    if !client.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let mut input = BytesMut::from(format!("{command}\n").as_bytes());
    let argv = Decoder::default().decode(&mut input).ok().flatten();
    let argv = argv.unwrap_or_else(|| panic!("{line:?}: quotes do not match"));
    let (client, argv) = (client.into(), argv.into_iter().map(Vec::from).collect());
    Some(if is_late { Action::Send { client, argv } } else { Action::Command { client, argv } })
}

/// Runs one command. If the server closed the connection, a new one replaces it.
fn answer<P: Peer>(peer: &mut P, client: &str, argv: &[Vec<u8>], reconnect: impl Fn() -> P) -> Answer {
    if client == "raw" {
        peer.send(&[argv.concat(), request(&[SENTINEL])].concat());
    } else {
        peer.send(&request(argv));
    }
    let mut answer = Answer::new();
    loop {
        match peer.receive() {
            None => {
                *peer = reconnect();
                answer.push(b"+(closed)\r\n".into());
                return answer;
            }
            Some(reply) if client == "raw" && (is_sentinel(&reply) || reply == NOTHING) => return answer,
            Some(reply) if client == "sorted" => answer.push(sort(&reply)),
            Some(reply) => answer.push(mask(&reply)),
        }
        if client != "raw" {
            return answer;
        }
    }
}

fn is_sentinel(reply: &[u8]) -> bool {
    reply.windows(SENTINEL.len()).any(|window| window == SENTINEL.as_bytes())
}

/// An array with its items sorted by their bytes.
fn sort(reply: &[u8]) -> Vec<u8> {
    let Some((Wire::Items(_, items), _)) = parse(reply) else { return reply.to_vec() };
    let header = reply.split_inclusive(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut rest = &reply[header.len()..];
    let mut parts = Vec::new();
    for _ in items {
        let (_, behind) = parse(rest).expect("what is whole has whole items");
        let (item, behind) = rest.split_at(rest.len() - behind.len());
        parts.push(item);
        rest = behind;
    }
    parts.sort_unstable();
    [header, &parts.concat()].concat()
}

/// The next reply of a connection.
fn next(peer: Option<&mut impl Peer>) -> Answer {
    let peer = peer.expect("a connection has sent something before it receives");
    vec![peer.receive().map_or_else(|| b"+(closed)\r\n".into(), |message| mask(&message))]
}

/// All replies of a connection up to the reply to one more command.
fn all(peer: Option<&mut impl Peer>) -> Answer {
    let peer = peer.expect("a connection has sent something before it receives");
    peer.send(&request(&["PING", SENTINEL]));
    let is_message = |message: &Vec<u8>| !is_sentinel(message) && message != NOTHING;
    std::iter::from_fn(|| peer.receive()).take_while(is_message).map(|message| mask(&message)).collect()
}

fn print(answer: &Answer) -> Vec<String> {
    let wires = answer.iter().map(|reply| parse(reply).expect("what was received as a reply is one").0);
    wires.flat_map(|wire: Wire| wire.to_string().lines().map(ToOwned::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns when the server's own clock has moved on by more than `span`.
pub fn wait(peer: &mut Real, span: Duration) {
    let mut now = || match parse(&peer.call(&["TIME"])) {
        Some((Wire::Items(_, parts), _)) => {
            let number =
                |part: &Wire| part.to_string().trim_matches('"').parse::<u128>().expect("TIME tells numbers");
            number(&parts[0]) * 1_000_000 + number(&parts[1])
        }
        other => panic!("TIME answers two numbers, not {other:?}"),
    };
    let start = now();
    while now() <= start + span.as_micros() + 1_000 {}
}
