//! Whether what clients were answered, each at its own time, could have been answered one after the other: linearizability, for
//! runs that no schedule orders, such as those of many tasks at once against a real server.
//!
//! Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects" (1990); the search is Wing and Gong's, with
//! Lowe's memory of what was tried, "Testing for linearizability" (2017).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fixedbitset::FixedBitSet;

/// What an object does when one client uses it at a time.
pub trait Model {
    /// What it remembers.
    type State: Clone + Ord;
    /// What clients ask of it.
    type Call: Debug;
    /// What they are answered.
    type Answer: Debug;

    /// Its state in the beginning.
    fn initial(&self) -> Self::State;

    /// The state after a client's call, if it may be answered so; `None` for the answer is that nobody heard it.
    fn step(
        &self,
        state: &Self::State,
        client: usize,
        call: &Self::Call,
        answer: Option<&Self::Answer>,
    ) -> Option<Self::State>;
}

/// One call of a client.
#[derive(Clone, Debug)]
pub struct Operation<C, A> {
    /// Who called. Of one client's calls each returns before the next begins.
    pub client: usize,
    /// What was asked.
    pub call: C,
    /// When, by one clock for all clients, in any unit.
    pub called_at: u64,
    /// What was answered, and when; `None` if nobody heard: then it has happened at any time after the call, or never.
    pub answer: Option<(A, u64)>,
}

/// Notes what clients call and are answered while they do.
#[derive(Debug)]
pub struct Log<C, A>(Mutex<(u64, Vec<Operation<C, A>>)>);

impl<C, A: Clone> Log<C, A> {
    /// Nothing yet.
    pub fn new() -> Log<C, A> {
        Log(Mutex::new((0, Vec::new())))
    }

    /// Notes a call that takes as long as this future. If that is dropped, nobody hears the answer.
    pub async fn call(&self, client: usize, call: C, answer: impl Future<Output = A>) -> A {
        let place = {
            let (clock, operations) = &mut *self.lock();
            *clock += 1;
            operations.push(Operation { client, call, called_at: *clock, answer: None });
            operations.len() - 1
        };
        let answer = answer.await;
        let (clock, operations) = &mut *self.lock();
        *clock += 1;
        operations[place].answer = Some((answer.clone(), *clock));
        answer
    }

    /// What was noted.
    pub fn into_operations(self) -> Vec<Operation<C, A>> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }

    fn lock(&self) -> MutexGuard<'_, (u64, Vec<Operation<C, A>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C, A: Clone> Default for Log<C, A> {
    fn default() -> Log<C, A> {
        Log::new()
    }
}

/// No order of the calls explains the answers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no order explains these answers. Up to here one does: {explained:?}. None of these can come next: {stuck:?}"
)]
pub struct NotLinearizable {
    /// The places of as many operations as can be explained, in an order that explains them.
    pub explained: Vec<usize>,
    /// The places of those of which one had to come next.
    pub stuck: Vec<usize>,
}

/// An order of the operations, by their places, in which one client at a time would have been answered the same, and in which
/// whatever returned before another was called comes before it. Operations that nobody heard of may be missing from it.
///
/// # Errors
/// There is no such order.
pub fn linearize<M: Model>(
    model: &M,
    operations: &[Operation<M::Call, M::Answer>],
) -> Result<Vec<usize>, NotLinearizable> {
    let heard = operations.iter().filter(|operation| operation.answer.is_some()).count();
    let mut tried: BTreeSet<(Vec<usize>, M::State)> = BTreeSet::new();
    let mut done = FixedBitSet::with_capacity(operations.len());
    let mut order: Vec<usize> = Vec::new();
    // What was there before each of the order, and from which place on to look for another.
    let mut path: Vec<(M::State, usize)> = Vec::new();
    let (mut state, mut from) = (model.initial(), 0);
    let mut best = NotLinearizable { explained: Vec::new(), stuck: candidates(operations, &done) };
    loop {
        if order.iter().filter(|&&place| operations[place].answer.is_some()).count() == heard {
            return Ok(order);
        }
        let next =
            candidates(operations, &done).into_iter().filter(|&place| place >= from).find_map(|place| {
                let Operation { client, call, answer, .. } = &operations[place];
                let after = model.step(&state, *client, call, answer.as_ref().map(|(answer, _)| answer))?;
                let mut with: Vec<usize> = done.ones().collect();
                with.push(place);
                with.sort_unstable();
                tried.insert((with, after.clone())).then_some((place, after))
            });
        if let Some((place, after)) = next {
            done.insert(place);
            order.push(place);
            path.push((std::mem::replace(&mut state, after), place + 1));
            from = 0;
            if order.len() > best.explained.len() {
                best = NotLinearizable { explained: order.clone(), stuck: candidates(operations, &done) };
            }
        } else {
            let (Some(place), Some((before, next))) = (order.pop(), path.pop()) else { return Err(best) };
            done.set(place, false);
            (state, from) = (before, next);
        }
    }
}

/// What may come next: what nobody else's return came before.
fn candidates<C, A>(operations: &[Operation<C, A>], done: &FixedBitSet) -> Vec<usize> {
    let left = || (0..operations.len()).filter(|&place| !done.contains(place));
    let returned = |place: usize| operations[place].answer.as_ref().map(|&(_, at)| at);
    let first_return = left().filter_map(returned).min();
    left().filter(|&place| first_return.is_none_or(|at| operations[place].called_at <= at)).collect()
}

/// A lock whose leases do not end: what mutexes and semaphores have to look like from outside.
#[derive(Clone, Copy, Debug)]
pub struct Permits {
    /// How many may hold at once: one of a mutex.
    pub permits: usize,
    /// An attempt may be refused although something is free, as `try_lock` may in C++: one that is about to be refused itself may
    /// stand in the way.
    pub may_refuse: bool,
}

/// What clients ask of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockCall {
    /// The answer is whether it was granted.
    TryAcquire,
    /// The answer is whether it still was theirs.
    Release,
}

impl Model for Permits {
    /// Who holds.
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
