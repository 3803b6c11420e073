//! Linearizability: whether the replies to concurrent calls could also be those of calls made one
//! after the other.
//!
//! It is for runs that no schedule orders, for example many concurrent tasks against a real server.
//!
//! Sources: Herlihy and Wing, "Linearizability: a correctness condition for concurrent objects"
//! (1990). The search is that of Wing and Gong, with Lowe's cache of states that were tried,
//! "Testing for linearizability" (2017).

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fixedbitset::FixedBitSet;

/// The sequential behaviour of an object: one client uses it at a time.
pub trait Model {
    /// The state of the object.
    type State: Clone + Ord;
    /// A call of a client.
    type Call: Debug;
    /// The answer to a call.
    type Answer: Debug;

    /// The initial state.
    fn initial(&self) -> Self::State;

    /// The state after a client's call; `None` if the call cannot have this answer. If `answer` is
    /// `None`, the client did not receive an answer.
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
    /// The client. Its calls do not overlap: each one returns before the next one begins.
    pub client: usize,
    /// The call.
    pub call: C,
    /// The time of the call, by one clock for all clients, in any unit.
    pub called_at: u64,
    /// The answer and its time; `None` if the client did not receive it. Then the call took effect
    /// at any time after its start, or never.
    pub answer: Option<(A, u64)>,
}

/// Records the calls of clients and their answers while they run.
#[derive(Debug)]
pub struct Log<C, A>(Mutex<(u64, Vec<Operation<C, A>>)>);

impl<C, A: Clone> Log<C, A> {
    /// An empty log.
    pub fn new() -> Log<C, A> {
        Log(Mutex::new((0, Vec::new())))
    }

    /// Records a call that lasts as long as this future. If the future is dropped, the call has no
    /// answer.
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

    /// The recorded operations.
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
    "no order of the operations explains their answers. The longest explained order is {explained:?}; none of {stuck:?} can come next"
)]
pub struct NotLinearizable {
    /// The indices of the longest sequence of operations that was explained, in that order.
    pub explained: Vec<usize>,
    /// The indices of the operations of which one had to come next.
    pub stuck: Vec<usize>,
}

/// Finds a sequential order of the operations that explains all answers. Returns their indices in
/// that order.
///
/// If one operation returned before another was called, it comes first. Operations without an
/// answer may be missing.
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
    // For each operation in the order: the state before it, and the index from which to search for
    // another one.
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

/// The operations that may come next: those that were called before any other remaining operation
/// returned.
fn candidates<C, A>(operations: &[Operation<C, A>], done: &FixedBitSet) -> Vec<usize> {
    let left = || (0..operations.len()).filter(|&place| !done.contains(place));
    let returned = |place: usize| operations[place].answer.as_ref().map(|&(_, at)| at);
    let first_return = left().filter_map(returned).min();
    left().filter(|&place| first_return.is_none_or(|at| operations[place].called_at <= at)).collect()
}

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
