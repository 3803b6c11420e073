//! The oracle for mutual exclusion in a read-write lock.

use super::{Oracle, Violation, Wanted, entries, is_entered, list};
use crate::actor::Actor;
use crate::trace::History;

/// If a client holds the section of writers, no other client holds the section of writers or that
/// of readers. A holder was granted its section, has not sent its release, and its lease still
/// runs. The lease counts in true time from before the attempt began.
///
/// A violation: A and B read. A's release also ends B's grant. C is granted the lock to write while
/// B reads.
#[derive(Clone, Debug)]
pub struct WriterAlone {
    reading: &'static str,
    writing: &'static str,
    counts_leases: bool,
}

impl WriterAlone {
    /// The oracle for the sections of these names.
    pub fn of(reading: &'static str, writing: &'static str) -> WriterAlone {
        WriterAlone { reading, writing, counts_leases: true }
    }

    /// The oracle without leases: it judges who is inside, whatever the server knows of the leases.
    /// It is [`super::ExclusiveBelief`] for a read-write lock, and has that name.
    pub fn believed(reading: &'static str, writing: &'static str) -> WriterAlone {
        WriterAlone { reading, writing, counts_leases: false }
    }
}

impl Oracle for WriterAlone {
    fn name(&self) -> &'static str {
        if self.counts_leases { "writer-alone" } else { "exclusive-belief" }
    }

    fn judges(&self, history: &History) -> bool {
        is_entered(history, self.reading) && is_entered(history, self.writing)
    }

    fn wants(&self) -> Wanted {
        Wanted::Sections(vec![self.reading, self.writing])
    }

    fn judges_overruns(&self) -> bool {
        !self.counts_leases
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let sections = [self.reading, self.writing];
        let counts = |now, until| !self.counts_leases || now < until;
        // One client may be in both sections.
        let crowd = |(step, inside): (usize, Vec<(Actor, &str)>)| {
            let (writer, _) = *inside.iter().rfind(|(_, section)| *section == self.writing)?;
            let others: Vec<Actor> =
                inside.iter().map(|&(actor, _)| actor).filter(|&actor| actor != writer).collect();
            (!others.is_empty()).then_some((step, writer, others))
        };
        let (step, writer, others) = entries(history, &sections, counts).find_map(crowd)?;
        let lease = if self.counts_leases { ", each with a lease that still runs" } else { "" };
        Some(Violation {
            step,
            what: format!("writer {writer} is inside together with {}{lease}", list(&others)),
        })
    }
}
