//! `lockstep check --shard` and `lockstep merge`: the joined shards must equal the whole check.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::bounds::DIVIDED;
use crate::program::cli::{lockstep, stdout};

const SHARDS: usize = 3;
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// The output of a check. Its samples may be too small for some verdicts.
fn printed(args: &[&str]) -> String {
    String::from_utf8(lockstep(args).stdout).unwrap()
}

/// A folder with the JSON output of each shard: `1.json` and so on.
struct Parts(PathBuf);

impl Parts {
    fn of(name: &str, check: &[&str]) -> Parts {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&folder).unwrap();
        let parts = Parts(folder);
        for nth in 1..=SHARDS {
            let shard = format!("{nth}/{SHARDS}");
            parts.write(
                &format!("{nth}.json"),
                &printed(&[check, &["--shard", &shard, "--format", "json"]].concat()),
            );
        }
        parts
    }

    fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    /// Writes a copy of `2.json` in which one text is replaced by another.
    fn write_changed(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.join("2.json")).unwrap();
        assert!(text.contains(from), "{text}");
        self.write(file, &text.replacen(from, to, 1));
    }

    /// Merges these files, separated by spaces. Returns the exit status and the output.
    fn merge(&self, files: &str, format: &str) -> (i32, String) {
        let paths: Vec<String> =
            files.split(' ').map(|file| self.0.join(file).to_str().unwrap().into()).collect();
        let paths = paths.iter().map(String::as_str);
        let args: Vec<&str> = ["merge", "--format", format].into_iter().chain(paths).collect();
        let output = lockstep(&args);
        let printed = [output.stdout, output.stderr].concat();
        let folder = format!("{}/", self.0.display());
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap().replace(&folder, ""))
    }
}

/// The algorithms have counterexamples with and without readers, samples, and classes that leave
/// out a property.
#[test]
fn shards_joined_are_the_whole() {
    if DIVIDED.is_left_out() {
        return;
    }
    let check = ["check", "setnx", "rw_hash", "--samples", "10", "--limit", "1000", "--seed", "3"];
    let parts = Parts::of("joined", &check);
    for format in ["text", "json"] {
        let output = lockstep(&[&check[..], &["--format", format]].concat());
        let (status, whole) = (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap());
        for files in ["1.json 2.json 3.json", "3.json 1.json 2.json"] {
            assert_eq!(parts.merge(files, format), (status, whole.clone()), "{files}");
        }
        // A whole table counts as one shard.
        if format == "json" {
            parts.write("whole.json", &whole);
            assert_eq!(parts.merge("whole.json", format), (0, whole));
        }
    }
    // The exit status is also that of the whole check.
    parts.write_changed("2.json", r#""expected": "holds""#, r#""expected": "violated""#);
    let (status, text) = parts.merge("1.json 2.json 3.json", "text");
    assert_eq!((status, text.matches(" NO\n").count()), (1, 1), "{text}");
}

#[test]
fn a_shard_says_which_it_is_and_leaves_the_rest_blank() {
    let text = printed(&["check", "setnx", "mutex", "--shard", "2/3"]);
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

         algorithm  property          order   skew  crash     slow   lost  server  failover  cluster  cancel  pairs  rounds  as stated
         setnx      exclusive-fact                   ✓ 38                                                                 –        yes
                    exclusive-belief                 ✓ 38                                                                 –        yes
                    owner-safe                       ✓ 38                                                                 –        yes
                    recovers                          ✗ 1                                                                 –        yes
                    no-leak                             –                                                             ✓ 851        yes
         mutex      exclusive-fact           ✓ 128         ✓ 1,940  ✓ 266     ✗ 3       ✗ 4             ✓ 41                       yes
                    exclusive-belief         ✓ 128             ✗ 5  ✓ 266     ✗ 3       ✗ 4             ✓ 41                       yes
                    owner-safe               ✓ 128         ✓ 1,940  ✓ 266   ✓ 731     ✓ 369             ✓ 41                       yes
                    recovers                     –               –  ✓ 266   ✓ 731     ✓ 369             ✓ 41                       yes
                    no-leak                  ✓ 128         ✓ 1,940      –     ✗ 3       ✗ 4                –                       yes
                    fenced                   ✓ 128         ✓ 1,940  ✓ 266     ✗ 4       ✗ 4             ✓ 41                       yes

         ✓ n   holds in all n schedules within the bounds
         ✓ ~n  holds in n schedules, and some explorations are samples
         ✗ n   violated; the shortest counterexample has n steps
         –     not asked: no meaning here, or a class that this one combines breaks it

        Shard 2/3 alone: other shards have the verdicts of blank cells.
        37 of 37 verdicts are as stated. For a counterexample: lockstep explain NAME
        4,364 schedules explored; 111 more blocked, because others cover them
        Each exploration of a cell, with its size: --format json
    "#]]
    .assert_eq(&text);
    let text = printed(&["check", "setnx", "--shard", "1000/1000"]);
    assert!(text.contains("\nShard 1000/1000 alone: ") && text.contains("\n0 of 0 verdicts "), "{text}");
}

#[test]
fn the_totals_are_those_of_all_shards() {
    if DIVIDED.is_left_out() {
        return;
    }
    let totals = |shard: &str| {
        let check = ["check", "setnx", "rw_hash", "--samples", "10", "--limit", "1000", "--format", "json"];
        let json: Value =
            serde_json::from_str(&printed(&[&check[..], &["--shard", shard]].concat())).unwrap();
        ["schedules", "blocked"].map(|what| json[what].as_u64().unwrap())
    };
    let (whole, one, two) = (totals("1/1"), totals("1/2"), totals("2/2"));
    assert!(whole.iter().all(|&total| total > 0), "{whole:?}");
    assert_eq!([one[0] + two[0], one[1] + two[1]], whole);
}

#[test]
fn shards_that_cannot_be_joined_are_an_error() {
    let parts = parts_that_do_not_fit();
    let mut said = String::new();
    for files in [
        "1.json 3.json",
        "2.json",
        "1.json 2.json 2.json",
        "1.json whole.json",
        "1.json names.json",
        "1.json seed.json",
        "1.json samples.json",
        "1.json version.json",
        "1.json shard.json",
        "1.json nth.json",
        "1.json word.json",
        "text.json",
        "list.json",
        "empty.json",
        "nowhere.json",
    ] {
        let (status, text) = parts.merge(files, "text");
        assert_eq!(status, 2, "{files}: {text}");
        said += &format!("$ lockstep merge {files}\n{}", text.replace(OWN_VERSION, "OWN"));
    }
    expect_test::expect![[r#"
        $ lockstep merge 1.json 3.json
        lockstep: shards are missing: 2/3; run `lockstep check setnx mutex --seed 0 --samples 10 --limit 1000 --shard 2/3 --format json`
        $ lockstep merge 2.json
        lockstep: shards are missing: 1/3, 3/3; run `lockstep check setnx mutex --seed 0 --samples 10 --limit 1000 --shard 1/3 --format json`
        $ lockstep merge 1.json 2.json 2.json
        lockstep: 2.json and 2.json are both shard 2/3: leave one out
        $ lockstep merge 1.json whole.json
        lockstep: 1.json comes from a check with --shard I/3, and whole.json from one with --shard I/1: merge only shards of one check
        $ lockstep merge 1.json names.json
        lockstep: 1.json comes from a check with the names setnx mutex, and names.json from one with the names mutex: merge only shards of one check
        $ lockstep merge 1.json seed.json
        lockstep: 1.json comes from a check with --seed 0, and seed.json from one with --seed 5: merge only shards of one check
        $ lockstep merge 1.json samples.json
        lockstep: 1.json comes from a check with --samples 10, and samples.json from one with --samples 9: merge only shards of one check
        $ lockstep merge 1.json version.json
        lockstep: version.json was printed by lockstep 0.0.1, and this is OWN: check and merge with one version
        $ lockstep merge 1.json shard.json
        lockstep: shard.json is not what `lockstep check --shard I/N --format json` prints; run that again: write I/N for part I of N, as in 2/3: I from 1 to N, and N at most 1000 at line 6 column 16
        $ lockstep merge 1.json nth.json
        lockstep: nth.json does not have the verdicts of shard 3/3: run `lockstep check setnx mutex --seed 0 --samples 10 --limit 1000 --shard 3/3 --format json` again
        $ lockstep merge 1.json word.json
        lockstep: word.json is not what `lockstep check --shard I/N --format json` prints; run that again: unknown variant `wobbles`, expected one of `holds`, `violated`, `vacuous` at line 88 column 5
        $ lockstep merge text.json
        lockstep: text.json is not what `lockstep check --shard I/N --format json` prints; run that again: expected value at line 1 column 1
        $ lockstep merge list.json
        lockstep: list.json is not what `lockstep check --shard I/N --format json` prints; run that again: invalid length 0, expected the output of lockstep check at line 1 column 2
        $ lockstep merge empty.json
        lockstep: empty.json is not what `lockstep check --shard I/N --format json` prints; run that again: EOF while parsing a value at line 1 column 0
        $ lockstep merge nowhere.json
        lockstep: cannot read nowhere.json: name files and folders that have results of shards: No such file or directory (os error 2)
    "#]].assert_eq(&said);
    let (status, text) = parts.merge("algorithm.json", "text");
    let message = "lockstep: algorithm.json: there is no algorithm named \"setnex\": ";
    assert!(status == 2 && text.starts_with(message), "{text}");
}

/// Three shards, and files that cannot be joined with them: shards of other checks, changed shards,
/// and other texts.
fn parts_that_do_not_fit() -> Parts {
    let bounds = ["--samples", "10", "--limit", "1000"];
    let check = [&["check", "setnx", "mutex"], &bounds[..]].concat();
    let parts = Parts::of("not_joined", &check);
    let print = |file, args: &[&str]| parts.write(file, &stdout(&[args, &["--format", "json"]].concat()));
    print("whole.json", &check);
    print("names.json", &[&["check", "mutex", "--shard", "2/3"], &bounds[..]].concat());
    for (file, from, to) in [
        ("seed.json", r#""seed": 0"#, r#""seed": 5"#),
        ("samples.json", r#""samples": 10"#, r#""samples": 9"#),
        ("version.json", &format!(r#""lockstep": "{OWN_VERSION}""#), r#""lockstep": "0.0.1""#),
        ("shard.json", "2/3", "4/3"),
        ("nth.json", "2/3", "3/3"),
        ("algorithm.json", r#""setnx""#, r#""setnex""#),
        ("word.json", r#""verdict": "holds""#, r#""verdict": "wobbles""#),
    ] {
        parts.write_changed(file, from, to);
    }
    parts.write("text.json", &stdout(&["check", "setnx"]));
    parts.write("list.json", "[]");
    parts.write("empty.json", "");
    parts
}
