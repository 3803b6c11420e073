//! Random commands, and sequences of them from a few clients.

use std::time::Duration;

use emulator::command::{self, Flag, Row};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

use super::forms::{self, Forms, GROUPS, SHARED};
use super::grammar::{Argv, form, one_of};
use super::script;

/// The client that sends a command. The first one is drawn most often, so that its commands stay
/// together.
const CLIENTS: &[usize] = &[0, 0, 0, 0, 1, 1, 2];
/// The number of clients.
pub const CLIENTS_MAX: usize = 3;
/// The most commands in a sequence.
const COMMANDS_MAX: usize = 40;

/// The length of a wait. The deadlines of [`forms::TIMED`] lie halfway between two waits.
const WAIT: Duration = Duration::from_millis(200);
/// The most runs of commands with waits between them.
const SEGMENTS_MAX: usize = 3;

/// One step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client sends a command.
    Call(usize, Argv),
    /// Time passes.
    Advance(Duration),
}

/// Random sequences. Each is mostly about one group, so that commands find keys of their own kind,
/// and a little about all groups. In some, every client first switches to RESP3.
pub fn sequences() -> BoxedStrategy<Vec<Step>> {
    let groups: Vec<BoxedStrategy<Argv>> = GROUPS.iter().filter_map(of_group).collect();
    let rows = one_of(rows().map(of_row).collect());
    let any = one_of([groups.clone(), vec![script::evals(calls()), rows]].concat());
    let focused = groups.into_iter().map(|group| {
        let commands = Union::new_weighted(vec![(3, group), (2, any.clone())]);
        let steps = (select(CLIENTS), commands).prop_map(call);
        vec(steps, 1..COMMANDS_MAX).boxed()
    });
    let hello = (0..CLIENTS_MAX)
        .map(|client| Step::Call(client, vec!["hello".into(), "3".into()]))
        .collect::<Vec<_>>();
    let greetings = prop_oneof![3 => Just(Vec::new()), 1 => Just(hello)];
    (greetings, one_of(focused.collect())).prop_map(|(greetings, steps)| [greetings, steps].concat()).boxed()
}

/// Sequences with waits. Keys expire halfway between two waits.
pub fn timed_sequences() -> BoxedStrategy<Vec<Step>> {
    let own = of_group(&forms::TIMED).expect("the emulator has commands of time");
    let any = one_of(GROUPS.iter().filter_map(of_group).collect());
    let commands = Union::new_weighted(vec![(4, own), (1, any)]);
    let steps = (select(CLIENTS), commands).prop_map(call);
    let segments = vec(vec(steps, 1..6), 2..=SEGMENTS_MAX);
    segments.prop_map(|segments| segments.join(&Step::Advance(WAIT))).boxed()
}

/// Only the last client sends commands that block. If two blocked clients continued, their sockets
/// would decide whose next command runs first.
fn call((client, argv): (usize, Argv)) -> Step {
    let row = command::lookup(argv[0].as_bytes());
    let waits = row.is_some_and(|(row, _)| row.flags.contains(&Flag::Blocking));
    Step::Call(if waits { CLIENTS_MAX - 1 } else { client }, argv)
}

/// Commands that a script may call and that always have the same effect.
fn calls() -> BoxedStrategy<Argv> {
    let groups = GROUPS.iter().filter_map(of_group);
    let is_for_scripts = |argv: &Argv| {
        !matches!(
            &*argv[0],
            "randomkey" | "srandmember" | "hrandfield" | "zrandmember" | "ttl" | "pttl" | "config" | "dump"
        )
    };
    one_of(groups.collect()).prop_filter("commands that scripts may call", is_for_scripts).boxed()
}

/// The commands of a group that the emulator has; `None` if it has none of them.
fn of_group(group: &Forms) -> Option<BoxedStrategy<Argv>> {
    // The group's own keys count four times, so that commands mostly find values of their kind.
    let keys = [group.keys, group.keys, group.keys, group.keys, SHARED].concat();
    let keys: &'static [&'static str] = keys.leak();
    let lines = group.forms.lines().map(str::trim).filter(|line| !line.is_empty());
    let forms = lines.filter(|line| is_known(line) && is_wanted(line)).map(|line| form(line, keys));
    let forms: Vec<_> = forms.collect();
    (!forms.is_empty()).then(|| one_of(forms))
}

fn is_known(form: &str) -> bool {
    let mut words = form.split(' ');
    let Some((row, _)) = words.next().and_then(|name| command::lookup(name.as_bytes())) else { return false };
    let Some(second) = words.next().filter(|_| !row.subcommands.is_empty()) else { return true };
    let name = format!("{}|{second}", row.name);
    second.starts_with(['[', '(']) || row.subcommands.iter().any(|sub| sub.name == name)
}

/// Whether the form contains none of the words in `LOCKSTEP_WITHOUT`.
pub fn is_wanted(form: &str) -> bool {
    let without = std::env::var("LOCKSTEP_WITHOUT").unwrap_or_default();
    !without.split(',').any(|word| !word.is_empty() && form.contains(word))
}

/// The rows that are called with any arguments.
fn rows() -> impl Iterator<Item = &'static Row> {
    let rows = command::GROUPS.iter().flat_map(|group| group.rows);
    // With a random timeout, a blocking command would be a race.
    let rows = rows.filter(|row| !row.flags.contains(&Flag::Blocking));
    let rows = rows.filter(|row| !forms::NEVER.contains(&row.name) && row.subcommands.is_empty());
    rows.filter(|row| is_wanted(row.name))
}

/// Calls of a row with one argument too few up to two more than it needs. Keys stand where the row
/// expects them.
fn of_row(row: &'static Row) -> BoxedStrategy<Argv> {
    let keys: &'static [&'static str] =
        [GROUPS[0].keys, GROUPS[1].keys, GROUPS[2].keys, SHARED].concat().leak();
    let arity = row.arity.unsigned_abs() as usize;
    let argument = one_of(["K", "K", "V", "N", "O", "S", "X"].map(|word| form(word, keys)).into());
    let arguments = vec(argument, arity.saturating_sub(2)..=arity + 1);
    arguments.prop_map(|words| [vec![row.name.into()], words.concat()].concat()).boxed()
}
