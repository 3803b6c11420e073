//! A schedule: the steps of one execution. Nothing else decides it. As text it has one step a line,
//! and people can read and edit it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::actor::Actor;
use crate::fault::{Budget, Fault, FaultKind, Target, TargetKind, parse_millis};

/// The longest time in scenarios and in steps: ten years. It is the limit of a lease, of a step of
/// time, and of the error of a clock.
pub const SPAN_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// One step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The actor starts, if it has not started. Then its next command runs, and the reply is
    /// delivered. On a subscribed connection, the next message is delivered. `A`, or `A.2` for its
    /// second connection.
    Run(Actor, usize),
    /// The actor's next command runs, and its reply is on the way. `send A`, or `send A.2`
    Send(Actor, usize),
    /// The reply that is on the way arrives. `receive A`, or `receive A.2`
    Receive(Actor, usize),
    /// The actor starts and stalls before its first command. `start A`
    Start(Actor),
    /// Time moves by this span. If timers make clients send requests, these requests wait to be
    /// run. `time +10001ms`
    Advance(Duration),
    /// Time moves until a client's timer fires and makes it act, or until something changes for
    /// clients that try in vain. `wait`
    Wait,
    /// A fault strikes. If it strikes a request of an actor that has not started, the actor starts.
    Fault(Fault),
    /// A request runs although its client no longer waits for it. It is the first such request that
    /// is still on its way. `late A`, or `late A.2` for the second connection
    Late(Actor, usize),
}

impl Step {
    /// The client that takes the step; `None` if no client does.
    pub fn actor(self) -> Option<Actor> {
        match self {
            Step::Run(actor, _)
            | Step::Send(actor, _)
            | Step::Receive(actor, _)
            | Step::Start(actor)
            | Step::Late(actor, _) => Some(actor),
            Step::Fault(fault) => fault.target.actor().filter(|_| !fault.is_setup()),
            Step::Advance(_) | Step::Wait => None,
        }
    }

    /// The budget that the step uses; `None` if it is not a fault, or holds from the start. To wait
    /// is a fault only if a client has a command to send.
    pub fn budget(self) -> Option<Budget> {
        match self {
            Step::Run(..) | Step::Send(..) | Step::Receive(..) | Step::Start(_) | Step::Late(..) => None,
            Step::Advance(_) | Step::Wait => Some(Budget::STALLS),
            Step::Fault(fault) => fault.kind.row().budget,
        }
    }

    /// The server that the step concerns.
    pub fn server(self) -> Option<usize> {
        self.fault().and_then(|fault| fault.target.server())
    }

    /// The fault of the step; `None` for steps of time.
    pub fn fault(self) -> Option<Fault> {
        if let Step::Fault(fault) = self { Some(fault) } else { None }
    }

    /// The span by which the step moves time; `None` if it moves none, or until a timer fires.
    pub fn time_moved(self) -> Option<Duration> {
        match self {
            Step::Advance(span) => Some(span),
            Step::Fault(fault) if fault.moves_time() => {
                Some(Duration::from_millis(fault.amount.unsigned_abs()))
            }
            _ => None,
        }
    }

    /// The step with another span, if it moves time by one.
    pub(crate) fn with_time_moved(self, span: Duration) -> Step {
        match self {
            Step::Advance(_) => Step::Advance(span),
            Step::Fault(fault) if fault.moves_time() => {
                let amount = i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
                Step::Fault(Fault { amount, ..fault })
            }
            _ => self,
        }
    }

    /// The time span in the step.
    fn span(self) -> Duration {
        match self {
            Step::Advance(span) => span,
            Step::Fault(fault) => Duration::from_millis(fault.millis().unwrap_or(0).unsigned_abs()),
            _ => Duration::ZERO,
        }
    }

    /// Whether the step is a fault, as opposed to a client's own action. To wait may be either.
    pub(crate) fn is_fault(self) -> bool {
        matches!(self, Step::Fault(_) | Step::Advance(_) | Step::Wait)
    }
}

/// The steps of one execution, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Step>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(actor, connection) => write!(f, "{}", Target::Connection(*actor, *connection)),
            Step::Send(actor, connection) => write!(f, "send {}", Target::Connection(*actor, *connection)),
            Step::Receive(actor, connection) => {
                write!(f, "receive {}", Target::Connection(*actor, *connection))
            }
            Step::Start(actor) => write!(f, "start {actor}"),
            Step::Advance(span) => write!(f, "time +{}ms", span.as_millis()),
            Step::Wait => f.write_str("wait"),
            Step::Fault(fault) => write!(f, "{fault}"),
            Step::Late(actor, connection) => write!(f, "late {}", Target::Connection(*actor, *connection)),
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// Why a line is not a step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// The line number, from 1.
    pub line: usize,
    /// The mistake, and what to write instead.
    pub what: String,
}

/// Examples of all kinds of steps except the simplest.
fn examples() -> String {
    let faults = FaultKind::ALL.iter().map(|kind| kind.documentation().0);
    let of_clients = ["start A", "send A", "receive A"].map(str::to_owned);
    let all = of_clients.into_iter().chain(faults).chain(["time +5ms".into()]);
    format!("{} or `wait`", all.map(|step| format!("`{step}`")).collect::<Vec<_>>().join(", "))
}

/// One step a line. Blank lines, and everything after a `#`, are comments. After an actor, the rest
/// of the line is a comment, too: the command that ran there when the schedule was written.
impl FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Schedule, ParseError> {
        let mut steps = Vec::new();
        for (idx, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default().trim();
            if !code.is_empty() {
                let step = parse_step(code, line, "`A`");
                steps.push(step.map_err(|what| ParseError { line: idx + 1, what })?);
            }
        }
        Ok(Schedule { steps })
    }
}

impl TryFrom<String> for Schedule {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Schedule, ParseError> {
        text.parse()
    }
}

impl From<Schedule> for String {
    fn from(schedule: Schedule) -> String {
        schedule.to_string()
    }
}

/// Parses a step from a line. An error names the mistake in the line, with `plainest` as an example
/// of the simplest step.
pub(crate) fn parse_step(code: &str, line: &str, plainest: &str) -> Result<Step, String> {
    match read_step(code) {
        Some(step) if step.span() > SPAN_MAX => Err(format!(
            "the time in {line:?} is too long: write at most {}ms (ten years)",
            SPAN_MAX.as_millis()
        )),
        Some(step) => Ok(step),
        None => Err(format!("{line:?} is not a step: write {plainest}, {}", examples())),
    }
}

/// Parses a step; `None` if these words are not one.
pub(crate) fn read_step(code: &str) -> Option<Step> {
    if let Some(fault) = Fault::parse(code) {
        return Some(Step::Fault(fault));
    }
    let connection = |word: &str| match Target::parse(TargetKind::Connection, word)? {
        Target::Connection(actor, connection) => Some((actor, connection)),
        Target::Client(_) | Target::Server(_) => None,
    };
    let mut words = code.split_whitespace();
    Some(match words.next()? {
        "start" => Step::Start(Actor::parse(words.next()?)?),
        word @ ("late" | "send" | "receive") => {
            let (actor, connection) = connection(words.next()?)?;
            match word {
                "late" => Step::Late(actor, connection),
                "send" => Step::Send(actor, connection),
                _ => Step::Receive(actor, connection),
            }
        }
        "wait" => Step::Wait,
        "time" => Step::Advance(Duration::from_millis(u64::try_from(parse_millis(words.next()?)?).ok()?)),
        word => {
            let (actor, connection) = connection(word)?;
            Step::Run(actor, connection)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "A\nB.2\nstart C\ntime +10001ms\nwait\ncrash A\nskew B -10000ms\nskew B +5ms\nskew 2 -5ms\ndrift A +200ppm\ndrift 1 -200ppm\njump A -5ms\nlose-request A\n\
            lose-reply B.2\nresend A\njump 1 +5ms\nrestart 2\nreload 1\nreload 2 -3\nflush 1\n\
            drop-before A\ndrop-after A.2\npartition A\npartition-after A.2\none-way A\ndelay A\nlate A.2\nsend A\nreceive A.2\ncancel-after A\ncancel B\ncrash-after A\npause A +5ms\n\
            failover 2\nfailover 3 -AAB\nsplit-brain 2 -B\nplanned-failover 2\nunacknowledged A.2 2,3\nstale A.2 -AB\n\
            begin-move 1 0\nend-move 2 16383\n";
        let schedule: Schedule = text.parse().unwrap();
        assert_eq!(schedule.to_string(), text);
    }

    #[test]
    fn comments_are_skipped_and_mistakes_are_shown() {
        let schedule: Schedule = "# a note\n\n  A  SET lock 1 NX  # first\n".parse().unwrap();
        assert_eq!(schedule.steps, [Step::Run(Actor(0), 0)]);
        let error = "A\nskip B".parse::<Schedule>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "line 2: \"skip B\" is not a step: write `A`, `start A`, `send A`, `receive A`, `skew A +5ms`, `drift A +200ppm`, `skew 1 +5ms`, \
             `drift 1 +200ppm`, `lose-request A`, `lose-reply A`, `resend A`, `drop-before A`, `drop-after A`, `partition A`, `partition-after A`, `one-way A`, `delay A`, \
             `cancel-after A`, `cancel A`, `crash A`, `crash-after A`, `respawn A`, `respawn-after A`, `pause A +5ms`, `jump A +5ms`, `jump 1 +5ms`, `restart 1`, `reload 1 -1`, `flush 1`, \
             `failover 2 -A`, `split-brain 2 -A`, `planned-failover 2`, `unacknowledged A 2`, `stale A -A`, \
             `begin-move 1 1234`, `end-move 1 1234`, `time +5ms` or `wait`"
        );
    }
}
