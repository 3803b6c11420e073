//! Locks and semaphores as objects.

use std::collections::BTreeSet;

use super::model::Model;

/// A lock whose leases do not end. It is the model of mutexes and semaphores.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    /// How many clients may hold at once; one for a mutex.
    pub permits: usize,
    /// Whether an attempt may be refused although a permit is free, as with `try_lock` in C++. A
    /// concurrent attempt that is refused later can cause this.
    pub may_refuse: bool,
}

/// A call to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// The answer is whether the permit was granted.
    TryAcquire,
    /// The answer is whether the client still held it.
    Release,
}

impl Model for Permits {
    /// The clients that hold.
    type State = BTreeSet<usize>;
    type Call = LockCall;
    type Answer = bool;

    fn initial(&self) -> BTreeSet<usize> {
        BTreeSet::new()
    }

    fn step(
        &self,
        holders: &BTreeSet<usize>,
        client: usize,
        call: &LockCall,
        answer: Option<&bool>,
    ) -> Option<BTreeSet<usize>> {
        if *call == LockCall::TryAcquire && answer == Some(&false) && self.may_refuse {
            return Some(holders.clone());
        }
        let mut after = holders.clone();
        let answered = match call {
            LockCall::TryAcquire => holders.len() < self.permits && after.insert(client),
            LockCall::Release => after.remove(&client),
        };
        answer.is_none_or(|answer| *answer == answered).then_some(after)
    }
}
