//! `lockstep check`: every algorithm, every fault class, every property.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::Result;
use harness::check::{Effort, Verdict, check};
use harness::execution::Runner;
use indicatif::{ProgressBar, ProgressStyle};
use locks::registry::{ALGORITHMS, Algorithm, FaultClass};

use crate::shard::Shard;
use crate::table::{Format, Row, Table};

/// Print the verdict table: whether each property of each algorithm holds in each fault class
///
/// Exit status: 0 if every verdict is as the algorithm states, 1 if one is not, 2 for wrong usage.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Algorithms to check; all if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How to print the verdicts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    sampling: Sampling,
    /// Check only part I of N; each algorithm in each fault class is in exactly one part.
    /// `lockstep merge` joins the parts
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,
}

/// The options for cases with many schedules.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Sampling {
    /// The seed of the sampled schedules, for cases with too many schedules to run them all
    #[arg(long, default_value_t = Effort::default().seed)]
    seed: u64,
    /// How many schedules are sampled in each case with too many schedules to run them all
    #[arg(long, default_value_t = Effort::default().samples)]
    samples: u64,
    /// If a case has at least so many schedules, so many are run, and a sample of them all
    #[arg(long, default_value_t = Effort::default().limit)]
    limit: u64,
}

impl Sampling {
    pub(crate) fn effort(&self) -> Effort {
        let Sampling { seed, samples, limit } = *self;
        Effort { limit, samples, seed }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let algorithms: Vec<&'static Algorithm> = match &args.names[..] {
        [] => ALGORITHMS.iter().collect(),
        names => {
            let found = names.iter().map(|name| super::find(name)).collect::<Result<Vec<_>>>()?;
            ALGORITHMS
                .iter()
                .filter(|algorithm| found.iter().any(|other| other.name == algorithm.name))
                .collect()
        }
    };
    let effort = args.sampling.effort();
    let verdicts = check_all(&args.shard.cells(&algorithms), effort)?;
    let rows = verdicts.iter().map(Row::new).collect();
    Table::new(&algorithms, effort, args.shard, rows).print(args.format)
}

/// Checks all cells on all cores. The verdicts are in the order of the cells.
fn check_all(cells: &[(&'static Algorithm, FaultClass)], effort: Effort) -> Result<Vec<Verdict>> {
    // If standard error is not a terminal, indicatif hides the bar.
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}").expect("a valid template");
    let progress = ProgressBar::new(cells.len() as u64).with_style(style);
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (send, next, progress) = (send.clone(), &next, &progress);
            scope.spawn(move || {
                let mut runner = Runner::new();
                while let Some(&(algorithm, class)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    progress.set_message(format!("{} {class}", algorithm.name));
                    let verdicts = check(&mut runner, algorithm, class, effort);
                    progress.inc(1);
                    send.send((algorithm.name, class, verdicts)).expect("the receiver outlives the threads");
                }
            });
        }
    });
    drop(send);
    progress.finish_and_clear();
    let mut done: Vec<_> = receive.into_iter().collect();
    let place =
        |name, class| cells.iter().position(|&(algorithm, other)| algorithm.name == name && other == class);
    done.sort_by_key(|&(name, class, _)| place(name, class));
    let mut all = Vec::new();
    for (_, _, verdicts) in done {
        all.extend(verdicts?);
    }
    Ok(all)
}
