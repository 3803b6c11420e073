//! `lockstep check`: every algorithm, every fault class, every property.

use std::cmp::Reverse;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
#[cfg(unix)]
use std::time::Duration;

use anyhow::Result;
use harness::check::{Effort, Verdict, check};
use harness::execution::Runner;
use harness::explore::Shard;
use indicatif::{ProgressBar, ProgressStyle};
use locks::registry::{ALGORITHMS, Algorithm};

use crate::shard::{Cell, cells, cost};
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
    /// Print the CPU time of each cell in milliseconds, for `costs.txt`
    #[cfg(unix)]
    #[arg(long, hide = true)]
    costs: bool,
}

/// The options for cases with many schedules.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Sampling {
    /// The seed of the sampled schedules, for cases with too many schedules to run them all
    #[arg(long, default_value_t = Effort::default().seed)]
    seed: u64,
    /// How many schedules are sampled in each case with too many schedules to run them all
    /// [default: 2000; thorough: 20000]
    #[arg(long)]
    samples: Option<u64>,
    /// If a case has at least so many schedules, so many are run, and a sample of them all
    /// [default: 10000; thorough: 300000]
    #[arg(long)]
    limit: Option<u64>,
    /// Run more schedules of each case: some minutes for the whole table
    #[arg(long)]
    thorough: bool,
}

impl Sampling {
    pub(crate) fn effort(&self) -> Effort {
        let Sampling { seed, samples, limit, thorough } = *self;
        let usual = if thorough { Effort::THOROUGH } else { Effort::default() };
        Effort { limit: limit.unwrap_or(usual.limit), samples: samples.unwrap_or(usual.samples), seed }
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
    let checked = check_all(&cells(args.shard, &algorithms), effort)?;
    #[cfg(unix)]
    if args.costs {
        let lines = checked.iter().map(|Checked { cell: (algorithm, class), cpu, .. }| {
            format!("{} {class} {}\n", algorithm.name, cpu.as_millis())
        });
        super::print(&lines.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = checked.iter().flat_map(|checked| &checked.verdicts).map(Row::new).collect();
    Table::new(&algorithms, effort, args.shard, rows).print(args.format)
}

/// The result of a cell.
struct Checked {
    cell: Cell,
    verdicts: Vec<Verdict>,
    /// The CPU time that it took.
    #[cfg(unix)]
    cpu: Duration,
}

impl Checked {
    fn new(runner: &mut Runner, cell @ (algorithm, class): Cell, effort: Effort) -> Result<Checked> {
        #[cfg(unix)]
        let before = cpu_time();
        let verdicts = check(runner, algorithm, class, effort)?;
        Ok(Checked {
            cell,
            verdicts,
            #[cfg(unix)]
            cpu: cpu_time().saturating_sub(before),
        })
    }
}

/// The CPU time of this thread so far.
#[cfg(unix)]
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Checks all cells on all cores. The results are in the order of the cells.
fn check_all(cells: &[Cell], effort: Effort) -> Result<Vec<Checked>> {
    // If standard error is not a terminal, indicatif hides the bar.
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}").expect("a valid template");
    let progress = ProgressBar::new(cells.len() as u64).with_style(style);
    // The most expensive cells come first, so that no core has a long one in the end.
    let mut dearest: Vec<(usize, Cell)> = cells.iter().copied().enumerate().collect();
    dearest.sort_by_key(|&(place, cell)| (Reverse(cost(cell)), place));
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (send, next, progress, dearest) = (send.clone(), &next, &progress, &dearest);
            scope.spawn(move || {
                let mut runner = Runner::new();
                while let Some(&(place, cell)) = dearest.get(next.fetch_add(1, Ordering::Relaxed)) {
                    progress.set_message(format!("{} {}", cell.0.name, cell.1));
                    let checked = Checked::new(&mut runner, cell, effort);
                    progress.inc(1);
                    send.send((place, checked)).expect("the receiver outlives the threads");
                }
            });
        }
    });
    drop(send);
    progress.finish_and_clear();
    let mut done: Vec<_> = receive.into_iter().collect();
    done.sort_by_key(|&(place, _)| place);
    done.into_iter().map(|(_, checked)| checked).collect()
}
