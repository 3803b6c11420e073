//! `lockstep check`: every algorithm, every fault class, every property.

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use harness::Runner;
use harness::verdict::{Outcome, Verdict, check};
use indicatif::{ProgressBar, ProgressStyle};
use locks::{ALGORITHMS, Algorithm, FaultClass, Property};
use serde::Serialize;

/// Print the verdict table: for each algorithm, property and fault class, whether the property holds
///
/// Exit status: 0 if every verdict is the one that the algorithm states, 1 if one is not, 2 for wrong usage.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Algorithms to check; all of them if none is named
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// How to print the verdicts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// What the sampled schedules are drawn from, where there are too many to run them all
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many schedules are sampled in each such case
    #[arg(long, default_value_t = 5_000)]
    samples: u64,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Format {
    Text,
    Json,
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
    let verdicts = check_all(&algorithms, args.samples, args.seed)?;
    let all_as_stated = verdicts.iter().all(Verdict::is_as_stated);
    let text = match args.format {
        Format::Text => render_table(&verdicts),
        Format::Json => serde_json::to_string_pretty(&verdicts.iter().map(Row::new).collect::<Vec<_>>())?,
    };
    super::print(&(text + "\n"))?;
    Ok(ExitCode::from(u8::from(!all_as_stated)))
}

/// Every algorithm in every class, on all cores; in the order of the table, whoever is done first.
fn check_all(algorithms: &[&'static Algorithm], samples: u64, seed: u64) -> Result<Vec<Verdict>> {
    let classes = FaultClass::ALL;
    let cells: Vec<_> = algorithms
        .iter()
        .flat_map(|algorithm| classes.iter().map(move |&class| (*algorithm, class)))
        .collect();
    // Drawn on a terminal only: indicatif hides itself where standard error is none.
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}").expect("a valid template");
    let progress = ProgressBar::new(cells.len() as u64).with_style(style);
    let next = AtomicUsize::new(0);
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            let (send, next, cells, progress) = (send.clone(), &next, &cells, &progress);
            scope.spawn(move || {
                let mut runner = Runner::new();
                while let Some(&(algorithm, class)) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    progress.set_message(format!("{} {class}", algorithm.name));
                    let verdicts = check(&mut runner, algorithm, class, samples, seed);
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

/// One line an algorithm and property, one column a fault class.
fn render_table(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let classes = FaultClass::ALL.iter().map(|class| class.name());
    table.set_header(["algorithm", "property"].into_iter().chain(classes).chain(["as stated"]));
    let mut last_name = "";
    for algorithm in verdicts.iter().map(|verdict| verdict.algorithm.name).fold(Vec::new(), without_repeats) {
        for &property in Property::ALL {
            let of = |class| {
                verdicts.iter().find(|v: &&Verdict| {
                    v.algorithm.name == algorithm && v.property == property && v.class == class
                })
            };
            let row: Vec<Option<&Verdict>> = FaultClass::ALL.iter().map(|&class| of(class)).collect();
            if row.iter().all(Option::is_none) {
                continue;
            }
            let shown_name = if algorithm == last_name { "" } else { algorithm };
            last_name = algorithm;
            let cells = row.iter().map(|verdict| verdict.map_or("–".into(), cell));
            let as_stated = row.iter().flatten().all(|verdict| verdict.is_as_stated());
            let as_stated = if as_stated { "yes" } else { "NO" };
            table.add_row(
                [shown_name.to_string(), property.to_string()]
                    .into_iter()
                    .chain(cells)
                    .chain([as_stated.to_string()]),
            );
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let as_stated = verdicts.iter().filter(|verdict| verdict.is_as_stated()).count();
    let schedules: u64 = {
        let cells = verdicts
            .iter()
            .map(|v| (v.algorithm.name, v.class, v.schedules))
            .fold(Vec::new(), without_repeats);
        cells.into_iter().map(|(_, _, schedules)| schedules).sum()
    };
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!(
        "{}\n\n✓ n   holds in all n schedules of up to three clients\n\
         ✓ ~n  holds in n: all of two clients, and a sample of three\n\
         ✗ n   violated; the shortest counterexample has n steps\n\n\
         {as_stated} of {} verdicts are as stated; {} schedules. See one with: lockstep explain NAME",
        lines.join("\n"),
        verdicts.len(),
        grouped(schedules),
    )
}

fn without_repeats<T: PartialEq>(mut items: Vec<T>, item: T) -> Vec<T> {
    if !items.contains(&item) {
        items.push(item);
    }
    items
}

fn cell(verdict: &Verdict) -> String {
    match &verdict.outcome {
        Outcome::Holds if verdict.is_sampled => format!("✓ ~{}", grouped(verdict.schedules)),
        Outcome::Holds => format!("✓ {}", grouped(verdict.schedules)),
        Outcome::Violated(finding, _) => format!("✗ {}", finding.violation.step),
        Outcome::Vacuous(_) => "vacuous".into(),
    }
}

/// `1,234,567`
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// A verdict in JSON.
#[derive(Serialize)]
struct Row {
    algorithm: &'static str,
    property: &'static str,
    fault_class: &'static str,
    /// `holds` or `violated`
    expected: &'static str,
    /// `holds`, `violated` or `vacuous`
    verdict: &'static str,
    schedules: u64,
    /// Of the shortest counterexample.
    steps: Option<usize>,
    /// The shortest counterexample, one step each.
    schedule: Option<Vec<String>>,
    /// Of a read-write lock, how many of its clients read, the first ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    readers: Option<usize>,
}

impl Row {
    fn new(verdict: &Verdict) -> Row {
        let (word, found) = match &verdict.outcome {
            Outcome::Holds => ("holds", None),
            Outcome::Violated(finding, size) => ("violated", Some((finding, size))),
            Outcome::Vacuous(_) => ("vacuous", None),
        };
        Row {
            algorithm: verdict.algorithm.name,
            property: verdict.property.name(),
            fault_class: verdict.class.name(),
            expected: if verdict.is_expected_to_hold() { "holds" } else { "violated" },
            verdict: word,
            schedules: verdict.schedules,
            steps: found.map(|(finding, _)| finding.violation.step),
            schedule: found
                .map(|(finding, _)| finding.schedule.steps.iter().map(ToString::to_string).collect()),
            readers: found.and_then(|(_, size)| size.readers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_in_groups() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
