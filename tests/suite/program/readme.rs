//! Compares what the READMEs say of the code with the code.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use emulator::command::GROUPS;
use harness::fault::FaultKind;
use locks::registry::ALGORITHMS;

use crate::explorer::saved_schedules;
use crate::program::cli::stdout;
use crate::program::guide::WORKSPACE;
use crate::redis_server;

/// Compares the lines between two marks, which are HTML comments in a page. With `UPDATE_EXPECT`
/// set, it writes the lines anew.
#[track_caller]
pub(crate) fn check_page(page: &str, name: &str, expected: &str) {
    // Several tests write to the same file.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let path = format!("{WORKSPACE}/{page}");
    let readme = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = readme.split_once(&begin).unwrap_or_else(|| panic!("{path} has no {begin}"));
    let (current, after) = rest.split_once(&end).unwrap_or_else(|| panic!("{path} has no {end}"));
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&path, format!("{before}{begin}{expected}{end}{after}")).unwrap();
    } else {
        assert_eq!(current, expected, "{path} is out of date: run the tests once with UPDATE_EXPECT=1");
    }
}

#[test]
fn the_front_page_is_short() {
    let lines = std::fs::read_to_string(format!("{WORKSPACE}/README.md")).unwrap().lines().count();
    assert!(lines <= 200, "README.md has {lines} lines; reference belongs into the READMEs of the crates");
}

#[test]
fn the_table_of_faults_is_that_of_the_code() {
    let mut table = String::from("| step | budget | what happens |\n| --- | --- | --- |\n");
    for kind in FaultKind::ALL {
        let (step, summary, budgets) = kind.documentation();
        let budgets: Vec<String> = budgets.iter().map(|budget| format!("`{budget}`")).collect();
        table += &format!("| `{step}` | {} | {summary} |\n", budgets.join(", "));
    }
    check_page("tests/guide/faults.md", "faults", &table);
}

#[test]
fn the_table_of_algorithms_is_the_registry() {
    let mut table = String::from("| name | guarantees | assumes | objection |\n| --- | --- | --- | --- |\n");
    for algorithm in ALGORITHMS {
        let spec = algorithm.spec;
        table += &format!(
            "| `{}` | {} | {} | {} |\n",
            algorithm.name, spec.guarantees, spec.assumes, spec.objection
        );
    }
    check_page("locks/README.md", "algorithms", &table);
}

#[test]
fn the_exit_statuses_are_those_of_the_help() {
    let help = stdout(&["--help"]);
    let (_, statuses) = help.split_once("\nExit status:\n").unwrap();
    let mut table = String::from("| exit status | meaning |\n| --- | --- |\n");
    for line in statuses.lines() {
        let (status, meaning) = line.trim().split_once(' ').unwrap();
        table += &format!("| {status} | {} |\n", meaning.trim());
    }
    check_page("tests/guide/program.md", "exit status", &table);
}

#[test]
fn the_command_list_is_the_table() {
    let mut list = String::from("| group | commands |\n| --- | --- |\n");
    for group in GROUPS {
        let names = group.rows.iter().flat_map(|row| {
            let subcommands = row.subcommands.iter().map(|sub| sub.name.replace('|', " "));
            let itself = (!row.flags.is_empty()).then(|| row.name.to_string());
            itself.into_iter().chain(subcommands)
        });
        let names: Vec<_> = names.map(|name| name.to_uppercase()).collect();
        list += &format!("| {} | {} |\n", group.name, names.join(" · "));
    }
    check_page("emulator/README.md", "commands", &list);
}

/// The commands of the real server that the emulator does not have.
#[test]
fn commands_left_out() {
    let Some(server) = redis_server::borrow() else { return };
    let mut connection = redis::Client::open(server.url()).unwrap().get_connection().unwrap();
    let names: Vec<String> = redis::cmd("COMMAND").arg("LIST").query(&mut connection).unwrap();
    let names = names.into_iter().map(|name| name.to_uppercase());
    let is_missing = |name: &String| match name.split_once('|') {
        // If the whole command is missing, its subcommands are not listed.
        Some((container, _)) => {
            let row = emulator::command::lookup(container.as_bytes()).map(|(row, _)| row);
            row.is_some_and(|row| row.subcommands.iter().all(|own| !own.name.eq_ignore_ascii_case(name)))
        }
        None => emulator::command::lookup(name.as_bytes()).is_none(),
    };
    let mut missing: Vec<String> = names.filter(is_missing).collect();
    missing.sort();
    check_page("emulator/README.md", "left out", &format!("{}\n", missing.join(" · ")));
}

/// `.ci/clients` runs these files.
#[test]
fn the_examples_in_other_languages_are_those_that_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../suite/clients");
    for (name, language) in [("example.py", "python"), ("example.mjs", "js")] {
        let example = std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        check_page("tests/guide/languages.md", name, &format!("```{language}\n{example}```\n"));
    }
}

#[test]
fn the_saved_schedule_is_one_that_is_kept() {
    let path: &str = &saved_schedules::path_of("set_nx_get_del.slow.exclusive-fact.txt");
    let text = std::fs::read_to_string(path).unwrap();
    check_page("tests/guide/replay.md", "saved schedule", &format!("```text\n{text}```\n"));
}

/// The files for engines of `tests/guide/ci.md`, by their names.
fn cluster_files() -> Vec<(String, String)> {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../guide/ci.md")).unwrap();
    let files = page.split("<!-- file: ").skip(1).map(|rest| {
        let (name, rest) = rest.split_once(" -->\n```").unwrap();
        let (_, rest) = rest.split_once('\n').unwrap();
        let (text, _) = rest.split_once("\n```\n").unwrap();
        (name.to_owned(), text.to_owned() + "\n")
    });
    files.collect()
}

/// Runs a program with this standard input. `None` if there is no such program.
fn feed(program: &str, args: &[&str], input: &str) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    Some(child.wait_with_output().unwrap())
}

#[test]
fn the_files_for_clusters_are_well_formed() {
    let files = cluster_files();
    assert_eq!(files.len(), 5);
    for (name, text) in files {
        let output = if name.ends_with(".sh") {
            feed("bash", &["-n"], &text)
        } else if name == "Dockerfile" {
            let shell = |line: &str| line.strip_prefix("RUN ").map(|command| format!("{command}\n"));
            let is_known =
                |line: &str| ["FROM ", "COPY ", "WORKDIR ", "RUN "].iter().any(|word| line.starts_with(word));
            assert!(text.lines().all(is_known), "{text}");
            feed("bash", &["-n"], &text.lines().filter_map(shell).collect::<String>())
        } else if feed("python3", &["-c", "import yaml"], "").is_some_and(|output| output.status.success()) {
            feed(
                "python3",
                &["-c", "import sys, yaml; print(len(list(yaml.safe_load_all(sys.stdin))))"],
                &text,
            )
        } else {
            redis_server::say_it_is_missing(&format!("{name} is not checked: install python3-yaml"));
            continue;
        };
        let output = output.unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The script for Slurm submits itself, and a task runs its own shard. Programs that only print
/// stand for the real ones.
#[test]
fn the_script_for_slurm_runs_each_shard() {
    let script = cluster_files().into_iter().find(|(name, _)| name.ends_with(".sh")).unwrap().1;
    let folder = concat!(env!("CARGO_TARGET_TMPDIR"), "/slurm");
    std::fs::create_dir_all(folder).unwrap();
    let stand_ins = "sbatch() { echo \"sbatch $*\" >&2; echo '7;c'; }\ncargo() { echo \"$LOCKSTEP_SHARD $LOCKSTEP_RESULTS\"; }\n";
    let submitted = feed("bash", &["-c", &(stand_ins.to_owned() + &script), "explore.sh"], "").unwrap();
    let said = String::from_utf8(submitted.stderr).unwrap();
    assert!(said.contains("--array=1-64 ") && said.contains("--dependency=afterany:7 "), "{said}");
    let task = format!("export SLURM_ARRAY_TASK_ID=5 SLURM_SUBMIT_DIR={folder}\n{stand_ins}{script}");
    let ran = feed("bash", &["-c", &task], "").unwrap();
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), format!("5/64 {folder}/results\n"));
}

#[test]
fn the_picture_of_the_front_page_is_what_explain_draws() {
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../guide/zinterstore.svg");
    let drawn = concat!(env!("CARGO_TARGET_TMPDIR"), "/zinterstore.svg");
    stdout(&["explain", "fair_semaphore_comment", "--svg", drawn, "--stress", "9"]);
    let drawn = std::fs::read_to_string(drawn).unwrap();
    expect_test::expect_file![kept].assert_eq(&drawn);
}
