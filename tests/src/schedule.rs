//! A schedule: the steps that decide one execution, and nothing else decides it. As text, one step a line, for people to read
//! and to edit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::fault::{Budget, Mishap};

/// A client of a scenario: `A`, `B`, … in text; `before` for the code that runs first, and `probe1`, … for those that try when
/// all is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor(pub usize);

/// Most actors in a scenario: one letter each.
pub const ACTORS_MAX: usize = 26;

/// One step of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The actor starts, if it has not; then its next command runs, and the reply is delivered; or on a connection that listens to a
    /// channel, the next message is. `A`, or `A.2` for its second connection.
    Run(Actor, usize),
    /// The actor starts and stalls before its first command. `start A`
    Start(Actor),
    /// Time moves. What timers make clients send meanwhile waits to be run. `time +10001ms`
    Advance(Duration),
    /// Time moves until a client's timer makes it do something. `wait`
    Wait,
    /// The actor ends without a word. `crash A`
    Crash(Actor),
    /// The actor starts, if it has not; then this befalls its next command. `lose-reply A`, or `lose-reply A.2` for its second
    /// connection; the words are those of [`Mishap::name`].
    Mishap(Actor, usize, Mishap),
    /// The actor's clock is wrong by these milliseconds. `skew A -10000ms`
    Skew(Actor, i64),
    /// The server's clock jumps by these milliseconds. `jump 1 +10000ms`, for the first server
    Jump(usize, i64),
    /// The server loses all data and scripts. `restart 1`
    Restart(usize),
}

impl Step {
    /// Whose step it is; `None` if it is nobody's.
    pub fn actor(self) -> Option<Actor> {
        match self {
            Step::Run(actor, _) | Step::Start(actor) | Step::Crash(actor) | Step::Mishap(actor, ..) => {
                Some(actor)
            }
            Step::Advance(_) | Step::Wait | Step::Skew(..) | Step::Jump(..) | Step::Restart(_) => None,
        }
    }

    /// What it takes from; `None` if it is no fault. To wait is one only where somebody has a command to send.
    pub fn budget(self) -> Option<Budget> {
        match self {
            Step::Run(..) | Step::Start(_) | Step::Skew(..) => None,
            Step::Advance(_) | Step::Wait => Some(Budget::Stalls),
            Step::Crash(_) => Some(Budget::Crashes),
            Step::Mishap(.., mishap) => Some(mishap.budget()),
            Step::Jump(..) | Step::Restart(_) => Some(Budget::Servers),
        }
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

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Run(actor, connection) => show_lane(f, *actor, *connection),
            Step::Mishap(actor, connection, mishap) => {
                write!(f, "{} ", mishap.name())?;
                show_lane(f, *actor, *connection)
            }
            Step::Start(actor) => write!(f, "start {actor}"),
            Step::Advance(span) => write!(f, "time +{}ms", span.as_millis()),
            Step::Wait => f.write_str("wait"),
            Step::Crash(actor) => write!(f, "crash {actor}"),
            Step::Skew(actor, millis) => write!(f, "skew {actor} {millis:+}ms"),
            Step::Jump(server, millis) => write!(f, "jump {} {millis:+}ms", server + 1),
            Step::Restart(server) => write!(f, "restart {}", server + 1),
        }
    }
}

/// `A`, or `A.2` for its second connection.
fn show_lane(f: &mut fmt::Formatter<'_>, actor: Actor, connection: usize) -> fmt::Result {
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
#[error(
    "line {line}: {text:?} is no step: write `A`, `start A`, `crash A`, `lose-reply A`, `skew A +5ms`, `jump 1 +5ms`, `restart 1`, `time +5ms` or `wait`"
)]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

/// One step a line; blank lines and what follows a `#` are comments. After an actor, the rest of the line is a comment too: the
/// command that was seen there when the schedule was written.
impl FromStr for Schedule {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Schedule, ParseError> {
        let mut steps = Vec::new();
        for (idx, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default().trim();
            if !code.is_empty() {
                let no_step = || ParseError { line: idx + 1, text: line.into() };
                steps.push(parse_step(code).ok_or_else(no_step)?);
            }
        }
        Ok(Schedule { steps })
    }
}

fn parse_step(code: &str) -> Option<Step> {
    let mut words = code.split_whitespace();
    Some(match words.next()? {
        "start" => Step::Start(parse_actor(words.next()?)?),
        "crash" => Step::Crash(parse_actor(words.next()?)?),
        "skew" => Step::Skew(parse_actor(words.next()?)?, parse_millis(words.next()?)?),
        "jump" => Step::Jump(parse_server(words.next()?)?, parse_millis(words.next()?)?),
        "restart" => Step::Restart(parse_server(words.next()?)?),
        "wait" => Step::Wait,
        "time" => Step::Advance(Duration::from_millis(u64::try_from(parse_millis(words.next()?)?).ok()?)),
        word => match Mishap::ALL.iter().find(|mishap| mishap.name() == word) {
            Some(&mishap) => {
                let (actor, connection) = parse_lane(words.next()?)?;
                Step::Mishap(actor, connection, mishap)
            }
            None => {
                let (actor, connection) = parse_lane(word)?;
                Step::Run(actor, connection)
            }
        },
    })
}

fn parse_lane(word: &str) -> Option<(Actor, usize)> {
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

fn parse_server(word: &str) -> Option<usize> {
    word.parse::<usize>().ok()?.checked_sub(1)
}

pub(crate) fn parse_millis(word: &str) -> Option<i64> {
    word.strip_suffix("ms")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "A\nB.2\nstart C\ntime +10001ms\nwait\ncrash A\nskew B -10000ms\nskew B +5ms\nlose-request A\n\
            lose-reply B.2\nresend A\njump 1 +5ms\nrestart 2\n";
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
            r#"line 2: "skip B" is no step: write `A`, `start A`, `crash A`, `lose-reply A`, `skew A +5ms`, `jump 1 +5ms`, `restart 1`, `time +5ms` or `wait`"#
        );
    }
}
