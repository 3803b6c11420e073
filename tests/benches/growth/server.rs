//! A server process on a free port of the loopback device, with one client and the CPU time of the
//! process.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

/// How often a client tries to connect to a server that starts.
const CONNECTS_MAX: usize = 1000;
/// The pause between two attempts, or between two readings of the CPU time.
const LOOK_EVERY: Duration = Duration::from_millis(10);
const SETTLE: Duration = Duration::from_micros(200);
/// The most time for one reply.
const REPLY_MAX: Duration = Duration::from_secs(600);

/// The server process. It ends when this value is dropped, or when this process ends.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    child: Child,
    stream: BufReader<TcpStream>,
}

impl Server {
    /// Starts `redis-server`.
    pub(crate) fn redis() -> Result<Server> {
        Server::start("redis-server", |addr| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "redis-server", "--port", &addr.port().to_string()]);
            command.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir"]);
            command.arg(std::env::temp_dir());
            command
        })
    }

    /// Starts `lockstep serve`.
    pub(crate) fn lockstep(program: &Path) -> Result<Server> {
        Server::start("lockstep", |addr| {
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL"]).arg(program).args(["serve", "--addr", &addr.to_string()]);
            command
        })
    }

    fn start(name: &'static str, command: impl Fn(SocketAddr) -> Command) -> Result<Server> {
        let addr = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut child = command(addr)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run setpriv: install util-linux")?;
        for _ in 0..CONNECTS_MAX {
            if let Ok(stream) = TcpStream::connect(addr) {
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(REPLY_MAX))?;
                return Ok(Server { name, child, stream: BufReader::new(stream) });
            }
            if let Some(status) = child.try_wait()? {
                bail!("{name} did not start ({status}): is it installed, and on the PATH?");
            }
            thread::park_timeout(LOOK_EVERY);
        }
        bail!("{name} does not listen")
    }

    /// Sends requests, and reads so many replies.
    ///
    /// # Errors
    /// A reply is an error.
    pub(crate) fn send(&mut self, requests: &[u8], n_replies: usize) -> Result<()> {
        self.stream.get_mut().write_all(requests)?;
        (0..n_replies).try_for_each(|_| self.receive())
    }

    /// Reads one reply, and drops it.
    fn receive(&mut self) -> Result<()> {
        let (mut missing, mut line) = (1_u64, Vec::new());
        while missing > 0 {
            line.clear();
            self.stream.read_until(b'\n', &mut line)?;
            let text = std::str::from_utf8(&line)?.trim_end();
            missing -= 1;
            match text.split_at_checked(1) {
                Some(("*" | "~", count)) => missing += count.parse().unwrap_or(0),
                Some(("%", count)) => missing += 2 * count.parse::<u64>()?,
                Some(("$" | "=", length)) if length != "-1" => self.skip(length.parse::<u64>()? + 2)?,
                Some(("-", error)) => bail!("{}: {error}", self.name),
                Some(_) => {}
                None => bail!("{} closed the connection", self.name),
            }
        }
        Ok(())
    }

    fn skip(&mut self, bytes: u64) -> Result<()> {
        let skipped = std::io::copy(&mut self.stream.by_ref().take(bytes), &mut std::io::sink())?;
        if skipped == bytes { Ok(()) } else { bail!("{} closed the connection", self.name) }
    }

    /// The CPU time of all threads until now, in microseconds.
    ///
    /// The server may still be on its way to its next wait, or another of its threads may still
    /// have work. So this waits until the time stands and no thread waits for a processor.
    pub(crate) fn cpu_micros(&self) -> Result<f64> {
        let mut before = self.read_cpu()?;
        loop {
            thread::park_timeout(SETTLE);
            let now = self.read_cpu()?;
            if now == before && !self.is_runnable()? {
                return Ok(now as f64 / 1000.0);
            }
            before = now;
        }
    }

    /// Whether one of the threads runs, or would if a processor was free.
    fn is_runnable(&self) -> Result<bool> {
        let mut is_runnable = false;
        self.read_threads("stat", |text| {
            // The name before the state may have spaces and parentheses.
            let state = text.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
            is_runnable |= state == Some('R');
        })?;
        Ok(is_runnable)
    }

    /// The memory that the process has, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        Ok(kib.context("/proc has no VmRSS")? * 1024)
    }

    fn read_cpu(&self) -> Result<u64> {
        let mut sum_nanos = 0;
        self.read_threads("schedstat", |text| {
            sum_nanos += text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or(0);
        })?;
        Ok(sum_nanos)
    }

    /// Reads this file of each thread.
    fn read_threads(&self, file: &str, mut read: impl FnMut(&str)) -> Result<()> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        for thread in threads.context("needs the /proc of Linux")? {
            // A thread may end meanwhile.
            read(&std::fs::read_to_string(thread?.path().join(file)).unwrap_or_default());
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
