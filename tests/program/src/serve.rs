//! `lockstep serve`: the emulator on a port, for any language.

use std::hint::black_box;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use emulator::{Clock, DATABASES};
use tokio::runtime;
use tokio::sync::Notify;

use crate::topology::{Member, Topology};

/// Serve the emulator on a port until SIGINT or SIGTERM
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The address to listen on, with or without a port
    #[arg(long, default_value = "127.0.0.1", value_name = "HOST[:PORT]")]
    addr: String,
    /// The port, if --addr has none; 0 takes a free one [default: 6379]
    #[arg(long)]
    port: Option<u16>,
    /// A Unix socket to listen on, too
    #[cfg(unix)]
    #[arg(long, value_name = "PATH")]
    unix: Option<std::path::PathBuf>,
    /// The permissions of the Unix socket, in octal digits
    #[cfg(unix)]
    #[arg(long, value_name = "MODE", requires = "unix", default_value = "600", value_parser = permissions)]
    unix_perm: u32,
    /// The password that clients must send
    #[arg(long, value_name = "PASSWORD", env = "LOCKSTEP_REQUIREPASS", hide_env_values = true)]
    requirepass: Option<String>,
    /// The clients that may use the command DEBUG: none, those on this machine, or all
    #[arg(long, value_name = "WHO", default_value = "no", value_parser = ["no", "local", "yes"])]
    enable_debug_command: String,
    /// The number of databases
    #[arg(long, default_value_t = DATABASES as u32, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    databases: u32,
    #[command(flatten)]
    topology: Topology,
    /// Let clients move the clock and cause faults by the command EMULATOR (see EMULATOR HELP)
    #[arg(long)]
    control: bool,
}

/// The most time for the end of all connections.
const END_MAX: Duration = Duration::from_millis(500);
/// The default port of Redis.
const PORT: u16 = 6379;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let stop = Arc::new(Notify::new());
    let stopped = stop.clone();
    // The handler runs on its own thread, so that signals work during a long script, too. There is
    // nothing to save.
    ctrlc::set_handler(move || stop.notify_one())?;
    #[cfg(unix)]
    raise_file_limit();
    // One thread is fastest. If a script takes long, a second thread takes over: it replies `-BUSY`
    // to clients, and reads `SCRIPT KILL`.
    let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome = runtime.block_on(serve(args, &stopped));
    // The connections end now, and then the emulator, which tells of faults that never struck. The
    // runtime does not wait for a script that still runs.
    runtime.shutdown_timeout(END_MAX);
    outcome
}

async fn serve(args: &Args, stopped: &Notify) -> Result<ExitCode> {
    let endpoint = endpoint(&args.addr, args.port)?;
    let failed =
        || format!("cannot listen on {endpoint}: choose another address with --addr, port 0 for a free one");
    let addrs: Vec<SocketAddr> = tokio::net::lookup_host(&endpoint).await.with_context(failed)?.collect();
    let password = args.requirepass.as_deref().unwrap_or_default();
    if password.is_empty() && addrs.iter().any(|addr| !addr.ip().is_loopback()) {
        guard(&endpoint, args.control)?;
    }

    let members = args.topology.members(Clock::system(), args.databases as usize)?;
    let (emulator, others) = (&members[0].emulator, &members[1..]);
    let mut logs = Vec::new();
    for server in members.iter().map(|member| &member.emulator) {
        server.leave_no_footprint();
        server.start_with("requirepass", password)?;
        server.start_with("enable-debug-command", &args.enable_debug_command)?;
        logs.push(server.on_log(|line| {
            // If standard error is closed, the log is not needed.
            _ = writeln!(std::io::stderr(), "{}", harness::render::printable(&line.to_string()));
        }));
        if args.control {
            server.allow_control();
        }
    }
    let server = emulator.listen(&addrs[..]).await.with_context(failed)?;
    let mut urls = vec![server.url()];
    let is_free = addrs.iter().any(|addr| addr.port() == 0);
    let mut other_servers: Vec<emulator::Server> = Vec::new();
    for member in others {
        let addr = addr_of(member, server.addr(), is_free)?;
        let other_server = member.emulator.listen(addr).await;
        other_servers.push(other_server.with_context(|| {
            format!("cannot listen on {addr} ({}): choose another --port, or 0 for free ones", member.note)
        })?);
    }
    #[cfg(unix)]
    let _unix_server = match &args.unix {
        Some(path) => {
            let server = emulator.listen_unix(path, args.unix_perm).await;
            let server = server.with_context(|| {
                format!("cannot listen on {}: choose another path with --unix", path.display())
            })?;
            urls.push(server.url());
            Some(server)
        }
        None => None,
    };
    let noted = other_servers.iter().zip(others);
    urls.extend(noted.map(|(server, member)| format!("{} ({})", server.url(), member.note)));
    super::print(&urls.iter().map(|url| format!("listening on {url}\n")).collect::<String>())?;
    if !args.control {
        const HINT: &str =
            "the command EMULATOR is off: --control lets clients move the clock and place faults";
        // If standard error is closed, nobody reads it.
        _ = writeln!(std::io::stderr(), "lockstep: {HINT}");
    }
    // It ends with the runtime.
    tokio::spawn(return_memory());
    stopped.notified().await;
    Ok(ExitCode::SUCCESS)
}

/// Gives memory back to the system. The allocator does so a second after the memory was freed, and
/// only while it is at work: without this, a server without clients would keep everything.
async fn return_memory() {
    const INTERVAL: Duration = Duration::from_secs(1);
    // The allocator takes no block of this size from a page that has room for it.
    const BYTES: usize = 2 << 20;
    loop {
        tokio::time::sleep(INTERVAL).await;
        drop(black_box(Vec::<u8>::with_capacity(BYTES)));
    }
}

/// The address of a further server: that of the first primary, with a higher port or a free one.
fn addr_of(member: &Member, first: SocketAddr, is_free: bool) -> Result<SocketAddr> {
    let port = if is_free { Some(0) } else { first.port().checked_add(member.port_offset) };
    let port = port.with_context(|| {
        let (note, offset) = (&member.note, member.port_offset);
        format!("{} has no port that is {offset} above ({note}): choose another --port, or 0", first.port())
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

/// Joins an address and a port. `addr` may have both.
fn endpoint(addr: &str, port: Option<u16>) -> Result<String> {
    let has_port = addr.parse::<SocketAddr>().is_ok()
        || addr.parse::<IpAddr>().is_err()
            && addr.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    match (has_port, port) {
        (true, None) => Ok(addr.to_owned()),
        (true, Some(port)) => {
            bail!("--addr {addr} names a port already: leave out --port {port}, or the port of --addr")
        }
        (false, port) => {
            let port = port.unwrap_or(PORT);
            let is_bare_v6 = addr.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6());
            Ok(if is_bare_v6 { format!("[{addr}]:{port}") } else { format!("{addr}:{port}") })
        }
    }
}

/// Warns if other machines can connect without a password.
///
/// # Errors
/// With `--control`, they could also control the server.
fn guard(endpoint: &str, has_control: bool) -> Result<()> {
    const REMEDY: &str = "set one with --requirepass or LOCKSTEP_REQUIREPASS, or listen on 127.0.0.1";
    if has_control {
        bail!(
            "--control on {endpoint} needs a password, because it lets clients move the clock and place faults: {REMEDY}"
        );
    }
    super::complain(&format!(
        "lockstep: warning: other machines can connect to {endpoint} without a password: {REMEDY}\n"
    ));
    Ok(())
}

#[cfg(unix)]
fn permissions(text: &str) -> Result<u32, String> {
    let parsed = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    parsed.ok_or_else(|| "permissions are three octal digits, such as 600 or 770".to_owned())
}

/// Raises the limit of open files. Each client uses one, and many systems start a process with
/// fewer than the 10,000 of `maxclients`.
#[cfg(unix)]
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limits = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, fewer clients can connect.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limits.maximum, ..limits });
}
