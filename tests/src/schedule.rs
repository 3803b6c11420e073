//! A schedule: the steps that decide one execution, and nothing else decides it. As text, one step a line, for people to read
//! and to edit.

use std::fmt;
use std::num::IntErrorKind;
use std::str::FromStr;
use std::time::Duration;

use crate::fault::{Budget, RequestFault};

/// A client of a scenario: `A`, `B`, … in text; `before` for the code that runs first, and `probe1`, … for those that try when
/// all is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(pub usize);

/// Most actors in a scenario: one letter each.
pub const ACTORS_MAX: usize = 26;

/// Longest time in a schedule, in scenarios and in steps: ten years. A lease and a step of time last no longer, and no clock is wrong
/// by more.
pub const SPAN_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClockOwner {
    /// A client's: `A`
    Client(Actor),
    /// A server's: `1` for the first
    Server(usize),
}

/// One step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The actor starts, if it has not; then its next command runs, and the reply is delivered; or on a connection that listens
    /// to a channel, the next message is. `A`, or `A.2` for its second connection.
    Run(Actor, usize),
    /// The actor starts and stalls before its first command. `start A`
    Start(Actor),
    /// Time moves. What timers make clients send meanwhile waits to be run. `time +10001ms`
    Advance(Duration),
    /// Time moves until a client's timer makes it do something. `wait`
    Wait,
    /// The actor ends without a word. `crash A`
    Crash(Actor),
    /// The actor starts, if it has not; then this befalls its next command or message. `lose-reply A`, or `lose-reply A.2` for its second
    /// connection; the words are those of [`RequestFault::name`].
    RequestFault(Actor, usize, RequestFault),
    /// The operation that the actor began last, of those that can be cancelled, is dropped where it waits. `cancel A`
    Cancel(Actor),
    /// A request runs that its client has given up: the first that is still on its way. `late A`, or `late A.2` for the second
    /// connection
    Late(Actor, usize),
    /// The clock is wrong by these milliseconds. `skew A -10000ms`, or `skew 1 +10000ms` for the first server's
    Skew(ClockOwner, i64),
    /// The clock runs too fast by so many millionths. `drift A +200ppm`, `drift 1 -200ppm`
    Drift(ClockOwner, i64),
    /// The clock jumps by these milliseconds. `jump A -10000ms`, `jump 1 +10000ms`
    Jump(ClockOwner, i64),
    /// The server loses all data and scripts. `restart 1`
    Restart(usize),
    /// The server restarts with its data, but for what its last so many writes changed, and without scripts. `reload 1`, or
    /// `reload 1 -2` without the last two
    Reload(usize, u32),
    /// The server forgets its scripts. `flush 1`
    Flush(usize),
}

impl Step {
    /// Whose step it is; `None` if it is nobody's.
    pub fn actor(self) -> Option<Actor> {
        match self {
            Step::Run(actor, _)
            | Step::Start(actor)
            | Step::Crash(actor)
            | Step::RequestFault(actor, ..)
            | Step::Cancel(actor)
            | Step::Late(actor, _)
            | Step::Jump(ClockOwner::Client(actor), _) => Some(actor),
            Step::Advance(_)
            | Step::Wait
            | Step::Skew(..)
            | Step::Drift(..)
            | Step::Jump(ClockOwner::Server(_), _)
            | Step::Restart(_)
            | Step::Reload(..)
            | Step::Flush(_) => None,
        }
    }

    /// What it takes from; `None` if it is no fault. To wait is one only where somebody has a command to send.
    pub fn budget(self) -> Option<Budget> {
        match self {
            Step::Run(..) | Step::Start(_) | Step::Late(..) | Step::Skew(..) | Step::Drift(..) => None,
            Step::Advance(_) | Step::Wait => Some(Budget::Stalls),
            Step::Crash(_) => Some(Budget::Crashes),
            Step::Cancel(_) => Some(Budget::Cancels),
            Step::RequestFault(.., fault) => Some(fault.budget()),
            Step::Jump(ClockOwner::Client(_), _) => Some(Budget::ClientClocks),
            Step::Jump(ClockOwner::Server(_), _) | Step::Restart(_) => Some(Budget::Servers),
            Step::Reload(..) => Some(Budget::Reloads),
            Step::Flush(_) => Some(Budget::Flushes),
        }
    }

    /// The server that something happens to.
    pub fn server(self) -> Option<usize> {
        match self {
            Step::Skew(ClockOwner::Server(server), _)
            | Step::Drift(ClockOwner::Server(server), _)
            | Step::Jump(ClockOwner::Server(server), _)
            | Step::Restart(server)
            | Step::Reload(server, _)
            | Step::Flush(server) => Some(server),
            _ => None,
        }
    }

    /// How much time it is about.
    fn span(self) -> Duration {
        match self {
            Step::Advance(span) => span,
            Step::Skew(_, millis) | Step::Jump(_, millis) => Duration::from_millis(millis.unsigned_abs()),
            _ => Duration::ZERO,
        }
    }

    /// Whether something goes wrong, as opposed to what a client does by itself; to wait may be either.
    pub(crate) fn is_fault(self) -> bool {
        matches!(self, Step::Skew(..) | Step::Drift(..)) || self.budget().is_some()
    }
}

/// The steps of one execution, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The steps.
    pub steps: Vec<Step>,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n < ACTORS_MAX => write!(f, "{}", char::from(b'A' + n as u8)),
            ACTORS_MAX => f.write_str("before"),
            n => write!(f, "probe{}", n - ACTORS_MAX),
        }
    }
}

impl fmt::Display for ClockOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockOwner::Client(actor) => write!(f, "{actor}"),
            ClockOwner::Server(server) => write!(f, "{}", server + 1),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(actor, connection) => format_connection(f, *actor, *connection),
            Step::RequestFault(actor, connection, fault) => {
                write!(f, "{} ", fault.name())?;
                format_connection(f, *actor, *connection)
            }
            Step::Start(actor) => write!(f, "start {actor}"),
            Step::Advance(span) => write!(f, "time +{}ms", span.as_millis()),
            Step::Wait => f.write_str("wait"),
            Step::Crash(actor) => write!(f, "crash {actor}"),
            Step::Cancel(actor) => write!(f, "cancel {actor}"),
            Step::Late(actor, connection) => {
                f.write_str("late ")?;
                format_connection(f, *actor, *connection)
            }
            Step::Skew(owner, millis) => write!(f, "skew {owner} {millis:+}ms"),
            Step::Drift(owner, ppm) => write!(f, "drift {owner} {ppm:+}ppm"),
            Step::Jump(owner, millis) => write!(f, "jump {owner} {millis:+}ms"),
            Step::Restart(server) => write!(f, "restart {}", server + 1),
            Step::Reload(server, 0) => write!(f, "reload {}", server + 1),
            Step::Reload(server, lost) => write!(f, "reload {} -{lost}", server + 1),
            Step::Flush(server) => write!(f, "flush {}", server + 1),
        }
    }
}

/// `A`, or `A.2` for its second connection.
fn format_connection(f: &mut fmt::Formatter<'_>, actor: Actor, connection: usize) -> fmt::Result {
    match connection {
        0 => write!(f, "{actor}"),
        _ => write!(f, "{actor}.{}", connection + 1),
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

/// Why a line is no step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong, and what to write.
    pub what: String,
}

/// How steps may look, but for the plainest.
const EXAMPLES: &str = "`start A`, `crash A`, `lose-reply A`, `skew A +5ms`, `jump 1 +5ms`, `restart 1`, `reload 1`, \
    `flush 1`, `time +5ms` or `wait`";

/// One step a line; blank lines and what follows a `#` are comments. After an actor, the rest of the line is a comment too: the
/// command that was seen there when the schedule was written.
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

/// A step out of a line; or what is wrong with the line, with this example of the plainest step.
pub(crate) fn parse_step(code: &str, line: &str, plainest: &str) -> Result<Step, String> {
    match read_step(code) {
        Some(step) if step.span() > SPAN_MAX => {
            Err(format!("{line:?} is too long: write {}ms at most, ten years", SPAN_MAX.as_millis()))
        }
        Some(step) => Ok(step),
        None => Err(format!("{line:?} is no step: write {plainest}, {EXAMPLES}")),
    }
}

/// A step, if these words are one.
pub(crate) fn read_step(code: &str) -> Option<Step> {
    let mut words = code.split_whitespace();
    Some(match words.next()? {
        "start" => Step::Start(parse_actor(words.next()?)?),
        "crash" => Step::Crash(parse_actor(words.next()?)?),
        "cancel" => Step::Cancel(parse_actor(words.next()?)?),
        "late" => {
            let (actor, connection) = parse_connection(words.next()?)?;
            Step::Late(actor, connection)
        }
        "skew" => Step::Skew(parse_clock_owner(words.next()?)?, parse_millis(words.next()?)?),
        "drift" => {
            Step::Drift(parse_clock_owner(words.next()?)?, words.next()?.strip_suffix("ppm")?.parse().ok()?)
        }
        "jump" => Step::Jump(parse_clock_owner(words.next()?)?, parse_millis(words.next()?)?),
        "restart" => Step::Restart(parse_server(words.next()?)?),
        "reload" => Step::Reload(
            parse_server(words.next()?)?,
            words.next().map_or(Some(0), |word| word.strip_prefix('-')?.parse().ok())?,
        ),
        "flush" => Step::Flush(parse_server(words.next()?)?),
        "wait" => Step::Wait,
        "time" => Step::Advance(Duration::from_millis(u64::try_from(parse_millis(words.next()?)?).ok()?)),
        word => match RequestFault::ALL.iter().find(|fault| fault.name() == word) {
            Some(&fault) => {
                let (actor, connection) = parse_connection(words.next()?)?;
                Step::RequestFault(actor, connection, fault)
            }
            None => {
                let (actor, connection) = parse_connection(word)?;
                Step::Run(actor, connection)
            }
        },
    })
}

fn parse_connection(word: &str) -> Option<(Actor, usize)> {
    Some(match word.split_once('.') {
        Some((actor, connection)) => (parse_actor(actor)?, connection.parse::<usize>().ok()?.checked_sub(1)?),
        None => (parse_actor(word)?, 0),
    })
}

fn parse_actor(word: &str) -> Option<Actor> {
    match word.as_bytes() {
        [letter @ b'A'..=b'Z'] => Some(Actor(usize::from(letter - b'A'))),
        _ => None,
    }
}

fn parse_clock_owner(word: &str) -> Option<ClockOwner> {
    parse_actor(word).map(ClockOwner::Client).or_else(|| parse_server(word).map(ClockOwner::Server))
}

fn parse_server(word: &str) -> Option<usize> {
    word.parse::<usize>().ok()?.checked_sub(1)
}

/// Of a number that is too large, the largest.
pub(crate) fn parse_millis(word: &str) -> Option<i64> {
    match word.strip_suffix("ms")?.parse::<i64>() {
        Ok(millis) => Some(millis),
        Err(error) => match error.kind() {
            IntErrorKind::PosOverflow => Some(i64::MAX),
            IntErrorKind::NegOverflow => Some(i64::MIN),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "A\nB.2\nstart C\ntime +10001ms\nwait\ncrash A\nskew B -10000ms\nskew B +5ms\nskew 2 -5ms\ndrift A +200ppm\ndrift 1 -200ppm\njump A -5ms\nlose-request A\n\
            lose-reply B.2\nresend A\njump 1 +5ms\nrestart 2\nreload 1\nreload 2 -3\nflush 1\n\
            drop-before A\ndrop-after A.2\ndelay A\nlate A.2\ncancel-after A\ncancel B\n";
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
            r#"line 2: "skip B" is no step: write `A`, `start A`, `crash A`, `lose-reply A`, `skew A +5ms`, `jump 1 +5ms`, `restart 1`, `reload 1`, `flush 1`, `time +5ms` or `wait`"#
        );
    }
}
