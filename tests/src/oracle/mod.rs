//! The properties that must hold. An oracle reads a history and nothing else. Each oracle is a
//! small file, and has a broken lock that it must catch.

mod exclusive_belief;
mod exclusive_fact;
mod fenced;
mod finally;
mod invariant;
mod linearizable;
mod no_leak;
mod no_lost_wake_up;
mod not_overtaken;
mod once;
mod over_issue;
mod owner_safe;
mod progress;
mod rate;
mod recovers;
mod success;
mod unbroken;
mod writer_alone;

use std::fmt::Debug;
use std::time::Duration;

use emulator::Timestamp;

pub use exclusive_belief::ExclusiveBelief;
pub use exclusive_fact::ExclusiveFact;
pub use fenced::Fenced;
pub(crate) use finally::Finally;
pub(crate) use invariant::Invariant;
pub use linearizable::Linearizable;
pub use no_leak::NoLeak;
pub use no_lost_wake_up::NoLostWakeUp;
pub use not_overtaken::NotOvertaken;
pub use once::{AtLeastOnce, AtMostOnce, ExactlyOnce};
pub use over_issue::OverIssue;
pub use owner_safe::OwnerSafe;
pub use progress::Progress;
pub use rate::Rate;
pub use recovers::{Recovers, RecoversWithin};
pub use success::Success;
pub use unbroken::Unbroken;
pub use writer_alone::WriterAlone;

use crate::actor::Actor;
use crate::trace::{EventKind, History, HoldId};

/// A property of histories.
///
/// An oracle may depend on the order of these events ([`EventKind`]): a client enters a section, is
/// granted it once more, leaves it, loses it, or overruns its lease; a client does something that
/// counts; a resource accepts a token; an operation returns before another is called. An
/// exploration runs all orders of these events. If other events happen in independent steps, it
/// runs only one of their orders. [`Oracle::judges_commands`] adds the order of all commands.
pub trait Oracle: Debug + Send + Sync {
    /// The name, in the terms of the field.
    fn name(&self) -> &'static str;

    /// Whether the history contains anything that this oracle can judge. If no history does, a pass
    /// means nothing.
    fn judges(&self, history: &History) -> bool;

    /// The events that it looks for in an execution. If no execution has them, a report says so. If
    /// none can have them, an exploration does not begin.
    fn wants(&self) -> Wanted {
        Wanted::Other
    }

    /// Whether it also judges clients that are inside after their leases have ended.
    fn judges_overruns(&self) -> bool {
        false
    }

    /// Whether it judges what has come about when all actors have started and ended
    /// ([`EventKind::AllEnded`]). After a crash, a lost message or a cancellation, services and
    /// leases have some more time before that.
    fn judges_end(&self) -> bool {
        false
    }

    /// How long after a crash, a lost message or a cancellation the end is judged, if not after the
    /// longest lease and two more seconds. The shortest span of all oracles counts.
    fn recovery(&self) -> Option<Duration> {
        None
    }

    /// Whether it looks at commands ([`EventKind::Command`]). An exploration then records them in
    /// every execution, and runs all code and all servers each time, which takes several times as
    /// long. Otherwise their events are in none that an oracle sees.
    fn needs_commands(&self) -> bool {
        false
    }

    /// Whether the order of all commands matters, even if they touch different keys. An oracle that
    /// looks at each command by itself says `false`, and needs fewer schedules.
    fn judges_commands(&self) -> bool {
        self.needs_commands()
    }

    /// Whether it judges by the server's time at which commands ran: `decided` of
    /// [`EventKind::Enter`] and [`EventKind::Did`], which otherwise is `None`. It needs more
    /// schedules then if there are stalls.
    fn judges_times(&self) -> bool {
        false
    }

    /// The first violation, if there is one.
    fn check(&self, history: &History) -> Option<Violation>;
}

/// The events that an execution must have so that an oracle judges it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Clients enter these sections.
    Sections(Vec<&'static str>),
    /// A client inside this section is granted it once more.
    Extension(&'static str),
    /// A server keeps the grant of a client at the place that its hold names.
    Record,
    /// A client does this.
    Deed(&'static str),
    /// Clients call operations of this object, or of an object without a name.
    Operation(&'static str),
    /// This resource accepts a write.
    Resource(&'static str),
    /// Fresh clients probe, and there was no crash, no lost message and no cancellation.
    Probe,
    /// Fresh clients probe, and there was such a fault.
    ProbeAfterLoss,
    /// All actors have started, and have ended.
    End,
    /// Something else.
    Other,
}

/// The place and the description of a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of steps up to the violation.
    pub step: usize,
    /// A description of the violation, in a sentence.
    pub what: String,
}

/// The first moment at which more than `permits` clients are inside `section`, and these clients in
/// the order of their names. A client counts only if `counts(now, end of lease)` holds.
fn crowded(
    history: &History,
    section: &str,
    permits: usize,
    counts: impl Fn(Duration, Duration) -> bool,
) -> Option<(usize, Vec<Actor>)> {
    let is_crowd = |(_, inside): &(usize, Vec<_>)| inside.len() > permits;
    let (step, inside) = entries(history, &[section], counts).find(is_crowd)?;
    let mut inside: Vec<Actor> = inside.into_iter().map(|(actor, _)| actor).collect();
    inside.sort_unstable();
    Some((step, inside))
}

/// Every moment at which a client enters one of the sections, or is granted it once more. Each item
/// holds the number of steps, and the clients inside with their sections. A client counts only if
/// `counts(now, end of lease)` holds.
fn entries(
    history: &History,
    sections: &[&str],
    counts: impl Fn(Duration, Duration) -> bool,
) -> impl Iterator<Item = (usize, Vec<(Actor, &'static str)>)> {
    let mut inside: Vec<(HoldId, Actor, &'static str, Duration)> = Vec::new();
    history.events.iter().filter_map(move |event| {
        match event.kind {
            EventKind::Enter { hold, actor, section, until, .. } if sections.contains(&section) => {
                inside.push((hold, actor, section, until));
            }
            EventKind::Extended { hold, section, until, .. } if sections.contains(&section) => {
                let own = inside.iter_mut().find(|(other, ..)| *other == hold);
                own.into_iter().for_each(|(.., end)| *end = until);
            }
            EventKind::Leave { hold, .. } => {
                inside.retain(|&(other, ..)| other != hold);
                return None;
            }
            _ => return None,
        }
        let counted = inside.iter().filter(|&&(.., until)| counts(event.at, until));
        Some((event.step, counted.map(|&(_, actor, section, _)| (actor, section)).collect()))
    })
}

/// The grants of fresh clients at the end.
struct Probe {
    /// The number of steps before it.
    step: usize,
    granted: u32,
    wanted: u32,
}

/// The probe of an execution, if time passed before it, or if it came at once
/// ([`EventKind::Probed`]).
fn probe(history: &History, is_after_loss: bool) -> Option<Probe> {
    history.events.iter().find_map(|event| match event.kind {
        EventKind::Probed { granted, wanted, after } if after.is_some() == is_after_loss => {
            Some(Probe { step: event.step, granted, wanted })
        }
        _ => None,
    })
}

/// Every time that a client did this, or entered the section of this name: the number of steps, the
/// client, and the server's time of the command that decided it, if that is known.
fn deeds(history: &History, deed: &str) -> impl Iterator<Item = (usize, Actor, Option<Timestamp>)> {
    history.events.iter().filter_map(move |event| match event.kind {
        EventKind::Enter { actor, section: what, decided, .. } | EventKind::Did { actor, what, decided }
            if what == deed =>
        {
            Some((event.step, actor, decided))
        }
        _ => None,
    })
}

/// Whether any client was ever inside `section`.
fn is_entered(history: &History, section: &str) -> bool {
    history
        .events
        .iter()
        .any(|event| matches!(event.kind, EventKind::Enter { section: entered, .. } if entered == section))
}

/// `A and B`, `A, B and C`
pub(crate) fn list(items: &[impl ToString]) -> String {
    match items {
        [] => String::new(),
        [item] => item.to_string(),
        [rest @ .., last] => {
            let rest: Vec<_> = rest.iter().map(ToString::to_string).collect();
            format!("{} and {}", rest.join(", "), last.to_string())
        }
    }
}
