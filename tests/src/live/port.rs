//! One connection of a client, and what has come for the code that waits there.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use super::{Answer, Loss, Traffic};

/// One connection.
pub(super) struct Port {
    pub(super) server: usize,
    pub(super) traffic: Traffic,
    pub(super) is_open: bool,
    /// The client has given up a request here. Then no other connection takes this place: whether
    /// the request has run must not decide which place is free.
    pub(super) was_given_up: bool,
    /// The code waits here for the reply to a request, or else for a message.
    pub(super) awaits: Option<Awaited>,
    inbox: Inbox,
    /// Wakes the code that waits here.
    waker: Option<Waker>,
    /// Messages that have come between replies. `None` if no more will come.
    pushes: VecDeque<Option<Vec<u8>>>,
    /// Wakes the code that waits for such a message.
    push_waker: Option<Waker>,
}

/// The thing that code waits for at a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    Reply,
    Message,
}

/// The thing that has come for the code that waits at a connection.
#[derive(Default)]
pub(super) enum Inbox {
    #[default]
    Empty,
    Answer(Answer),
    /// A message. `None` if no more will come.
    Message(Option<Vec<u8>>),
}

impl Port {
    /// An open connection.
    pub(super) fn new(server: usize, traffic: Traffic) -> Port {
        Port {
            server,
            traffic,
            is_open: true,
            was_given_up: false,
            awaits: None,
            inbox: Inbox::Empty,
            waker: None,
            pushes: VecDeque::new(),
            push_waker: None,
        }
    }

    /// The place of this connection in the next process of its client.
    pub(super) fn closed(&self) -> Port {
        Port { is_open: false, was_given_up: self.was_given_up, ..Port::new(self.server, self.traffic) }
    }

    /// Whether a connection to this server can take this place.
    pub(super) fn is_free(&self, server: usize) -> bool {
        self.server == server && !self.is_open && !self.was_given_up
    }

    /// Something arrives. Returns what wakes the code that waits for it.
    pub(super) fn receive(&mut self, inbox: Inbox) -> Option<Waker> {
        self.was_given_up |= matches!(inbox, Inbox::Answer(Answer::Lost(Loss::Late)));
        self.inbox = inbox;
        self.waker.take()
    }

    /// A message arrives. Returns what wakes the code that waits for it.
    pub(super) fn hear(&mut self, message: Option<Vec<u8>>) -> Option<Waker> {
        if self.traffic != Traffic::Pushes {
            return self.receive(Inbox::Message(message));
        }
        self.pushes.push_back(message);
        self.push_waker.take()
    }

    /// Polls for a message that comes between replies.
    pub(super) fn poll_push(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        if let Some(push) = self.pushes.pop_front() {
            return Poll::Ready(push);
        }
        self.push_waker = Some(cx.waker().clone());
        Poll::Pending
    }

    /// Polls for the answer to a request.
    pub(super) fn poll_answer(&mut self, cx: &Context<'_>) -> Poll<Answer> {
        match std::mem::take(&mut self.inbox) {
            Inbox::Answer(answer) => {
                // A command that waits on its server is not answered.
                self.awaits.take_if(|_| !matches!(answer, Answer::Waits));
                Poll::Ready(answer)
            }
            other => self.wait(other, cx),
        }
    }

    /// Polls for a message.
    pub(super) fn poll_message(&mut self, cx: &Context<'_>) -> Poll<Option<Vec<u8>>> {
        match std::mem::take(&mut self.inbox) {
            Inbox::Message(message) => {
                self.awaits = None;
                Poll::Ready(message)
            }
            other => {
                self.awaits = Some(Awaited::Message);
                self.wait(other, cx)
            }
        }
    }

    fn wait<T>(&mut self, inbox: Inbox, cx: &Context<'_>) -> Poll<T> {
        (self.inbox, self.waker) = (inbox, Some(cx.waker().clone()));
        Poll::Pending
    }

    /// The code no longer waits. Returns what it waited for.
    pub(super) fn withdraw(&mut self) -> Option<Awaited> {
        (self.inbox, self.waker) = (Inbox::Empty, None);
        self.awaits.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: usize = 0;

    /// Whether the place is free must not depend on whether the late request has run.
    #[test]
    fn the_place_of_a_late_request_stays_taken() {
        let after = |loss| {
            let mut port = Port::new(SERVER, Traffic::Requests);
            port.receive(Inbox::Answer(Answer::Lost(loss)));
            port.closed()
        };
        assert!(after(Loss::Reply).is_free(SERVER));
        assert!(!after(Loss::Reply).is_free(SERVER + 1));
        assert!(!after(Loss::Late).is_free(SERVER));
    }
}
