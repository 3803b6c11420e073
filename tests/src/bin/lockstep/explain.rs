//! `lockstep explain`: the timeline of one counterexample.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use harness::check::{LEASE, Outcome, Verdict, check, properties, save, scenario, scenario_of};
use harness::execution::Runner;
use harness::explore::render_finding;
use harness::page::Counterexample;
use harness::{SavedSchedule, replay_saved};
use locks::registry::{Algorithm, FaultClass, Property};

use crate::check::Sampling;
use crate::table::Format;

/// Print the shortest counterexample of an algorithm: each step with its command, reply and time,
/// and which clients are inside
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The algorithm
    name: String,
    /// The property to violate; by default the first that is violated
    #[arg(long)]
    property: Option<String>,
    /// The fault class; by default the first in which the property is violated
    #[arg(long)]
    class: Option<String>,
    #[command(flatten)]
    sampling: Sampling,
    /// Save the schedule in this file, for `replay`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Write the counterexample to this file as an HTML page that needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How to print the counterexample
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let algorithm = super::find(&args.name)?;
    let wanted = args.property.as_deref().map(|name| find_property(algorithm, name)).transpose()?;
    let class = args.class.as_deref().map(find_class).transpose()?;
    let is_meant = |&known: &FaultClass| {
        class.is_none_or(|class| class == known)
            && wanted.is_none_or(|property| properties(algorithm, known).contains(&property))
    };
    let classes: Vec<FaultClass> = FaultClass::ALL.iter().copied().filter(is_meant).collect();
    if let (Some(property), Some(class), []) = (wanted, class, &classes[..]) {
        bail!("{property} is not checked for {} in the class {class}: leave out --class", algorithm.name);
    }
    let is_wanted = |verdict: &&Verdict| wanted.is_none_or(|property| verdict.property == property);
    let mut runner = Runner::new();
    let mut text = about(algorithm);
    let (mut schedules, mut sampled, mut vacuous) = (0, Vec::new(), Vec::new());
    for &class in &classes {
        let verdicts = check(&mut runner, algorithm, class, args.sampling.effort())?;
        if let Some(verdict) = verdicts.first() {
            schedules += verdict.schedules;
            sampled.extend(verdict.is_sampled().then_some(class.name()));
        }
        let found = verdicts.iter().filter(is_wanted).find_map(|verdict| match &verdict.outcome {
            Outcome::Violated(finding, size) => Some((verdict, finding, size)),
            Outcome::Vacuous(missing) => {
                vacuous.push(format!("{class} ({missing})"));
                None
            }
            Outcome::Holds => None,
        });
        if let Some((verdict, finding, size)) = found {
            let scenario = scenario(algorithm, class, *size);
            let drawn = render_finding(&mut runner, &scenario, finding, super::width());
            text += &format!(
                "{} is violated in the class {class}. {size}; lease: {} ms.\n\n{drawn}",
                verdict.property,
                LEASE.as_millis(),
            );
            show(args, &mut runner, verdict, schedules, &text)?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    if !vacuous.is_empty() {
        bail!(
            "the schedules in {} do not test the property, so its verdict is unknown: run more with --limit or --samples",
            vacuous.join(", ")
        );
    }
    let what = wanted.map_or("every property", Property::name);
    let classes: Vec<_> = classes.iter().map(|class| class.name()).collect();
    text += &format!(
        "{what} holds in {}: none of {schedules} schedules is a counterexample.\n",
        classes.join(", ")
    );
    if !sampled.is_empty() {
        text += &format!("In {}, some schedules were only sampled.\n", sampled.join(", "));
    }
    super::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a counterexample, and writes the files that are asked for. So many schedules were run to
/// find it.
fn show(args: &Args, runner: &mut Runner, verdict: &Verdict, schedules: u64, text: &str) -> Result<()> {
    let saved = save(runner, verdict).context("the verdict has no schedule")?;
    match args.format {
        Format::Text => super::print(text)?,
        Format::Json => super::print(&(as_data(runner, &saved, schedules)?.to_json() + "\n"))?,
    }
    if let Some(path) = &args.save {
        super::write(path, &saved.to_string())?;
    }
    if let Some(path) = &args.html {
        super::write(path, &as_data(runner, &saved, schedules)?.to_html())?;
    }
    Ok(())
}

/// Replays a saved counterexample.
fn as_data(runner: &mut Runner, saved: &SavedSchedule, schedules: u64) -> Result<Counterexample> {
    let of = scenario_of(saved, LEASE).context("the algorithm is not known")?;
    let counterexample = replay_saved(runner, &of, saved)?.counterexample(runner, &of)?;
    let counterexample = counterexample.context("the schedule does not show the violation again")?;
    Ok(Counterexample { explored: Some(schedules), ..counterexample })
}

fn about(algorithm: &Algorithm) -> String {
    let spec = algorithm.spec;
    format!(
        "{}\n  guarantees  {}\n  assumes     {}\n  objection   {}\n\n",
        algorithm.name, spec.guarantees, spec.assumes, spec.objection
    )
}

fn find_property(algorithm: &Algorithm, name: &str) -> Result<Property> {
    let is_asked = |property: &Property| {
        FaultClass::ALL.iter().any(|&class| properties(algorithm, class).contains(property))
    };
    let known: Vec<Property> = Property::ALL.iter().copied().filter(is_asked).collect();
    known.iter().copied().find(|property| property.name() == name).with_context(|| {
        let known: Vec<_> = known.iter().map(|property| property.name()).collect();
        format!("{} has no property {name:?}; it has {}", algorithm.name, known.join(", "))
    })
}

fn find_class(name: &str) -> Result<FaultClass> {
    FaultClass::named(name).with_context(|| {
        let known: Vec<_> = FaultClass::ALL.iter().map(|class| class.name()).collect();
        format!("there is no class {name:?}; there are {}", known.join(", "))
    })
}
