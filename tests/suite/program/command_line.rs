//! How the program explains itself: lists, help pages, completions, manual pages, messages.

use harness::fault::FaultKind;
use locks::registry::{ALGORITHMS, FaultClass, Property};

use crate::explorer::saved_schedules;
use crate::program::cli::{lockstep, stdout};

/// Everything that `list` lists, by the name of its list.
fn listed() -> [(&'static str, Vec<String>); 5] {
    [
        ("algorithms", ALGORITHMS.iter().map(|of| of.name.to_owned()).collect()),
        ("oracles", Property::ALL.iter().map(ToString::to_string).collect()),
        ("classes", FaultClass::ALL.iter().map(ToString::to_string).collect()),
        ("faults", FaultKind::ALL.iter().map(|kind| kind.documentation().0).collect()),
        ("debates", ["pauses", "fencing", "failover", "wait", "promotion", "cluster"].map(Into::into).into()),
    ]
}

#[test]
fn list_names_everything_within_80_columns() {
    let whole = stdout(&["list"]);
    for (list, names) in listed() {
        let text = stdout(&["list", list]);
        assert!(whole.contains(&text), "{list}: {whole}");
        let mut lines = text.lines().skip(1);
        for name in names {
            let line = lines.find(|line| line.starts_with(&format!(" {name}  ")));
            assert!(line.is_some(), "{list} has no {name}: {text}");
        }
    }
    assert!(whole.lines().all(|line| line.chars().count() <= 80), "{whole}");
    expect_test::expect![[r#"
        Fault classes, for explain --class
         order     Any order of commands, with perfect clocks. No lease ends.
         skew      The clock of one client or of one server is one or two leases ahead
                   or behind, or jumps.
         crash     A client ends at any step, without a release.
         slow      A client stalls until after its lease, at any point.
         lost      A request or a reply is lost or late, or a connection breaks. The
                   client gives up, or its library sends the request again.
         server    One server's clock jumps ahead by more than a lease, or one server
                   restarts. It loses all data, its last write, or only its scripts.
         failover  A replica takes over. It lacks the last write, or its clock is
                   ahead, or the old primary still serves some clients, or nothing is
                   wrong with it. It knows no scripts.
         cluster   The servers are a cluster. A slot moves from one of them to another
                   while clients work.
         cancel    An acquire or a release is cancelled wherever it waits.
         pairs     Two of the faults above.
         rounds    Each client acquires twice with one lock object, and goes on after
                   an error. There may be a stall or a lost message.
    "#]]
    .assert_eq(&stdout(&["list", "classes"]));
}

#[test]
fn list_speaks_json() {
    let json: serde_json::Value = serde_json::from_str(&stdout(&["list", "--format", "json"])).unwrap();
    for (list, names) in listed() {
        let key = if list == "faults" { "step" } else { "name" };
        let found: Vec<_> =
            json[list].as_array().unwrap().iter().map(|of| of[key].as_str().unwrap()).collect();
        assert_eq!(found, names, "{list}");
    }
    let find = |list: &str, name: &str| {
        json[list].as_array().unwrap().iter().find(|of| of["name"] == name).unwrap().clone()
    };
    assert_eq!(
        find("algorithms", "setnx"),
        serde_json::json!({
            "name": "setnx",
            "guarantees": "one holder at a time, however slow it is",
            "assumes": "that no holder ever crashes, and that no message is ever lost",
            "objection": "without a time to live a crashed holder keeps the lock for ever",
            "servers": 1,
            "oracles": ["exclusive-fact", "exclusive-belief", "owner-safe", "recovers", "no-leak", "progress"],
        })
    );
    assert_eq!(find("classes", "crash")["bounds"], serde_json::json!(["3 clients: crashes 1"]));
    let one: serde_json::Value =
        serde_json::from_str(&stdout(&["list", "oracles", "--format", "json"])).unwrap();
    assert_eq!(one.as_object().unwrap().keys().collect::<Vec<_>>(), ["oracles"]);
}

const COMMANDS: [&str; 8] = ["check", "explain", "replay", "list", "merge", "serve", "completions", "man"];

#[test]
fn every_help_page_has_examples_and_fits_80_columns() {
    let main = stdout(&["--help"]);
    for command in COMMANDS {
        assert!(main.contains(&format!("\n  {command} ")), "{command}: {main}");
        for page in [stdout(&[command, "--help"]), stdout(&[command, "-h"])] {
            assert!(page.contains("\nExamples:\n  # "), "{page}");
            assert!(page.contains(&format!("\n  lockstep {command} ")), "{page}");
            let is_narrow = |line: &str| line.chars().count() <= 80 || line.starts_with("  lockstep ");
            assert!(page.lines().all(is_narrow), "{page}");
        }
    }
    assert!(main.lines().all(|line| line.chars().count() <= 80), "{main}");
    let explain = stdout(&["explain", "--help"]);
    for name in
        FaultClass::ALL.iter().map(|class| class.name()).chain(Property::ALL.iter().map(|of| of.name()))
    {
        assert!(explain.contains(&format!("- {name}:")), "{name}: {explain}");
    }
}

#[test]
fn completions_have_the_names() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&["completions", shell]);
        assert!(COMMANDS.iter().all(|command| script.contains(command)), "{shell}");
        assert!(script.contains("--jobs") || script.contains("jobs"), "{shell}");
    }
    let script = stdout(&["completions", "bash"]);
    for name in ["fair_semaphore_weighted", "no-lost-wake-up", "pairs"] {
        assert!(script.contains(name), "{name}");
    }
}

#[test]
fn manual_pages_have_what_the_help_has() {
    let main = stdout(&["man"]);
    assert!(main.contains(".TH lockstep 1") && main.contains("Exit status:"), "{main}");
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/man/pages");
    _ = std::fs::remove_dir_all(folder);
    assert_eq!(stdout(&["man", "--dir", folder]), "");
    for command in COMMANDS {
        let page = stdout(&["man", command]);
        assert!(page.contains(&format!(".TH lockstep-{command} 1")), "{page}");
        assert!(page.contains("Examples:"), "{page}");
        assert!(std::fs::exists(format!("{folder}/lockstep-{command}.1")).unwrap(), "{command}");
    }
}

/// Each message has its cause once, and says what to do.
#[test]
fn messages_say_what_to_do() {
    let saved: &str = &saved_schedules::path_of("setnx_expire.crash.recovers.txt");
    let folder = env!("CARGO_TARGET_TMPDIR");
    for (args, cause, remedy) in [
        (
            &["replay", "/missing"][..],
            "No such file",
            "name a file that `lockstep explain NAME --save` has written",
        ),
        (&["replay", folder], "Is a directory", "name a file that "),
        (&["replay", saved, "--redis", "redis://127.0.0.1:1/"], "Connection refused", "check its URL"),
        (&["replay", saved, "--html", "/dev/null/x"], "File exists", "name a file where one can be made"),
        (&["explain", "setnx", "--save", "/dev/null/x"], "File exists", "name a file where one can be made"),
        (&["merge", "/missing"], "No such file", "name files and folders that have results"),
        (&["man", "--dir", "/dev/null/x"], "Not a directory", "name another folder"),
    ] {
        let output = lockstep(args);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert_eq!(stderr.matches(cause).count(), 1, "{args:?}: {stderr}");
        assert!(stderr.contains(remedy), "{args:?}: {stderr}");
    }
}

/// With stacks that large, the system refuses each thread. The work is then done on the first one.
#[test]
fn a_process_without_threads_comes_to_its_end() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"));
    let command = command.env("RUST_MIN_STACK", (1_u64 << 60).to_string());
    let check = command.args(["check", "setnx", "--jobs", "2"]).output().unwrap();
    let said = String::from_utf8_lossy(&check.stderr);
    assert!(check.status.success(), "{said}");
    assert_eq!(String::from_utf8(check.stdout).unwrap(), stdout(&["check", "setnx"]));
}

/// A violation that a lock does not exclude is no defect of it.
#[test]
fn explain_says_that_the_lock_states_the_violation() {
    let said = stdout(&["explain", "mutex"]);
    let stated =
        "The algorithm states this itself: it assumes that this does not happen, or its objection says so.";
    assert!(said.contains(&format!("lease: 10000 ms.\n{stated}\n")), "{said}");
}

#[test]
fn replay_refuses_what_the_class_cannot_have() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/foreign.txt");
    for (class, steps, message) in [
        (
            "crash",
            "lose-request A",
            "step 1: `lose-request A` cannot happen in the class crash: remove the step, or write a class that has it: lost, pairs, rounds",
        ),
        (
            "crash",
            "A\ntime +10001ms",
            "step 2: `time +10001ms` cannot happen in the class crash: remove the step, or write a class that has it: slow, pairs, rounds",
        ),
        (
            "skew",
            "A\ncrash A",
            "step 2: `crash A` cannot happen in the class skew: remove the step, or write a class that has it: crash, pairs",
        ),
        (
            "crash",
            "drift 1 +200ppm",
            "step 1: `drift 1 +200ppm` cannot happen in the class crash: remove the step, because no class has it",
        ),
    ] {
        let saved = format!(
            "lockstep schedule 1\nalgorithm setnx_expire\nclass {class}\npermits 1\nclients 1\nlease 10000ms\n\
             property exclusive-fact\nmust fail\n\n{steps}\n"
        );
        std::fs::write(path, saved).unwrap();
        let output = lockstep(&["replay", path]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(String::from_utf8(output.stderr).unwrap(), format!("lockstep: {path}: {message}\n"));
        assert!(output.stdout.is_empty(), "no header before the message");
    }
}

#[test]
fn verdicts_that_are_not_as_stated_are_listed() {
    let output = lockstep(&["check", "setnx", "--limit", "1", "--samples", "1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    let first = "\nNot as stated:\n✗ exclusive-fact of setnx in skew: vacuous, must hold\n  \
                 lockstep explain setnx --property exclusive-fact --class skew\n";
    assert!(text.contains(first), "{text}");
    assert!(text.contains("\n✗ exclusive-fact of setnx in lost: holds, must be violated\n"), "{text}");
    assert!(text.contains(" vacuous, or vac.: "), "{text}");
}
