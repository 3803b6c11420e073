//! The simplest policy of samples, and the random numbers for all of them. It knows nothing of
//! earlier schedules.

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::execution::{Choice, Policy};
use crate::schedule::Step;
use crate::trace::History;

/// A random walk: at every step each possibility is equally likely.
///
/// Equal seeds and numbers give equal choices on every machine.
#[derive(Debug)]
pub struct RandomWalk(Pcg64Mcg);

impl RandomWalk {
    /// A policy for the `nth` schedule of a seed.
    pub fn new(seed: u64, nth: u64) -> RandomWalk {
        RandomWalk(chance(seed, nth))
    }
}

impl Policy for RandomWalk {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        Choice::Take(self.0.random_range(0..enabled.len()))
    }
}

/// The random numbers for the `nth` schedule of a seed.
pub(super) fn chance(seed: u64, nth: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed ^ nth.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
