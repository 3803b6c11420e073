//! Joins the shards of a table: the output of `lockstep check --shard I/N --format json`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use harness::explore::Shard;
use locks::registry::{ALGORITHMS, Algorithm};
use serde::Deserialize;

use crate::shard::questions;
use crate::table::{Table, VerdictRow};

/// Joins the shards of a table, each with its file.
pub(crate) fn join(files: Vec<(PathBuf, Table)>) -> Result<Table> {
    let mut shards: Vec<(PathBuf, Table)> = Vec::new();
    for (path, table) in files {
        if let Some((first_path, first)) = shards.first() {
            expect_same_run((first_path, first), (&path, &table))?;
        }
        if let Some((other, _)) = shards.iter().find(|(_, other)| other.shard == table.shard) {
            bail!("{} and {} are both shard {}: leave one out", other.display(), path.display(), table.shard);
        }
        shards.push((path, table));
    }
    let (_, first) = shards.first().context("there is no shard")?;
    let is_there = |shard: &Shard| shards.iter().any(|(_, table)| table.shard == *shard);
    let missing: Vec<Shard> = first.shard.all().filter(|shard| !is_there(shard)).collect();
    if let [shard, ..] = missing[..] {
        bail!("shards are missing: {}; run `{}`", listed(&missing), command(first, shard));
    }
    let algorithms = algorithms(first)?;
    let effort = first.effort();
    let questions = questions(Shard::WHOLE, &algorithms);
    let mut rows: Vec<_> = shards.into_iter().flat_map(|(_, table)| table.verdicts).collect();
    rows.sort_by_key(|row| questions.iter().position(|&question| question == row.question()));
    Ok(Table::new(&algorithms, effort, Shard::WHOLE, rows))
}

/// Lists values: `2/3, 3/3`.
pub(crate) fn listed<T: ToString>(values: &[T]) -> String {
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Reads the result of one shard, and checks that it is complete.
pub(crate) fn read(path: &Path) -> Result<Table> {
    /// The part of the format that is equal in all versions.
    #[derive(Deserialize)]
    #[serde(expecting = "the output of lockstep check")]
    struct Origin {
        lockstep: String,
    }

    let file = path.display();
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read {file}: name files and folders that have results of shards"))?;
    let foreign =
        || format!("{file} is not what `lockstep check --shard I/N --format json` prints; run that again");
    let Origin { lockstep } = serde_json::from_str(&text).with_context(foreign)?;
    let own = env!("CARGO_PKG_VERSION");
    ensure!(
        lockstep == own,
        "{file} was printed by lockstep {lockstep}, and this is {own}: check and merge with one version"
    );
    let table: Table = serde_json::from_str(&text).with_context(foreign)?;
    let questions = questions(table.shard, &algorithms(&table).with_context(|| file.to_string())?);
    ensure!(
        table.verdicts.iter().map(VerdictRow::question).eq(questions),
        "{file} does not have the verdicts of shard {}: run `{}` again",
        table.shard,
        command(&table, table.shard)
    );
    Ok(table)
}

fn algorithms(table: &Table) -> Result<Vec<&'static Algorithm>> {
    table.algorithms.iter().map(|name| super::find(name)).collect()
}

/// Checks that two shards come from checks with equal options.
fn expect_same_run((path, table): (&Path, &Table), (other_path, other): (&Path, &Table)) -> Result<()> {
    let told = |table: &Table| {
        [
            format!("--seed {}", table.seed),
            format!("--samples {}", table.samples),
            format!("--limit {}", table.limit),
            format!("--shard I/{}", table.shard.all().count()),
            format!("the names {}", table.algorithms.join(" ")),
        ]
    };
    let differing = told(table).into_iter().zip(told(other)).find(|(told, other)| told != other);
    if let Some((told, other_told)) = differing {
        bail!(
            "{} comes from a check with {told}, and {} from one with {other_told}: merge only shards of one check",
            path.display(),
            other_path.display(),
        );
    }
    Ok(())
}

/// The command that prints a shard of this check.
fn command(table: &Table, shard: Shard) -> String {
    let names = if table.algorithms.len() == ALGORITHMS.len() {
        String::new()
    } else {
        table.algorithms.iter().map(|name| format!("{name} ")).collect()
    };
    let Table { seed, samples, limit, .. } = table;
    format!(
        "lockstep check {names}--seed {seed} --samples {samples} --limit {limit} --shard {shard} --format json"
    )
}
