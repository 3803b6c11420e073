//! `lockstep explain`: the timeline of one counterexample.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use harness::check::{LEASE, Outcome, Verdict, check, properties, save, scenario, terms};
use harness::execution::Runner;
use harness::explore::{Problem, render_finding};
use harness::{SavedSchedule, exhaustive, replay_saved};
use indicatif::ProgressBar;
use locks::registry::{Algorithm, FaultClass, Property};

use crate::check::Sampling;
use crate::debates::{self, Debate};
use crate::output::{columns, complain, print, print_json, wrapped, write};
use crate::pages::{Drawings, counterexample};
use crate::progress::spinner;
use crate::shard::asked;
use crate::table::Format;
use crate::{names, stop};

/// Print the shortest counterexample of an algorithm: each step with its command, reply and time,
/// and which clients are inside
///
/// Of a debate, it prints each claim and whether that holds, with the counterexample if it does
/// not.
///
/// It explores one fault class after the other, the mildest first. If you stop it with Ctrl-C, it
/// says which classes have no counterexample.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The algorithm, as in `lockstep list algorithms`, or the debate, as in `lockstep list
    /// debates`
    #[arg(value_parser = names::explained(), hide_possible_values = true)]
    name: String,
    /// The property to violate; by default the first that is violated
    #[arg(long, value_name = "P", value_parser = names::properties())]
    property: Option<String>,
    /// The fault class; by default the first in which the property is violated
    #[arg(long, value_name = "C", value_parser = names::classes())]
    class: Option<String>,
    /// The claim of a debate whose counterexample is saved and drawn, by its number; by default the
    /// first that has one
    #[arg(long, value_name = "N")]
    claim: Option<usize>,
    #[command(flatten)]
    sampling: Sampling,
    /// Save the schedule in this file, for `replay`
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    drawings: Drawings,
    /// How to print the counterexample
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    args.drawings.expect_other_files(args.save.as_deref().as_slice())?;
    if let Some(debate) = debates::find(&args.name) {
        return explain_debate(args, debate);
    }
    let algorithm = names::find(&args.name)?;
    let wanted = args.property.as_deref().map(|name| find_property(algorithm, name)).transpose()?;
    let classes = classes_of(args, algorithm, wanted)?;
    let is_wanted = |verdict: &&Verdict| wanted.is_none_or(|property| verdict.property == property);
    let mut runner = Runner::new();
    let progress = watch(algorithm, &classes);
    let mut text = about(algorithm);
    let (mut schedules, mut sampled, mut vacuous) = (0, Vec::new(), Vec::new());
    for &class in &classes {
        progress.set_message(format!("exploring {} in the class {class}", algorithm.name));
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
            let drawn = render_finding(&mut runner, &scenario, finding, columns());
            let (property, terms) = (verdict.property, terms(algorithm, *size, LEASE));
            let stated = stated(algorithm, verdict);
            text += &wrapped(&format!("{property} is violated in the class {class}. {terms}\n{stated}"), "");
            text += &format!("\n{drawn}");
            progress.finish_and_clear();
            let saved = save(&mut runner, verdict).context("the verdict has no schedule")?;
            show(args, &mut runner, Some(&(saved, schedules)), &text)?;
            return Ok(ExitCode::SUCCESS);
        }
        progress.inc(1);
    }
    progress.finish_and_clear();
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
    show(args, &mut runner, None, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The fault classes to explore, in order.
fn classes_of(args: &Args, algorithm: &Algorithm, wanted: Option<Property>) -> Result<Vec<FaultClass>> {
    if args.claim.is_some() {
        bail!("{} is an algorithm, which has no claims: leave out --claim", algorithm.name);
    }
    let class = args.class.as_deref().map(names::find_class).transpose()?;
    let is_meant = |&known: &FaultClass| {
        class.is_none_or(|class| class == known)
            && wanted.is_none_or(|property| properties(algorithm, known).contains(&property))
    };
    let classes: Vec<FaultClass> = FaultClass::ALL.iter().copied().filter(is_meant).collect();
    match (wanted, class, &classes[..]) {
        (Some(property), Some(class), []) => {
            bail!("{property} is not checked for {} in the class {class}: leave out --class", algorithm.name)
        }
        _ => Ok(classes),
    }
}

/// Explores each claim of a debate, and prints what comes out.
fn explain_debate(args: &Args, debate: &Debate) -> Result<ExitCode> {
    if args.property.is_some() || args.class.is_some() {
        bail!("{} is a debate, which has no fault classes: leave out --property and --class", debate.name);
    }
    let claims = debate.claims.len();
    if let Some(claim) = args.claim.filter(|claim| !(1..=claims).contains(claim)) {
        bail!("{} has no claim {claim}: name one from 1 to {claims}", debate.name);
    }
    let mut runner = Runner::new();
    let sources: String = debate.sources.iter().map(|source| format!("\n  source  {source}")).collect();
    let about = format!("{}\n  about   {}{sources}", debate.name, debate.about);
    let mut text = wrapped(&about, "          ");
    let (mut found, mut are_as_stated) = (None, true);
    for (number, claim) in (1..).zip(debate.claims) {
        let scenario = claim.scenario(LEASE);
        let explored = exhaustive(&scenario);
        let is_as_stated = explored.is_ok() == claim.passes;
        are_as_stated &= is_as_stated;
        let (outcome, drawn) = match explored {
            Ok(passed) => (passed.to_string(), String::new()),
            Err(report) => {
                let Problem::Violated { property, saved, .. } = &report.problem else { bail!("{report}") };
                let replayed = replay_saved(&mut runner, &scenario, saved)?;
                if args.claim.is_none_or(|wanted| wanted == number) {
                    found.get_or_insert((saved.clone(), report.schedules));
                }
                (format!("{property} is violated"), format!("\n{replayed:columns$}", columns = columns()))
            }
        };
        text += &wrapped(&format!("\n{number}. {}\n{}: {outcome}.\n", claim.says, claim.scenario), "");
        text += &drawn;
        if !is_as_stated {
            text += "The debate says otherwise: please report it.\n";
        }
    }
    show(args, &mut runner, found.as_ref(), &text)?;
    Ok(ExitCode::from(u8::from(!are_as_stated)))
}

/// Prints what was found, and writes the files that are asked for: those of a counterexample that
/// was found in so many schedules in all.
fn show(args: &Args, runner: &mut Runner, found: Option<&(SavedSchedule, u64)>, text: &str) -> Result<()> {
    let Some((saved, schedules)) = found else {
        print(text)?;
        if args.save.is_some() || args.drawings.is_any() {
            let of = args.claim.map(|claim| format!(" of claim {claim}")).unwrap_or_default();
            bail!("no file is written: there is no counterexample{of}");
        }
        return Ok(());
    };
    let is_needed = matches!(args.format, Format::Json) || args.drawings.is_any();
    let data = is_needed.then(|| counterexample(runner, saved, *schedules)).transpose()?;
    match (args.format, &data) {
        (Format::Json, Some(data)) => print_json(&(data.to_json() + "\n"))?,
        _ => print(text)?,
    }
    if let Some(path) = &args.save {
        write(path, &saved.to_string())?;
    }
    data.map_or(Ok(()), |data| args.drawings.write(data))
}

/// Whether the algorithm itself states a violation, as a sentence.
fn stated(algorithm: &Algorithm, verdict: &Verdict) -> &'static str {
    match algorithm.spec.holds(verdict.property, verdict.class) {
        true => "The algorithm states that this cannot happen: please report it.",
        false => {
            "The algorithm states this itself: it assumes that this does not happen, or its objection says so."
        }
    }
}

fn about(algorithm: &Algorithm) -> String {
    let spec = algorithm.spec;
    let about = format!(
        "{}\n  guarantees  {}\n  assumes     {}\n  objection   {}",
        algorithm.name, spec.guarantees, spec.assumes, spec.objection
    );
    wrapped(&about, "              ") + "\n"
}

fn find_property(algorithm: &Algorithm, name: &str) -> Result<Property> {
    let known = asked(algorithm);
    known.iter().copied().find(|property| property.name() == name).with_context(|| {
        let names: Vec<_> = known.iter().map(|property| property.name()).collect();
        let hint = names::did_you_mean(name, names.iter().copied());
        format!("{} has no property {name:?}; it has {}{hint}", algorithm.name, names.join(", "))
    })
}

/// Shows which class is explored. If the user stops the search, says what is known so far.
fn watch(algorithm: &'static Algorithm, classes: &[FaultClass]) -> ProgressBar {
    let progress = spinner();
    let (watched, names) = (progress.downgrade(), classes.iter().map(|class| class.name()));
    let names: Vec<&str> = names.collect();
    stop::on_signal(move || {
        let Some(progress) = watched.upgrade().filter(|progress| !progress.is_finished()) else {
            stop::end();
        };
        let (done, open) = names.split_at(names.len().min(progress.position() as usize));
        progress.finish_and_clear();
        let found = match done {
            [] => String::new(),
            done => format!("no counterexample was found in {}, and ", done.join(", ")),
        };
        let (name, open) = (algorithm.name, open.join(", "));
        complain(&format!("PARTIAL: {name}: stopped; {found}{open} are not judged\n"));
        stop::end();
    });
    progress
}
