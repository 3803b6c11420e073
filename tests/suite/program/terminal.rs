//! Control characters and passwords in names from outside must not reach a terminal unchanged.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use harness::execution::Runner;
use harness::explore::{Division, Shard, exhaustive_shard};
use harness::oracle::{ExclusiveFact, Oracle, Violation};
use harness::replay::ClaimError;
use harness::replay::replay_loosely;
use harness::trace::{EventKind, History};
use harness::{Client, Faults, SavedSchedule, Scenario, exhaustive, replay_saved};
use locks::Subscribe as _;
use serde_json::Value;

use crate::program::cli::{Serving, lockstep};
use crate::redis_server;

/// Colours, a new title of the window, an overwritten line, and a second form of escape. Then
/// right-to-left text, characters without width, and a deletion.
pub(super) const HOSTILE: &str =
    "\u{1b}[31m\u{1b}]0;title\u{7}\rx\u{8}\u{9b}2J\u{202e}y\u{2066}\u{200b}\u{feff}\u{e0001}\u{7f}";

/// Whether a terminal acts on this character, or does not show it.
pub(super) fn is_hidden(c: char) -> bool {
    c.is_control() && c != '\n' || HOSTILE.contains(c) && !c.is_ascii()
}

#[track_caller]
fn check(text: &str) {
    assert!(!text.contains(is_hidden), "{text:?}");
}

/// Everything that the program wrote to standard output and standard error.
#[track_caller]
fn run(args: &[&OsStr]) -> String {
    let output = lockstep(args);
    let said = [output.stdout, output.stderr].concat();
    String::from_utf8(said).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

fn file(name: &OsStr, content: &[u8]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

const SAVED: &str = "lockstep schedule 1\nalgorithm setnx_expire\nclass crash\npermits 1\nclients 1\nlease 10000ms\n\
    property recovers\nmust fail\n\nA 1 SETNX lock\ncrash A\n";

#[test]
fn arguments() {
    let good = file(OsStr::new("good.txt"), SAVED.as_bytes());
    let good = good.to_str().unwrap();
    let broken = [HOSTILE.as_bytes(), b"\xff\xfe"].concat();
    for hostile in [OsStr::new(HOSTILE), OsStr::from_bytes(&broken)] {
        // Commands make missing folders, but not in the place of a file.
        let missing = Path::new("/dev/null").join(hostile);
        for args in [
            &["check", "?"][..],
            &["explain", "?"],
            &["explain", "setnx", "--property", "?"],
            &["explain", "setnx", "--class", "?"],
            &["explain", "setnx", "--seed", "?"],
            &["explain", "setnx", "--save", "/?"],
            &["check", "--format", "?"],
            &["check", "--shard", "?"],
            &["check", "--?"],
            &["replay", "/?"],
            &["replay", good, "--redis", "?"],
            &["merge", "/?"],
            &["serve", "--addr", "?"],
            &["serve", "--addr", "127.0.0.1:0", "--unix", "/?"],
        ] {
            let args: Vec<&OsStr> = args
                .iter()
                .map(|&arg| match arg {
                    "?" => hostile,
                    "/?" => missing.as_os_str(),
                    arg => OsStr::new(arg),
                })
                .collect();
            let said = run(&args);
            check(&said);
            assert!(!said.is_empty(), "{args:?}");
        }
    }
}

#[test]
fn files() {
    let places =
        ["setnx_expire", "crash", "1", "10000ms", "recovers", "fail", "SETNX lock", "crash A", "lockstep"];
    let hostile = |place: &str, by: &[u8]| {
        let (before, after) = SAVED.split_once(place).unwrap();
        [before.as_bytes(), by, after.as_bytes()].concat()
    };
    for place in places {
        for by in [HOSTILE.as_bytes(), b"\0", b"\xff\xfe", b"# \x1b[31m"] {
            let path = file(OsStr::new("hostile.txt"), &hostile(place, by));
            check(&run(&["replay".as_ref(), path.as_ref()]));
        }
    }
    let scenario =
        SAVED.replace("algorithm setnx_expire\nclass crash\npermits 1", &format!("scenario {HOSTILE}"));
    let path = file(OsStr::new(HOSTILE), scenario.as_bytes());
    let said = run(&["replay".as_ref(), path.as_ref()]);
    check(&said);
    assert!(said.contains(r"line 2: remove the character '\u{1b}' from"), "{said}");
    let too_long = file(OsStr::new("too_long.txt"), SAVED.repeat(10_000).as_bytes());
    let said = run(&["replay".as_ref(), too_long.as_ref()]);
    assert!(
        said.contains("too_long.txt: ") && said.ends_with(": a saved schedule has 1048576 bytes at most\n"),
        "{said}"
    );
}

/// Copies of a document, in each of which one text, or the name of one field, is hostile. Lists are
/// changed only in their first item.
fn with_hostile_texts(document: &Value) -> Vec<Value> {
    match document {
        Value::String(_) => vec![HOSTILE.into()],
        Value::Array(items) => {
            let with = |first| Value::Array([&[first], &items[1..]].concat());
            items.first().into_iter().flat_map(with_hostile_texts).map(with).collect()
        }
        Value::Object(fields) => {
            let with = |name: &str, (as_name, value): (&str, Value)| {
                let mut fields = fields.clone();
                fields.remove(name);
                fields.insert(as_name.into(), value);
                Value::Object(fields)
            };
            let named = fields.iter().map(|(name, value)| with(name, (HOSTILE, value.clone())));
            let inner = fields.iter().flat_map(|(name, value)| {
                with_hostile_texts(value).into_iter().map(move |value| with(name, (name, value)))
            });
            named.chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn shards_of_the_table() {
    let shard = lockstep(&["check", "setnx", "--limit", "10", "--samples", "10", "--format", "json"]).stdout;
    let hostile = with_hostile_texts(&serde_json::from_slice(&shard).unwrap());
    assert!(hostile.len() > 20);
    for shard in hostile {
        let path = file(OsStr::new("shard.json"), shard.to_string().as_bytes());
        for format in ["text", "json"] {
            check(&run(&["merge", path.to_str().unwrap(), "--format", format].map(OsStr::new)));
        }
    }
}

#[test]
fn results_of_explorations() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile results");
    _ = std::fs::remove_dir_all(&folder);
    let kept = Division::from(Shard::WHOLE).results(&folder);
    let report = exhaustive_shard(&saying(|_| async { Ok(()) }).always(Suspicious), &kept).unwrap_err();
    check(&report.to_string());
    check(&run(&["merge".as_ref(), folder.as_ref()]));
    let path = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
    let lines: Vec<String> = std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
    for (nth, line) in lines.iter().enumerate() {
        for hostile in with_hostile_texts(&serde_json::from_str(line).unwrap()) {
            let mut lines = lines.clone();
            lines[nth] = hostile.to_string();
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            check(&run(&["merge".as_ref(), folder.as_ref()]));
            // A run that goes on there reads the file, too.
            let resumed = exhaustive_shard(&saying(|_| async { Ok(()) }), &kept);
            check(&resumed.map_or_else(|report| report.to_string(), |passed| passed.to_string()));
        }
    }
}

/// An oracle that reports a violation in any history with an accepted write.
#[derive(Debug)]
struct Suspicious;

impl Oracle for Suspicious {
    fn name(&self) -> &'static str {
        HOSTILE
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let is_last = |what: &EventKind| matches!(what, EventKind::Accepted { .. });
        let step = history.events.iter().find(|event| is_last(&event.kind))?.step;
        Some(Violation { step, what: HOSTILE.into() })
    }
}

/// A client that uses the hostile text in every place it can, and then ends with `end`.
fn saying<Fut>(end: fn(Client) -> Fut) -> Scenario
where
    Fut: Future<Output = Result<(), harness::ActorError>> + Send + 'static,
{
    Scenario::new(HOSTILE).faults(Faults::none()).always(ExclusiveFact::of(HOSTILE)).actors(
        1,
        move |client| async move {
            let mut link = client.connection();
            let mut subscription = link.subscribe(HOSTILE).await?;
            let mut eval = redis::cmd("EVAL");
            eval.arg("return {redis.status_reply(ARGV[1]), redis.error_reply(ARGV[1]), ARGV[1]}")
                .arg(0)
                .arg(HOSTILE);
            _ = eval.query_async::<redis::Value>(&mut link).await;
            () = redis::cmd("HSET").arg(HOSTILE).arg(HOSTILE).arg(HOSTILE).query_async(&mut link).await?;
            _ = redis::cmd(HOSTILE).query_async::<redis::Value>(&mut link).await;
            () = redis::cmd("PUBLISH").arg(HOSTILE).arg(HOSTILE).query_async(&mut link).await?;
            subscription.message().await?;
            client.hold(HOSTILE).until(async { client.accepted(HOSTILE, 1) }).await;
            end(client).await
        },
    )
}

#[test]
fn texts_of_clients_are_escaped() {
    let reports = [
        saying(|_| async { Err(HOSTILE.into()) }),
        saying(|_| async { panic!("{HOSTILE}") }),
        saying(|_| async { Ok(()) }).always(Suspicious),
        saying(|_| async { Ok(()) })
            .must_reach(harness::trace::Reached { crash: true, ..Default::default() }),
    ]
    .map(|scenario| exhaustive(&scenario).unwrap_err().to_string());
    reports.iter().for_each(|report| check(report));
    // The report still contains every kind of event.
    for said in ["PUBLISH", "HSET", "receives", "is inside", "accepts"] {
        assert!(reports[2].contains(said), "{said}: {}", reports[2]);
    }
    let kept = reports[2].split_once("replay_saved:\n\n").unwrap().1;
    assert!(kept.parse::<SavedSchedule>().is_ok(), "{kept}");
}

#[test]
fn texts_of_a_replay_are_escaped() {
    let scenario = saying(|_| async { Err(HOSTILE.into()) }).always(Suspicious);
    let text = "lockstep schedule 1\nscenario s\nclients 1\nlease 10000ms\nproperty exclusive-fact\nmust fail\n\nA 1 GET\nA 2 GET\n";
    let mut saved: SavedSchedule = text.parse().unwrap();
    check(&replay_saved(&mut Runner::new(), &scenario, &saved).unwrap_err().to_string());
    let replayed = replay_loosely(&mut Runner::new(), &scenario, &saved).unwrap();
    check(&replayed.to_string());
    saved.subject = replayed.saved.subject;
    saved.property = HOSTILE.into();
    let replayed = replay_saved(&mut Runner::new(), &scenario, &saved).unwrap();
    check(&replayed.to_string());
    check(&replayed.saved.to_string());
    saved.property = "speed".into();
    check(&replay_saved(&mut Runner::new(), &scenario, &saved).unwrap_err().to_string());
    let foreign = ClaimError::Redis(std::io::Error::other(HOSTILE).into());
    check(&foreign.to_string());
}

#[test]
fn log_lines_of_scripts_are_escaped() {
    let child = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["serve", "--addr", "127.0.0.1:0", "--control"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut serving = Serving(child);
    let mut line = String::new();
    BufReader::new(serving.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().strip_prefix("listening on ").unwrap();
    let mut connection = redis::Client::open(url).unwrap().get_connection().unwrap();
    let script = "redis.log(redis.LOG_WARNING, ARGV[1])";
    () = redis::cmd("EVAL").arg(script).arg(0).arg(HOSTILE).query(&mut connection).unwrap();
    let mut line = String::new();
    BufReader::new(serving.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    check(&line);
    assert!(line.ends_with("\\u{200b}\\u{feff}\\u{e0001}\\u{7f}\n"), "{line:?}");
}

#[test]
fn passwords() {
    let path = file(OsStr::new("password.txt"), SAVED.as_bytes());
    let path = path.to_str().unwrap();
    let mut urls: Vec<String> =
        ["redis://:s3cret@127.0.0.1:1/", "redis://me:s3cret@host:port/", "redis://:s3?cret@h/", "s3cret"]
            .map(str::to_owned)
            .into();
    let servers = redis_server::start_own(1);
    if let Some(server) = servers.first() {
        urls.push(format!("redis://:s3cret@{}/", server.addr()));
        urls.push(format!("redis://me:s3cret@{}/", server.addr()));
    }
    for url in urls {
        let said = run(&["replay", path, "--redis", &url].map(OsStr::new));
        assert!(!said.contains("s3"), "{said}");
        if url.contains("://") {
            let said = run(&["replay", path, &url].map(OsStr::new));
            assert!(said.contains("unexpected argument") && !said.contains("s3"), "{said}");
        }
    }
    let server = harness::sim::Server::Redis(redis::Client::open("redis://:s3cret@127.0.0.1:1/").unwrap());
    assert!(!format!("{server:?}").contains("s3cret"));
    let lease = Duration::from_secs(1);
    let scenario = Scenario::new("sender").lease(lease).actors(1, |client| async move {
        Ok(redis::cmd("PING").query_async::<()>(&mut client.connection()).await?)
    });
    let mut policy = harness::replay::Replay::new(&"A".parse().unwrap());
    let history = Runner::new().run_on(vec![server], &scenario, &mut policy, harness::sim::Recording::Full);
    let said = format!("{history:?}");
    assert!(said.contains("Failed") && !said.contains("s3cret"), "{said}");
}
