//! Runs the program `lockstep` as its users do.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::explorer::saved_schedules;
use crate::redis_server;

/// The most time until a program that ends by itself must have ended.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

/// Runs the program until it ends.
#[track_caller]
pub(crate) fn lockstep(args: &[impl AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = child.id().to_string();
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(child.wait_with_output()));
    let Ok(output) = receive.recv_timeout(ENDS_WITHIN) else {
        _ = Command::new("kill").args(["-KILL", &pid]).status();
        // The last argument may be a URL with a password.
        panic!("lockstep {:?} has not ended after {ENDS_WITHIN:?}", args[0].as_ref());
    };
    output.unwrap()
}

#[track_caller]
pub(crate) fn stdout(args: &[&str]) -> String {
    let output = lockstep(args);
    // The last argument may be a URL with a password.
    assert!(output.status.success(), "{}: {}", args[0], String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn check_prints_the_table() {
    let table = stdout(&["check", "setnx", "mutex"]);
    expect_test::expect![[r#"
        Bounds, with leases of 10000 ms. Each line is explored by itself.
          order    3 clients: no faults
          skew     3 clients: skew 10000ms
                   3 clients: skew 20000ms
                   2 clients: server_skew 10000ms
                   2 clients: jump 20000ms
          crash    3 clients: crashes 1
          slow     3 clients: stalls 1
                   2 clients, late replies: stalls 1
          lost     3 clients: lost 1
                   2 clients: drops 1
                   2 clients: delays 1
          server   3 clients: server_jump 10001ms, restarts 1
                   2 clients: restarts 1, outage 10001ms
                   2 clients: reloads 1, outage 10001ms
                   2 clients: reloads 1, unsynced 1
                   2 clients: flushes 1
          failover 2 clients: failovers 1, behind 1
                   2 clients: failovers 1, old_primary_writable 1
                   2 clients: server_skew 10001ms, failovers 1
                   2 clients: planned_failovers 1
          cluster  2 clients: moves 1
          cancel   2 clients: cancels 1
          pairs    2 clients: crashes 1, skew 10000ms
                   2 clients: lost 1, skew 10000ms
                   2 clients: crashes 1, stalls 1
                   2 clients: stalls 1, lost 1
                   2 clients: stalls 1, drift 500000ppm
          rounds   2 clients: no faults
                   2 clients: stalls 1
                   2 clients: lost 1

         algorithm  property          order   skew  crash     slow   lost  server  failover   cluster  cancel     pairs    rounds  as stated
         setnx      exclusive-fact      ✓ 7  ✓ 128   ✓ 38    ✓ 652    ✗ 5     ✗ 3       ✗ 3     ✓ 113    ✓ 27         –         –        yes
                    exclusive-belief    ✓ 7  ✓ 128   ✓ 38    ✓ 652    ✗ 5     ✗ 3       ✗ 3     ✓ 113    ✓ 27         –         –        yes
                    owner-safe          ✓ 7  ✓ 128   ✓ 38    ✓ 652    ✗ 4     ✗ 4       ✗ 4     ✓ 113    ✓ 27         –         –        yes
                    recovers              –      –    ✗ 1        –    ✗ 1     ✗ 3       ✗ 3         –     ✗ 2         –         –        yes
                    no-leak             ✓ 7  ✓ 128      –    ✓ 652      –     ✗ 3       ✗ 3     ✓ 113       –   ✓ 1,548     ✓ 851        yes
                    progress            ✓ 7      –      –        –      –       –         –     ✓ 113       –         –         –        yes
         mutex      exclusive-fact      ✓ 7  ✓ 128   ✓ 38  ✓ 1,940  ✓ 266     ✗ 3       ✗ 4  ✓ ~1,219    ✓ 41  ✓ ~3,269  ✓ ~1,602        yes
                    exclusive-belief    ✓ 7  ✓ 128   ✓ 38      ✗ 5  ✓ 266     ✗ 3       ✗ 4  ✓ ~1,219    ✓ 41         –         –        yes
                    owner-safe          ✓ 7  ✓ 128   ✓ 38  ✓ 1,940  ✓ 266   ✓ 731     ✓ 369  ✓ ~1,219    ✓ 41  ✓ ~3,269  ✓ ~1,602        yes
                    recovers              –      –   ✓ 38        –  ✓ 266   ✓ 731     ✓ 369         –    ✓ 41  ✓ ~3,269  ✓ ~1,602        yes
                    no-leak             ✓ 7  ✓ 128      –  ✓ 1,940      –     ✗ 3       ✗ 4  ✓ ~1,219       –  ✓ ~3,269  ✓ ~1,602        yes
                    progress            ✓ 7      –      –        –      –       –         –  ✓ ~1,219       –         –         –        yes
                    fenced              ✓ 7  ✓ 128   ✓ 38  ✓ 1,940  ✓ 266     ✗ 4       ✗ 4  ✓ ~1,219    ✓ 41  ✓ ~3,269  ✓ ~1,602        yes

         ✓ n   holds in all n schedules within the bounds
         ✓ ~n  holds in n schedules, and some explorations are samples
         ✗ n   violated; the shortest counterexample has n steps
         –     not asked: no meaning here, or a class that this one combines breaks it

         sampled  more than 1,000 schedules
         mutex    cluster pairs rounds

        101 of 101 verdicts are as stated. For a counterexample: lockstep explain NAME
        13,369 schedules explored; 237 more blocked, because others cover them
        Each exploration of a cell, with its size: --format json
    "#]]
    .assert_eq(&table);
}

/// Below the verdicts stands what was only sampled, and the limit that was reached.
#[test]
fn check_names_what_it_did_not_exhaust() {
    let table = stdout(&["check", "setnx", "mutex", "--limit", "300"]);
    let sampled = table.split("breaks it\n\n").nth(1).unwrap();
    expect_test::expect![[r#"
         sampled  more than 300 schedules  more than 30 schedules
         setnx    slow                     skew failover cluster pairs rounds
         mutex    slow server              skew lost server failover cluster cancel
                                           pairs rounds

        101 of 101 verdicts are as stated. For a counterexample: lockstep explain NAME
        17,153 schedules explored; 134 more blocked, because others cover them
        Each exploration of a cell, with its size: --format json
    "#]]
    .assert_eq(sampled);
    let thorough = stdout(&["check", "setnx", "--thorough", "--format", "json"]);
    let thorough: serde_json::Value = serde_json::from_str(&thorough).unwrap();
    assert_eq!((&thorough["limit"], &thorough["samples"]), (&300_000.into(), &20_000.into()));
    assert!(thorough["verdicts"].as_array().unwrap().iter().all(|row| row["sampled"] == false));
}

#[test]
fn check_is_the_default_and_takes_no_terminal_for_granted() {
    assert_eq!(stdout(&["setnx"]), stdout(&["check", "setnx"]));
    assert!(lockstep(&["setnx"]).stderr.is_empty(), "no progress bar in a pipe");
}

#[test]
fn check_speaks_json() {
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["check", "setnx", "--format", "json"])).unwrap();
    assert_eq!(json["blocked"], 74);
    let rows = json["verdicts"].as_array().unwrap();
    assert_eq!(rows.len(), 42);
    assert_eq!(json["bounds"]["skew"][3], "2 clients: jump 20000ms");
    let is_broken = |row: &&serde_json::Value| row["fault_class"] == "crash" && row["verdict"] == "violated";
    let broken: Vec<_> = rows.iter().filter(is_broken).collect();
    assert_eq!(
        broken,
        [&serde_json::json!({
            "algorithm": "setnx",
            "property": "recovers",
            "fault_class": "crash",
            "expected": "violated",
            "verdict": "violated",
            "schedules": 38,
            "blocked": 0,
            "sampled": false,
            "explorations": [{
                "clients": 3,
                "permits": 1,
                "faults": "crashes 1",
                "late_replies": false,
                "schedules": 38,
                "sampled": false,
                "limit": 10_000,
            }],
            "steps": 1,
            "schedule": ["crash-after A"],
        })]
    );
}

#[test]
fn the_same_seed_prints_the_same() {
    let args = ["check", "exists_set", "--seed", "5", "--format", "json"];
    assert_eq!(stdout(&args), stdout(&args));
}

#[test]
fn wrong_usage_is_explained() {
    for (args, message) in [
        (
            &["check", "nosuch"][..],
            "there is no algorithm named \"nosuch\": `lockstep list algorithms` prints all names\n",
        ),
        (
            &["explain", "nosuch"],
            "there is no algorithm named \"nosuch\": `lockstep list algorithms` prints all names\n",
        ),
        (
            &["explain", "setnx", "--property", "speed"],
            "setnx has no property \"speed\"; it has exclusive-fact, ",
        ),
        (
            &["explain", "redisson", "--property", "speed"],
            "redisson has no property \"speed\"; it has exclusive-fact, exclusive-belief, owner-safe, recovers, no-leak, no-lost-wake-up",
        ),
        (&["check", "--format", "xml"], "invalid value 'xml' for '--format <FORMAT>'"),
        (
            &["check", "--shard", "4/3"],
            "invalid value '4/3' for '--shard <I/N>': write I/N for part I of N, as in 2/3: I from 1 to N, and N at most 1000",
        ),
        (&["check", "--shard", "0/3"], "invalid value '0/3' for '--shard <I/N>': write I/N"),
        (&["check", "--shard", "1/1001"], "invalid value '1/1001' for '--shard <I/N>': write I/N"),
        (&["check", "--shard", "two"], "invalid value 'two' for '--shard <I/N>': write I/N"),
        (
            &["chek", "setnx"],
            "there is no command and no algorithm named \"chek\": `lockstep --help` prints all commands, and \
             `lockstep list algorithms` all algorithms; did you mean check?",
        ),
        (
            &["explain", "setnx", "--class", "crush"],
            "there is no class \"crush\"; there are order, skew, crash, ",
        ),
        (&["explain", "setnx", "--class", "crush"], "rounds; did you mean crash?\n"),
        (
            &["explain", "setnx", "--stress", "1"],
            "--stress is for a page or a picture: add --html FILE or --svg FILE",
        ),
        (
            &["explain", "fencing", "--class", "slow"],
            "which has no fault classes: leave out --property and --class",
        ),
        (&["explain", "setnx", "--property", "recovrs"], ", progress; did you mean recovers?\n"),
        (&["check", "--jobs", "0"], "invalid value '0' for '--jobs <N>': write a whole number, 1 or more"),
        (&["check", "--limit=-1"], "invalid value '-1' for '--limit <N>': write a whole number from 0 to "),
        (
            &["man", "explan"],
            "there is no command \"explan\": `lockstep --help` lists them; did you mean explain?",
        ),
        (&["merge"], "the following required arguments were not provided:\n  <PATH>..."),
        (
            &["explain", "mutex", "--class", "skew", "--property", "recovers"],
            "recovers is not checked for mutex in the class skew: leave out --class",
        ),
        (
            &["serve", "--addr", "nowhere"],
            "cannot listen on nowhere:6379: choose another address with --addr",
        ),
        (&["serve", "--databases", "0"], "0 is not in 1..=65536"),
    ] {
        let output = lockstep(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(message), "{args:?}: {stderr}");
    }
}

#[test]
fn explain_saves_what_replay_replays() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/saved.txt");
    let drawn = stdout(&["explain", "setnx_expire", "--property", "recovers", "--save", path]);
    let saved = std::fs::read_to_string(path).unwrap();
    expect_test::expect![[r#"
        lockstep schedule 1
        algorithm setnx_expire
        class crash
        permits 1
        clients 1
        lease 10000ms
        property recovers
        must fail

        crash-after A
    "#]]
    .assert_eq(&saved);
    let replayed = stdout(&["replay", path]);
    assert!(replayed.ends_with("\nrecovers is violated, as expected.\n"), "{replayed}");
    let timeline = |text: &str| {
        let lines = text.lines().skip_while(|line| !line.starts_with("step ")).map(str::to_owned);
        lines.take_while(|line| !line.starts_with("recovers")).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(timeline(&replayed).trim_end(), timeline(&drawn).trim_end());

    let replay_changed = |from: &str, to: &str| {
        let path = format!("{path}.changed");
        std::fs::write(&path, saved.replace(from, to)).unwrap();
        let output = lockstep(&["replay", &path]);
        let (out, err) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.code(), out + &err)
    };
    let (status, text) = replay_changed("must fail", "must pass");
    assert_eq!(status, Some(1));
    let advice = "The code has the bug: repair it. If that is meant, write `must fail` in ";
    assert!(text.contains(&format!("\nrecovers is violated, but must hold.\n{advice}")), "{text}");
    // After one more command the key has a time to live.
    let (status, text) = replay_changed("crash-after A", "A 1 SETNX lock\nA 2 DEL lock\ncrash A");
    assert_eq!(status, Some(1));
    assert!(
        text.contains("\nstep 2: expected A's command 2 \"DEL lock\", client sent \"EXPIRE lock\"\n"),
        "{text}"
    );
    let advice = "The steps no longer fit the code: correct them, or save a new one with `lockstep explain setnx_expire --class crash \
                  --property recovers --save NEW_FILE`";
    assert!(text.contains(&format!("\nrecovers holds, but must be violated.\n{advice}")), "{text}");
    let (status, text) = replay_changed("crash-after A", "A 1 SETNX lock\nA 2 EXPIRE lock\ncrash A");
    let advice = "If the code is repaired, write `must pass` in ";
    assert_eq!(status, Some(1));
    assert!(text.contains(&format!("\nrecovers holds, but must be violated.\n{advice}")), "{text}");
    for (from, to, message) in [
        (
            "setnx_expire",
            "setnx_expires",
            "there is no algorithm named \"setnx_expires\": `lockstep list algorithms` prints all names; did you mean setnx_expire",
        ),
        ("crash-after A", "crash Alice", "line 10: \"crash Alice\" is not a step: write `A 1 SET lock`"),
        ("recovers", "speed", "has no property \"speed\"; it has exclusive-fact, "),
        (
            "algorithm setnx_expire",
            "scenario mine",
            "this is a schedule of the scenario \"mine\", which is part of a test",
        ),
    ] {
        let (status, text) = replay_changed(from, to);
        // There is nothing else, no header before the message.
        assert!(status == Some(2) && text.starts_with("lockstep: ") && text.contains(message), "{text}");
    }
}

/// The text of an explanation and a saved schedule both name the readers and writers of a
/// read-write lock.
#[test]
fn readers_and_writers_are_told_apart() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/readers.txt");
    let drawn = stdout(&["explain", "rw_hash", "--save", path]);
    expect_test::expect![[r#"
        rw_hash
          guarantees  a writer is alone, as long as no two clients read at once
          assumes     one reader at a time, no two clients in one millisecond, clocks that agree to within a lease, and no client slower than a lease
          objection   the readers share one field, and the reader that acquired last removes it for all of them

        writer-alone is violated in the class order. Clients: 3; readers: 2; permits: 1; lease: 10000 ms.
        The algorithm states this itself: it assumes that this does not happen, or its objection says so.

        step        time  A B C  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
           1       +0 ms  ● · ·  A: script read lock 1700000000500 10000 → 1
                          │ · ·      now lock = {read: 1700000000500} (10000 ms left)
                          ┃ · ·    ▸ A is inside (reading). Its lease runs until +10000 ms.
           2       +0 ms  ┃ ● ·  B: script read lock 1700000000500 10000 → 1
                          ┃ │ ·      now lock = {read: 1700000000500} (10000 ms left)
                          ┃ ┃ ·    ▸ B is inside (reading). Its lease runs until +10000 ms. Now A and B are inside.
           3       +0 ms  ┃ ● ·  B: script release lock read 1700000000500 → 1
                          ┃ │ ·      now lock is gone
                          ┃ │ ·    ▸ B begins its release, and no longer counts as a holder.
                          ╏ │ ·    ▸ With this, B has ended the grant of A, whose lease still runs.
           4       +0 ms  ╏ │ ●  C: script write lock 1700000000500 10000 → 1
                          ╏ │ │      now lock = {write: 1700000000500} (10000 ms left)
                          ╏ │ ┃    ▸ C is inside (writing). Its lease runs until +10000 ms. Now A and C are inside.

        ✗ writer C is inside together with A, each with a lease that still runs.
    "#]].assert_eq(&drawn);
    let saved = std::fs::read_to_string(path).unwrap();
    expect_test::expect![[r#"
        lockstep schedule 1
        algorithm rw_hash
        class order
        permits 1
        readers 2
        clients 3
        lease 10000ms
        property writer-alone
        must fail

        A 1 EVALSHA lock
        B 1 EVALSHA lock
        B 2 EVALSHA lock
        C 1 EVALSHA lock
    "#]]
    .assert_eq(&saved);
    let replayed = stdout(&["replay", path]);
    assert!(
        replayed.starts_with("rw_hash (order). Clients: 3; readers: 2; permits: 1; lease: 10000 ms.\n"),
        "{replayed}"
    );
    assert!(replayed.ends_with("\nwriter-alone is violated, as expected.\n"), "{replayed}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&["check", "rw_hash", "--format", "json"])).unwrap();
    let is_found =
        |row: &&serde_json::Value| row["fault_class"] == "order" && row["property"] == "writer-alone";
    let found = json["verdicts"].as_array().unwrap().iter().find(is_found).unwrap();
    assert_eq!((&found["readers"], found["schedule"].as_array().unwrap().len()), (&2.into(), 4));
    // With a third reader, there is no writer.
    std::fs::write(path, saved.replace("readers 2", "readers 3")).unwrap();
    let output = lockstep(&["replay", path]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let verdict = "\nwriter-alone had nothing to judge, but must be violated.\n";
    assert!(text.contains(&format!("{verdict}The steps test nothing: correct them, or ")), "{text}");
}

#[test]
fn replay_compares_with_a_real_server() {
    let Some(server) = redis_server::borrow() else { return };
    let path: &str = &saved_schedules::path_of("set_nx_ex_del.slow.owner-safe.txt");
    let text = stdout(&["replay", path, "--redis", &server.url()]);
    assert!(
        text.contains("\nOn the server: lease ")
            && text.ends_with(" ms: same violation; 5 replies are the same.\n"),
        "{text}"
    );
    let output = lockstep(&["replay", path, "--redis", "redis://127.0.0.1:1/"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let refused = "Connection refused";
    assert!(
        stderr
            .starts_with("lockstep: cannot replay on the server: the server does not answer: check its URL"),
        "{stderr}"
    );
    assert_eq!(stderr.matches(refused).count(), 1, "{stderr}");
}

/// The ports that a replay names as those of its servers. Nothing listens there any more.
pub(super) fn ports_of_ended_servers(text: &str) -> Vec<u16> {
    let text = text.replace('\n', " ");
    let started = text.split_once("Started redis-server ").map_or("", |(_, rest)| rest);
    let ports = started.split(" port ").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let ports: Vec<u16> = ports.map(|port| port.unwrap().parse().unwrap()).collect();
    for &port in &ports {
        // A server that has been told to end may need a moment for it.
        let is_gone = (0..100_000).any(|_| TcpStream::connect(("127.0.0.1", port)).is_err());
        assert!(is_gone, "a server still listens on port {port}: {text}");
    }
    ports
}

#[test]
fn replay_starts_servers_with_replicas() {
    let Some(server) = redis_server::borrow() else { return };
    let path: &str = &saved_schedules::path_of("setnx.failover.exclusive-fact.txt");
    let text = stdout(&["replay", path, "--redis"]);
    let (_, started) =
        text.split_once("\nexclusive-fact is violated, as expected.\nStarted redis-server ").unwrap();
    assert!(started.ends_with(" ms: same violation; 5 replies are the same.\n"), "{text}");
    assert_eq!(ports_of_ended_servers(&text).len(), 2, "{text}");
    let output = lockstep(&["replay", path, "--redis", &server.url()]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let refused = "lockstep: cannot replay on the server: the schedule has the step `failover 2 -A`, which needs servers";
    assert!(stderr.starts_with(refused), "{stderr}");
}

/// The claims of a debate are replayed on real servers, as the counterexamples of algorithms are.
#[test]
fn replay_starts_the_servers_of_a_claim() {
    if redis_server::borrow().is_none() {
        return;
    }
    for debate in ["failover", "promotion"] {
        let path = format!(concat!(env!("CARGO_TARGET_TMPDIR"), "/{}.debate.txt"), debate);
        stdout(&["explain", debate, "--save", &path]);
        let text = stdout(&["replay", &path, "--redis"]);
        assert!(text.contains(" ms: same violation; "), "{text}");
        assert_eq!(ports_of_ended_servers(&text).len(), 2, "{text}");
    }
}

#[test]
fn a_replay_says_that_no_server_is_installed() {
    let path: &str = &saved_schedules::path_of("setnx.failover.exclusive-fact.txt");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let output = command.args(["replay", path, "--redis"]).env("PATH", "").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.starts_with(
            "lockstep: cannot start servers: cannot run `redis-server`: install Redis 7.0, or add "
        ),
        "{stderr}"
    );
}

/// A server that is killed when the test ends.
pub struct Serving(pub Child);

impl Drop for Serving {
    fn drop(&mut self) {
        _ = self.0.kill();
    }
}

#[test]
fn serve_serves_until_it_is_told_to_stop() {
    let child = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["serve", "--addr", "127.0.0.1:0", "--databases", "2"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut serving = Serving(child);
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap_or_else(|| panic!("it said {line:?}"));
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let set: bool =
        redis::cmd("SET").arg(&["lock", "me", "NX", "PX", "10000"]).query(&mut connection).unwrap();
    assert!(set);
    let error = redis::cmd("SELECT").arg(2).query::<()>(&mut connection).unwrap_err();
    assert_eq!(error.detail(), Some("DB index is out of range"));
    let terminate = Command::new("kill").args(["-TERM", &serving.0.id().to_string()]).status().unwrap();
    assert!(terminate.success());
    assert!(serving.0.wait().unwrap().success(), "it ends cleanly");
}
