//! `proptest` strategies.

use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_oneof};

use crate::explorer::{Plan, Wish};
use crate::schedule::Actor;

/// One wish in this many is for a fault.
const WISHES_PER_FAULT: u32 = 8;

/// Schedules of up to `wishes_max` steps for a scenario of up to `actors` actors, with whatever faults its budgets allow.
///
/// They shrink to the fewest steps that still fail, of the first actors, and with no fault that they could do without. In a
/// tuple, put this first: parameters of the scenario shrink better once the schedule is short.
pub fn plans(actors: usize, wishes_max: usize) -> impl Strategy<Value = Plan> {
    let wish = prop_oneof![
        WISHES_PER_FAULT - 1 => (0..actors).prop_map(|n| Wish::Run(Actor(n))),
        1 => any::<u8>().prop_map(Wish::Fault),
    ];
    vec(wish, 0..=wishes_max).prop_map(Plan::new)
}
