//! Standard output and standard error: what is escaped, what has colours, and how wide it may be.
//!
//! Only terminals get colours. `NO_COLOR`, `CLICOLOR` and `CLICOLOR_FORCE` are respected.

use std::borrow::Cow;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::builder::styling::{AnsiColor, Style};
use harness::render::{format_url, printable};
use textwrap::{WordSeparator, WordSplitter, WrapAlgorithm};

/// The width of texts if standard output is not a terminal.
pub(crate) const WIDTH: usize = 80;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const INSIDE: Style = AnsiColor::Cyan.on_default().bold();

/// Marks within a line.
const MARKS: [(&str, Style); 3] = [("✓", GOOD), ("✗", BAD), ("┃", INSIDE)];
/// The beginnings of lines that have one colour.
const LINES: [(&str, Style); 2] = [("✗", BAD), ("PARTIAL:", WARNING)];
/// The first words of messages.
const HEADS: [(&str, Style); 5] = [
    ("lockstep: warning:", WARNING),
    ("lockstep:", BAD),
    ("error:", BAD),
    ("PARTIAL:", WARNING),
    ("  tip:", GOOD),
];

/// Writes a text for people to standard output. If the reader has closed the pipe, that is not an
/// error.
pub(crate) fn print(text: &str) -> Result<()> {
    write_to(anstream::stdout(), painted(&printable(text)).as_bytes())
}

/// Writes JSON to standard output, without colours.
pub(crate) fn print_json(json: &str) -> Result<()> {
    write_to(io::stdout(), json_escaped(json).as_bytes())
}

/// Writes a text of this program itself to standard output, as it is.
pub(crate) fn print_raw(text: &[u8]) -> Result<()> {
    write_to(io::stdout(), text)
}

/// Writes to standard error. Passwords in URLs of the command line are removed.
pub(crate) fn complain(text: &str) {
    let arguments = std::env::args_os().map(|argument| argument.to_string_lossy().into_owned());
    let urls = arguments.filter(|argument| argument.contains("://"));
    let text = urls.fold(text.to_owned(), |text, url| text.replace(&url, &format_url(url.as_str())));
    let lines = printable(&text).split_inclusive('\n').map(with_head).collect::<String>();
    // If standard error is closed, nobody reads the message.
    _ = anstream::stderr().write_all(lines.as_bytes());
}

/// An error with its causes, each once. Many libraries repeat the text of a cause in their own.
pub(crate) fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if !text.contains(&cause) {
            text += if text.is_empty() { "" } else { ": " };
            text += &cause;
        }
    }
    text
}

/// The width of the terminal of standard output; `None` if it is not a terminal.
pub(crate) fn width() -> Option<usize> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into())
}

/// The columns to which text is wrapped. Text that goes elsewhere is not: its width is the largest
/// that can be formatted.
pub(crate) fn columns() -> usize {
    width().unwrap_or(u16::MAX.into())
}

/// The text, wrapped to the width of the terminal. The parts of a line begin with this indent, but
/// for the first one.
pub(crate) fn wrapped(text: &str, indent: &str) -> String {
    let options = textwrap::Options::new(columns())
        .subsequent_indent(indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit)
        .break_words(false);
    text.lines().map(|line| textwrap::fill(line, &options) + "\n").collect()
}

fn write_to(mut stdout: impl Write, text: &[u8]) -> Result<()> {
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// The JSON with everything escaped that could change a terminal. In JSON, such characters are only
/// in strings.
fn json_escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_ascii_graphic() || matches!(printable(c.encode_utf8(&mut [0; 4])), Cow::Borrowed(_)) {
            text.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text += &format!("\\u{unit:04x}"));
        }
    }
    text
}

/// The text with colours. It must be escaped already.
fn painted(text: &str) -> String {
    text.split_inclusive('\n').map(|line| with_style(line, &LINES).unwrap_or_else(|| marked(line))).collect()
}

fn with_head(line: &str) -> String {
    let head = HEADS.iter().find_map(|&(head, style)| Some((head, style, line.strip_prefix(head)?)));
    head.map_or_else(|| line.to_owned(), |(head, style, rest)| format!("{style}{head}{style:#}{rest}"))
}

fn with_style(line: &str, styles: &[(&str, Style)]) -> Option<String> {
    let (_, style) = styles.iter().find(|(beginning, _)| line.starts_with(beginning))?;
    let text = line.trim_end_matches('\n');
    Some(format!("{style}{text}{style:#}{}", &line[text.len()..]))
}

fn marked(line: &str) -> String {
    MARKS
        .iter()
        .fold(line.to_owned(), |line, (mark, style)| line.replace(mark, &format!("{style}{mark}{style:#}")))
}

/// Writes a file, and makes its folder.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let failed = || format!("cannot write {}: name a file where one can be made", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).with_context(failed)?;
    std::fs::write(path, text).with_context(failed)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::{causes, json_escaped, painted};

    #[test]
    fn json_stays_json() {
        let json = serde_json::to_string(&["\u{9b}2J", "\u{202e}é\n", "\u{e0001}"]).unwrap();
        let escaped = json_escaped(&json);
        assert_eq!(escaped, r#"["\u009b2J","\u202eé\n","\udb40\udc01"]"#);
        let read: Vec<String> = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read, ["\u{9b}2J", "\u{202e}é\n", "\u{e0001}"]);
    }

    #[test]
    fn a_cause_is_told_once() {
        let refused = || anyhow!("refused").context("refused");
        assert_eq!(causes(&refused().context("no answer: refused")), "no answer: refused");
        assert_eq!(causes(&refused().context("cannot replay")), "cannot replay: refused");
    }

    #[test]
    fn marks_have_colours() {
        assert_eq!(painted("a ✓ 7\n"), "a \u{1b}[32m✓\u{1b}[0m 7\n");
        assert_eq!(painted("✗ A\nB"), "\u{1b}[1m\u{1b}[31m✗ A\u{1b}[0m\nB");
    }
}
