//! What Redis leaves to chance: which members and keys it picks. The generator is part of the server's state and starts from
//! a fixed seed, so that the same commands make the same choices.

use rand::{RngExt as _, SeedableRng as _, seq};
use rand_pcg::Pcg64Mcg;

/// The seed of every server.
const SEED: u64 = 7;

/// A generator of choices.
#[derive(Clone, Debug)]
pub struct Random(Pcg64Mcg);

impl Default for Random {
    fn default() -> Random {
        Random(Pcg64Mcg::seed_from_u64(SEED))
    }
}

impl Random {
    /// An index into something of this length.
    ///
    /// # Panics
    /// If it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.0.random_range(0..len)
    }

    /// Different indices into something of this length, in any order: all of them if there are no more than `amount`.
    pub fn distinct_indices(&mut self, len: usize, amount: usize) -> Vec<usize> {
        seq::index::sample(&mut self.0, len, amount.min(len)).into_vec()
    }
}
