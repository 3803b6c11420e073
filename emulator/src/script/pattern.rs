//! Lua's patterns, as `string.find` and similar functions match them.
//!
//! The matcher of Lua 5.1 recurses in C. A long pattern overflows the stack of the process, and a
//! slow match cannot be stopped. This matcher keeps its choices in a list, and reports its steps to
//! the caller. It works on bytes and does not know Lua's values.
//! <https://www.lua.org/manual/5.1/manual.html#5.4.1>

use std::ops::Range;

use smallvec::SmallVec;

use super::args::c_string;

/// The character that escapes another and that begins a class.
pub const ESCAPE: u8 = b'%';
/// A pattern without any of these is plain text.
const SPECIALS: &[u8] = b"^$*+?.([%-";
/// How many captures a pattern may have.
pub const CAPTURES_MAX: usize = 32;
/// How many steps are taken before they are reported.
const STEPS_PER_REPORT: u64 = 4096;

/// The reason why a match has no result.
pub enum Failure<E> {
    /// The pattern is malformed: the error of Lua.
    Malformed(&'static str),
    /// The caller stopped the match.
    Ended(E),
}

/// The content of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The end has not been reached.
    Open { start: usize },
    /// A part of the subject.
    Text(Range<usize>),
    /// `()`: a place in the subject, counted from 0.
    Position(usize),
}

/// A match: its place in the subject, and its captures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// The range of the whole match.
    pub range: Range<usize>,
    /// The captures from left to right.
    pub captures: Captures,
}

/// The captures of a match. Most patterns have few.
pub type Captures = SmallVec<[Capture; 4]>;

/// Whether a pattern is plain text.
pub fn is_literal(pattern: &[u8]) -> bool {
    !c_string(pattern).iter().any(|byte| SPECIALS.contains(byte))
}

/// Matches a pattern in a subject.
pub struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Captures,
    /// The choices that are left, the latest last, mixed with the captures to undo before them. The
    /// length of the pattern limits it.
    choices: Vec<Choice>,
    /// The steps since the last report.
    steps: u64,
}

#[derive(Clone, Copy)]
struct Place {
    subject: usize,
    pattern: usize,
}

enum Choice {
    /// Continue at this place instead.
    Skip(Place),
    /// Match one repetition less. The repetitions begin at `first`.
    Fewer { first: usize, place: Place },
    /// Match one more of `item`, if it fits.
    More { item: Range<usize>, place: Place },
    /// Remove the last capture, because it was opened later.
    Unopen,
    /// Open this capture again, because it was closed later.
    Reopen { idx: usize, start: usize },
}

enum Step {
    Done,
    Next(Place),
    Failed,
}

type Malformed = &'static str;

impl<'a> Matcher<'a> {
    /// The pattern ends before its first NUL, as in C.
    pub fn new(subject: &'a [u8], pattern: &'a [u8]) -> Matcher<'a> {
        let pattern = c_string(pattern);
        Matcher { subject, pattern, captures: Captures::new(), choices: Vec::new(), steps: 0 }
    }

    /// Matches the pattern at one place of the subject. Each `STEPS_PER_REPORT` steps, `report`
    /// is called with their number.
    ///
    /// # Errors
    /// The pattern is malformed, or `report` failed.
    pub fn match_at<E>(
        &mut self,
        start: usize,
        report: &mut impl FnMut(u64) -> Result<(), E>,
    ) -> Result<Option<Match>, Failure<E>> {
        self.captures.clear();
        self.choices.clear();
        let mut place = Place { subject: start, pattern: 0 };
        loop {
            self.steps += 1;
            if self.steps >= STEPS_PER_REPORT {
                report(self.take_steps()).map_err(Failure::Ended)?;
            }
            let next = match self.step(place).map_err(Failure::Malformed)? {
                Step::Done => {
                    let captures = std::mem::take(&mut self.captures);
                    return Ok(Some(Match { range: start..place.subject, captures }));
                }
                Step::Next(next) => Some(next),
                Step::Failed => self.next_choice(),
            };
            match next {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
    }

    /// Returns the number of steps that have not been reported, and resets it.
    pub fn take_steps(&mut self) -> u64 {
        std::mem::take(&mut self.steps)
    }

    /// Matches one item of the pattern.
    fn step(&mut self, place: Place) -> Result<Step, Malformed> {
        let at = |subject, pattern| Step::Next(Place { subject, pattern });
        let Place { subject, pattern } = place;
        match (self.byte(pattern), self.byte(pattern + 1)) {
            (None, _) => Ok(Step::Done),
            (Some(b'('), Some(b')')) => {
                self.open(Capture::Position(subject))?;
                Ok(at(subject, pattern + 2))
            }
            (Some(b'('), _) => {
                self.open(Capture::Open { start: subject })?;
                Ok(at(subject, pattern + 1))
            }
            (Some(b')'), _) => {
                self.close(subject)?;
                Ok(at(subject, pattern + 1))
            }
            (Some(ESCAPE), Some(b'b')) => {
                let end = self.balanced(place)?;
                Ok(end.map_or(Step::Failed, |end| at(end, pattern + 4)))
            }
            (Some(ESCAPE), Some(b'f')) => {
                let item = pattern + 2..self.item_end(self.frontier_set(pattern + 2)?)?;
                let before = subject.checked_sub(1).map_or(0, |idx| self.subject[idx]);
                let after = self.subject.get(subject).copied().unwrap_or(0);
                let is_frontier = !self.is_in_set(before, &item) && self.is_in_set(after, &item);
                Ok(if is_frontier { at(subject, item.end) } else { Step::Failed })
            }
            (Some(ESCAPE), Some(digit)) if digit.is_ascii_digit() => {
                let end = self.same_as_capture(digit, subject)?;
                Ok(end.map_or(Step::Failed, |end| at(end, pattern + 2)))
            }
            (Some(b'$'), None) => Ok(if subject == self.subject.len() { Step::Done } else { Step::Failed }),
            _ => self.repeated(place),
        }
    }

    /// Matches a single character or class with its optional suffix: `?`, `*`, `+`, `-`.
    fn repeated(&mut self, place: Place) -> Result<Step, Malformed> {
        let item = place.pattern..self.item_end(place.pattern)?;
        let matches = self.is_item_at(place.subject, &item);
        let behind = item.end + 1;
        let once = Place { subject: place.subject + 1, pattern: behind };
        let none = Place { subject: place.subject, pattern: behind };
        Ok(match self.byte(item.end) {
            Some(b'?') if matches => {
                self.choices.push(Choice::Skip(none));
                Step::Next(once)
            }
            Some(b'?') => Step::Next(none),
            Some(b'*') => self.as_many_as_can_be(none, &item),
            Some(b'+') if matches => self.as_many_as_can_be(once, &item),
            Some(b'-') => {
                self.choices.push(Choice::More { item, place: none });
                Step::Next(none)
            }
            Some(b'+') => Step::Failed,
            _ if matches => Step::Next(Place { pattern: item.end, ..once }),
            _ => Step::Failed,
        })
    }

    fn as_many_as_can_be(&mut self, place: Place, item: &Range<usize>) -> Step {
        let rest = self.subject.len() - place.subject;
        let n_matching = (0..rest).take_while(|n| self.is_item_at(place.subject + n, item)).count();
        self.steps += n_matching as u64;
        let most = Place { subject: place.subject + n_matching, ..place };
        if n_matching > 0 {
            self.choices.push(Choice::Fewer { first: place.subject, place: most });
        }
        Step::Next(most)
    }

    /// Undoes the captures since the latest choice, and returns the place of its alternative.
    fn next_choice(&mut self) -> Option<Place> {
        loop {
            match self.choices.pop()? {
                Choice::Skip(place) => return Some(place),
                Choice::Fewer { first, mut place } => {
                    place.subject -= 1;
                    if place.subject > first {
                        self.choices.push(Choice::Fewer { first, place });
                    }
                    return Some(place);
                }
                Choice::More { item, mut place } => {
                    if self.is_item_at(place.subject, &item) {
                        place.subject += 1;
                        self.choices.push(Choice::More { item, place });
                        return Some(place);
                    }
                }
                Choice::Unopen => {
                    self.captures.pop();
                }
                Choice::Reopen { idx, start } => self.captures[idx] = Capture::Open { start },
            }
        }
    }

    fn open(&mut self, capture: Capture) -> Result<(), Malformed> {
        if self.captures.len() >= CAPTURES_MAX {
            return Err("too many captures");
        }
        self.captures.push(capture);
        self.choices.push(Choice::Unopen);
        Ok(())
    }

    fn close(&mut self, end: usize) -> Result<(), Malformed> {
        let open = self.captures.iter().enumerate().rev().find_map(|(idx, capture)| match capture {
            Capture::Open { start } => Some((idx, *start)),
            _ => None,
        });
        let (idx, start) = open.ok_or("invalid pattern capture")?;
        self.captures[idx] = Capture::Text(start..end);
        self.choices.push(Choice::Reopen { idx, start });
        Ok(())
    }

    /// `%1`: the place after the text at `subject`, if that text equals the capture.
    fn same_as_capture(&self, digit: u8, subject: usize) -> Result<Option<usize>, Malformed> {
        let idx = usize::from(digit).checked_sub(usize::from(b'1'));
        match idx.and_then(|idx| self.captures.get(idx)) {
            Some(Capture::Text(range)) => {
                let text = &self.subject[range.clone()];
                Ok(self.subject[subject..].starts_with(text).then_some(subject + text.len()))
            }
            Some(Capture::Position(_)) => Ok(None),
            Some(Capture::Open { .. }) | None => Err("invalid capture index"),
        }
    }

    /// `%bxy`: the place after the `y` that closes the `x` here.
    fn balanced(&mut self, place: Place) -> Result<Option<usize>, Malformed> {
        let (Some(open), Some(close)) = (self.byte(place.pattern + 2), self.byte(place.pattern + 3)) else {
            return Err("unbalanced pattern");
        };
        if self.subject.get(place.subject) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (idx, &byte) in self.subject.iter().enumerate().skip(place.subject + 1) {
            self.steps += 1;
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(idx + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn frontier_set(&self, start: usize) -> Result<usize, Malformed> {
        if self.byte(start) == Some(b'[') { Ok(start) } else { Err("missing '[' after '%f' in pattern") }
    }

    /// The end of a single character or class of the pattern.
    fn item_end(&self, start: usize) -> Result<usize, Malformed> {
        match self.byte(start) {
            Some(ESCAPE) if start + 1 >= self.pattern.len() => Err("malformed pattern (ends with '%')"),
            Some(ESCAPE) => Ok(start + 2),
            Some(b'[') => {
                let mut idx = start + 1 + usize::from(self.byte(start + 1) == Some(b'^'));
                // A bracket that comes first is a member of the set.
                loop {
                    let byte = self.byte(idx).ok_or("malformed pattern (missing ']')")?;
                    let is_pair = byte == ESCAPE && idx + 1 < self.pattern.len();
                    idx += if is_pair { 2 } else { 1 };
                    if self.byte(idx) == Some(b']') {
                        return Ok(idx + 1);
                    }
                }
            }
            _ => Ok(start + 1),
        }
    }

    fn is_item_at(&self, subject: usize, item: &Range<usize>) -> bool {
        let Some(&byte) = self.subject.get(subject) else { return false };
        match self.pattern[item.start] {
            b'.' => true,
            ESCAPE => is_of_class(byte, self.pattern[item.start + 1]),
            b'[' => self.is_in_set(byte, item),
            own => own == byte,
        }
    }

    /// Whether a byte is in the set at this range of the pattern: `[a-z%d]`.
    fn is_in_set(&self, byte: u8, item: &Range<usize>) -> bool {
        let is_complement = self.byte(item.start + 1) == Some(b'^');
        let mut idx = item.start + 1 + usize::from(is_complement);
        let last = item.end - 1;
        while idx < last {
            let is_range = self.pattern[idx + 1] == b'-' && idx + 2 < last;
            let is_member = match self.pattern[idx] {
                ESCAPE => {
                    idx += 1;
                    is_of_class(byte, self.pattern[idx])
                }
                first if is_range => {
                    idx += 2;
                    (first..=self.pattern[idx]).contains(&byte)
                }
                own => own == byte,
            };
            if is_member {
                return !is_complement;
            }
            idx += 1;
        }
        is_complement
    }

    fn byte(&self, idx: usize) -> Option<u8> {
        self.pattern.get(idx).copied()
    }
}

/// Whether a byte is in a class such as `%a`, as in the locale C. An upper-case letter means the
/// complement of the class.
fn is_of_class(byte: u8, class: u8) -> bool {
    let is_member = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte == b' ' || (b'\t'..=b'\r').contains(&byte),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_member != class.is_ascii_uppercase()
}
