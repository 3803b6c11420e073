//! `lockstep serve`: which clients may connect, what it leaves behind, and how it behaves while a
//! script runs.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use redis::Commands as _;

use crate::program::cli::{Serving, lockstep};
use crate::redis_server;

/// A server that has printed its address.
struct Started {
    serving: Serving,
    stdout: BufReader<ChildStdout>,
    url: String,
}

fn start(args: &[&str]) -> Started {
    start_with(Command::new(env!("CARGO_BIN_EXE_lockstep")).arg("serve").args(args))
}

fn start_with(command: &mut Command) -> Started {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut serving = Serving(child);
    let mut stdout = BufReader::new(serving.0.stdout.take().unwrap());
    let url = url(&mut stdout);
    Started { serving, stdout, url }
}

fn url(stdout: &mut impl std::io::BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it said {line:?}")).to_owned()
}

impl Started {
    fn connect(&self) -> redis::Connection {
        redis::Client::open(self.url.as_str()).unwrap().get_connection().unwrap()
    }

    /// Ends the server with SIGTERM and returns its standard error.
    fn stop(mut self) -> String {
        let pid = self.serving.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.serving.0.wait().unwrap().success(), "it ends cleanly");
        said(&mut self.serving.0)
    }
}

fn said(child: &mut Child) -> String {
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    stderr
}

fn ask(connection: &mut redis::Connection, line: &str) -> String {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().unwrap());
    words.for_each(|word| _ = cmd.arg(word));
    match cmd.query::<redis::Value>(connection) {
        Ok(redis::Value::Okay) => "OK".into(),
        Ok(redis::Value::SimpleString(text)) => text,
        Ok(value) => redis::from_redis_value::<Vec<String>>(value).unwrap().join(" "),
        Err(error) => format!("{} {}", error.code().unwrap_or_default(), error.detail().unwrap_or_default()),
    }
}

#[test]
fn the_password_is_asked_for_and_outlives_a_reset() {
    let with_flag = start(&["--port", "0", "--requirepass", "secret", "--control"]);
    let with_variable = start_with(
        Command::new(env!("CARGO_BIN_EXE_lockstep"))
            .args(["serve", "--port", "0", "--control"])
            .env("LOCKSTEP_REQUIREPASS", "secret"),
    );
    for server in [with_flag, with_variable] {
        let mut client = server.connect();
        assert_eq!(ask(&mut client, "PING"), "NOAUTH Authentication required.");
        assert_eq!(
            ask(&mut client, "AUTH secre"),
            "WRONGPASS invalid username-password pair or user is disabled."
        );
        assert_eq!(ask(&mut client, "AUTH secret"), "OK");
        assert_eq!(ask(&mut client, "CONFIG SET requirepass other timeout 5"), "OK");
        assert_eq!(ask(&mut client, "EMULATOR RESET"), "OK");
        assert_eq!(ask(&mut client, "CONFIG GET requirepass"), "requirepass secret");
        assert_eq!(ask(&mut client, "CONFIG GET timeout"), "timeout 0");
        let mut newcomer = server.connect();
        assert_eq!(ask(&mut newcomer, "PING"), "NOAUTH Authentication required.");
        assert_eq!(ask(&mut newcomer, "AUTH secret"), "OK");
        server.stop();
    }
}

/// A test in another language sees it in the log of its server.
#[test]
fn a_fault_that_never_struck_is_told() {
    const WARNING: &str =
        "lockstep: warning: faults that never struck, because no client sent a command that they concern:\n";
    let server = start(&["--port", "0", "--control"]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "EMULATOR FAULT TWICE COMMAND incr"), "OK");
    assert_eq!(ask(&mut client, "EMULATOR FAULT TWICE COMMAND ping"), "OK");
    assert_eq!(ask(&mut client, "PING"), "PONG");
    assert_eq!(ask(&mut client, "EMULATOR RESET"), "OK");
    assert_eq!(ask(&mut client, "EMULATOR FAULT LOSE-REPLY COMMAND get CLIENT b"), "OK");
    drop(client);
    let said = server.stop();
    let [at_reset, at_end] = ["TWICE COUNT 1 COMMAND incr", "LOSE-REPLY COUNT 1 COMMAND get CLIENT b"];
    assert_eq!(said, format!("{WARNING}  {at_reset}\n{WARNING}  {at_end}\n"));
}

/// Redis accepts such a client, too, and tells it why it cannot be served.
#[test]
fn without_file_descriptors_new_clients_are_refused() {
    let program = env!("CARGO_BIN_EXE_lockstep");
    let limited = format!("ulimit -n 40 && exec \"{program}\" serve --port 0");
    let server = start_with(Command::new("sh").args(["-c", &limited]));
    let addr = server.url.trim_start_matches("redis://").trim_end_matches('/');
    let mut clients: Vec<TcpStream> = (0..60).map(|_| TcpStream::connect(addr).unwrap()).collect();
    let mut replies = clients.iter_mut().map(|client| {
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(b"PING\r\n").unwrap();
        let mut reply = String::new();
        BufReader::new(client).read_line(&mut reply).unwrap();
        reply
    });
    let served = replies.by_ref().take_while(|reply| reply == "+PONG\r\n").count();
    assert!((10..40).contains(&served), "{served}");
    assert!(replies.all(|reply| reply == "-ERR max number of clients reached\r\n"));
    let mut first = clients.swap_remove(0);
    drop(clients);
    // The server has noticed that they are gone.
    let mut info = [0; 1024];
    loop {
        first.write_all(b"INFO clients\r\n").unwrap();
        let len = first.read(&mut info).unwrap();
        if String::from_utf8_lossy(&info[..len]).contains("connected_clients:1\r\n") {
            break;
        }
    }
    assert_eq!(ask(&mut server.connect(), "PING"), "PONG");
    server.stop();
}

#[test]
fn debug_is_off_unless_asked_for() {
    const REFUSAL: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
        you can run it from a local connection, otherwise you need to set this option in the configuration file, \
        and then restart the server.";
    let server = start(&["--port", "0"]);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "CONFIG GET enable-debug-command"), "enable-debug-command no");
    assert_eq!(ask(&mut client, "DEBUG SLEEP 0"), REFUSAL);
    assert_eq!(ask(&mut client, "MULTI"), "OK");
    assert_eq!(ask(&mut client, "DEBUG SLEEP 0"), REFUSAL);
    assert_eq!(ask(&mut client, "EXEC"), "EXECABORT Transaction discarded because of previous errors.");
    assert_eq!(
        ask(&mut client, "CONFIG SET enable-debug-command yes"),
        "ERR CONFIG SET failed (possibly related to argument 'enable-debug-command') - can't set immutable config"
    );
    server.stop();
    for who in ["local", "yes"] {
        let server = start(&["--port", "0", "--enable-debug-command", who]);
        assert_eq!(ask(&mut server.connect(), "DEBUG SLEEP 0"), "OK");
        server.stop();
    }
}

#[test]
fn the_port_stands_in_one_place() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let port = free.port().to_string();
    for args in
        [&["--port", &port][..], &["--addr", "127.0.0.1", "--port", &port], &["--addr", &free.to_string()]]
    {
        let server = start(args);
        assert_eq!(server.url, format!("redis://{free}/"), "{args:?}");
        server.stop();
    }
    let both = lockstep(&["serve", "--addr", "127.0.0.1:1", "--port", "2"]);
    assert_eq!(
        String::from_utf8_lossy(&both.stderr),
        "lockstep: --addr 127.0.0.1:1 names a port already: leave out --port 2, or the port of --addr\n"
    );
}

#[test]
fn everybody_who_can_connect_needs_a_password_or_is_warned_of() {
    let output = lockstep(&["serve", "--addr", "0.0.0.0:0", "--control"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr.contains("place faults: set one with --requirepass"), "{stderr}");
    let stderr = start(&["--addr", "0.0.0.0:0"]).stop();
    assert!(
        stderr.contains(
            "warning: other machines can connect to 0.0.0.0:0 without a password: set one with --requirepass"
        ),
        "{stderr}"
    );
    for args in
        [&["--addr", "0.0.0.0:0", "--requirepass", "x", "--control"][..], &["--port", "0", "--control"]]
    {
        assert_eq!(start(args).stop(), "", "{args:?}");
    }
}

/// The real `redis-cli` follows redirections of `serve --cluster`, and agrees with its slots.
#[test]
fn a_cluster_serves_redis_cli() {
    let args = ["--port", "0", "--cluster", "3", "--replicas", "1", "--control"];
    let mut server = start(&args);
    let others: Vec<String> = (0..5).map(|_| url(&mut server.stdout)).collect();
    assert!(
        others[1].ends_with(" (master 3)") && others[4].ends_with(" (replica of master 3)"),
        "{others:?}"
    );
    let mut first = server.connect();
    assert!(ask(&mut first, "CLUSTER INFO").contains("cluster_slots_ok:16384"));
    assert!(ask(&mut first, "CLUSTER MEET 127.0.0.1 1").contains("is no server of this cluster"));
    let port = server.url.trim_end_matches('/').rsplit(':').next().unwrap().to_owned();
    let redis_cli = |args: &[&str]| {
        let output = Command::new("redis-cli").args(["-p", &port]).args(args).output();
        output.ok().map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(set) = redis_cli(&["-c", "SET", "foo", "v"]) else {
        redis_server::say_it_is_missing("install redis-cli");
        return;
    };
    assert_eq!(set, "OK");
    assert_eq!(redis_cli(&["-c", "GET", "foo"]).as_deref(), Some("v"));
    assert!(redis_cli(&["GET", "foo"]).is_some_and(|moved| moved.starts_with("MOVED 12182 127.0.0.1:")));
    let checked = redis_cli(&["--cluster", "check", &format!("127.0.0.1:{port}")]).unwrap();
    assert!(checked.contains("[OK] All nodes agree about slots configuration."), "{checked}");
    assert!(checked.contains("[OK] All 16384 slots covered."), "{checked}");
    server.stop();
}

#[test]
fn without_control_a_server_says_how_to_get_it() {
    let server = start(&["--port", "0"]);
    assert!(ask(&mut server.connect(), "EMULATOR HELP").contains("unknown command 'EMULATOR'"));
    assert_eq!(
        server.stop(),
        "lockstep: the command EMULATOR is off: --control lets clients move the clock and place faults\n"
    );
}

/// The first server, and the URLs of the others.
fn start_several(args: &[&str], others: usize) -> (Started, Vec<String>) {
    let mut first = start(&[&["--port", "0", "--control"], args].concat());
    let urls = (0..others).map(|_| url(&mut first.stdout)).collect();
    (first, urls)
}

fn connect(url: &str) -> redis::Connection {
    let (url, _) = url.split_once(' ').expect("a further server has a note");
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

/// The address of the primary with a name, as a Sentinel tells it.
fn find(sentinel: &mut redis::Connection, name: &str) -> String {
    ask(sentinel, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {name}")).replace(' ', ":")
}

#[test]
fn sentinels_name_the_primary_and_follow_a_failover() {
    let (server, urls) = start_several(&["--replicas", "2", "--sentinel", "3"], 5);
    let notes: Vec<&str> = urls.iter().filter_map(|url| url.split(' ').nth(1)).collect();
    assert_eq!(notes, ["(replica)", "(replica)", "(sentinel)", "(sentinel)", "(sentinel)"]);
    let mut sentinels: Vec<_> = urls[2..].iter().map(|url| connect(url)).collect();
    for sentinel in &mut sentinels {
        assert_eq!(server.url, format!("redis://{}/", find(sentinel, "mymaster")));
        assert!(ask(sentinel, "SENTINEL CKQUORUM mymaster").starts_with("OK 3 usable"));
    }
    let mut replica = connect(&urls[1]);
    let target = urls[1].split('/').nth(2).unwrap().replace(':', " ");
    let mut holder = server.connect();
    assert_eq!(ask(&mut holder, "SET lock a NX"), "OK");
    assert_eq!(ask(&mut server.connect(), &format!("EMULATOR FAILOVER TO {target}")), "OK");
    for sentinel in &mut sentinels {
        assert_eq!(find(sentinel, "mymaster"), target.replace(' ', ":"));
    }
    assert!(redis::cmd("PING").query::<()>(&mut replica).is_err(), "it has been disconnected");
    assert_eq!(ask(&mut connect(&urls[1]), "GET lock"), "a");
    // The old primary of this failover stays writable, until 8 s are over.
    assert_eq!(ask(&mut sentinels[0], "SENTINEL FAILOVER mymaster"), "OK");
    let mut old = connect(&urls[1]);
    assert_eq!(ask(&mut old, "SET lock b"), "OK");
    () = redis::cmd("EMULATOR").arg(&["CLOCK", "ADVANCE", "8000"]).query(&mut old).unwrap();
    assert_ne!(find(&mut sentinels[0], "mymaster"), target.replace(' ', ":"));
    assert!(ask(&mut connect(&urls[1]), "SET lock c").starts_with("READONLY"));
    server.stop();
}

#[test]
fn several_masters_are_independent() {
    let (server, urls) = start_several(&["--masters", "5"], 4);
    assert!(urls[3].ends_with("(master 5)"), "{urls:?}");
    assert_eq!(ask(&mut server.connect(), "SET k v"), "OK");
    for url in &urls {
        let mut other = connect(url);
        assert_eq!(redis::cmd("EXISTS").arg("k").query::<i32>(&mut other).unwrap(), 0);
        assert_eq!(ask(&mut other, "SET k w"), "OK");
    }
    assert_eq!(ask(&mut server.connect(), "GET k"), "v");
    server.stop();
    let (server, urls) = start_several(&["--masters", "2", "--replicas", "1", "--sentinel", "1"], 4);
    assert!(urls[2].ends_with("(replica of master 2)"), "{urls:?}");
    let mut sentinel = connect(&urls[3]);
    assert_eq!(ask(&mut sentinel, "SENTINEL FAILOVER mymaster2"), "OK");
    let found = find(&mut sentinel, "mymaster2");
    assert!(urls[2].contains(&found), "{urls:?} {found}");
    server.stop();
}

#[test]
fn servers_that_cannot_be_are_refused() {
    let refused = |args: &[&str], told: &str| {
        let output = lockstep(&[&["serve"], args].concat());
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(told), "{args:?}: {stderr}");
    };
    refused(&["--sentinel", "3"], "--sentinel 3 without --replicas: no server could take over");
    refused(&["--sentinel", "3", "--masters", "5"], "add --replicas 2");
    refused(&["--sentinel", "3", "--replicas", "0"], "add --replicas 2");
    for option in ["--sentinel", "--masters", "--cluster"] {
        refused(&[option, "0"], "0 is not in 1..=1");
        refused(&[option, "many"], "many");
    }
    for option in ["--databases", "--masters", "--sentinel"] {
        let told = format!("'--cluster <PRIMARIES>' cannot be used with '{option} <");
        refused(&["--cluster", "3", "--replicas", "1", option, "4"], &told);
    }
    refused(&["--cluster", "1000", "--replicas", "1"], "choose fewer for --cluster or --replicas");
    refused(&["--cluster", "3", "--port", "65534"], "65534 has no port that is 2 above (master 3)");
    // Linux gives this port to no client.
    let high = ["--port", "65000", "--replicas", "1", "--sentinel", "1"];
    refused(&high, "65000 has no port that is 20000 above (sentinel): choose another --port, or 0");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};

    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("lockstep-{name}-{}.sock", std::process::id()))
    }

    fn permissions(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn start_at(path: &Path, args: &[&str]) -> Started {
        let mut server = start(&[&["--port", "0", "--unix", path.to_str().unwrap()], args].concat());
        server.url = url(&mut server.stdout);
        server
    }

    #[test]
    fn the_socket_is_for_the_user_alone_and_goes_with_its_server() {
        let path = path("perm");
        let server = start_at(&path, &[]);
        assert_eq!(permissions(&path), 0o600);
        // An endless script does not keep the server from ending.
        let (mut runner, mut other) = (server.connect(), server.connect());
        () = redis::cmd("CONFIG").arg(&["SET", "busy-reply-threshold", "1"]).query(&mut other).unwrap();
        let script = std::thread::spawn(move || {
            let text = "redis.call('SET', 'began', 1) while true do end";
            redis::cmd("EVAL").arg(text).arg(0).query::<()>(&mut runner)
        });
        while !matches!(other.get::<_, Option<i64>>("began"), Ok(Some(_)) | Err(_)) {}
        server.stop();
        assert!(!path.exists());
        assert!(script.join().unwrap().is_err());
        let server = start_at(&path, &["--unix-perm", "770"]);
        assert_eq!(permissions(&path), 0o770);
        server.stop();
    }

    #[test]
    fn a_socket_is_taken_from_nobody_who_listens() {
        let path = path("taken");
        let mut first = start_at(&path, &[]);
        let refused = || {
            let output = lockstep(&["serve", "--port", "0", "--unix", path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(2));
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        assert_eq!(
            refused(),
            format!(
                "lockstep: cannot listen on {}: choose another path with --unix: another server listens there\n",
                path.display()
            )
        );
        let output = lockstep(&["serve", "--port", "0", "--unix", path.to_str().unwrap()]);
        assert!(output.stdout.is_empty(), "it listens on nothing");
        assert_eq!(ask(&mut first.connect(), "PING"), "PONG", "it has lost nothing");
        // A killed server leaves its socket behind, and the next server replaces it.
        first.serving.0.kill().unwrap();
        first.serving.0.wait().unwrap();
        assert!(path.exists());
        let second = start_at(&path, &[]);
        assert_eq!(ask(&mut second.connect(), "PING"), "PONG");
        second.stop();
        std::fs::write(&path, "text").unwrap();
        assert!(refused().ends_with("there is a file that is not a socket\n"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        std::fs::remove_file(&path).unwrap();
    }
}

/// If a client disconnects while a script runs, its thread must end as well.
#[cfg(target_os = "linux")]
#[test]
fn clients_that_go_while_a_script_runs_leave_no_threads() {
    const CROWD: usize = 300;
    /// The main thread, the threads for signals and the runtime, and those that take over while a
    /// script runs.
    const THREADS_MAX: usize = 8;
    let server = start(&["--port", "0"]);
    let mut control = server.connect();
    let set: [(&str, &str); 2] = [("maxclients", &(CROWD + 2).to_string()), ("busy-reply-threshold", "1")];
    for (parameter, value) in set {
        () = redis::cmd("CONFIG").arg(&["SET", parameter, value]).query(&mut control).unwrap();
    }
    let mut runner = server.connect();
    let crowd: Vec<redis::Connection> = (0..CROWD)
        .map(|_| {
            let mut client = server.connect();
            assert_eq!(ask(&mut client, "PING"), "PONG");
            client
        })
        .collect();
    let script = std::thread::spawn(move || {
        redis::cmd("EVAL").arg("while true do end").arg(0).query::<()>(&mut runner)
    });
    while !ask(&mut control, "PING").starts_with("BUSY") {}
    drop(crowd);
    let tasks = format!("/proc/{}/task", server.serving.0.id());
    let threads = || std::fs::read_dir(&tasks).unwrap().count();
    // Every disconnected client made room for a new one. So the server had the occasion to keep a
    // thread for each.
    let newcomers: Vec<_> = (0..CROWD)
        .map(|_| {
            loop {
                assert!(threads() <= THREADS_MAX, "{} threads", threads());
                if let Ok(mut client) = redis::Client::open(server.url.as_str()).unwrap().get_connection()
                    && ask(&mut client, "PING").starts_with("BUSY")
                {
                    break client;
                }
            }
        })
        .collect();
    assert_eq!(ask(&mut control, "SCRIPT KILL"), "OK");
    assert!(script.join().unwrap().is_err());
    drop(newcomers);
    server.stop();
}
