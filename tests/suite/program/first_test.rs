//! The first test which `tests/README.md` describes: its commands make a project, and its example
//! finds the bug that is printed there.

use std::fs;
use std::process::Command;

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
    check_page("tests/README.md", "my lock", &format!("```text\n{text}```\n"));
}

#[test]
fn the_example_is_short() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/my_lock.rs");
    assert!(fs::read_to_string(path).unwrap().lines().count() < 80);
}

/// All but the last command run. To compile everything once more would take minutes.
#[test]
fn the_commands_make_a_project() {
    let checkout = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let page = fs::read_to_string(format!("{checkout}/tests/README.md")).unwrap();
    let (_, block) = page.split_once("<!-- first test -->\n```sh\n").unwrap();
    let (commands, _) = block.split_once("```\n").unwrap();
    assert!(commands.ends_with("cargo run\n"), "{commands}");
    let folder = std::env::temp_dir().join(format!("lockstep-first-test-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(checkout, folder.join("lockstep")).unwrap();
    let resolve = "cargo() { case $1 in run) shift; command cargo metadata --format-version 1 >metadata.json ;; *) command cargo \"$@\" ;; esac; }";
    let script = format!("set -e\nexport CARGO_NET_OFFLINE=true\n{resolve}\n{commands}");
    let output = Command::new("bash").args(["-c", &script]).current_dir(&folder).output().unwrap();
    let metadata = fs::read_to_string(folder.join("my_lock/metadata.json")).unwrap_or_default();
    let manifest = fs::read_to_string(folder.join("my_lock/Cargo.toml")).unwrap_or_default();
    let code = fs::read_to_string(folder.join("my_lock/src/main.rs")).unwrap_or_default();
    fs::remove_dir_all(&folder).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(metadata.contains("lockstep-harness"), "{metadata}");
    // The root README names the same dependencies.
    let readme = fs::read_to_string(format!("{checkout}/README.md")).unwrap();
    let profile = manifest.split_once("[profile.dev.package.\"*\"]").unwrap().1;
    assert!(profile.lines().skip(1).all(|line| readme.contains(line)), "{manifest}");
    assert!(code.contains("struct MyLock"));
}
