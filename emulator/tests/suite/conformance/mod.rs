//! Compares the emulator with the real Redis 7.0: equal bytes in must give equal bytes out.
//!
//! Transcripts (`data/*.txt`) hold the real server's replies, so that they test the emulator
//! without it. If there is a real server, its replies are compared byte by byte, too.
//! `UPDATE_EXPECT=1` writes its replies into the files.

pub mod wire;
pub mod transcript;
pub mod servers;
mod table;
mod limits;
mod observed;
mod introspection;
mod random;

use std::path::Path;

use crate::redis_server;
use transcript::Transcript;

macro_rules! transcripts {
    ($($name:ident)*) => {
        $(#[test] fn $name() { check(stringify!($name)); })*

        #[test]
        fn every_transcript_is_run() {
            let files = std::fs::read_dir(data()).expect("the transcripts are there");
            let names = files.map(|file| file.expect("a folder can be read").path());
            let names = names.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
            let mut names: Vec<_> = names.map(|path| path.file_stem().unwrap_or_default().to_owned()).collect();
            names.sort();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

transcripts! {
    blocking_lists
    blocking_sorted_sets
    client
    config
    config_effects
    connection
    differences
    events
    events_and_replies
    events_collections
    expiry
    functions
    handshakes
    hash
    hash_more
    keys
    keys_moved
    list
    lua_bit
    lua_cjson
    lua_cmsgpack
    lua_conversions
    lua_errors
    lua_hostile
    lua_lines
    lua_patterns
    lua_sandbox
    lua_struct
    lua_table
    object
    protocol
    pubsub
    resp3
    scan
    script_flags
    scripting
    server
    set
    slowlog
    sort
    sorted_set
    sorted_set_more
    sorted_set_ranges
    sorted_set_store
    string
    string_parts
    transactions
    wait
}

/// Runs a transcript on the emulator and, if there is one, on the real server.
#[track_caller]
fn check(name: &str) {
    let path = data().join(name).with_extension("txt");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let transcript = Transcript::parse(&text);
    let emulated = transcript.run_on_emulator();
    let server = redis_server::borrow().filter(|server| server.is_ours() || !transcript.needs_whole_server());
    let real = server.map(|server| transcript.run_on_server(&server));
    transcript.judge(&path, real.as_deref(), &emulated);
}

fn data() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data"))
}
