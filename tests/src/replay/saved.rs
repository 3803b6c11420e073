//! A saved schedule: a text that a person can read and edit. It keeps its meaning if the code
//! changes.
//!
//! ```text
//! lockstep schedule 1
//! algorithm setnx_expire
//! class crash
//! clients 1
//! permits 1
//! lease 10000ms
//! property recovers
//! must fail
//!
//! A 1 SETNX lock
//! crash A       # what follows a # is a comment
//! ```
//!
//! The words after an actor are the number of its command, the command's name and its first key.
//! They are from the time when the schedule was saved, and do not change the execution. If the code
//! now sends another command, the replay reports it and continues.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use locks::registry::FaultClass;

use crate::actor::ACTORS_MAX;
use crate::fault::parse_millis;
use crate::oracle::Oracle;
use crate::render::{is_printable, on_one_line};
use crate::scenario::Scenario;
use crate::schedule::{SPAN_MAX, Schedule, Step, parse_step, read_step};
use crate::trace::{EventKind, History};

/// The version of the format. Only this one is written and read.
const VERSION: u32 = 1;

/// A schedule with its scenario and its expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedSchedule {
    /// The scenario or algorithm of the schedule.
    pub subject: Subject,
    /// The number of actors.
    pub clients: usize,
    /// How long a grant lasts.
    pub lease: Duration,
    /// The name of the oracle.
    pub property: String,
    /// The result that the oracle must have.
    pub expectation: Expectation,
    /// The steps in order.
    pub steps: Vec<SavedStep>,
}

/// The scenario or algorithm of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An algorithm of the registry.
    Algorithm {
        /// The name of the algorithm.
        name: String,
        /// The fault class.
        class: FaultClass,
        /// Permits of a semaphore; 1 for a lock.
        permits: u32,
        /// For a read-write lock, how many of the clients read. The first clients read, and the
        /// others write.
        readers: Option<usize>,
        /// How long a server that restarts refuses requests. The steps do not say it.
        outage: Duration,
    },
    /// The scenario of this name. Only the test that made it has it.
    Scenario(String),
}

/// The result that a replay must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expectation {
    /// The property holds.
    Pass,
    /// The property is violated.
    Fail,
}

/// A step, and the command that ran in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedStep {
    /// The step.
    pub step: Step,
    /// The command that ran in it.
    pub expected: Option<ExpectedCommand>,
}

/// A command as it was when the schedule was saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedCommand {
    /// The number of this command among those of its actor, from 1.
    pub nth: usize,
    /// The name and first key of the command. A text may have fewer words, or none.
    pub brief: String,
}

impl SavedStep {
    /// The first `count` steps of an execution, with the commands that ran in them. The execution
    /// must have a full recording.
    pub fn of(history: &History, count: usize) -> Vec<SavedStep> {
        let steps = history.steps.iter().take(count).enumerate();
        steps.map(|(idx, &step)| SavedStep { step, expected: seen(history, step, idx + 1) }).collect()
    }
}

impl Scenario {
    /// The first `count` steps of an execution that violates a property, as a saved schedule.
    pub(crate) fn saved(&self, oracle: &dyn Oracle, history: &History, count: usize) -> SavedSchedule {
        SavedSchedule {
            subject: Subject::Scenario(self.name.clone()),
            clients: self.actors.len(),
            lease: self.lease,
            property: oracle.name().into(),
            expectation: Expectation::Fail,
            steps: SavedStep::of(history, count),
        }
    }
}

impl SavedSchedule {
    /// The steps without their commands.
    pub fn schedule(&self) -> Schedule {
        Schedule { steps: self.steps.iter().map(|saved| saved.step).collect() }
    }

    /// The places at which an execution diverged from the schedule, in sentences. `taken` holds,
    /// for each step of the schedule, its number in the execution.
    pub fn divergences(&self, history: &History, taken: &[Option<usize>]) -> Vec<String> {
        let places = taken.iter().copied().chain(std::iter::repeat(None));
        let diverging = self.steps.iter().zip(places).enumerate();
        diverging.filter_map(|(idx, (saved, place))| saved.divergence(history, idx + 1, place)).collect()
    }

    /// How many steps an execution skipped. `taken` is as for [`SavedSchedule::divergences`].
    pub fn skipped(&self, taken: &[Option<usize>]) -> usize {
        let places = taken.iter().copied().chain(std::iter::repeat(None));
        self.steps.iter().zip(places).filter(|(saved, place)| place.is_none() && saved.matters()).count()
    }
}

impl SavedStep {
    /// Whether the schedule means something else without this step. If nothing else can happen,
    /// time passes by itself.
    fn matters(&self) -> bool {
        self.step != Step::Wait
    }

    fn divergence(&self, history: &History, number: usize, place: Option<usize>) -> Option<String> {
        let Some(place) = place else {
            return match (&self.expected, self.step) {
                _ if !self.matters() => None,
                (Some(expected), Step::Run(actor, _)) => Some(format!(
                    "step {number}: expected {actor}'s command {expected}, {actor} has nothing to send: skipped"
                )),
                (_, step) => Some(format!("step {number}: `{step}` is not possible here: skipped")),
            };
        };
        let (Some(expected), Step::Run(actor, _)) = (&self.expected, self.step) else { return None };
        let sent = match seen(history, self.step, place) {
            Some(sent) if expected.is_met_by(&sent) => return None,
            Some(sent) if sent.nth == expected.nth => format!("client sent {:?}", sent.brief),
            Some(sent) => format!("client sent its command {sent}"),
            None => "client sent nothing".into(),
        };
        Some(format!("step {number}: expected {actor}'s command {expected}, {sent}"))
    }
}

/// The command that an actor sent in a step, or the message that it received.
fn seen(history: &History, step: Step, number: usize) -> Option<ExpectedCommand> {
    let Step::Run(actor, _) = step else { return None };
    let own = history.events.iter().filter_map(|event| match &event.kind {
        EventKind::Command { actor: by, brief, .. } | EventKind::Message { actor: by, brief, .. }
            if *by == actor =>
        {
            Some((event.step, brief))
        }
        _ => None,
    });
    let mut numbered = own.zip(1..);
    numbered.find_map(|((step, brief), nth)| {
        (step == number).then(|| ExpectedCommand { nth, brief: brief.clone() })
    })
}

impl ExpectedCommand {
    fn is_met_by(&self, sent: &ExpectedCommand) -> bool {
        let mut words = sent.brief.split(' ');
        self.nth == sent.nth && self.brief.split_whitespace().all(|word| words.next() == Some(word))
    }
}

/// Prints `2 "EVALSHA lock:a"`.
impl fmt::Display for ExpectedCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.nth, self.brief)
    }
}

impl fmt::Display for SavedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expected {
            Some(ExpectedCommand { nth, brief }) => write!(f, "{} {nth} {}", self.step, on_one_line(brief)),
            None => self.step.fmt(f),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Expectation::Pass => "pass",
            Expectation::Fail => "fail",
        })
    }
}

impl fmt::Display for SavedSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lockstep schedule {VERSION}")?;
        match &self.subject {
            Subject::Algorithm { name, class, permits, readers, outage } => {
                writeln!(f, "algorithm {}\nclass {class}\npermits {permits}", on_one_line(name))?;
                readers.iter().try_for_each(|readers| writeln!(f, "readers {readers}"))?;
                if !outage.is_zero() {
                    writeln!(f, "outage {}ms", outage.as_millis())?;
                }
            }
            Subject::Scenario(name) => writeln!(f, "scenario {}", on_one_line(name))?,
        }
        let SavedSchedule { clients, lease, expectation, .. } = self;
        let property = on_one_line(&self.property);
        writeln!(
            f,
            "clients {clients}\nlease {}ms\nproperty {property}\nmust {expectation}\n",
            lease.as_millis()
        )?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{}", step.to_string().trim_end()))
    }
}

/// Why a text is not a saved schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct SavedError {
    /// The line number, from 1.
    pub line: usize,
    /// The mistake, and what to write instead.
    pub what: String,
}

impl FromStr for SavedSchedule {
    type Err = SavedError;

    /// Parses a saved schedule. Characters that a terminal cannot show are allowed only in
    /// comments.
    fn from_str(text: &str) -> Result<SavedSchedule, SavedError> {
        let text = text.replace('\t', " ");
        let mut lines = text
            .lines()
            .zip(1..)
            .map(|(line, number)| Line { number, text: without_comment(line) })
            .filter(|line| !line.text.is_empty());
        let first = lines.next().unwrap_or(Line { number: 1, text: "" });
        match first.text.strip_prefix("lockstep schedule ").map(|version| version.trim().parse()) {
            Some(Ok(VERSION)) => {}
            Some(Ok(version)) => {
                return first.wrong(format!(
                    "the file has format version {version}, and this program reads only version {VERSION}"
                ));
            }
            _ => return first.wrong(format!("a saved schedule begins with `lockstep schedule {VERSION}`")),
        }
        let (mut header, mut steps) = (Header::default(), Vec::new());
        let mut last = first;
        for line in lines {
            if let Some(hidden) = line.text.chars().find(|&c| !is_printable(c)) {
                return line.wrong(format!(
                    "remove the character {hidden:?} from {:?}: a terminal cannot show it",
                    line.text
                ));
            }
            let (word, value) = line.text.split_once(char::is_whitespace).unwrap_or((line.text, ""));
            match FIELDS.iter().position(|field| field.name == word) {
                Some(_) if !steps.is_empty() => {
                    return line.wrong(format!("`{word}` belongs before the first step"));
                }
                Some(field) if header.0[field].is_some() => {
                    return line.wrong(format!("`{word}` is there twice: remove one of the lines"));
                }
                Some(field) => header.0[field] = Some(Line { number: line.number, text: value.trim() }),
                None => steps.push(parse_saved_step(line)?),
            }
            last = line;
        }
        header.saved(steps, last)
    }
}

/// A line without its comment, and its number.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

impl Line<'_> {
    fn wrong<T>(self, what: impl Into<String>) -> Result<T, SavedError> {
        Err(SavedError { line: self.number, what: what.into() })
    }
}

/// The line without its comment. A `#` begins a comment at the start of a line and after a space.
/// Inside a word it belongs to a key or a name.
fn without_comment(line: &str) -> &str {
    let is_comment =
        |&(at, _): &(usize, &str)| line[..at].chars().next_back().is_none_or(char::is_whitespace);
    let end = line.match_indices('#').find(is_comment).map_or(line.len(), |(at, _)| at);
    line[..end].trim()
}

/// A kind of line before the steps.
struct Field {
    name: &'static str,
    /// An example of such a line.
    example: &'static str,
}

const FIELDS: [Field; 10] = [
    Field { name: "algorithm", example: "algorithm setnx_expire" },
    Field { name: "scenario", example: "scenario my lock" },
    Field { name: "class", example: "class order" },
    Field { name: "permits", example: "permits 1" },
    Field { name: "readers", example: "readers 1" },
    Field { name: "outage", example: "outage 10001ms" },
    Field { name: "clients", example: "clients 2" },
    Field { name: "lease", example: "lease 10000ms" },
    Field { name: "property", example: "property exclusive-fact" },
    Field { name: "must", example: "must fail" },
];

/// The lines before the steps, each at the index of its field.
#[derive(Default)]
struct Header<'a>([Option<Line<'a>>; FIELDS.len()]);

impl Header<'_> {
    /// Makes the saved schedule. If a field is missing, the error is at the line `last`.
    fn saved(&self, steps: Vec<SavedStep>, last: Line<'_>) -> Result<SavedSchedule, SavedError> {
        let clients = || self.get("clients", last, |n| n.parse().ok().filter(|&n| n <= ACTORS_MAX));
        let subject = match (self.0[0], self.0[1]) {
            (Some(_), Some(scenario)) => {
                return scenario.wrong("there is an `algorithm` already: remove one of the lines");
            }
            (None, Some(scenario)) => Subject::Scenario(scenario.text.into()),
            (_, None) => Subject::Algorithm {
                name: self.get("algorithm", last, |name| Some(name.to_owned()))?,
                class: self.get("class", last, FaultClass::named)?,
                permits: self.get("permits", last, |n| {
                    n.parse().ok().filter(|&n: &u32| (1..=ACTORS_MAX as u32).contains(&n))
                })?,
                readers: match self.line("readers") {
                    Some(_) => {
                        let clients = clients()?;
                        Some(self.get("readers", last, |n| n.parse().ok().filter(|&n| n <= clients))?)
                    }
                    None => None,
                },
                outage: match self.line("outage") {
                    Some(_) => self.get("outage", last, parse_span)?,
                    None => Duration::ZERO,
                },
            },
        };
        Ok(SavedSchedule {
            subject,
            clients: clients()?,
            lease: self.get("lease", last, parse_span)?,
            property: self.get("property", last, |name| Some(name.to_owned()))?,
            expectation: self.get("must", last, |word| match word {
                "pass" => Some(Expectation::Pass),
                "fail" => Some(Expectation::Fail),
                _ => None,
            })?,
            steps,
        })
    }

    fn get<T>(
        &self,
        name: &str,
        last: Line<'_>,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, SavedError> {
        let example = FIELDS[index(name)].example;
        let Some(line) = self.line(name) else {
            return last
                .wrong(format!("`{name}` is missing before this line: write for example `{example}`"));
        };
        let parsed = Some(line.text).filter(|text| !text.is_empty()).and_then(parse);
        let write = match name {
            "class" => {
                let names: Vec<_> = FaultClass::ALL.iter().map(|class| class.name()).collect();
                format!("one of {}", names.join(", "))
            }
            "must" => "`must fail` or `must pass`".into(),
            "clients" | "permits" => format!("a number up to {ACTORS_MAX}, for example `{example}`"),
            "lease" | "outage" => format!("a time up to {}ms, for example `{example}`", SPAN_MAX.as_millis()),
            "readers" => format!("the number of clients that read, for example `{example}`"),
            _ => format!("for example `{example}`"),
        };
        parsed.map_or_else(|| line.wrong(format!("`{name} {}` is not valid: write {write}", line.text)), Ok)
    }

    fn line(&self, name: &str) -> Option<Line<'_>> {
        self.0[index(name)]
    }
}

/// Parses `10000ms`. A span is longer than zero and has a limit.
fn parse_span(span: &str) -> Option<Duration> {
    let millis = parse_millis(span).and_then(|millis| u64::try_from(millis).ok());
    let span = millis.filter(|&millis| millis > 0).map(Duration::from_millis)?;
    (span <= SPAN_MAX).then_some(span)
}

/// The index of a field in the table.
fn index(name: &str) -> usize {
    FIELDS.iter().position(|field| field.name == name).expect("a field of the table")
}

/// Parses `A 1 SET lock`, or any other step.
fn parse_saved_step(line: Line<'_>) -> Result<SavedStep, SavedError> {
    let mut words = line.text.splitn(3, char::is_whitespace);
    let (step, nth, brief) = (words.next().unwrap_or_default(), words.next(), words.next());
    if let (Some(step @ Step::Run(actor, _)), Some(nth)) = (read_step(step), nth) {
        let Some(nth) = nth.parse().ok().filter(|&nth| nth > 0) else {
            return line.wrong(format!(
                "{nth:?} is not the number of a command: write `{step} 1 SET lock` for {actor}'s first command, or only `{step}`"
            ));
        };
        let brief = brief.unwrap_or_default().trim().to_owned();
        return Ok(SavedStep { step, expected: Some(ExpectedCommand { nth, brief }) });
    }
    let code = line.text.split('#').next().unwrap_or_default();
    match parse_step(code, line.text, "`A 1 SET lock`") {
        Ok(step) => Ok(SavedStep { step, expected: None }),
        Err(what) => line.wrong(what),
    }
}
