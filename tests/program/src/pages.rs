//! Pages and pictures of counterexamples, and for `check --html` also a page of the verdict table.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use harness::check::{LEASE, Outcome, Part, Verdict, bounds, properties, save};
use harness::execution::Runner;
use harness::page::Counterexample;
use harness::{SavedSchedule, replay_saved};
use locks::registry::{Algorithm, FaultClass, Property};
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use crate::debates::scenario_of;
use crate::output::write;
use crate::shard::asked;
use crate::table::Mark;

/// The page with the table.
const INDEX: &str = "index.html";

/// The files to which `explain` and `replay` draw a counterexample.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Drawings {
    /// Write the counterexample to this file as an HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the counterexample to this file as an SVG picture, for a README or a pull request
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Stress this step in the page and in the picture
    #[arg(long, value_name = "STEP")]
    stress: Option<usize>,
}

impl Drawings {
    pub(crate) fn is_any(&self) -> bool {
        self.html.is_some() || self.svg.is_some()
    }

    /// Checks that no drawing takes the place of another file of the command.
    ///
    /// # Errors
    /// A file is named twice, or nothing is drawn in which a step could be stressed.
    pub(crate) fn expect_other_files(&self, others: &[&Path]) -> Result<()> {
        if self.stress.is_some() && !self.is_any() {
            bail!("--stress is for a page or a picture: add --html FILE or --svg FILE");
        }
        let drawings = [&self.html, &self.svg].into_iter().flatten().map(PathBuf::as_path);
        let mut files: Vec<&Path> = others.iter().copied().chain(drawings).collect();
        files.sort();
        match files.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => bail!("{} is named twice: each file needs a name of its own", pair[0].display()),
            None => Ok(()),
        }
    }

    /// # Errors
    /// A file cannot be written, or there is no such step to stress.
    pub(crate) fn write(&self, counterexample: Counterexample) -> Result<()> {
        let counterexample = Counterexample { stressed: self.stress, ..counterexample };
        if let Some(step) =
            self.stress.filter(|step| counterexample.entries.iter().all(|entry| entry.step != *step))
        {
            let last = counterexample.entries.last().map_or(0, |entry| entry.step);
            bail!("there is no step {step} to stress: the steps are 1 to {last}");
        }
        if let Some(path) = &self.html {
            write(path, &counterexample.to_html())?;
        }
        if let Some(path) = &self.svg {
            write(path, &counterexample.to_svg())?;
        }
        Ok(())
    }
}

/// Replays a saved counterexample. `schedules` is the number of schedules that were explored in
/// all.
pub(crate) fn counterexample(
    runner: &mut Runner,
    saved: &SavedSchedule,
    schedules: u64,
) -> Result<Counterexample> {
    let of = scenario_of(saved, LEASE).context("the algorithm is not known")?;
    let counterexample = replay_saved(runner, &of, saved)?.counterexample(runner, &of)?;
    let counterexample = counterexample.context("the schedule does not show the violation again")?;
    Ok(Counterexample { explored: Some(schedules), ..counterexample })
}

/// Makes the folder.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    let failed = || format!("cannot make the folder {}: name another one with --html", folder.display());
    std::fs::create_dir_all(folder).with_context(failed)
}

/// Writes a page for each counterexample of a cell.
pub(crate) fn write_counterexamples(folder: &Path, runner: &mut Runner, verdicts: &[Verdict]) -> Result<()> {
    for verdict in verdicts {
        if let Some(saved) = save(runner, verdict) {
            let counterexample = self::counterexample(runner, &saved, verdict.schedules)?;
            let name = file_name(verdict.algorithm, verdict.class, verdict.property);
            write(&folder.join(name), &counterexample.to_html())?;
        }
    }
    Ok(())
}

/// Writes the page with the table of these verdicts. Verdicts of its algorithms that are missing
/// are not judged.
pub(crate) fn write_table(
    folder: &Path,
    algorithms: &[&'static Algorithm],
    verdicts: &[&Verdict],
) -> Result<()> {
    let classes: Vec<Class> = FaultClass::ALL.iter().map(|&class| Class::new(class)).collect();
    let sections: Vec<Section> =
        algorithms.iter().map(|algorithm| Section::new(algorithm, verdicts)).collect();
    let missing: usize = sections.iter().map(|section| section.missing).sum();
    let values = context! {
        lease_ms => LEASE.as_millis() as u64, missing, judged => verdicts.len(),
        stated => verdicts.iter().filter(|verdict| verdict.is_as_stated()).count(),
        classes => Serde(&classes), sections => Serde(&sections),
    };
    // The end of the name says that values are escaped.
    let page = Environment::new().render_named_str("table.html", include_str!("table.html"), values);
    write(&folder.join(INDEX), &page.context("the page of the table is not valid")?)
}

fn file_name(algorithm: &Algorithm, class: FaultClass, property: Property) -> String {
    format!("{}.{class}.{property}.html", algorithm.name)
}

#[derive(Serialize)]
struct Class {
    name: &'static str,
    description: String,
    bounds: Vec<String>,
}

impl Class {
    fn new(class: FaultClass) -> Class {
        let bounds = bounds(class, LEASE).iter().map(ToString::to_string).collect();
        Class { name: class.name(), description: class.description().to_owned(), bounds }
    }
}

/// The part of the table that belongs to an algorithm.
#[derive(Serialize)]
struct Section {
    name: &'static str,
    guarantees: &'static str,
    assumes: &'static str,
    objection: &'static str,
    lines: Vec<Line>,
    /// The cells of each class as one.
    merged: Vec<Merged>,
    /// The explorations of each class, by class.
    explorations: Vec<(&'static str, Vec<String>)>,
    /// The number of missing verdicts.
    missing: usize,
}

/// The verdicts on a property, by class.
#[derive(Serialize)]
struct Line {
    property: &'static str,
    cells: Vec<Cell>,
}

#[derive(Serialize)]
struct Cell {
    /// `None` if the property is not asked.
    #[serde(skip)]
    mark: Option<Mark>,
    kind: &'static str,
    text: String,
    link: Option<String>,
    is_as_stated: bool,
}

/// The verdicts of a class on all properties.
#[derive(Serialize)]
struct Merged {
    kind: &'static str,
    text: String,
}

impl Section {
    fn new(algorithm: &'static Algorithm, verdicts: &[&Verdict]) -> Section {
        let own: Vec<&Verdict> =
            verdicts.iter().copied().filter(|verdict| verdict.algorithm.name == algorithm.name).collect();
        let is_asked = |property, class| properties(algorithm, class).contains(&property);
        let cell = |property: Property, class: FaultClass| {
            let found = own.iter().find(|verdict| (verdict.property, verdict.class) == (property, class));
            found.map_or_else(
                || Cell::without_verdict(is_asked(property, class)),
                |verdict| Cell::new(verdict),
            )
        };
        let lines: Vec<Line> = asked(algorithm)
            .into_iter()
            .map(|property| Line {
                property: property.name(),
                cells: FaultClass::ALL.iter().map(|&class| cell(property, class)).collect(),
            })
            .collect();
        let explorations = FaultClass::ALL.iter().filter_map(|&class| {
            let verdict = own.iter().find(|verdict| verdict.class == class)?;
            Some((class.name(), verdict.parts.iter().map(exploration).collect()))
        });
        let classes = 0..FaultClass::ALL.len();
        let merged = classes.map(|class| Merged::of(lines.iter().map(|line| &line.cells[class]))).collect();
        let missing = lines.iter().flat_map(|line| &line.cells).filter(|cell| cell.kind == "unknown").count();
        let spec = algorithm.spec;
        Section {
            name: algorithm.name,
            guarantees: spec.guarantees,
            assumes: spec.assumes,
            objection: spec.objection,
            explorations: explorations.collect(),
            lines,
            merged,
            missing,
        }
    }
}

impl Merged {
    fn of<'a>(cells: impl Iterator<Item = &'a Cell>) -> Merged {
        let marks: Vec<Mark> = cells.filter_map(|cell| cell.mark).collect();
        let (kind, text) =
            Mark::worst(&marks).map_or(("none", "–".into()), |(mark, text)| (kind_of(mark), text));
        Merged { kind, text }
    }
}

/// The class by which the style draws a verdict.
fn kind_of(mark: Mark) -> &'static str {
    match mark {
        Mark::Violated => "violated",
        Mark::Unjudged => "unknown",
        Mark::Vacuous => "vacuous",
        Mark::Sampled | Mark::Holds => "holds",
    }
}

/// An exploration in words.
fn exploration(Part { bound, size, schedules, is_sampled, limit }: &Part) -> String {
    let how = if *is_sampled {
        format!("more than {limit}, so a sample was run")
    } else {
        "all that there are".into()
    };
    format!("{bound} ({size}): {schedules} schedules, {how}")
}

impl Cell {
    fn new(verdict: &Verdict) -> Cell {
        let place = format!("#{}.{}", verdict.algorithm.name, verdict.class);
        let (mark, text, link) = match &verdict.outcome {
            Outcome::Holds if verdict.is_sampled() => {
                (Mark::Sampled, format!("✓ ~{}", verdict.schedules), place)
            }
            Outcome::Holds => (Mark::Holds, format!("✓ {}", verdict.schedules), place),
            Outcome::Vacuous(_) => (Mark::Vacuous, "vacuous".into(), place),
            Outcome::Violated(finding, _) => {
                let link = file_name(verdict.algorithm, verdict.class, verdict.property);
                (Mark::Violated, format!("✗ {}", finding.violation.step), link)
            }
        };
        Cell {
            mark: Some(mark),
            kind: kind_of(mark),
            text,
            link: Some(link),
            is_as_stated: verdict.is_as_stated(),
        }
    }

    /// The property is not asked for in the class, or is not judged.
    fn without_verdict(is_asked: bool) -> Cell {
        let (kind, text) = if is_asked { (kind_of(Mark::Unjudged), "?") } else { ("none", "") };
        let mark = is_asked.then_some(Mark::Unjudged);
        Cell { mark, kind, text: text.into(), link: None, is_as_stated: true }
    }
}
