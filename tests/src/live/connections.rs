//! The connections of a client, as its code sees them: it asks, and waits for what it is told.

use std::task::{Context, Poll};

use super::port::{Awaited, Port};
use super::{Act, Answer, LiveClient, Pending, Request, Traffic};

impl LiveClient {
    /// Opens a connection, in the place of a closed one if there is any.
    pub(crate) fn open(&self, server: usize, traffic: Traffic) -> usize {
        let nth = {
            let mut state = self.live.state();
            let ports = &mut state.own(self.process).ports;
            let nth = ports.iter().position(|port| port.is_free(server)).unwrap_or(ports.len());
            let port = Port::new(server, traffic);
            if nth == ports.len() {
                ports.push(port);
            } else {
                ports[nth] = port;
            }
            nth
        };
        self.note(Act::Open { nth, server, traffic });
        nth
    }

    /// Closes a connection.
    pub(crate) fn close(&self, nth: usize) {
        self.note(Act::Close { nth });
        self.port(nth, |port| port.is_open = false);
    }

    fn port<R>(&self, nth: usize, act: impl FnOnce(&mut Port) -> R) -> R {
        act(&mut self.live.state().own(self.process).ports[nth])
    }

    /// The server and the traffic of a connection.
    pub(crate) fn link(&self, nth: usize) -> (usize, Traffic) {
        self.port(nth, |port| (port.server, port.traffic))
    }

    /// Comes to the gate of a connection with a request.
    pub(crate) fn ask(&self, nth: usize, request: Pending) {
        let is_shared = self.link(nth).1.is_stream();
        let task = if is_shared { 0 } else { self.live.sending_task(self.process) };
        let (release, operation) = {
            let mut state = self.live.state();
            let own = state.own(self.process);
            own.ports[nth].awaits = Some(Awaited::Reply);
            (own.releasing, own.operation)
        };
        self.note(Act::Ask { nth, request: Pending { release, task, ..request }, operation });
    }

    /// Polls for the answer to a request.
    pub(crate) fn poll_answer(&self, nth: usize, cx: &Context<'_>) -> Poll<Answer> {
        self.port(nth, |port| port.poll_answer(cx))
    }

    /// Polls for a message.
    pub(crate) fn poll_message(&self, nth: usize, cx: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        let message = self.port(nth, |port| port.poll_message(cx));
        if message.is_pending() {
            let operation = self.live.state().own(self.process).operation;
            self.note(Act::AwaitMessage { nth, operation });
        }
        message
    }

    /// Polls for a message that comes between replies.
    pub(crate) fn poll_push(&self, nth: usize, cx: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.port(nth, |port| port.poll_push(cx))
    }

    /// No longer waits at a gate.
    pub(crate) fn withdraw(&self, nth: usize) {
        if let Some(awaited) = self.port(nth, Port::withdraw) {
            self.note(Act::Withdraw { nth, is_request: awaited == Awaited::Reply });
        }
    }

    /// No longer waits for the reply to its request.
    pub(crate) fn give_up(&self, nth: usize) {
        self.note(Act::GiveUp { nth });
    }

    /// Gives up a request before it is sent.
    pub(crate) fn delay(&self, nth: usize, request: Request) {
        self.note(Act::Delay { nth, request });
        self.port(nth, |port| port.was_given_up = true);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use super::super::Code as _;
    use super::super::clients::tests::with_live;
    use super::*;
    use crate::actor::Actor;

    const A: Actor = Actor(0);

    fn request() -> Request {
        (&redis::cmd("PING")).into()
    }

    #[test]
    fn a_connection_takes_the_place_of_a_closed_one_to_its_server() {
        with_live(|live| {
            let client = live.client(A);
            let open = |server| client.open(server, Traffic::Requests);
            assert_eq!([open(0), open(0), open(1)], [0, 1, 2]);
            client.close(0);
            client.close(2);
            assert_eq!([open(1), open(0), open(0)], [2, 0, 3]);
            // A request that was given up may still run.
            client.delay(0, request());
            client.close(0);
            assert_eq!(open(0), 4);
            assert_eq!(client.link(2), (1, Traffic::Requests));
        });
    }

    #[test]
    fn what_a_client_no_longer_waits_for_is_a_request_or_a_message() {
        with_live(|live| {
            let client = live.client(A);
            let nth = client.open(0, Traffic::Requests);
            client.withdraw(nth);
            let pending =
                Pending { request: request(), brief: 0, sent: Duration::ZERO, release: None, task: 0 };
            client.ask(nth, pending);
            client.withdraw(nth);
            assert!(client.poll_message(nth, &Context::from_waker(Waker::noop())).is_pending());
            client.withdraw(nth);
            let turn = live.take_noticed(&|_| true).remove(0).begun.unwrap().turn;
            let withdrawn = turn.acts.iter().filter_map(|act| match act {
                Act::Withdraw { is_request, .. } => Some(*is_request),
                _ => None,
            });
            assert_eq!(withdrawn.collect::<Vec<_>>(), [true, false]);
        });
    }
}
