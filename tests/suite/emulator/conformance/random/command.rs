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

/// Which client sends a command: mostly the first, so that what it sends stays together.
const CLIENTS: &[usize] = &[0, 0, 0, 0, 1, 1, 2];
/// How many clients there are.
pub const CLIENTS_MAX: usize = 3;
/// Most commands in a sequence.
const COMMANDS_MAX: usize = 40;

/// How long a wait is: [`forms::TIMED`] has deadlines in the middle between two.
const WAIT: Duration = Duration::from_millis(200);
/// Most stretches of commands with waits between them.
const SEGMENTS_MAX: usize = 3;

/// What happens in a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client sends a command.
    Call(usize, Argv),
    /// Time passes.
    Advance(Duration),
}

/// Sequences: each is about one group mostly, so that commands meet keys of their own kind, and about all a little. Some begin
/// with every client on RESP3.
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

/// Sequences in which time passes: what is to expire does so in the middle between two waits.
pub fn timed_sequences() -> BoxedStrategy<Vec<Step>> {
    let own = of_group(&forms::TIMED).expect("the emulator has commands of time");
    let any = one_of(GROUPS.iter().filter_map(of_group).collect());
    let commands = Union::new_weighted(vec![(4, own), (1, any)]);
    let steps = (select(CLIENTS), commands).prop_map(call);
    let segments = vec(vec(steps, 1..6), 2..=SEGMENTS_MAX);
    segments.prop_map(|segments| segments.join(&Step::Advance(WAIT))).boxed()
}

/// Only the last client waits: whose next command runs first when two have waited is a matter of their sockets.
fn call((client, argv): (usize, Argv)) -> Step {
    let row = command::lookup(argv[0].as_bytes());
    let waits = row.is_some_and(|(row, _)| row.flags.contains(&Flag::Blocking));
    Step::Call(if waits { CLIENTS_MAX - 1 } else { client }, argv)
}

/// Commands that a script may call and whose effect is the same each time.
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

/// The commands of a group that the emulator has; `None` if it has none.
fn of_group(group: &Forms) -> Option<BoxedStrategy<Argv>> {
    // Own keys four times, so that commands mostly meet what they work on.
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

/// Whether a form has none of the words that the environment does without.
pub fn is_wanted(form: &str) -> bool {
    let without = std::env::var("LOCKSTEP_WITHOUT").unwrap_or_default();
    !without.split(',').any(|word| !word.is_empty() && form.contains(word))
}

/// The rows for which any arguments will do.
fn rows() -> impl Iterator<Item = &'static Row> {
    let rows = command::GROUPS.iter().flat_map(|group| group.rows);
    // A timeout of any length would be a race.
    let rows = rows.filter(|row| !row.flags.contains(&Flag::Blocking));
    let rows = rows.filter(|row| !forms::NEVER.contains(&row.name) && row.subcommands.is_empty());
    rows.filter(|row| is_wanted(row.name))
}

/// A row with one argument too few, up to two more than it needs, and keys where it expects them.
fn of_row(row: &'static Row) -> BoxedStrategy<Argv> {
    let keys: &'static [&'static str] =
        [GROUPS[0].keys, GROUPS[1].keys, GROUPS[2].keys, SHARED].concat().leak();
    let arity = row.arity.unsigned_abs() as usize;
    let argument = one_of(["K", "K", "V", "N", "O", "S", "X"].map(|word| form(word, keys)).into());
    let arguments = vec(argument, arity.saturating_sub(2)..=arity + 1);
    arguments.prop_map(|words| [vec![row.name.into()], words.concat()].concat()).boxed()
}
