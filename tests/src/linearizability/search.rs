//! The search for an order of operations that explains their answers.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;

use super::model::{Model, Operation};

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
