//! The rules of `.github/CONTRIBUTING.md` that a program can check. Each rule has a canary, a text
//! that must break it.

mod modules;

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::guide::WORKSPACE;

/// The sources that the rules hold for.
const ROOTS: [&str; 9] = [
    "emulator/src",
    "emulator/tests",
    "locks/src",
    "locks/tests",
    "tests/src",
    "tests/program/src",
    "tests/suite",
    "tests/benches",
    "fuzz/src",
];
/// Longest line of a comment, and most lines of a file and of a function.
const COMMENT_COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
/// Most words of a sentence.
const WORDS_MAX: usize = 25;
/// A number before one of these is a measurement, which belongs into a commit.
const MEASURES: [&str; 4] = ["µs", "ns", "instructions", "% of the time"];

/// The sources, by their paths in the workspace.
pub(crate) fn sources() -> Vec<(String, String)> {
    fn visit(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let workspace = Path::new(WORKSPACE);
    let mut paths = Vec::new();
    ROOTS.iter().for_each(|root| visit(&workspace.join(root), &mut paths));
    paths.sort();
    let name = |path: &Path| path.strip_prefix(workspace).unwrap().to_str().unwrap().to_owned();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

/// Checks a rule on all sources. `breaks` returns the places of one source that break it.
#[track_caller]
fn check(rule: &str, breaks: impl Fn(&str, &str) -> Vec<String>) {
    let broken: Vec<String> = sources().iter().flat_map(|(name, text)| breaks(name, text)).collect();
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

/// The comments of a source, with their lines counted from 1. Examples in fences are code.
fn comments(text: &str) -> Vec<(usize, &str)> {
    let mut is_fenced = false;
    let mut comments = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim();
        if comment.starts_with("```") {
            is_fenced = !is_fenced;
        } else if !is_fenced {
            comments.push((idx + 1, comment));
        }
    }
    comments
}

/// The sentences of the comments of a source, each with the line in which its paragraph begins.
fn sentences(text: &str) -> Vec<(usize, String)> {
    let mut paragraphs: Vec<(usize, usize, String)> = Vec::new();
    for (line, comment) in comments(text) {
        let is_item =
            comment.starts_with(['|', '#', '-', '*']) || comment.starts_with(|c: char| c.is_ascii_digit());
        let text = comment.trim_start_matches(['#', '-', '*', ' ']);
        match paragraphs.last_mut() {
            Some((_, last, paragraph))
                if *last + 1 == line && !is_item && !comment.is_empty() && !paragraph.is_empty() =>
            {
                *last = line;
                *paragraph += " ";
                *paragraph += text;
            }
            _ if comment.starts_with('|') => {}
            _ => paragraphs.push((line, line, text.to_owned())),
        }
    }
    let split = |(line, _, paragraph): (usize, usize, String)| {
        let mut sentences = vec![String::new()];
        for word in paragraph.split_whitespace() {
            let last = sentences.last_mut().unwrap();
            if !last.is_empty() {
                last.push(' ');
            }
            *last += word;
            if word.ends_with(['.', '!', '?', ':', ';']) {
                sentences.push(String::new());
            }
        }
        sentences.retain(|sentence| !sentence.is_empty());
        sentences.into_iter().map(move |sentence| (line, sentence))
    };
    paragraphs.into_iter().flat_map(split).collect()
}

fn wide_comments(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    // A link or a row of a table cannot be broken.
    let can_be_broken = |comment: &str| !comment.contains("http") && !comment.starts_with('|');
    let wide = comments(text).into_iter().filter(|&(line, comment)| {
        can_be_broken(comment) && lines[line - 1].chars().count() > COMMENT_COLUMNS_MAX
    });
    wide.map(|(line, _)| format!("{name}:{line}")).collect()
}

fn long_file(name: &str, text: &str) -> Vec<String> {
    let is_long = text.lines().count() > FILE_LINES_MAX;
    is_long.then(|| name.to_owned()).into_iter().collect()
}

/// The functions of a source that are too long, each behind the name of its file.
fn long_functions(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let function = |line: &str| {
        let (before, rest) = line.split_once("fn ")?;
        let is_declared = before
            .split_whitespace()
            .all(|word| word.starts_with("pub") || ["async", "const"].contains(&word));
        let name = rest.split(['(', '<']).next()?;
        (is_declared && !line.trim_end().ends_with([';', '}'])).then(|| name.to_owned())
    };
    let mut long = Vec::new();
    for (idx, line) in lines.iter().enumerate() {
        let Some(function) = function(line) else { continue };
        let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
        let end = lines[idx..].iter().position(|line| **line == end);
        if end.unwrap_or(0) + 1 > FUNCTION_LINES_MAX {
            long.push(format!("{name}: {function}"));
        }
    }
    long
}

fn long_sentences(name: &str, text: &str) -> Vec<String> {
    let long = sentences(text).into_iter().filter(|(_, sentence)| {
        // Code counts as one word.
        let pieces = sentence.split('`').enumerate();
        let words: usize =
            pieces.map(|(nth, piece)| if nth % 2 == 0 { piece.split_whitespace().count() } else { 1 }).sum();
        words > WORDS_MAX
    });
    long.map(|(line, sentence)| format!("{name}:{line}: {sentence}")).collect()
}

fn measurements(name: &str, text: &str) -> Vec<String> {
    let is_measured = |comment: &str| {
        MEASURES.iter().any(|measure| {
            comment.match_indices(measure).any(|(at, _)| {
                comment[..at].trim_end().ends_with(|c: char| c.is_ascii_digit())
                    && !comment[at + measure.len()..].starts_with(char::is_alphanumeric)
            })
        })
    };
    let measured = comments(text).into_iter().filter(|(_, comment)| is_measured(comment));
    measured.map(|(line, comment)| format!("{name}:{line}: {comment}")).collect()
}

#[test]
fn comments_are_narrow() {
    check("a comment is too wide", wide_comments);
    assert!(!wide_comments("canary", &format!("    // {}", "word ".repeat(30))).is_empty());
}

#[test]
fn files_are_short() {
    check("a file is too long", long_file);
    assert_eq!(long_file("canary", &"\n".repeat(501)), ["canary"]);
}

#[test]
fn functions_are_short() {
    check("a function is too long", long_functions);
    let canary = format!("    pub(crate) fn long() {{\n{}    }}\n", "        f()?;\n".repeat(70));
    assert_eq!(long_functions("canary", &canary), ["canary: long"]);
}

#[test]
fn sentences_are_short() {
    check("a sentence has too many words", long_sentences);
    assert!(!long_sentences("canary", &format!("// {}end.", "word ".repeat(30))).is_empty());
}

#[test]
fn no_comment_has_a_measurement() {
    check("a comment has a measurement", measurements);
    assert!(!measurements("canary", "// It takes 158 ns.").is_empty());
}

#[test]
fn every_oracle_is_in_the_table_and_has_a_lock_that_it_catches() {
    let page = fs::read_to_string(Path::new(WORKSPACE).join("tests/guide/oracles.md")).unwrap();
    let read =
        |file| fs::read_to_string(Path::new(WORKSPACE).join("tests/suite/explorer").join(file)).unwrap();
    let suite = ["oracles.rs", "field_oracles.rs"].map(read).concat();
    let mut oracles = Vec::new();
    for entry in fs::read_dir(Path::new(WORKSPACE).join("tests/src/oracle")).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        let names = text.lines().filter_map(|line| line.strip_prefix("impl Oracle for "));
        oracles.extend(names.filter_map(|name| name.split(' ').next()).map(str::to_owned));
    }
    // Every scenario has the first by itself. Methods of scenarios add the others.
    oracles.retain(|oracle| !["Success", "Finally", "Invariant"].contains(&oracle.as_str()));
    assert!(oracles.len() > 8, "{oracles:?}");
    for oracle in oracles {
        assert!(page.contains(&format!("`{oracle}`")), "tests/guide/oracles.md does not list {oracle}");
        assert!(suite.contains(&oracle), "suite/explorer has nothing that {oracle} catches");
    }
}
