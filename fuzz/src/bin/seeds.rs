//! `seeds TRANSCRIPTS FOLDER`: the transcripts of the conformance tests as inputs of `connection`, section by section and without their
//! replies, and the scripts in them as inputs of `eval`.

use std::fs;
use std::path::{Path, PathBuf};

// For what the compiler's counters call, not for its `main`.
use libfuzzer_sys as _;
use lockstep_fuzz::session::argv_of;

/// The modes of `connection` that read lines: at `server.rs`, and at the doors without bytes. Without any place to cut.
const MODES_OF_LINES: [&[u8]; 2] = [&[8, 0], &[12, 0]];
/// The modes of `eval` that read a text: of RESP 2 and RESP 3, and as a function.
const MODES_OF_SCRIPTS: [u8; 3] = [0, 4, 16];
/// Longer ones are left out (`-max_len`).
const BYTES_MAX: usize = 4096;

fn main() -> std::io::Result<()> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [transcripts, folder] = &paths[..] else { panic!("usage: seeds TRANSCRIPTS FOLDER") };
    for entry in fs::read_dir(transcripts)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "txt") {
            continue;
        }
        let name = path.file_stem().expect("it has an extension").to_string_lossy().into_owned();
        let (mut section, mut n_sections, mut n_scripts) = (String::new(), 0, 0);
        for line in fs::read_to_string(&path)?.lines().chain(["## the end"]) {
            if line.starts_with("## ") || section.len() + line.len() > BYTES_MAX {
                for mode in MODES_OF_LINES.iter().filter(|_| !section.is_empty()) {
                    let input = [mode, section.as_bytes()].concat();
                    write(folder, "connection", &format!("{name}-{n_sections}"), &input)?;
                    n_sections += 1;
                }
                section.clear();
            }
            if !is_said(line) {
                continue;
            }
            section += line;
            section.push('\n');
            let command = line.split_once("> ").map_or("", |(_, command)| command);
            let argv = argv_of(format!("{command}\r\n").as_bytes()).unwrap_or_default();
            if let [eval, script, ..] = &argv[..]
                && eval.eq_ignore_ascii_case(b"eval")
                && script.len() < BYTES_MAX
            {
                for mode in MODES_OF_SCRIPTS {
                    write(folder, "eval", &format!("{name}-{n_scripts}"), &[&[mode], &script[..]].concat())?;
                    n_scripts += 1;
                }
            }
        }
    }
    Ok(())
}

/// Whether it is something that happens, and not what somebody heard.
fn is_said(line: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '?';
    line.starts_with("advance ") || line.split_once("> ").is_some_and(|(who, _)| who.chars().all(is_letter))
}

fn write(folder: &Path, target: &str, name: &str, input: &[u8]) -> std::io::Result<()> {
    fs::create_dir_all(folder.join(target))?;
    fs::write(folder.join(target).join(format!("seed-{name}")), input)
}
