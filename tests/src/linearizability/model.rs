//! Objects as one client uses them, and the operations of several.

use std::fmt::Debug;

/// The sequential behaviour of an object: one client uses it at a time.
pub trait Model {
    /// The state of the object.
    type State: Clone + Ord;
    /// A call of a client.
    type Call: Debug;
    /// The answer to a call.
    type Answer: Debug;

    /// Whether the object has this operation at all.
    fn knows(&self, _: &Self::Call) -> bool {
        true
    }

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
