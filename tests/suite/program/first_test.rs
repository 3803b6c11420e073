//! The first test which `tests/guide/first_test.md` describes: its commands make a project, and its
//! example finds the bug that is printed there.

use std::fs;
use std::process::Command;

use crate::program::guide::{Page, WORKSPACE};
use crate::program::leader::example;
use crate::program::readme::check_page;

#[test]
fn the_example_finds_the_bug() {
    let output = example("my_lock").output().unwrap();
    let (text, warnings) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(output.status.success(), "{text}{warnings}");
    assert!(text.contains("my lock: owner-safe is violated"), "{text}");
    assert_eq!(warnings, "", "its release is a script, so no lint sees what is wrong");
    check_page("tests/guide/first_test.md", "my lock", &format!("```text\n{text}```\n"));
}

#[test]
fn the_example_is_short() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/my_lock.rs");
    assert!(fs::read_to_string(path).unwrap().lines().count() < 80);
}

/// Runs commands in a folder with a link to this checkout. Returns what they print.
#[track_caller]
fn run_beside_checkout(name: &str, commands: &str) -> String {
    let folder = std::env::temp_dir().join(format!("lockstep-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(WORKSPACE, folder.join("lockstep")).unwrap();
    let script = format!("set -e\nexport CARGO_NET_OFFLINE=true\n{commands}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(&folder).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Finds all packages that a build needs.
const RESOLVE: &str = "command cargo metadata --format-version 1";

/// All but the last command run. To compile everything once more would take minutes.
#[test]
fn the_commands_make_a_project() {
    let page = Page::open("tests/guide/first_test.md");
    let commands = page.block("first test");
    assert!(commands.ends_with("cargo run\n"), "{commands}");
    let cargo = format!("cargo() {{ case $1 in run) {RESOLVE} ;; *) command cargo \"$@\" ;; esac; }}");
    let said = run_beside_checkout("first-test", &format!("{cargo}\n{commands}\ncat src/main.rs"));
    assert!(said.contains("lockstep-harness") && said.contains("struct MyLock"), "{said}");
}

#[test]
fn the_commands_add_the_emulator_to_a_project() {
    let page = Page::open("tests/guide/test_double.md");
    let commands = page.block("test double");
    let new = "cargo new own --lib && cd own";
    let said = run_beside_checkout("test-double", &format!("{new}\n{commands}\n{RESOLVE}"));
    assert!(said.contains("lockstep-emulator"), "{said}");
}

#[test]
fn the_dependencies_of_the_front_page_can_be_resolved() {
    let page = Page::open("README.md");
    let lines = page.block("dependencies");
    let new = "cargo new own --lib && cd own && sed -i '/dependencies/d' Cargo.toml";
    let said = run_beside_checkout(
        "dependencies",
        &format!("{new}\ncat >>Cargo.toml <<'END'\n{lines}END\n{RESOLVE}"),
    );
    assert!(said.contains("lockstep-harness"), "{said}");
}
