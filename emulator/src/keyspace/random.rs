//! The random choices of the server: the members and keys that Redis picks.
//!
//! The generator is part of the server's state and starts from a fixed seed. So the same commands
//! make the same choices.

use std::hash::{Hash, Hasher};

use rand::{RngExt as _, SeedableRng as _, seq};
use rand_pcg::Pcg64Mcg;

/// The seed of every server.
const SEED: u64 = 7;

/// A generator of random choices.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Default for Random {
    fn default() -> Random {
        Random(Pcg64Mcg::seed_from_u64(SEED))
    }
}

/// The next 128 bits stand for the state of the generator.
impl Hash for Random {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.clone().random::<u128>().hash(state);
    }
}

impl Random {
    /// A random index below `len`.
    ///
    /// # Panics
    /// If `len` is 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// Distinct random indexes below `len`, in any order. If `len` is at most `amount`, all indexes
    /// are returned.
    pub fn distinct_indices(&mut self, len: usize, amount: usize) -> Vec<usize> {
        seq::index::sample(&mut self.0, len, amount.min(len)).into_vec()
    }
}
