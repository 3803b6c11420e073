//! The turns of clients. A client is woken by a reply, a timer or a cancellation. Its turn is all
//! that it does until no task of it can run.

use std::mem::discriminant;
use std::sync::Arc;
use std::time::Duration;

use locks::Record;

use super::{OperationId, Pending, Request, Traffic};
use crate::actor::Actor;
use crate::linearizability::Call;
use crate::trace::{CallId, HoldId};

/// One thing that a client does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Act {
    ReadTime,
    DrawName,
    Open {
        nth: usize,
        server: usize,
        traffic: Traffic,
    },
    Close {
        nth: usize,
    },
    Ask {
        nth: usize,
        request: Pending,
        operation: Option<OperationId>,
    },
    /// It no longer waits for the reply to a request, or else for a message.
    Withdraw {
        nth: usize,
        is_request: bool,
    },
    AwaitMessage {
        nth: usize,
        operation: Option<OperationId>,
    },
    GiveUp {
        nth: usize,
    },
    Delay {
        nth: usize,
        request: Request,
    },
    Enter {
        hold: HoldId,
        section: &'static str,
        since: Option<Duration>,
        record: Option<Record>,
    },
    Extend {
        hold: HoldId,
        since: Duration,
        record: Record,
    },
    Leave {
        hold: HoldId,
    },
    BeginOperation {
        id: OperationId,
    },
    EndOperation {
        id: OperationId,
    },
    Did {
        what: &'static str,
    },
    Call {
        id: CallId,
        what: Arc<Call>,
    },
    Return {
        id: CallId,
        answer: Arc<serde_json::Value>,
    },
    Accept {
        resource: &'static str,
        token: i64,
    },
    End(End),
}

/// The end of the code of an actor: what it gave, or an error.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    Done(bool),
    Error(String),
    Panic(String),
}

/// Everything that a client does from when it is woken until it waits again.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Turn {
    pub(crate) acts: Vec<Act>,
    /// How often the code of the actor was polled.
    pub(crate) polls: u64,
    /// How many tasks it spawned besides the actor's own, less those that ended.
    pub(crate) tasks: isize,
}

/// A turn, as it was observed.
#[derive(Debug, Default)]
pub(crate) struct Begun {
    pub(crate) turn: Turn,
    /// A task besides the actor's own has acted.
    pub(crate) by_task: bool,
    /// How many tasks the actor's own code has spawned.
    pub(crate) spawned: isize,
}

/// Everything that a client did since it was last asked.
#[derive(Debug)]
pub(crate) struct Noticed {
    pub(crate) actor: Actor,
    /// A timer has woken it at this time.
    pub(crate) fired: Option<Duration>,
    /// It gets more than it is told.
    pub(crate) is_sharing: bool,
    /// It has crashed, and its own task has ended now.
    pub(crate) has_ended: bool,
    /// It stands still, and something has woken its code.
    pub(crate) is_awake: bool,
    pub(crate) begun: Option<Begun>,
}

impl Turn {
    /// Whether a client does the same in both turns but for words: arguments, and texts of errors.
    pub(crate) fn is_like(&self, other: &Turn) -> bool {
        self.acts.len() == other.acts.len()
            && self.acts.iter().zip(&other.acts).all(|(one, other)| one.is_like(other))
    }

    /// Whether the client, who is inside this many sections, reads its clock inside of one.
    pub(crate) fn reads_clock_inside(&self, mut sections: usize) -> bool {
        self.acts.iter().any(|act| {
            match act {
                Act::Enter { .. } => sections += 1,
                Act::Leave { .. } => sections = sections.saturating_sub(1),
                _ => {}
            }
            sections > 0 && matches!(act, Act::ReadTime)
        })
    }

    /// Whether nothing was done that others can notice.
    pub(crate) fn is_idle(&self) -> bool {
        self.acts.iter().all(|act| act.text().is_none())
    }

    /// About how many bytes the words of its requests take.
    pub(crate) fn value_bytes(&self) -> usize {
        let requests = self.acts.iter().filter_map(|act| match act {
            Act::Ask { request, .. } => Some(&request.request),
            Act::Delay { request, .. } => Some(request),
            _ => None,
        });
        requests.map(Request::value_bytes).sum()
    }

    /// One line: `it sent GET k; it entered cs; it ended`.
    pub(crate) fn text(&self) -> String {
        self.acts.iter().filter_map(Act::text).collect::<Vec<_>>().join("; ")
    }
}

impl Act {
    /// Whether an execution has to handle what others can do next.
    pub(crate) fn is_activity(&self) -> bool {
        match self {
            Act::Withdraw { is_request, .. } => *is_request,
            Act::Ask { .. } | Act::GiveUp { .. } | Act::End(_) => true,
            Act::ReadTime
            | Act::DrawName
            | Act::Open { .. }
            | Act::Close { .. }
            | Act::AwaitMessage { .. }
            | Act::Delay { .. }
            | Act::Enter { .. }
            | Act::Extend { .. }
            | Act::Leave { .. }
            | Act::BeginOperation { .. }
            | Act::EndOperation { .. }
            | Act::Did { .. }
            | Act::Call { .. }
            | Act::Return { .. }
            | Act::Accept { .. } => false,
        }
    }

    fn is_like(&self, other: &Act) -> bool {
        let names = |request: &Request| -> Vec<_> {
            request.words().into_iter().map(|words| words.into_iter().next()).collect()
        };
        match (self, other) {
            (Act::Ask { request: one, .. }, Act::Ask { request: other, .. }) => {
                names(&one.request) == names(&other.request)
            }
            (Act::Enter { section: one, .. }, Act::Enter { section: other, .. }) => one == other,
            (Act::End(one), Act::End(other)) => discriminant(one) == discriminant(other),
            _ => discriminant(self) == discriminant(other),
        }
    }

    /// `None` if the act says nothing to people.
    fn text(&self) -> Option<String> {
        Some(match self {
            Act::Ask { request, .. } => format!("it sent {}", request.request.text().0),
            Act::AwaitMessage { .. } => "it waited for a message".into(),
            Act::GiveUp { .. } | Act::Delay { .. } => "it gave up a request".into(),
            Act::Enter { section, .. } => format!("it entered {section}"),
            Act::Extend { .. } => "it extended its stay".into(),
            Act::Leave { .. } => "it left".into(),
            Act::Did { what } => format!("it did {what}"),
            Act::Call { what, .. } => format!("it called {what}"),
            Act::Return { answer, .. } => format!("its call returned {answer}"),
            Act::Accept { resource, token } => format!("{resource} accepted {token}"),
            Act::End(End::Done(_)) => "it ended".into(),
            Act::End(End::Error(error)) => format!("it failed: {error}"),
            Act::End(End::Panic(panic)) => format!("it panicked: {panic}"),
            Act::ReadTime
            | Act::DrawName
            | Act::Open { .. }
            | Act::Close { .. }
            | Act::Withdraw { .. }
            | Act::BeginOperation { .. }
            | Act::EndOperation { .. } => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(name: &str) -> Request {
        (&redis::cmd(name)).into()
    }

    fn ask(name: &str) -> Act {
        let request =
            Pending { request: request(name), brief: 0, sent: Duration::ZERO, release: None, task: 0 };
        Act::Ask { nth: 0, request, operation: None }
    }

    const HOLD: HoldId = (Actor(0), 1);

    fn enter(section: &'static str) -> Act {
        Act::Enter { hold: HOLD, section, since: None, record: None }
    }

    fn turn(acts: &[Act]) -> Turn {
        Turn { acts: acts.to_vec(), ..Turn::default() }
    }

    /// What is done outside is not noted, so that its late replies are left out.
    #[test]
    fn a_clock_is_read_inside_of_a_section_or_outside() {
        let leave = Act::Leave { hold: HOLD };
        let (outside, inside) = ([Act::ReadTime], [enter("cs"), Act::ReadTime, leave.clone()]);
        assert!(!turn(&outside).reads_clock_inside(0));
        assert!(turn(&outside).reads_clock_inside(1));
        assert!(turn(&inside).reads_clock_inside(0));
        assert!(!turn(&[enter("cs"), leave.clone(), Act::ReadTime]).reads_clock_inside(0));
        assert!(turn(&[leave, Act::ReadTime]).reads_clock_inside(2));
        assert!(!turn(&[Act::DrawName]).reads_clock_inside(1));
    }

    #[test]
    fn bytes_of_requests_are_counted() {
        let late = Act::Delay { nth: 0, request: request("GET") };
        assert_eq!(turn(&[ask("PING"), late, Act::ReadTime]).value_bytes(), "PINGGET".len());
    }

    #[test]
    fn a_turn_is_told_in_a_line() {
        let acts = [ask("PING"), Act::ReadTime, enter("cs"), Act::End(End::Done(true))];
        assert_eq!(turn(&acts).text(), "it sent PING; it entered cs; it ended");
    }

    /// A timer that only makes a client read its clock, or stop listening, is none that others
    /// notice.
    #[test]
    fn an_execution_handles_requests_and_ends() {
        let withdraws = |is_request| Act::Withdraw { nth: 0, is_request };
        for act in [ask("PING"), Act::GiveUp { nth: 0 }, Act::End(End::Done(true)), withdraws(true)] {
            assert!(act.is_activity(), "{act:?}");
        }
        for act in [Act::ReadTime, enter("cs"), withdraws(false)] {
            assert!(!act.is_activity(), "{act:?}");
        }
    }

    /// Names of sections and kinds of ends count. Texts of errors do not.
    #[test]
    fn turns_are_alike_but_for_their_words() {
        let error = |text: &str| Act::End(End::Error(text.into()));
        let is_like = |one: Act, other: Act| turn(&[one]).is_like(&turn(&[other]));
        assert!(is_like(enter("cs"), enter("cs")) && !is_like(enter("cs"), enter("other")));
        assert!(is_like(error("one"), error("other")) && !is_like(error("one"), Act::End(End::Done(true))));
        assert!(is_like(ask("GET"), ask("GET")) && !is_like(ask("GET"), ask("SET")));
        assert!(!is_like(ask("GET"), Act::ReadTime));
    }
}
