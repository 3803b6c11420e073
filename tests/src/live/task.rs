//! The task of a client: how its code starts, is polled, and ends.

use std::fmt::Display;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::clients::tasks;
use super::{End, Live, LiveClient, Part, panics};
use crate::actor::Actor;

impl Live {
    /// Starts the code of a client, as a task. `value` is what its result means. Code that was
    /// polled `polls_max` times in one turn is not polled again.
    pub(crate) fn start<R, E, F>(
        self: &Arc<Live>,
        actor: Actor,
        code: impl FnOnce(LiveClient) -> F + Send + 'static,
        value: fn(R) -> bool,
        polls_max: u64,
    ) where
        R: 'static,
        E: Display + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        let client = self.client(actor);
        let task = tokio::spawn(async move {
            // This is dropped last, and also when the task is aborted.
            let _ended = Ended(client.clone());
            let mut running = pin!(async { code(client.clone()).await });
            let running = poll_fn(|cx| {
                client.is_woken();
                if client.stands_still(Part::Main, cx.waker()) || !client.may_poll(polls_max) {
                    return Poll::Pending;
                }
                let before = tasks();
                let poll = client.running(|| panics::within(|| running.as_mut().poll(cx)));
                client.polled(before);
                match poll {
                    Ok(Poll::Pending) => Poll::Pending,
                    Ok(Poll::Ready(Ok(result))) => Poll::Ready(End::Done(value(result))),
                    Ok(Poll::Ready(Err(error))) => Poll::Ready(End::Error(error.to_string())),
                    Err(panic) => Poll::Ready(End::Panic(panic)),
                }
            });
            client.end(running.await);
        });
        self.keep_task(actor, task.abort_handle());
    }
}

/// Notes that the task of a client has ended, for whatever reason.
struct Ended(LiveClient);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.task_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::tests::with_live;
    use super::super::{Act, Code as _};
    use super::*;

    const A: Actor = Actor(0);
    const B: Actor = Actor(1);

    #[test]
    fn polls_and_tasks_of_a_turn_are_counted() {
        with_live(|live| {
            let sleeps = || tokio::spawn(std::future::pending::<()>());
            sleeps();
            let before = tasks();
            assert!(live.poll(A, 2));
            sleeps();
            sleeps();
            live.polled(A, before);
            assert!(live.poll(A, 2));
            live.polled(A, tasks() + 1);
            assert!(!live.poll(A, 2));
            assert_eq!(live.tasks(), 3);
            let begun = live.take_noticed(&|_| true).remove(0).begun.unwrap();
            assert_eq!((begun.turn.polls, begun.spawned), (3, 2 - 1));
        });
    }

    #[test]
    fn the_end_of_a_task_is_news_of_a_crashed_client() {
        with_live(|live| {
            for actor in [A, B] {
                let process = live.state().begin_process(actor);
                live.state().own(process).has_ended = true;
            }
            live.crash(B);
            live.note(1, Act::DrawName);
            let ended =
                live.take_noticed(&|_| false).into_iter().map(|n| (n.actor, n.has_ended, n.begun.is_some()));
            assert_eq!(ended.collect::<Vec<_>>(), [(A, false, false), (B, true, false)]);
        });
    }
}
