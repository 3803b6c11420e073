//! The first test which `tests/guide/first_test.md` describes: its commands make a project, and its
//! example finds the bug that is printed there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::program::leader::example;
use crate::program::readme::check_page;

const CHECKOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

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
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/my_lock.rs");
    assert!(fs::read_to_string(path).unwrap().lines().count() < 80);
}

/// A folder with a link to this checkout.
fn folder_beside_checkout(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("lockstep-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(CHECKOUT, folder.join("lockstep")).unwrap();
    folder
}

/// All but the last command run. To compile everything once more would take minutes.
#[test]
fn the_commands_make_a_project() {
    let page = fs::read_to_string(format!("{CHECKOUT}/tests/guide/first_test.md")).unwrap();
    let (_, block) = page.split_once("<!-- first test -->\n```sh\n").unwrap();
    let (commands, _) = block.split_once("```\n").unwrap();
    assert!(commands.ends_with("cargo run\n"), "{commands}");
    let folder = folder_beside_checkout("first-test");
    let resolve = "cargo() { case $1 in run) shift; command cargo metadata --format-version 1 >metadata.json ;; *) command cargo \"$@\" ;; esac; }";
    let script = format!("set -e\nexport CARGO_NET_OFFLINE=true\n{resolve}\n{commands}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(&folder).output().unwrap();
    let metadata = fs::read_to_string(folder.join("my_lock/metadata.json")).unwrap_or_default();
    let code = fs::read_to_string(folder.join("my_lock/src/main.rs")).unwrap_or_default();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(metadata.contains("lockstep-harness"), "{metadata}");
    assert!(code.contains("struct MyLock"));
}

#[test]
fn the_dependencies_of_the_front_page_can_be_resolved() {
    let page = fs::read_to_string(format!("{CHECKOUT}/README.md")).unwrap();
    let (_, block) = page.split_once("<!-- dependencies -->\n```toml\n").unwrap();
    let (lines, _) = block.split_once("```\n").unwrap();
    let folder = folder_beside_checkout("dependencies");
    let package = "[package]\nname = \"own\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n";
    fs::write(folder.join("Cargo.toml"), format!("{package}{lines}")).unwrap();
    fs::write(folder.join("lib.rs"), "").unwrap();
    let metadata = ["metadata", "--offline", "--format-version", "1"];
    let output = Command::new("cargo").args(metadata).current_dir(&folder).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let (said, metadata) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{said}");
    assert!(metadata.contains("lockstep-harness"), "{metadata}");
}
