//! `lockstep check`: every algorithm, every fault class, every property.

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
#[cfg(unix)]
use std::time::Duration;

use anyhow::Result;
use harness::check::{Effort, Verdict, check};
use harness::execution::{Runner, cores};
use harness::explore::Shard;
use locks::registry::{ALGORITHMS, Algorithm};

use crate::names;
use crate::pages;
use crate::progress::CheckProgress;
use crate::shard::{Cell, cells, cost};
use crate::stop;
use crate::table::{Table, TableFormat, VerdictRow};

/// Print the verdict table: whether each property of each algorithm holds in each fault class
///
/// If you stop it with Ctrl-C, it prints the verdicts that it has, and marks the others. Ctrl-C
/// once more ends it at once.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Algorithms to check, as in `lockstep list algorithms`; all if none is named
    #[arg(value_name = "NAME", value_parser = names::algorithms(), hide_possible_values = true)]
    pub(crate) names: Vec<String>,
    /// How to print the verdicts [default: text; overview without a command and a name]
    #[arg(long, value_enum)]
    format: Option<TableFormat>,
    #[command(flatten)]
    sampling: Sampling,
    /// Check only part I of N; each algorithm in each fault class is in exactly one part.
    /// `lockstep merge` joins the parts
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,
    /// How many cells of the table are checked at the same time [default: one for each core]
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    jobs: Option<NonZeroUsize>,
    /// Write the table to this folder as HTML, with a page for each counterexample: `index.html`
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
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
    #[arg(long, value_name = "S", default_value_t = Effort::default().seed, value_parser = number)]
    seed: u64,
    /// How many schedules are sampled in each case with too many schedules to run them all
    /// [default: 2000; thorough: 20000]
    #[arg(long, value_name = "N", value_parser = number)]
    samples: Option<u64>,
    /// How many schedules are run one by one in each case, at most. If there may be more, a sample
    /// of them all is run, too [default: 10000; thorough: 300000]
    #[arg(long, value_name = "N", value_parser = number)]
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

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("write a whole number from 0 to {}", u64::MAX))
}

fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "write a whole number, 1 or more".to_owned())
}

/// Checks, and prints the verdicts in this format unless the arguments name another one.
pub(crate) fn run(args: &Args, format: TableFormat) -> Result<ExitCode> {
    let format = args.format.unwrap_or(format);
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
    let jobs = args.jobs.map_or_else(cores, NonZeroUsize::get);
    let cells = cells(args.shard, &algorithms);
    if let Some(folder) = &args.html {
        pages::make_folder(folder)?;
    }
    let checked = check_all(&cells, effort, (jobs, args.html.clone()))?;
    if let Some(folder) = &args.html {
        let verdicts: Vec<&Verdict> = checked.iter().flat_map(|checked| &checked.verdicts).collect();
        pages::write_table(folder, &algorithms, &verdicts)?;
    }
    #[cfg(unix)]
    if args.costs {
        let lines = checked.iter().map(|Checked { cell: (algorithm, class), cpu, .. }| {
            format!("{} {class} {}\n", algorithm.name, cpu.as_millis())
        });
        super::print(&lines.collect::<String>())?;
        return Ok(if checked.len() == cells.len() { ExitCode::SUCCESS } else { stop::STATUS.into() });
    }
    let rows = checked.iter().flat_map(|checked| &checked.verdicts).map(VerdictRow::new).collect();
    Table::new(&algorithms, effort, args.shard, rows).print(format)
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
    /// Checks a cell. If there is a folder, writes its counterexamples there.
    fn new(
        runner: &mut Runner,
        cell @ (algorithm, class): Cell,
        effort: Effort,
        folder: Option<&Path>,
    ) -> Result<Checked> {
        #[cfg(unix)]
        let before = cpu_time();
        let verdicts = check(runner, algorithm, class, effort)?;
        if let Some(folder) = folder {
            pages::write_counterexamples(folder, runner, &verdicts)?;
        }
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

/// An event that the main thread of a check waits for.
enum Event {
    /// A cell is done; this is its place.
    Checked(usize, thread::Result<Result<Checked>>),
    /// The user stops the check.
    Stop,
}

/// Checks the cells, up to `jobs` at the same time, and writes their counterexamples to the folder.
/// The results are in the order of the cells. If the user stops the check, cells are missing.
fn check_all(
    cells: &[Cell],
    effort: Effort,
    (jobs, folder): (usize, Option<PathBuf>),
) -> Result<Vec<Checked>> {
    let progress = CheckProgress::new(cells);
    // The most expensive cells come first, so that no core has a long one in the end.
    let mut dearest: Vec<(usize, Cell)> = cells.iter().copied().enumerate().collect();
    dearest.sort_by_key(|&(place, cell)| (Reverse(cost(cell)), place));
    let (dearest, next) = (Arc::new(dearest), Arc::new(AtomicUsize::new(0)));
    let (send, receive) = mpsc::channel();
    let worker = || {
        let (dearest, next) = (dearest.clone(), next.clone());
        let (progress, send, folder) = (progress.clone(), send.clone(), folder.clone());
        move || {
            let mut runner = Runner::new();
            while let Some(&(place, cell)) = dearest.get(next.fetch_add(1, Ordering::Relaxed)) {
                progress.begin(cell);
                let run = AssertUnwindSafe(|| Checked::new(&mut runner, cell, effort, folder.as_deref()));
                let checked = catch_unwind(run);
                if let Ok(Ok(Checked { verdicts, .. })) = &checked {
                    progress.end(cell, verdicts);
                }
                if send.send(Event::Checked(place, checked)).is_err() {
                    break;
                }
            }
        }
    };
    // Nobody waits for a thread: if the check is stopped, the process ends amid a cell.
    let threads = (0..jobs.min(cells.len())).map(|_| thread::Builder::new().spawn(worker()));
    // The system may refuse threads to a process.
    if threads.filter(Result::is_ok).count() == 0 {
        worker()();
    }
    stop::on_signal(move || _ = send.send(Event::Stop));
    let mut done = Vec::new();
    while done.len() < cells.len() {
        let Ok(Event::Checked(place, checked)) = receive.recv() else { break };
        let is_right = matches!(checked, Ok(Ok(_)));
        done.push((place, checked));
        if !is_right {
            break;
        }
    }
    progress.clear();
    done.sort_by_key(|&(place, _)| place);
    done.into_iter().map(|(_, checked)| checked.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}
