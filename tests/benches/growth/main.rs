//! The time of every command at growing sizes, on `lockstep serve` and on `redis-server`.
//!
//! The rows are data, in `rows.txt`. Each row is measured at 1e3, 1e4, 1e5 and 1e6 members, or up
//! to the size of `--max`. The time is the CPU time of the server process, so other work on the
//! machine and the time of this client do not count.
//!
//! A row is marked if lockstep takes more than twice Redis's time at the largest size. It is also
//! marked if its time grows and Redis's does not. Before that, it is measured a few times more on
//! both servers: the smallest times count, since all else comes from the machine. In the end, both
//! servers are emptied: lockstep may not keep much more memory than Redis. If it does, or if a row
//! is marked, the exit status is 1.

mod rows;
mod server;
mod measure;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;

use measure::{Sample, measure, prepare};
use rows::{Row, Rows};
use server::Server;

/// The largest ratio of lockstep's time to Redis's.
const RATIO_MAX: f64 = 2.0;
/// How many times more than Redis's time lockstep's may grow, from the smallest to the largest
/// size. Less can be the caches of the processor.
const GROWTH_RATIO_MAX: f64 = 4.0;
/// How often a row is measured again that would be marked. All others come before that, so that
/// what disturbed it has passed.
const AGAIN_MAX: usize = 12;
/// How many more bytes than Redis lockstep may keep when it is empty.
const KEPT_MORE_BYTES_MAX: u64 = 64 << 20;
const SIZES: [usize; 4] = [1_000, 10_000, 100_000, 1_000_000];

/// Measure how the time of every command grows, beside redis-server
#[derive(Parser)]
struct Args {
    /// Measure only these commands, such as `zadd` or `memory|usage`
    commands: Vec<String>,
    /// The largest size
    #[arg(long, default_value_t = SIZES[SIZES.len() - 1])]
    max: usize,
    /// Measure this build of lockstep, to compare two of them
    #[arg(long, value_name = "FILE", default_value = env!("CARGO_BIN_EXE_lockstep"))]
    lockstep: PathBuf,
    /// The flag that `cargo bench` adds
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let names = rows::commands();
    let rows = Rows::parse(include_str!("rows.txt"), &names).map_err(anyhow::Error::msg)?;
    if let Some(unknown) = args.commands.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("there is no command {unknown}: name one as `get` or `memory|usage`");
    }
    let sizes: Vec<usize> = SIZES.into_iter().filter(|&size| size <= args.max).collect();
    if sizes.len() < 2 {
        bail!("growth needs two sizes: give --max {} or more", SIZES[1]);
    }
    let is_chosen =
        |row: &&Row| args.commands.is_empty() || args.commands.iter().any(|name| row.commands.contains(name));
    let chosen: Vec<&Row> = rows.measured.iter().filter(is_chosen).collect();
    let mut servers = [Server::redis()?, Server::lockstep(&args.lockstep)?];
    let mut samples = vec![Vec::new(); chosen.len()];
    for &size in &sizes {
        for server in &mut servers {
            prepare(server, &rows.prepared, size)?;
        }
        let mut measured = Vec::new();
        for row in &chosen {
            measured.push(measure_both(&mut servers, row, size)?);
        }
        for _ in 0..AGAIN_MAX {
            let is_marked = |nth: &usize| !mark(&samples[*nth], &measured[*nth]).is_empty();
            let marked: Vec<usize> = (0..chosen.len()).filter(is_marked).collect();
            if marked.is_empty() {
                break;
            }
            // Later rows have removed keys.
            for server in &mut servers {
                prepare(server, &rows.prepared, size)?;
            }
            for nth in marked {
                let again = measure_both(&mut servers, chosen[nth], size)?;
                measured[nth] = [0, 1].map(|side| measured[nth][side].min(again[side]));
            }
        }
        samples.iter_mut().zip(measured).for_each(|(samples, sample)| samples.push(sample));
        eprintln!("measured {} rows at {size}", chosen.len());
    }
    let n_marked = print(&chosen, &sizes, &samples);
    let [theirs, ours] = &mut servers;
    let kept = [kept(theirs)?, kept(ours)?];
    let keeps_more = kept[1] > kept[0] + KEPT_MORE_BYTES_MAX;
    let mark = if keeps_more { "  MORE" } else { "" };
    println!("MiB resident after FLUSHALL: redis {}, ours {}{mark}", kept[0] >> 20, kept[1] >> 20);
    println!("{} rows, {n_marked} marked", chosen.len());
    Ok(if n_marked == 0 && !keeps_more { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures a row on both servers.
fn measure_both([theirs, ours]: &mut [Server; 2], row: &Row, size: usize) -> Result<[Sample; 2]> {
    Ok([measure(theirs, row, size)?, measure(ours, row, size)?])
}

/// The memory of a server some time after everything was removed.
fn kept(server: &mut Server) -> Result<u64> {
    prepare(server, &[], 0)?;
    #[expect(clippy::disallowed_methods, reason = "an allocator gives memory back in real time")]
    std::thread::sleep(Duration::from_secs(5));
    server.resident_bytes()
}

/// How much the time of both servers grows from the first size to the last.
fn growth(first: &[Sample; 2], last: &[Sample; 2]) -> [f64; 2] {
    [0, 1].map(|side| last[side].padded() / first[side].padded())
}

/// The ratio of lockstep's time to Redis's.
fn ratio([theirs, ours]: &[Sample; 2]) -> f64 {
    ours.padded() / theirs.padded()
}

/// The mark of a row with these times at the earlier sizes and at the last. Time that grows does so
/// from every earlier size: one short time may be measured too short.
fn mark(earlier: &[[Sample; 2]], last: &[Sample; 2]) -> &'static str {
    let grows_from = |first| {
        let [theirs, ours] = growth(first, last);
        ours > GROWTH_RATIO_MAX * theirs.max(1.0)
    };
    let grows = !earlier.is_empty() && earlier.iter().all(grows_from);
    match (ratio(last) > RATIO_MAX, grows) {
        (false, false) => "",
        (true, false) => "  SLOW",
        (false, true) => "  GROWS",
        (true, true) => "  SLOW, GROWS",
    }
}

/// Prints the table, and returns how many rows are marked.
fn print(rows: &[&Row], sizes: &[usize], samples: &[Vec<[Sample; 2]>]) -> usize {
    let head: Vec<String> = sizes.iter().map(|size| format!("{size:>10}")).collect();
    let head = head.concat();
    println!("CPU time of one call in µs, redis-server and lockstep, by size; growth of both; ratio");
    println!("{:<58}{head}  |{head}  |{:>8}{:>8}{:>8}", "command", "redis", "ours", "ratio");
    let mut n_marked = 0;
    for (row, samples) in rows.iter().zip(samples) {
        let (last, earlier) = samples.split_last().expect("there are two sizes");
        let (growth, ratio) = (growth(&earlier[0], last), ratio(last));
        let mark = mark(earlier, last);
        n_marked += usize::from(!mark.is_empty());
        let times = [0, 1].map(|side| {
            samples.iter().map(|sample| format!("{:>10.2}", sample[side].micros())).collect::<String>()
        });
        println!(
            "{:<58}{}  |{}  |{:>8.1}{:>8.1}{ratio:>8.2}{mark}",
            row.text, times[0], times[1], growth[0], growth[1]
        );
    }
    n_marked
}
