//! How the code of a client starts in this process.

use std::sync::Arc;

use crate::actor::Actor;
use crate::client::Client;
use crate::live::Live;
use crate::scenario::{Act, Judge};
use crate::trace::Ended;

/// The code of a client that judges the end, which is told how the actors ended.
pub(super) fn judged_by(judge: &Judge, ended: &Arc<Ended>) -> Act<()> {
    let (judge, ended) = (judge.clone(), ended.clone());
    Arc::new(move |client| judge(client, ended.clone()))
}

/// Starts the code of a client in this process. `value` is what its result means.
pub(super) fn start<R: 'static>(
    live: &Arc<Live>,
    actor: Actor,
    act: &Act<R>,
    value: fn(R) -> bool,
    polls_max: u64,
) {
    let act = act.clone();
    live.start(actor, move |client| act(Client(client)), value, polls_max);
}
