//! Requests to several independent servers: what most of them answer counts.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use redis::{ErrorKind, RedisError};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::timeout;

use super::holder::{Answer, Holder};
use super::parts::LeaseParts;
use crate::connection::Connection;
use crate::error::{Error, Operation};
use crate::request::Reply;

/// The requests to all servers, and their votes. When it is dropped, a task carries on with the
/// requests that have not ended. Without a runtime, the lease ends what they are granted.
struct Ballot {
    requests: Vec<Request>,
    tally: Arc<watch::Sender<Tally>>,
}

/// A request to one server. Its output is in the tally.
type Request = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Whether a server did what it was asked. `None` if it has not replied yet.
type Vote = Option<Result<bool, RedisError>>;

/// The votes on a request.
struct Tally {
    /// By the numbers of the servers.
    votes: Vec<Vote>,
    /// A request was sent twice to one of them.
    is_second: bool,
    /// Whether most servers said yes. `None` while votes can change that.
    outcome: Option<bool>,
}

impl Holder {
    /// Asks all servers at once. One that does not reply in time counts as failed.
    pub(super) async fn ask_all(
        &self,
        connections: &[Connection],
        operation: Operation,
    ) -> Result<Reply<Answer>, Error> {
        let LeaseParts { context, options, .. } = &*self.shared;
        let sent_at = context.env.elapsed();
        let mut ballot = Ballot::new(connections.len());
        for (server, connection) in connections.iter().cloned().enumerate() {
            let request = self.clone().ask_one(connection, operation, server, ballot.tally.clone());
            ballot.requests.push(Box::pin(request));
        }
        let is_granted = ballot.decide(options.server_timeout()).await;
        if operation == Operation::Release || operation == Operation::Acquire && !is_granted {
            // A release is to reach all servers.
            ballot.finish(options.server_timeout()).await;
        }
        let tally = ballot.tally.borrow();
        Ok(Reply { sent_at, is_second: tally.is_second, value: tally.judge(operation, &context.name)? })
    }

    /// Asks one server. If the servers do not grant the lock, or the holder has given it up before
    /// this server replied, gives it up there.
    async fn ask_one(
        self,
        connection: Connection,
        operation: Operation,
        server: usize,
        tally: Arc<watch::Sender<Tally>>,
    ) {
        let reply = self.request(&connection, operation, Duration::ZERO).await;
        tally.send_modify(|tally| tally.add(server, reply));
        if operation == Operation::Acquire {
            let mut votes = tally.subscribe();
            let decided = votes.wait_for(|tally| tally.outcome.is_some()).await;
            let is_granted = decided.is_ok_and(|tally| tally.outcome == Some(true));
            if !is_granted || self.has_given_up.load(Ordering::Relaxed) {
                // If the request is lost, the lease ends the grant of this server.
                _ = self.request(&connection, Operation::Release, Duration::ZERO).await;
            }
        }
    }
}

impl Ballot {
    fn new(servers: usize) -> Ballot {
        Ballot { requests: Vec::new(), tally: Arc::new(watch::Sender::new(Tally::new(servers))) }
    }

    /// Waits up to `at_most` for votes. Returns whether most servers said yes.
    async fn decide(&mut self, at_most: Duration) -> bool {
        let decided = poll_fn(|cx| {
            let ended = poll_all(&mut self.requests, cx);
            if self.tally.borrow().outcome.is_none() {
                return ended;
            }
            // Those that waited for the outcome know it now.
            _ = poll_all(&mut self.requests, cx);
            Poll::Ready(())
        });
        _ = timeout(at_most, decided).await;
        self.close()
    }

    /// Waits up to `at_most` until all requests have ended.
    async fn finish(&mut self, at_most: Duration) {
        _ = timeout(at_most, poll_fn(|cx| poll_all(&mut self.requests, cx))).await;
    }

    /// Later votes change nothing. Returns whether most servers said yes.
    fn close(&self) -> bool {
        let is_yes = self.tally.borrow().outcome == Some(true);
        self.tally.send_modify(|tally| tally.outcome = Some(is_yes));
        is_yes
    }
}

impl Drop for Ballot {
    fn drop(&mut self) {
        self.close();
        if !self.requests.is_empty()
            && let Ok(runtime) = Handle::try_current()
        {
            let mut requests = std::mem::take(&mut self.requests);
            runtime.spawn(async move { poll_fn(|cx| poll_all(&mut requests, cx)).await });
        }
    }
}

/// Polls the requests that have not ended. It is ready when all have.
fn poll_all(requests: &mut Vec<Request>, cx: &mut Context<'_>) -> Poll<()> {
    requests.retain_mut(|request| request.as_mut().poll(cx).is_pending());
    if requests.is_empty() { Poll::Ready(()) } else { Poll::Pending }
}

impl Tally {
    /// A tally without votes, for `servers` servers.
    fn new(servers: usize) -> Tally {
        Tally { votes: vec![const { None }; servers], is_second: false, outcome: None }
    }

    fn add(&mut self, server: usize, reply: Result<Reply<Answer>, Error>) {
        self.is_second |= reply.as_ref().is_ok_and(|reply| reply.is_second);
        self.votes[server] = Some(reply.map(|reply| reply.value.is_yes).map_err(RedisError::from));
        // Those who say yes, and those who may still do.
        let possible = self.number_of(|vote| matches!(vote, None | Some(Ok(true))));
        if self.yes() >= self.needed() {
            self.outcome.get_or_insert(true);
        } else if possible < self.needed() {
            self.outcome.get_or_insert(false);
        }
    }

    fn number_of(&self, is_meant: impl Fn(&Vote) -> bool) -> usize {
        self.votes.iter().filter(|vote| is_meant(vote)).count()
    }

    fn yes(&self) -> usize {
        self.number_of(|vote| matches!(vote, Some(Ok(true))))
    }

    /// The fewest servers that are more than half of all. A tie is not enough.
    fn needed(&self) -> usize {
        self.votes.len() / 2 + 1
    }

    /// The answer of most servers.
    fn judge(&self, operation: Operation, lock: &str) -> Result<Answer, Error> {
        let is_no = match operation {
            // Nothing is held any more. If most servers replied, a later try may be granted.
            Operation::Acquire => self.number_of(|vote| matches!(vote, Some(Ok(_)))) >= self.needed(),
            _ => self.number_of(|vote| !matches!(vote, Some(Ok(false)))) < self.needed(),
        };
        let is_yes = match operation {
            // It ends the grant also if it comes late.
            Operation::Release => self.yes() >= self.needed(),
            _ => self.outcome == Some(true),
        };
        if is_yes || is_no {
            // There is no fencing token, and it is not known when the lock may be free.
            return Ok(Answer { is_yes, number: if is_yes { 0 } else { -1 } });
        }
        let (needed, agreed) = (self.needed(), self.yes());
        let cause = |(server, vote): (usize, &Vote)| match vote {
            Some(Ok(_)) => None,
            Some(Err(error)) => Some((server, error.clone())),
            None => Some((server, (ErrorKind::Io, "no reply in time").into())),
        };
        let causes = self.votes.iter().enumerate().filter_map(cause).collect();
        Err(Error::NoQuorum { lock: lock.to_owned(), operation, needed, agreed, causes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tally of such votes: `y`es, `n`o, `f`ailed, and `.` for none yet.
    fn tally(votes: &str) -> Tally {
        let mut tally = Tally::new(votes.len());
        for (server, vote) in votes.chars().enumerate().filter(|&(_, vote)| vote != '.') {
            let answer = |is_yes| Reply {
                value: Answer { is_yes, number: 0 },
                sent_at: Duration::ZERO,
                is_second: false,
            };
            tally.add(
                server,
                match vote {
                    'f' => Err(Error::Server {
                        lock: "report".into(),
                        operation: Operation::Acquire,
                        source: (ErrorKind::Io, "gone").into(),
                    }),
                    vote => Ok(answer(vote == 'y')),
                },
            );
        }
        tally
    }

    #[test]
    fn the_outcome_is_known_as_soon_as_it_can_be() {
        for (votes, outcome) in [
            ("y..", None),
            ("yy.", Some(true)),
            ("nf.", Some(false)),
            ("nf..", Some(false)),
            ("ny..", None),
            ("yynn.", None),
            ("fff..", Some(false)),
            ("ff...", None),
        ] {
            assert_eq!(tally(votes).outcome, outcome, "{votes}");
        }
        assert_eq!(tally("yynn").outcome, Some(false), "a tie is no majority");
    }

    #[test]
    fn a_late_vote_changes_nothing() {
        let mut tally = tally("ynn.");
        tally.outcome = Some(false);
        tally.add(
            3,
            Ok(Reply {
                value: Answer { is_yes: true, number: 0 },
                sent_at: Duration::ZERO,
                is_second: false,
            }),
        );
        assert_eq!(tally.outcome, Some(false));
    }

    #[test]
    fn a_late_vote_on_a_release_counts() {
        let mut tally = tally("yyyff");
        tally.outcome = Some(false);
        let judged = |operation| tally.judge(operation, "report").map(|answer| answer.is_yes);
        assert!(judged(Operation::Release).unwrap());
        assert!(judged(Operation::Extend).is_err());
    }

    #[test]
    fn servers_without_an_answer_are_named() {
        let judge = |votes, operation| {
            let answer = tally(votes).judge(operation, "report");
            answer.map(|answer| answer.is_yes).map_err(|error| error.to_string())
        };
        assert_eq!(judge("yyf", Operation::Acquire), Ok(true));
        assert_eq!(judge("ynf", Operation::Acquire), Ok(false));
        assert_eq!(judge("nnf", Operation::Release), Ok(false));
        let lost = judge("ynf", Operation::Extend).unwrap_err();
        assert_eq!(lost, "lock \"report\": cannot extend: needs 2 servers, and has 1; server 2: gone - Io");
        let late = judge("yf.", Operation::Acquire).unwrap_err();
        assert!(late.ends_with("server 1: gone - Io; server 2: no reply in time - Io"), "{late}");
    }
}
