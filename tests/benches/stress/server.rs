//! A server process on a free port of the loopback device, and its usage as the system reports it.

use std::fmt;
use std::io::{BufRead as _, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use emulator::{Clock, Timestamp};
use redis::Value;

use crate::client::Client;

/// The most time until a server accepts connections.
const START_MAX: Duration = Duration::from_secs(30);
/// A server gives memory back in this time: its allocator waits for a second, and is called once a
/// second.
const RETURN_TIME: Duration = Duration::from_secs(3);
/// How many more threads a server may have at the end than at the start.
const THREADS_GROWTH_MAX: u64 = 16;
/// The most time until the server notices that all clients have disconnected.
const GONE_MAX: Duration = Duration::from_secs(30);
/// The most attempts to start a server, if another process takes its port first.
const STARTS_MAX: usize = 5;
/// The pause between two checks of another process.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// By default, glibc keeps up to twice the largest freed block, per thread. Without these settings,
/// the memory of a process would show little about what its program has not freed.
const MALLOC_ENV: [&str; 2] = ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"];
const MALLOC_KEPT_BYTES_MAX: &str = "131072";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Program {
    Lockstep,
    RedisServer,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Program::Lockstep => "lockstep",
            Program::RedisServer => "redis-server",
        })
    }
}

/// The server process. It ends when this value is dropped, or when this process ends.
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    child: Child,
    said: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
}

impl Server {
    /// Starts the program with at most this much address space. Call it on the main thread, because
    /// the server ends with the thread that started it.
    pub(crate) fn start(program: Program, address_space_bytes_max: Option<u64>) -> Result<Server> {
        for _ in 0..STARTS_MAX {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
            let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "prlimit"]);
            command.arg(address_space_bytes_max.map_or("--as=unlimited".into(), |max| format!("--as={max}")));
            match program {
                Program::Lockstep => {
                    command.args([env!("CARGO_BIN_EXE_lockstep"), "serve", "--addr", &addr.to_string()])
                }
                Program::RedisServer => command
                    .args(["redis-server", "--bind", "127.0.0.1", "--port", &port.to_string()])
                    .args(["--save", "", "--appendonly", "no"])
                    .arg("--dir")
                    .arg(std::env::temp_dir()),
            };
            let mut child = command
                .envs(MALLOC_ENV.map(|name| (name, MALLOC_KEPT_BYTES_MAX)))
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .context("cannot run setpriv: install util-linux")?;
            let (said, (line, lines)) = (Arc::default(), channel());
            let readers = vec![
                read(child.stdout.take().expect("it is piped"), Arc::clone(&said), line.clone()),
                read(child.stderr.take().expect("it is piped"), Arc::clone(&said), line),
            ];
            let mut server = Server { addr, child, said, readers };
            match server.wait_until_ready(&lines) {
                Ok(true) => return Ok(server),
                // Another process took the port first.
                Ok(false) if server.said().contains("in use") => {}
                Ok(false) => bail!("{program} did not start: {}", server.said()),
                Err(error) => return Err(error.context(format!("{program} did not start"))),
            }
        }
        bail!("no port stays free for {program}")
    }

    fn wait_until_ready(&mut self, lines: &Receiver<String>) -> Result<bool> {
        loop {
            match lines.recv_timeout(START_MAX) {
                Ok(line) if line.contains("Ready to accept connections") => return Ok(true),
                Ok(line) if line.starts_with("listening on redis://") => return Ok(true),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) => bail!("it does not listen after {START_MAX:?}"),
            }
        }
    }

    pub(crate) fn connect(&self) -> Result<Client, crate::client::Lost> {
        Client::connect(self.addr)
    }

    /// All that it has written to its standard output and standard error.
    pub(crate) fn said(&self) -> String {
        self.said.lock().expect("readers do not panic").clone()
    }

    /// The exit status, if the process has ended.
    pub(crate) fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it is our child")
    }

    /// Sends SIGTERM and waits. Returns `None` if the process has not ended in time.
    pub(crate) fn terminate(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        // The standard library cannot send signals.
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        let status = wait_for(patience, || self.exited());
        if status.is_some() {
            for reader in self.readers.drain(..) {
                _ = reader.join();
            }
        }
        Ok(status)
    }

    /// The usage of the server when all other clients have disconnected, and it has had time to
    /// give memory back. It then has as many descriptors as at the start.
    pub(crate) fn usage_alone(&self, observer: &mut Client, at_start: Usage) -> Result<Usage> {
        #[expect(clippy::disallowed_methods, reason = "an allocator gives memory back in real time")]
        std::thread::sleep(RETURN_TIME);
        let mut list = Vec::new();
        let alone = wait_for(GONE_MAX, || {
            if let Ok(Value::BulkString(bytes)) = observer.ask(&["CLIENT", "LIST"]) {
                list = bytes;
            }
            let usage = self.usage().ok()?;
            let n_clients = list.iter().filter(|&&byte| byte == b'\n').count();
            (n_clients == 1 && usage.descriptors == at_start.descriptors).then_some(usage)
        });
        let usage = self.usage()?;
        alone.with_context(|| {
            let list = String::from_utf8_lossy(&list);
            format!("FAILED: all have gone, and {GONE_MAX:?} later there is\n{list}  now {usage}\n  then {at_start}")
        })
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let proc = format!("/proc/{}", self.child.id());
        let status = std::fs::read_to_string(format!("{proc}/status")).context("needs the /proc of Linux")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok())
        };
        Ok(Usage {
            resident_bytes: field("VmRSS").unwrap_or_default() * 1024,
            resident_bytes_max: field("VmHWM").unwrap_or_default() * 1024,
            threads: field("Threads").unwrap_or_default(),
            descriptors: std::fs::read_dir(format!("{proc}/fd"))?.count() as u64,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// Records what a process writes, and sends each line on while there is a receiver.
fn read(
    pipe: impl Read + Send + 'static,
    said: Arc<Mutex<String>>,
    line_sender: std::sync::mpsc::Sender<String>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            let mut said = said.lock().expect("readers do not panic");
            said.push_str(&line);
            said.push('\n');
            _ = line_sender.send(line);
        }
    })
}

/// The resources that a process uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) resident_bytes: u64,
    /// The highest value since the process started.
    pub(crate) resident_bytes_max: u64,
    pub(crate) threads: u64,
    pub(crate) descriptors: u64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { threads, descriptors, .. } = self;
        write!(f, "{:6} MiB  {threads:4} threads  {descriptors:5} descriptors", self.resident_bytes >> 20)
    }
}

/// Fails if a server that has served and been left several times holds on to more each time.
pub(crate) fn judge_growth(at_start: Usage, usages: &[Usage], bytes_max: u64) -> Result<()> {
    println!(
        "  bounds: descriptors as at the start; {THREADS_GROWTH_MAX} threads more than at the start; the least memory of \
         the later half at most {} MiB more than that of the earlier half",
        bytes_max >> 20
    );
    ensure!(!grows(usages, bytes_max), "FAILED: memory grows");
    let threads = usages.last().map(|usage| usage.threads);
    ensure!(threads <= Some(at_start.threads + THREADS_GROWTH_MAX), "FAILED: threads are left");
    Ok(())
}

/// Whether the memory of a server grows by more than so many bytes.
///
/// What its allocator keeps varies, so one usage says little. A leak raises the least usage of the
/// second half of the times above that of the first half. Luck would have to strike a whole half.
pub(crate) fn grows(usages: &[Usage], bytes_max: u64) -> bool {
    let (early, late) = usages.split_at(usages.len() / 2);
    let [early, late] = [early, late].map(|half| half.iter().map(|usage| usage.resident_bytes).min());
    late > early.map(|bytes| bytes + bytes_max)
}

/// Repeats a check until it returns a value or the time is over.
pub(crate) fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let start = now();
    loop {
        let seen = look();
        if seen.is_some() || since(start) > patience {
            return seen;
        }
        pause(LOOK_EVERY);
    }
}

pub(crate) fn pause(span: Duration) {
    thread::park_timeout(span);
}

pub(crate) fn now() -> Timestamp {
    Clock::system().now()
}

pub(crate) fn since(start: Timestamp) -> Duration {
    now().since(start)
}
