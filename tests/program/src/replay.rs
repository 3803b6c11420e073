//! `lockstep replay`: a saved schedule, on the emulator and on a real server.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use harness::check::{Participants, match_class, terms};
use harness::execution::Runner;
use harness::replay::{
    Comparison, Expectation, OnRedisError, RedisServers, Replayed, Subject, replay_on_redis,
    replay_on_servers,
};
use harness::{SavedSchedule, replay_saved};

use crate::debates::{claim_of, scenario_of};
use crate::output::{columns, complain, wrapped};
use crate::pages::Drawings;
use crate::progress::spinner;
use crate::stop;

/// Replay a saved schedule, print its timeline, and compare the outcome with its expectation
///
/// The exit status is 0 if the outcome meets the expectation, and is equal on a real server; 1 if
/// not; 3 if the real server was too slow to compare. If you stop it with Ctrl-C, it first deletes
/// its keys on the real server, and ends the servers that it has started.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file that `explain --save` has written
    file: PathBuf,
    /// Replay it on this server, too: `redis://host:6379/9`. The database must be empty. Without a
    /// URL, it starts each `redis-server` that the schedule needs, with replicas if one takes over
    #[arg(long, value_name = "URL", num_args = 0..=1)]
    redis: Option<Option<String>>,
    #[command(flatten)]
    drawings: Drawings,
}

const INCONCLUSIVE: u8 = 3;
/// The largest size of a file in bytes. It has room for more than a thousand steps, and no
/// execution has more.
const FILE_BYTES_MAX: u64 = 1 << 20;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let file = args.file.display();
    let unread =
        || format!("cannot read {file}: name a file that `lockstep explain NAME --save` has written");
    args.drawings.expect_other_files(&[&args.file])?;
    let text = read(&args.file).with_context(unread)?;
    let saved: SavedSchedule = text.parse().with_context(|| file.to_string())?;
    let head = head(&saved).with_context(|| file.to_string())?;
    match_class(&saved).with_context(|| file.to_string())?;
    let client = args.redis.as_ref().and_then(Option::as_deref).map(redis::Client::open).transpose();
    let client =
        client.context("--redis is not the URL of a server: write for example redis://host:6379/9")?;
    let scenario = |lease| scenario_of(&saved, lease).expect("the algorithm has been looked for");
    let mut runner = Runner::new();
    let replayed =
        replay_saved(&mut runner, &scenario(saved.lease), &saved).with_context(|| file.to_string())?;
    super::print(&format!("{}\n{replayed:columns$}", wrapped(&head, ""), columns = columns()))?;
    let mut status = u8::from(!replayed.is_as_stated());
    if status != 0 {
        super::print(&wrapped(&advice(&replayed, &file.to_string()), ""))?;
    }
    if args.drawings.is_any() {
        match replayed.counterexample(&mut runner, &scenario(saved.lease))? {
            Some(counterexample) => args.drawings.write(counterexample)?,
            None => {
                complain("no file is written: there is no violation\n");
                status = status.max(1);
            }
        }
    }
    if args.redis.is_some() {
        return on_redis(&mut runner, client.as_ref(), &saved, status);
    }
    Ok(ExitCode::from(status))
}

/// Replays a schedule on a given server, or on servers that it starts. `status` is that of the
/// replay on the emulator.
fn on_redis(
    runner: &mut Runner,
    client: Option<&redis::Client>,
    saved: &SavedSchedule,
    mut status: u8,
) -> Result<ExitCode> {
    let scenario = |lease| scenario_of(saved, lease).expect("the algorithm has been looked for");
    let (stopper, stopping) = (runner.stopper(), if client.is_some() { STOPPING } else { STOPPING_OWN });
    stop::on_signal(move || {
        complain(stopping);
        stopper.stop();
    });
    let progress = spinner();
    progress.set_message("replaying on the server, in real time");
    let on_redis = match client {
        Some(client) => replay_on_redis(runner, client, saved, scenario),
        None => {
            let mut servers = RedisServers::start(&scenario(saved.lease)).context("cannot start servers")?;
            let started = wrapped(&format!("Started {servers}.\n"), "");
            progress.suspend(|| super::print(&started))?;
            replay_on_servers(runner, &mut servers, saved, scenario)
        }
    };
    progress.finish_and_clear();
    if let Err(stopped @ OnRedisError::Stopped) = on_redis {
        complain(&format!("PARTIAL: {stopped}\n"));
        return Ok(ExitCode::from(stop::STATUS));
    }
    let on_redis = on_redis.context("cannot replay on the server")?;
    super::print(&format!("On the server: {on_redis}.\n"))?;
    match on_redis.comparison {
        Comparison::Same(_) => {}
        Comparison::Different { .. } => {
            status = 1;
            super::print(&wrapped(DIFFERENT, ""))?;
        }
        Comparison::Inconclusive { .. } => status = status.max(INCONCLUSIVE),
    }
    Ok(ExitCode::from(status))
}

/// What the program says when the user stops it.
const STOPPING: &str =
    "stopping: the keys of the replay are deleted. Ctrl-C once more ends at once, and leaves them.\n";
const STOPPING_OWN: &str = "stopping: the servers of the replay end.\n";

/// The next step of the user if the outcome does not meet the expectation.
fn advice(replayed: &Replayed, file: &str) -> String {
    let SavedSchedule { expectation, subject, property, .. } = &replayed.saved;
    let again = match subject {
        Subject::Algorithm { name, class, .. } => format!(
            "save a new one with `lockstep explain {name} --class {class} --property {property} --save NEW_FILE`"
        ),
        Subject::Scenario(_) => "explore the scenario again".into(),
    };
    if replayed.failure.is_some() {
        return "Every client must come to its end without an error: repair the code, or the steps.\n".into();
    }
    if replayed.violation.is_none() && !replayed.is_judged {
        return format!("The steps test nothing: correct them, or {again}.\n");
    }
    if replayed.skipped > 0 {
        return format!("The steps no longer fit the code: correct them, or {again}.\n");
    }
    match expectation {
        Expectation::Pass => {
            format!("The code has the bug: repair it. If that is meant, write `must fail` in {file}.\n")
        }
        Expectation::Fail if replayed.divergences.is_empty() => {
            format!("If the code is repaired, write `must pass` in {file}: it is a regression test then.\n")
        }
        Expectation::Fail => format!("The steps no longer fit the code: correct them, or {again}.\n"),
    }
}

/// The next step of the user if the servers differ.
const DIFFERENT: &str = "Check that the server is Redis 7.0, and that nobody else uses its database. \
                         If that is so, the emulator has a bug: please report it with this schedule.\n";

/// The algorithm of a schedule, and its bounds.
fn head(saved: &SavedSchedule) -> Result<String> {
    match &saved.subject {
        Subject::Algorithm { name, class, permits, readers, .. } => {
            let algorithm = super::find(name)?;
            let size = Participants { clients: saved.clients, permits: *permits, readers: *readers };
            Ok(format!("{name} ({class}). {}", terms(algorithm, size, saved.lease)))
        }
        Subject::Scenario(name) if claim_of(saved).is_some() => {
            Ok(format!("{name}. Clients: {}; lease: {} ms.", saved.clients, saved.lease.as_millis()))
        }
        Subject::Scenario(name) => bail!(
            "this is a schedule of the scenario {name:?}, which is part of a test: replay it there with harness::replay_saved"
        ),
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("a saved schedule has {FILE_BYTES_MAX} bytes at most")));
    }
    Ok(text)
}
