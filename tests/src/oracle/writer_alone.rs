use super::{Oracle, Violation, entries, is_entered, list};
use crate::actor::Actor;
use crate::trace::History;

/// A writer is alone: never a client that was granted the section of writers, and another that was granted this section or that of
/// readers, both of which have not sent their release, and whose leases, counted in true time from before their attempts began,
/// still run.
///
/// A violation: A and B read; the release of A ends the grant of B, too; C is granted the lock to write while B reads.
#[derive(Clone, Debug)]
pub struct WriterAlone {
    reading: &'static str,
    writing: &'static str,
    counts_leases: bool,
}

impl WriterAlone {
    /// For the sections of these names.
    pub fn of(reading: &'static str, writing: &'static str) -> WriterAlone {
        WriterAlone { reading, writing, counts_leases: true }
    }

    /// Whatever the server thinks of their leases: what [`super::ExclusiveBelief`] is to a lock without readers, and of that name.
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

    fn check(&self, history: &History) -> Option<Violation> {
        let sections = [self.reading, self.writing];
        let counts = |now, until| !self.counts_leases || now < until;
        // A client may well be in both sections by itself.
        let crowd = |(step, inside): (usize, Vec<(Actor, &str)>)| {
            let (writer, _) = *inside.iter().rfind(|(_, section)| *section == self.writing)?;
            let others: Vec<Actor> =
                inside.iter().map(|&(actor, _)| actor).filter(|&actor| actor != writer).collect();
            (!others.is_empty()).then_some((step, writer, others))
        };
        let (step, writer, others) = entries(history, &sections, counts).find_map(crowd)?;
        let lease = if self.counts_leases { ", each with a lease that still runs" } else { "" };
        Some(Violation { step, what: format!("{writer} writes beside {}{lease}", list(&others)) })
    }
}
