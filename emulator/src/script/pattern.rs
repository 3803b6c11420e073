//! Lua's patterns, as `string.find` and similar functions match them.
//!
//! The matcher of Lua 5.1 recurses in C. A long pattern overflows the stack of the process, and a
//! slow match cannot be stopped. This matcher keeps its choices in a list, and reports its steps to
//! the caller. It works on bytes and does not know Lua's values.
//! <https://www.lua.org/manual/5.1/manual.html#5.4.1>

use std::ops::Range;

use smallvec::SmallVec;

use super::c_values::c_string;

/// The character that escapes another and that begins a class.
pub const ESCAPE: u8 = b'%';
/// A pattern without any of these is plain text.
const SPECIALS: &[u8] = b"^$*+?.([%-";
/// How many captures a pattern may have.
pub const CAPTURES_MAX: usize = 32;
/// How many steps are taken before they are reported.
const STEPS_PER_REPORT: u64 = 4096;
/// How many bytes of a set, or of a capture, are compared in one step.
const BYTES_PER_STEP: usize = 8;

/// The cost of a match since the last report.
pub struct Effort {
    pub steps: u64,
    /// How much memory the choices take now.
    pub held_bytes: usize,
}

/// The reason why a match has no result.
pub enum Failure<E> {
    /// The pattern is malformed: the error of Lua.
    Malformed(&'static str),
    /// The caller stopped the match.
    Ended(E),
}

impl<E> From<&'static str> for Failure<E> {
    fn from(text: &'static str) -> Failure<E> {
        Failure::Malformed(text)
    }
}

/// The content of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// The end has not been reached.
    Open { start: usize },
    /// A part of the subject.
    Text { start: usize, end: usize },
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

/// A pattern, which ends before its first NUL, as in C.
#[derive(Clone, Copy)]
pub struct Pattern<'a> {
    text: &'a [u8],
    /// Whether it matches only where the search begins.
    pub is_anchored: bool,
}

impl<'a> Pattern<'a> {
    /// A pattern in which a leading `^` is an anchor.
    pub fn new(text: &'a [u8]) -> Pattern<'a> {
        match c_string(text).strip_prefix(b"^") {
            Some(text) => Pattern { text, is_anchored: true },
            None => Pattern::unanchored(text),
        }
    }

    /// A pattern in which a leading `^` is that character.
    pub fn unanchored(text: &'a [u8]) -> Pattern<'a> {
        Pattern { text: c_string(text), is_anchored: false }
    }
}

/// Whether a pattern is plain text.
pub fn is_literal(pattern: &[u8]) -> bool {
    !c_string(pattern).iter().any(|byte| SPECIALS.contains(byte))
}

/// Matches a pattern in a subject.
pub struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    is_anchored: bool,
    captures: Captures,
    /// The choices that are left, the latest last, mixed with the captures to undo before them.
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
    pub fn new(subject: &'a [u8], pattern: Pattern<'a>) -> Matcher<'a> {
        let Pattern { text: pattern, is_anchored } = pattern;
        let (captures, choices) = (Captures::new(), Vec::new());
        Matcher { subject, pattern, is_anchored, captures, choices, steps: 0 }
    }

    /// Searches for the first match from a place of the subject on. `report` is called at the end,
    /// and each `STEPS_PER_REPORT` steps.
    ///
    /// # Errors
    /// The pattern is malformed, or `report` failed.
    pub fn find<E>(
        &mut self,
        from: usize,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Option<Match>, Failure<E>> {
        let last = if self.is_anchored { from } else { self.subject.len() };
        let found = (from..=last).find_map(|start| self.match_at(start, report).transpose()).transpose();
        self.report(report)?;
        found
    }

    /// Matches the pattern at one place of the subject.
    fn match_at<E>(
        &mut self,
        start: usize,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Option<Match>, Failure<E>> {
        self.captures.clear();
        self.choices.clear();
        let mut place = Place { subject: start, pattern: 0 };
        loop {
            self.take_steps(1, report)?;
            let next = match self.step(place, report)? {
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

    /// Counts steps, and reports them if there are enough.
    fn take_steps<E>(
        &mut self,
        n: u64,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<(), Failure<E>> {
        self.steps += n;
        if self.steps < STEPS_PER_REPORT { Ok(()) } else { self.report(report) }
    }

    fn report<E>(&mut self, report: &mut impl FnMut(Effort) -> Result<(), E>) -> Result<(), Failure<E>> {
        let held_bytes = self.choices.capacity() * size_of::<Choice>();
        report(Effort { steps: std::mem::take(&mut self.steps), held_bytes }).map_err(Failure::Ended)
    }

    /// Matches one item of the pattern.
    fn step<E>(
        &mut self,
        place: Place,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Step, Failure<E>> {
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
                let end = self.balanced(place, report)?;
                Ok(end.map_or(Step::Failed, |end| at(end, pattern + 4)))
            }
            (Some(ESCAPE), Some(b'f')) => {
                let item = pattern + 2..self.item_end(self.frontier_set(pattern + 2)?)?;
                let before = subject.checked_sub(1).map_or(0, |idx| self.subject[idx]);
                let after = self.subject.get(subject).copied().unwrap_or(0);
                self.steps += 2 * steps_of(&item);
                let is_frontier = !self.is_in_set(before, &item) && self.is_in_set(after, &item);
                Ok(if is_frontier { at(subject, item.end) } else { Step::Failed })
            }
            (Some(ESCAPE), Some(digit)) if digit.is_ascii_digit() => {
                let end = self.same_as_capture(digit, subject)?;
                Ok(end.map_or(Step::Failed, |end| at(end, pattern + 2)))
            }
            (Some(b'$'), None) => Ok(if subject == self.subject.len() { Step::Done } else { Step::Failed }),
            _ => self.repeated(place, report),
        }
    }

    /// Matches a single character or class with its optional suffix: `?`, `*`, `+`, `-`.
    fn repeated<E>(
        &mut self,
        place: Place,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Step, Failure<E>> {
        let item = place.pattern..self.item_end(place.pattern)?;
        self.steps += steps_of(&item);
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
            Some(b'*') => self.as_many_as_can_be(none, &item, report)?,
            Some(b'+') if matches => self.as_many_as_can_be(once, &item, report)?,
            Some(b'-') => {
                self.choices.push(Choice::More { item, place: none });
                Step::Next(none)
            }
            Some(b'+') => Step::Failed,
            _ if matches => Step::Next(Place { pattern: item.end, ..once }),
            _ => Step::Failed,
        })
    }

    fn as_many_as_can_be<E>(
        &mut self,
        place: Place,
        item: &Range<usize>,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Step, Failure<E>> {
        let mut n_matching = 0;
        while self.is_item_at(place.subject + n_matching, item) {
            n_matching += 1;
            self.take_steps(1 + steps_of(item), report)?;
        }
        let most = Place { subject: place.subject + n_matching, ..place };
        if n_matching > 0 {
            self.choices.push(Choice::Fewer { first: place.subject, place: most });
        }
        Ok(Step::Next(most))
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
                    self.steps += steps_of(&item);
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
        self.captures[idx] = Capture::Text { start, end };
        self.choices.push(Choice::Reopen { idx, start });
        Ok(())
    }

    /// `%1`: the place after the text at `subject`, if that text equals the capture.
    fn same_as_capture(&mut self, digit: u8, subject: usize) -> Result<Option<usize>, Malformed> {
        let idx = usize::from(digit).checked_sub(usize::from(b'1'));
        match idx.and_then(|idx| self.captures.get(idx)) {
            Some(&Capture::Text { start, end }) => {
                let text = &self.subject[start..end];
                self.steps += (text.len() / BYTES_PER_STEP) as u64;
                Ok(self.subject[subject..].starts_with(text).then_some(subject + text.len()))
            }
            Some(Capture::Position(_)) => Ok(None),
            Some(Capture::Open { .. }) | None => Err("invalid capture index"),
        }
    }

    /// `%bxy`: the place after the `y` that closes the `x` here.
    fn balanced<E>(
        &mut self,
        place: Place,
        report: &mut impl FnMut(Effort) -> Result<(), E>,
    ) -> Result<Option<usize>, Failure<E>> {
        let (Some(open), Some(close)) = (self.byte(place.pattern + 2), self.byte(place.pattern + 3)) else {
            return Err("unbalanced pattern".into());
        };
        if self.subject.get(place.subject) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for (idx, &byte) in self.subject.iter().enumerate().skip(place.subject + 1) {
            self.take_steps(1, report)?;
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

/// How many steps it takes to compare one byte with an item: a set may be long.
fn steps_of(item: &Range<usize>) -> u64 {
    (item.len() / BYTES_PER_STEP) as u64
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
