//! `seeds TRANSCRIPTS FOLDER`: turns transcripts, such as those of the conformance tests, into
//! inputs, one per section and without replies. `connection` gets the sections, `eval` their
//! scripts, and `function_restore` their libraries. `glob_config` gets their settings, and
//! `resp_decode` their raw bytes.

use std::fs;
use std::path::{Path, PathBuf};

use bytes::Bytes;
// Needed for the functions that the compiler's counters call, not for its `main`.
use libfuzzer_sys as _;
use lockstep_fuzz::session::argv_of;

/// The modes of `connection` that read lines, without cuts: at `server.rs`, and at the front ends
/// without bytes, starting with a different one each.
const MODES_OF_LINES: [&[u8]; 4] = [&[8, 0], &[12, 0], &[12, 1, 0], &[12, 2, 0, 0]];
/// As above, for clients that may send `EMULATOR`.
const MODES_OF_CONTROL: [&[u8]; 4] = [&[200, 0], &[204, 0], &[204, 1, 0], &[204, 2, 0, 0]];
/// Modes in which a script or a function runs, with and without a password.
const MODES_OF_BUSY: [&[u8]; 4] = [&[17, 4, 9, 9, 9, 9], &[17, 1, 40], &[17, 2, 6, 40], &[17, 3, 7, 200, 1]];
/// Modes for each kind of socket.
const MODES_OF_SOCKETS: [&[u8]; 3] = [&[1, 1, 200], &[33, 1, 30], &[65, 2, 7, 50]];
/// The modes of `eval` that read a text: with RESP2, with RESP3, and as a function.
const MODES_OF_SCRIPTS: [&[u8]; 3] = [&[0], &[4], &[16]];
/// The modes of `function_restore` that read a payload: with and without an existing library, and
/// with each policy.
const MODES_OF_PAYLOADS: [&[u8]; 3] = [&[0], &[12], &[16]];
/// The version and the checksum after a payload, which the target itself appends.
const FOOTER_BYTES: usize = 10;
const OPCODE_FUNCTION: u8 = 245;
/// The limit of an input (`-max_len`). Longer ones are left out.
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
        let mut seeds = Seeds { folder, name, n_written: 0 };
        let mut section = String::new();
        for line in fs::read_to_string(&path)?.lines().chain(["## the end"]) {
            if line.starts_with("## ") || section.len() + line.len() > BYTES_MAX {
                seeds.write_section(&section)?;
                section.clear();
            }
            if !is_said(line) {
                continue;
            }
            section += line;
            section.push('\n');
            let (who, command) = line.split_once("> ").unwrap_or_default();
            let argv = argv_of(format!("{command}\r\n").as_bytes()).unwrap_or_default();
            seeds.write_command(who, &argv)?;
        }
    }
    Ok(())
}

/// The inputs that are made from one transcript.
struct Seeds<'a> {
    folder: &'a Path,
    name: String,
    n_written: usize,
}

impl Seeds<'_> {
    fn write_section(&mut self, section: &str) -> std::io::Result<()> {
        if section.is_empty() {
            return Ok(());
        }
        // The commands of one client.
        let stream = || section.replace("\n> ", "\r\n").replace('\n', "\r\n").replacen("> ", "", 1);
        match self.name.as_str() {
            "busy" => self.write("connection", &MODES_OF_BUSY, stream().as_bytes()),
            "sockets" => self.write("connection", &MODES_OF_SOCKETS, stream().as_bytes()),
            "control" => self.write("connection", &MODES_OF_CONTROL, section.as_bytes()),
            _ => self.write("connection", &MODES_OF_LINES, section.as_bytes()),
        }
    }

    fn write_command(&mut self, who: &str, argv: &[Bytes]) -> std::io::Result<()> {
        let words: Vec<_> = argv.iter().take(2).map(|word| word.to_ascii_lowercase()).collect();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match (&words[..], argv) {
            (_, [bytes]) if who == "raw" => self.write("resp_decode", &[&[0], &[2, 1, 20]], bytes),
            ([b"eval", _], [_, script, ..]) => self.write("eval", &MODES_OF_SCRIPTS, script),
            ([b"function", b"load"], [.., code]) => {
                let length = 0x4000 | code.len() as u16;
                let payload = [&[OPCODE_FUNCTION], &length.to_be_bytes()[..], code].concat();
                self.write("function_restore", &MODES_OF_PAYLOADS, &payload)
            }
            ([b"function", b"restore"], [_, _, payload, ..]) => {
                let payload = &payload[..payload.len().saturating_sub(FOOTER_BYTES)];
                self.write("function_restore", &MODES_OF_PAYLOADS, payload)
            }
            ([b"config", b"set"], [_, _, pairs @ ..]) => pairs.chunks_exact(2).try_for_each(|pair| {
                let mode = [2, pair[0].len() as u8];
                self.write("glob_config", &[&mode], &pair.concat())
            }),
            _ => Ok(()),
        }
    }

    /// Writes the input once for each mode, unless it is too long.
    fn write(&mut self, target: &str, modes: &[&[u8]], input: &[u8]) -> std::io::Result<()> {
        fs::create_dir_all(self.folder.join(target))?;
        for mode in modes.iter().filter(|_| input.len() < BYTES_MAX) {
            let path = self.folder.join(target).join(format!("seed-{}-{}", self.name, self.n_written));
            fs::write(path, [mode, input].concat())?;
            self.n_written += 1;
        }
        Ok(())
    }
}

/// Whether the line is a step of a transcript, and not a reply.
fn is_said(line: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter == '?';
    line.starts_with("advance ") || line.split_once("> ").is_some_and(|(who, _)| who.chars().all(is_letter))
}
