//! The instants that matter: those to which a step of time can lead.

use std::time::Duration;

use emulator::Timestamp;

use super::{GRACE, Simulation};
use crate::live::Terms;
use crate::schedule::SPAN_MAX;

/// Most deadlines that a step of time can lead to.
const INSTANTS_MAX: usize = 16;

impl Simulation {
    /// The instants after now that a step can lead to, and the millisecond before or after each.
    /// They are the ends of leases, of outages, of partitions and of keys' times to live, and what
    /// the code distinguishes.
    pub(crate) fn instants(&self) -> Vec<Duration> {
        const JUST_PAST: Duration = Duration::from_millis(1);
        let now = self.world.now;
        let world = &self.world;
        let grants = world.grants.iter().map(|grant| grant.until);
        let ends = grants.chain(world.ends_of_interruptions());
        let mut overs: Vec<Duration> = ends.map(|end| end + JUST_PAST).collect();
        let distinguished: Vec<Duration> = self.distinguished(&world.times).collect();
        for (server, clock) in self.serving_clocks() {
            // If a deadline was reached in this millisecond, the instant after it is still to come.
            let shown = clock.now();
            let mut after = Timestamp::from_millis(shown.millis() - JUST_PAST.as_millis() as i64);
            while overs.len() < INSTANTS_MAX
                && let Some(deadline) = self.read(server, |data| data.next_deadline(after)).flatten()
                && let Some(wait) = clock.shows_in(deadline + JUST_PAST)
            {
                let over = (now + wait).as_micros().div_ceil(JUST_PAST.as_micros());
                overs.push(Duration::from_millis(over as u64));
                after = deadline;
            }
        }
        let is_due = |instant: &Duration| *instant > now && *instant - now <= SPAN_MAX;
        let around = |over: Duration| [over.saturating_sub(JUST_PAST), over];
        let mut instants: Vec<Duration> = overs.into_iter().flat_map(around).filter(is_due).collect();
        if instants.is_empty() {
            // Nothing expires on the servers. But the client's last reading of the clock grows old,
            // and so do deadlines that clients wrote as values.
            let Terms { lease, leases, .. } = &self.config.terms;
            let lease = leases.iter().copied().max().unwrap_or_default().max(*lease);
            instants.extend([now + JUST_PAST, now + (lease + GRACE).min(SPAN_MAX)]);
        }
        instants.extend(distinguished.into_iter().flat_map(around).filter(is_due));
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// The instants that the code distinguishes: the known thresholds after each of these times.
    pub(super) fn distinguished(&self, times: &[Duration]) -> impl Iterator<Item = Duration> {
        let since = |&threshold: &Duration| times.iter().map(move |&at| at + threshold);
        self.config.thresholds.iter().flat_map(since)
    }
}
