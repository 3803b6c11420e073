//! The program on a terminal: colours, widths, progress, Ctrl-C.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::explorer::saved_schedules;
use crate::program::cli::ports_of_ended_servers;
use crate::program::terminal::{HOSTILE, is_hidden};
use crate::redis_server;

/// A terminal of 80 columns. The first file is the side of the person, the second is the side of
/// the program.
fn terminal() -> (File, File) {
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let path = ptsname(&person, Vec::new()).unwrap();
    let program = File::options().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    tcsetwinsize(&person, Winsize { ws_row: 50, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    (person.into(), program)
}

/// The program, in an environment of which its output depends on nothing.
fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(args).env("TERM", "xterm").stdin(Stdio::null());
    for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"] {
        command.env_remove(variable);
    }
    command
}

/// Reads what the program shows until this is true, or the program has ended.
fn read_until(terminal: &mut File, is_enough: impl Fn(&str) -> bool) -> String {
    let (mut shown, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        // When the program has ended, Linux reports an error here, and other systems an end.
        match terminal.read(&mut bytes) {
            Ok(0) | Err(_) => break,
            Ok(n) => shown.extend_from_slice(&bytes[..n]),
        }
        if is_enough(&String::from_utf8_lossy(&shown)) {
            break;
        }
    }
    String::from_utf8_lossy(&shown).replace("\r\n", "\n")
}

/// Runs the program on a terminal. Returns what it shows, and its exit status.
fn show(mut command: Command) -> (String, Option<i32>) {
    let (mut person, end) = terminal();
    let (out, err) = (end.try_clone().unwrap(), end);
    let mut child = command.stdout(out).stderr(err).spawn().unwrap();
    drop(command);
    let shown = read_until(&mut person, |_| false);
    (shown, child.wait().unwrap().code())
}

/// A terminal acts on the colours of the program itself, and on nothing in a file from a stranger.
#[test]
fn hostile_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("folder {HOSTILE}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("hostile.txt");
    let saved = "lockstep schedule 1\nalgorithm setnx_expire\nclass crash\npermits 1\nclients 1\n\
                 lease 10000ms\nproperty recovers\nmust pass\n\nA 1 SETNX lock\ncrash A\n";
    for text in
        [saved.into(), saved.replace("lock\n", HOSTILE), format!("# {HOSTILE}\n{saved}"), HOSTILE.into()]
    {
        std::fs::write(&path, text).unwrap();
        for command in ["replay", "merge"] {
            let (shown, _) = show(program(&[command, path.to_str().unwrap()]));
            let styles = ["\u{1b}[1m", "\u{1b}[31m", "\u{1b}[36m", "\u{1b}[0m"];
            let shown = styles.iter().fold(shown, |shown, style| shown.replace(style, ""));
            assert!(!shown.contains(is_hidden), "{shown:?}");
            assert!(shown.contains("hostile.txt"), "{shown:?}");
        }
    }
}

/// The text without colours and without lines of progress.
fn plain(shown: &str) -> String {
    let text = anstream::adapter::strip_str(shown).to_string();
    text.lines().map(|line| format!("{}\n", line.rsplit('\r').next().unwrap())).collect()
}

#[test]
fn the_table_fits_80_columns() {
    let (shown, status) = show(program(&["check", "setnx", "mutex"]));
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.contains("\u{1b}[32m✓\u{1b}[0m7"), "{shown}");
    let text = plain(&shown);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let table = text.split("\n\n").nth(1).unwrap();
    expect_test::expect![[r#"
                         or- skew crash  slow lost ser- fail-  clus- can-  pairs rounds
                         der                        ver  over    ter  cel
        setnx
        exclusive-fact    ✓7 ✓128   ✓38  ✓652   ✗5   ✗3    ✗3   ✓113  ✓27      –      –
        exclusive-belief  ✓7 ✓128   ✓38  ✓652   ✗5   ✗3    ✗3   ✓113  ✓27      –      –
        owner-safe        ✓7 ✓128   ✓38  ✓652   ✗4   ✗4    ✗4   ✓113  ✓27      –      –
        recovers           –    –    ✗1     –   ✗1   ✗3    ✗3      –   ✗2      –      –
        no-leak           ✓7 ✓128     –  ✓652    –   ✗3    ✗3   ✓113    –  ✓1.5k   ✓851
        progress          ✓7    –     –     –    –    –     –   ✓113    –      –      –
        mutex
        exclusive-fact    ✓7 ✓128   ✓38 ✓1.9k ✓266   ✗3    ✗4 ✓~1.2k  ✓41 ✓~3.2k ✓~1.6k
        exclusive-belief  ✓7 ✓128   ✓38    ✗5 ✓266   ✗3    ✗4 ✓~1.2k  ✓41      –      –
        owner-safe        ✓7 ✓128   ✓38 ✓1.9k ✓266 ✓731  ✓369 ✓~1.2k  ✓41 ✓~3.2k ✓~1.6k
        recovers           –    –   ✓38     – ✓266 ✓731  ✓369      –  ✓41 ✓~3.2k ✓~1.6k
        no-leak           ✓7 ✓128     – ✓1.9k    –   ✗3    ✗4 ✓~1.2k    – ✓~3.2k ✓~1.6k
        progress          ✓7    –     –     –    –    –     – ✓~1.2k    –      –      –
        fenced            ✓7 ✓128   ✓38 ✓1.9k ✓266   ✗4    ✗4 ✓~1.2k  ✓41 ✓~3.2k ✓~1.6k"#]]
    .assert_eq(table);
}

#[test]
fn a_counterexample_fits_80_columns() {
    let path: &str = &saved_schedules::path_of("setnx.crash.recovers.txt");
    for args in [&["explain", "setnx"][..], &["replay", path]] {
        let text = plain(&show(program(args)).0);
        assert!(
            text.contains("no lease.\n") && text.contains(" every holder\nto come to its release.\n"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn colours_can_be_switched_off_and_on() {
    let mut command = program(&["explain", "setnx"]);
    command.env("NO_COLOR", "1");
    let (shown, _) = show(command);
    assert!(shown.contains("\n✗ more than a lease") && !shown.contains("\u{1b}[3"), "{shown}");
    let (shown, _) = show(program(&["explain", "setnx"]));
    assert!(shown.contains("\u{1b}[1m\u{1b}[31m✗ more than a lease"), "{shown}");
    let (shown, _) = show(program(&["explain", "nosuch"]));
    assert!(shown.contains("\u{1b}[1m\u{1b}[31mlockstep:\u{1b}[0m there is no"), "{shown}");
    let output = program(&["explain", "setnx"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(String::from_utf8(output.stdout).unwrap().contains("\u{1b}[31m✗"));
    let json = program(&["check", "setnx", "--format", "json"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(serde_json::from_slice::<serde_json::Value>(&json.stdout).is_ok(), "JSON has no colours");
}

#[test]
fn a_long_search_says_what_it_does() {
    let bounds = ["mutex_fair", "--limit", "1000", "--samples", "100"];
    let (shown, _) = show(program(&[&["explain", "--property", "owner-safe"], &bounds[..]].concat()));
    assert!(shown.contains("exploring mutex_fair in the class "), "{shown}");
    let (shown, _) = show(program(&[&["check"], &bounds[..]].concat()));
    assert!(shown.contains(" of 11, ") && shown.contains(" schedules/s"), "{shown}");
    assert!(shown.contains("s left: mutex_fair "), "{shown}");
}

/// The line of progress is drawn by a thread. If the system refuses it, the check goes on.
#[test]
fn progress_needs_no_thread() {
    for args in [&["check", "setnx", "--jobs", "2"][..], &["explain", "setnx"]] {
        let mut command = program(args);
        command.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let (shown, status) = show(command);
        assert_eq!(status, Some(0), "{shown}");
        assert_eq!(plain(&shown), plain(&show(program(args)).0));
    }
}

/// Whether the signals of Ctrl-C and of the end of a session reach a program that this process
/// starts. Under `nohup`, they do not.
fn has_signals() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("0");
    let ignored = u64::from_str_radix(ignored.trim(), 16).unwrap_or(0);
    // SIGHUP, SIGINT and SIGTERM are 1, 2 and 15 everywhere.
    let has = ignored & (1 | 1 << 1 | 1 << 14) == 0;
    if !has {
        println!("NOT CHECKED: the signals are ignored here");
    }
    has
}

/// A replay that is stopped while it waits in real time deletes its keys.
#[test]
fn a_stopped_replay_leaves_no_key_on_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    if !has_signals() {
        return;
    }
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/long.txt");
    let head = "lockstep schedule 1\nalgorithm setnx\nclass slow\npermits 1\nclients 1\nlease 10000ms\n\
                property exclusive-fact\nmust pass\n\nA 1 SETNX lock\n";
    std::fs::write(path, format!("{head}{}", "time +9000ms\n".repeat(40))).unwrap();
    let mut command = program(&["replay", path, "--redis", &server.url()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let mut keys = || redis::cmd("DBSIZE").query::<usize>(&mut connection).unwrap();
    while keys() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it has ended before it could be stopped");
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let output = child.wait_with_output().unwrap();
    let (out, err) = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).into();
    assert_eq!(output.status.code(), Some(130), "{out}{err}");
    let expected = "stopping: the keys of the replay are deleted. Ctrl-C once more ends at once, and leaves them.\n\
                    PARTIAL: the replay was stopped; nothing that it wrote is left\n";
    assert_eq!(err, expected);
    assert!(!out.contains("On the server"), "{out}");
    assert_eq!(keys(), 0);
}

const STOPPED: &str = "stopping: the servers of the replay end.\n\
                       PARTIAL: the replay was stopped; nothing that it wrote is left\n";

/// The servers of a replay end with it, whether it is asked to stop or killed.
#[test]
fn a_stopped_replay_leaves_no_server() {
    if redis_server::borrow().is_none() || !has_signals() {
        return;
    }
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/long_failover.txt");
    let head = "lockstep schedule 1\nalgorithm setnx\nclass failover\npermits 1\nclients 1\nlease 10000ms\n\
                property exclusive-fact\nmust pass\n\nA 1 SETNX lock\nfailover 2 -A\n";
    std::fs::write(path, head).unwrap();
    for signal in ["-INT", "-KILL"] {
        let mut command = program(&["replay", path, "--redis"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // After the failover a lease passes, and with it seconds.
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains("a replica of server 1.\n") {
            assert_ne!(out.read_line(&mut said).unwrap(), 0, "{said}");
        }
        let status = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        assert!(status.success());
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        let (status, expected) = match signal {
            "-INT" => (Some(130), STOPPED),
            _ => (None, ""),
        };
        assert_eq!((output.status.code(), &err[..]), (status, expected));
        assert_eq!(ports_of_ended_servers(&said).len(), 2, "{said}");
    }
}

/// Starts a check, and stops it when it has judged something. Returns what it wrote to standard
/// output, to standard error, and its exit status.
fn stop(args: &[&str], is_begun: fn(&str) -> bool) -> (String, String, Option<i32>) {
    let (mut person, end) = terminal();
    let mut command = program(args);
    let mut child: Child = command.stdout(Stdio::piped()).stderr(end).spawn().unwrap();
    drop(command);
    read_until(&mut person, is_begun);
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    let shown = read_until(&mut person, |_| false);
    (out, shown, child.wait().unwrap().code())
}

/// Whether a check has judged some of its cells.
fn has_judged(shown: &str) -> bool {
    shown.rsplit("%, ").next().is_some_and(|rest| rest.contains(" of ") && !rest.starts_with('0'))
}

#[test]
fn a_stopped_check_prints_what_it_has() {
    if !has_signals() {
        return;
    }
    // The dearest cells are judged first, and the last ones are cheap.
    let names = ["setnx", "mutex", "mutex_fair", "semaphore_fair"];
    let args = [&["check"], &names[..], &["--jobs", "1", "--limit", "300", "--samples", "100"]].concat();
    let (out, shown, status) = stop(&args, has_judged);
    assert_eq!(status, Some(130), "{out}{shown}");
    let (first, last) = (out.lines().next().unwrap(), out.lines().last().unwrap());
    assert!(first.starts_with("PARTIAL: stopped after ") && first == last, "{out}");
    assert!(out.contains(" ?     not judged: the check was stopped before\n"), "{out}");
    let has_cells =
        |mark: &str| out.lines().any(|line| line.contains(mark) && line.contains("exclusive-fact"));
    assert!(has_cells("  ?") && !out.contains("NO\n"), "{out}");
    let (out, shown, status) = stop(&[&args[..], &["--format", "json"]].concat(), has_judged);
    assert_eq!((status, &out[..]), (Some(130), ""), "{shown}");
    assert!(plain(&shown).contains("lockstep: stopped: no JSON is printed"), "{shown}");
}

#[test]
fn a_stopped_search_says_what_it_knows() {
    if !has_signals() {
        return;
    }
    let bounds = ["--limit", "1000", "--samples", "20000"];
    let args = [&["explain", "redlock_for_use", "--property", "owner-safe"], &bounds[..]].concat();
    let (out, shown, status) = stop(&args, |shown| shown.contains("in the class skew"));
    assert_eq!((status, &out[..]), (Some(130), ""), "{shown}");
    let text = plain(&shown);
    assert!(
        text.contains("PARTIAL: redlock_for_use: stopped; no counterexample was found in order, and"),
        "{text}"
    );
    assert!(text.contains(" are not judged\n"), "{text}");
}
