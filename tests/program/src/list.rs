//! `lockstep list`: the names that the other commands take, and what each means.

use std::process::ExitCode;

use anyhow::Result;
use harness::check::{LEASE, bounds};
use harness::fault::FaultKind;
use locks::registry::{ALGORITHMS, Algorithm, FaultClass, Property};
use serde::Serialize;

use crate::debates::{Claim, DEBATES, Debate};
use crate::grid::{drawn, wrapping};
use crate::output::{WIDTH, width};
use crate::shard::asked;
use crate::table::Format;

/// List the algorithms, properties, fault classes, faults and debates, each with its meaning
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// List only these; by default, everything
    #[arg(value_enum)]
    what: Option<Kind>,
    /// How to print the list
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The locks, limiters and queues that `check` and `explain` know
    Algorithms,
    /// The properties that each algorithm is tested for
    Oracles,
    /// The classes of faults: the columns of the verdict table
    Classes,
    /// The steps of a schedule that are faults
    Faults,
    /// The debates about locks that `explain` knows
    Debates,
}

/// Everything that is listed, for programs.
#[derive(Serialize)]
struct List {
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithms: Option<Vec<ListedAlgorithm>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oracles: Option<Vec<Listed>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    classes: Option<Vec<ListedClass>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    faults: Option<Vec<ListedFault>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    debates: Option<Vec<ListedDebate>>,
}

#[derive(Serialize)]
struct ListedAlgorithm {
    name: &'static str,
    guarantees: &'static str,
    assumes: &'static str,
    objection: &'static str,
    servers: usize,
    /// The properties that are asked of it in some class.
    oracles: Vec<&'static str>,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct ListedClass {
    #[serde(flatten)]
    listed: Listed,
    bounds: Vec<String>,
}

#[derive(Serialize)]
struct ListedDebate {
    name: &'static str,
    about: &'static str,
    sources: &'static [&'static str],
    claims: Vec<ListedClaim>,
}

#[derive(Serialize)]
struct ListedClaim {
    scenario: &'static str,
    says: &'static str,
    passes: bool,
}

#[derive(Serialize)]
struct ListedFault {
    /// An example of the step.
    step: String,
    description: &'static str,
    /// The methods of `Faults` that allow it.
    budgets: &'static [&'static str],
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let list = List::new(args.what);
    match args.format {
        Format::Text => super::print(&list.render(width().unwrap_or(WIDTH)))?,
        Format::Json => super::print_json(&(serde_json::to_string_pretty(&list)? + "\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl List {
    fn new(what: Option<Kind>) -> List {
        let is_asked = |kind| what.is_none_or(|what| what == kind);
        List {
            algorithms: is_asked(Kind::Algorithms)
                .then(|| ALGORITHMS.iter().map(ListedAlgorithm::new).collect()),
            oracles: is_asked(Kind::Oracles).then(|| {
                let listed = |of: &Property| Listed { name: of.name(), description: of.description() };
                Property::ALL.iter().map(listed).collect()
            }),
            classes: is_asked(Kind::Classes)
                .then(|| FaultClass::ALL.iter().copied().map(ListedClass::new).collect()),
            faults: is_asked(Kind::Faults)
                .then(|| FaultKind::ALL.iter().copied().map(ListedFault::new).collect()),
            debates: is_asked(Kind::Debates).then(|| DEBATES.iter().map(ListedDebate::new).collect()),
        }
    }

    fn render(&self, width: usize) -> String {
        let algorithms = self.algorithms.as_ref().map(|all| {
            let rows = all.iter().map(|of| vec![of.name.into(), of.guarantees.into()]);
            section("Algorithms, for check and explain; each with its guarantee", rows, width)
        });
        let oracles = self.oracles.as_ref().map(|all| {
            let rows = all.iter().map(|of| vec![of.name.into(), of.description.into()]);
            section("Oracles, for explain --property", rows, width)
        });
        let classes = self.classes.as_ref().map(|all| {
            let rows = all.iter().map(|of| vec![of.listed.name.into(), of.listed.description.into()]);
            section("Fault classes, for explain --class", rows, width)
        });
        let faults = self.faults.as_ref().map(|all| {
            let rows =
                all.iter().map(|of| vec![of.step.clone(), of.budgets.join(", "), of.description.into()]);
            section("Faults, as steps of a schedule; with the methods of Faults that allow them", rows, width)
        });
        let debates = self.debates.as_ref().map(|all| {
            let rows = all.iter().map(|of| vec![of.name.into(), of.about.into()]);
            section("Debates about locks, for explain", rows, width)
        });
        [algorithms, oracles, classes, faults, debates].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }
}

impl ListedAlgorithm {
    fn new(of: &Algorithm) -> ListedAlgorithm {
        ListedAlgorithm {
            name: of.name,
            guarantees: of.spec.guarantees,
            assumes: of.spec.assumes,
            objection: of.spec.objection,
            servers: of.servers(),
            oracles: asked(of).into_iter().map(Property::name).collect(),
        }
    }
}

impl ListedClass {
    fn new(class: FaultClass) -> ListedClass {
        let listed = Listed { name: class.name(), description: class.description() };
        ListedClass { listed, bounds: bounds(class, LEASE).iter().map(ToString::to_string).collect() }
    }
}

impl ListedDebate {
    fn new(of: &Debate) -> ListedDebate {
        let claim = |of: &Claim| ListedClaim { scenario: of.scenario, says: of.says, passes: of.passes };
        ListedDebate {
            name: of.name,
            about: of.about,
            sources: of.sources,
            claims: of.claims.iter().map(claim).collect(),
        }
    }
}

impl ListedFault {
    fn new(kind: FaultKind) -> ListedFault {
        let (step, description, budgets) = kind.documentation();
        ListedFault { step, description, budgets }
    }
}

/// A heading, and rows that are wrapped within their columns.
fn section(heading: &str, rows: impl Iterator<Item = Vec<String>>, width: usize) -> String {
    let mut grid = wrapping(width);
    grid.add_rows(rows);
    format!("{heading}\n{}", drawn(&grid))
}
