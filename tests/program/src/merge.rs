//! `lockstep merge`: joins the shards of a table, and those of explorations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail, ensure};
use harness::explore::{RESULTS_EXTENSION, Results};

use crate::explorations;
use crate::table::{Format, Table};
use crate::tables;

/// Join the results of shards: those of `check --shard I/N --format json` to the whole table, and
/// those of tests with LOCKSTEP_SHARD and LOCKSTEP_RESULTS to whole explorations
///
/// The exit status is 0 if the whole passes, and 1 if it does not. If shards are missing, are there
/// twice or do not fit together, it is 2.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Files with results, and folders of them, in any order
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// How to print the verdicts
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (mut found, mut shards) = (Vec::new(), Vec::new());
    for path in files(&args.paths)? {
        if has_extension(&path, RESULTS_EXTENSION) {
            found.extend(Results::read(&path)?.map(|results| (path, results)));
        } else {
            shards.push((path.clone(), tables::read(&path)?));
        }
    }
    let table: Option<Table> = (!shards.is_empty()).then(|| tables::join(shards)).transpose()?;
    match (table, found.is_empty()) {
        (Some(_), false) if matches!(args.format, Format::Json) => {
            bail!(
                "there are shards of a table and of explorations: with --format json, merge each kind by itself"
            )
        }
        (Some(table), true) => table.print(args.format.into()),
        (Some(table), false) => {
            let status = table.print(args.format.into())?;
            super::print("\n")?;
            let others = explorations::join(found, args.format)?;
            Ok(if status == ExitCode::SUCCESS { others } else { status })
        }
        (None, _) => explorations::join(found, args.format),
    }
}

/// The named files, and those in the named folders.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let mut within = Vec::new();
        for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
            within.push(entry?.path());
        }
        within.retain(|file| has_extension(file, RESULTS_EXTENSION) || has_extension(file, "json"));
        ensure!(
            !within.is_empty(),
            "{} has no results: no file *.json or *.{RESULTS_EXTENSION}; name another folder, or run the shards first",
            path.display()
        );
        within.sort();
        files.extend(within);
    }
    Ok(files)
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}
