//! Joins the shards of explorations: the files that tests write with `LOCKSTEP_RESULTS`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use comfy_table::CellAlignment;
use harness::explore::{BranchId, BranchResult, Failure, Origin, Plan, Results, Shard};
use harness::trace::Reached;
use serde::Serialize;

use crate::grid::wrapping;
use crate::output::width;
use crate::table::{Format, grouped};
use crate::tables::listed;

/// The shards of one exploration, each with its file.
type Files = Vec<(PathBuf, Results)>;

/// All shards of one exploration.
#[derive(Serialize)]
struct Joined {
    scenario: String,
    method: String,
    shards: usize,
    branches: usize,
    schedules: u64,
    blocked: u64,
    /// In a sample, the number of different traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    traces: Option<usize>,
    #[serde(flatten)]
    verdict: Verdict,
}

#[derive(Serialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
enum Verdict {
    Holds,
    /// A shard did not pass.
    Failed {
        report: String,
    },
    /// Something that had to happen never did.
    Vacuous {
        missing: String,
    },
    /// Shards are missing, are there twice, or do not fit together.
    Unknown {
        mistakes: Vec<String>,
    },
}

/// Joins the shards, prints a line for each exploration, and judges it.
pub(crate) fn join(files: Files, format: Format) -> Result<ExitCode> {
    let mut explorations: BTreeMap<(String, String), Files> = BTreeMap::new();
    for (path, results) in files {
        let Origin { scenario, method, .. } = &results.origin;
        explorations.entry((scenario.clone(), method.clone())).or_default().push((path, results));
    }
    if explorations.is_empty() {
        bail!("no file has a result: each shard was stopped at its very start; run the shards again");
    }
    let joined: Vec<Joined> = explorations.into_values().map(|files| Joined::new(&files)).collect();
    match format {
        Format::Text => super::print(&render(&joined))?,
        Format::Json => super::print_json(&(serde_json::to_string_pretty(&joined)? + "\n"))?,
    }
    let mistakes: Vec<String> = joined.iter().flat_map(Joined::mistakes).collect();
    if !mistakes.is_empty() {
        bail!("{}", mistakes.join("\nlockstep: "));
    }
    Ok(ExitCode::from(u8::from(joined.iter().any(|joined| !matches!(joined.verdict, Verdict::Holds)))))
}

/// One line for each exploration, and the reports of those that do not pass.
fn render(joined: &[Joined]) -> String {
    let mut grid = wrapping(width().unwrap_or(usize::MAX));
    grid.set_header(["exploration", "shards", "branches", "schedules", "blocked", "traces", "verdict"]);
    let mut reports = String::new();
    for one in joined {
        let verdict = match &one.verdict {
            Verdict::Holds => "✓ holds".into(),
            Verdict::Failed { report } => {
                reports += &format!("\n{}\n", report.trim_end());
                "✗ failed".into()
            }
            Verdict::Vacuous { missing } => format!("vacuous: {missing}"),
            Verdict::Unknown { .. } => "unknown".into(),
        };
        let numbers = [
            grouped(one.shards as u64),
            grouped(one.branches as u64),
            grouped(one.schedules),
            grouped(one.blocked),
            one.traces.map_or_else(|| "–".into(), |traces| grouped(traces as u64)),
        ];
        grid.add_row([one.name()].into_iter().chain(numbers).chain([verdict]));
    }
    for column in grid.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: String = grid.lines().map(|line| format!("{}\n", line.trim())).collect();
    lines + &reports
}

impl Joined {
    fn new(files: &Files) -> Joined {
        let (_, first) = &files[0];
        let branches = || files.iter().flat_map(|(_, results)| &results.branches);
        let traces: BTreeSet<u64> = branches().flat_map(|branch| &branch.traces).copied().collect();
        let mistakes = mistakes(files);
        let verdict = if mistakes.is_empty() { judge(files) } else { Verdict::Unknown { mistakes } };
        Joined {
            scenario: first.origin.scenario.clone(),
            method: first.origin.method.clone(),
            shards: files.len(),
            branches: branches().count(),
            schedules: branches().map(|branch| branch.schedules).sum(),
            blocked: branches().map(|branch| branch.blocked).sum(),
            traces: (!traces.is_empty()).then_some(traces.len()),
            verdict,
        }
    }

    fn name(&self) -> String {
        format!("{}, {}", self.scenario, self.method)
    }

    fn mistakes(&self) -> Vec<String> {
        let Verdict::Unknown { mistakes } = &self.verdict else { return Vec::new() };
        mistakes.iter().map(|mistake| format!("{}: {mistake}", self.name())).collect()
    }
}

/// How the whole fails, if a shard has failed.
fn failure(files: &Files) -> Option<&Failure> {
    Failure::of_whole(files.iter().map(|(_, results)| results))
}

/// The verdict on an exploration of which all shards are there.
fn judge(files: &Files) -> Verdict {
    let (_, first) = &files[0];
    let branches = || files.iter().flat_map(|(_, results)| &results.branches);
    if let Some(failure) = failure(files) {
        return Verdict::Failed { report: failure.report(branches()) };
    }
    let reached = branches().fold(Reached::default(), |reached, branch| reached.or(branch.reached));
    let judged: BTreeSet<usize> = branches().flat_map(|branch| &branch.judged).copied().collect();
    let mut oracles = first.origin.oracles.iter().enumerate();
    let unjudged = oracles.find(|(place, _)| !judged.contains(place));
    let missing = reached.missing(first.origin.must_reach).map(str::to_owned);
    match missing.or(unjudged.map(|(_, name)| format!("{name} had nothing to judge"))) {
        Some(missing) => Verdict::Vacuous { missing },
        None => Verdict::Holds,
    }
}

/// Everything for which the files are not all shards of one exploration.
fn mistakes(files: &Files) -> Vec<String> {
    let mut mistakes = Vec::new();
    let (first_path, first) = &files[0];
    for (nth, (path, results)) in files.iter().enumerate() {
        let both = format!("{} and {}", first_path.display(), path.display());
        let Origin { shard, known, .. } = &results.origin;
        let others_plan =
            |plan: &Plan| first.plans.iter().any(|own| own.actors == plan.actors && own != plan);
        if let Some((one, other)) = first.origin.difference(&results.origin) {
            mistakes.push(format!("{both} are of {one} and of {other}: merge only shards of one test"));
        } else if shard.all().ne(first.origin.shard.all()) {
            let one = first.origin.shard;
            mistakes.push(format!("{both} are shards {one} and {shard}: merge only shards of one division"));
        } else if let Some((other, _)) = files[..nth].iter().find(|(_, other)| other.origin.shard == *shard) {
            let other = other.display();
            mistakes.push(format!("{other} and {} are both shard {shard}: leave one out", path.display()));
        } else if first.origin.known != *known {
            mistakes.push(format!(
                "{both} know different things of the code: put the files of all shards into one folder, \
                 and run all shards again with LOCKSTEP_RESULTS there"
            ));
        } else if results.plans.iter().any(others_plan) {
            mistakes.push(format!("{both} are of different code: run all shards of one version"));
        }
    }
    if mistakes.is_empty() { incomplete(files) } else { mistakes }
}

/// The shards and branches that are missing, and the branches that are there twice.
fn incomplete(files: &Files) -> Vec<String> {
    let (_, first) = &files[0];
    let file = |shard: Shard| files.iter().find(|(_, results)| results.origin.shard == shard);
    let missing: Vec<Shard> = first.origin.shard.all().filter(|&shard| file(shard).is_none()).collect();
    let mut mistakes = Vec::new();
    if let [shard, ..] = missing[..] {
        mistakes.push(format!(
            "shards are missing: {}; run the test with LOCKSTEP_SHARD={shard}",
            listed(&missing)
        ));
    }
    let mut counts: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for BranchResult { actors, nth, .. } in files.iter().flat_map(|(_, results)| &results.branches) {
        *counts.entry((*actors, *nth)).or_default() += 1;
    }
    let plans: BTreeMap<usize, usize> = files
        .iter()
        .flat_map(|(_, results)| results.plans.iter().map(|plan| (plan.actors, plan.branches)))
        .collect();
    // Branches that one process would not run before the failure do not matter.
    let failure = failure(files);
    let matters = |&id: &BranchId| failure.is_none_or(|failure| failure.follows(id));
    for (path, Results { origin, ending, branches, .. }) in files {
        let own = plans.iter().flat_map(|(&actors, &count)| origin.branches(actors, count)).filter(matters);
        let open = own.filter(|id| !branches.iter().any(|branch| (branch.actors, branch.nth) == *id)).count();
        if open > 0 || failure.is_none() && ending.is_none() {
            mistakes.push(format!(
                "shard {} is not finished; {open} of the branches that it has are missing: run it again with {} \
                 where it is, and it continues",
                origin.shard,
                path.display()
            ));
        }
    }
    let doubled: Vec<String> = counts
        .iter()
        .filter(|&(_, &count)| count > 1)
        .map(|((actors, nth), _)| format!("{nth} of {actors} actors"))
        .collect();
    if !doubled.is_empty() {
        mistakes.push(format!("branches are there twice: {}; run all shards again", doubled.join(", ")));
    }
    mistakes
}
