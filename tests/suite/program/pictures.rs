//! The SVG pictures of counterexamples. Each is parsed by a parser of XML.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use harness::check::scenario_of;
use harness::execution::Runner;
use harness::page::Counterexample;
use harness::{Scenario, exhaustive, replay_saved};
use roxmltree::{Document, Node};

use super::cli::{lockstep, stdout};
use super::pages::broken;
use crate::explorer::saved_schedules;

fn tempfile(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("lockstep-{name}-{}.svg", std::process::id()))
}

fn number(node: Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).unwrap().parse().unwrap()
}

/// Checks that a picture is well formed, needs nothing else, and has all texts in it, one below the
/// other. Returns the numbers of its steps.
#[track_caller]
fn check(svg: &str) -> Vec<usize> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}: {svg}"));
    let root = document.root_element();
    let (width, height) = (number(root, "width"), number(root, "height"));
    assert_eq!(root.attribute("viewBox"), Some(&*format!("0 0 {width} {height}")));
    let known =
        ["svg", "title", "desc", "style", "defs", "marker", "rect", "path", "circle", "text", "tspan"];
    let (mut steps, mut below) = (Vec::new(), 0.0);
    assert!(!root.descendants().any(|node| node.is_pi()));
    for node in root.descendants().filter(Node::is_element) {
        assert!(known.contains(&node.tag_name().name()), "{node:?}");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!name.starts_with("on") && !name.contains("href") && !value.contains("url("), "{node:?}");
        }
        if !node.has_tag_name(("http://www.w3.org/2000/svg", "text")) {
            continue;
        }
        let text: String =
            node.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect();
        let (x, y, kind) = (number(node, "x"), number(node, "y"), node.attribute("class").unwrap());
        assert!(x < width && y < height, "{text}");
        if ["act", "change", "remark"].contains(&kind) {
            let columns = textwrap::core::display_width(&text) as f64;
            assert!(x + columns * 7.3 < width, "{text}");
            assert!(y - below >= 16.0, "{text}");
            below = y;
        }
        if kind == "faint right" && !text.starts_with('+') {
            steps.push(text.parse().unwrap());
        }
    }
    steps
}

/// The numbers of the steps that a picture shows.
fn steps(counterexample: &Counterexample) -> Vec<usize> {
    let mut steps: Vec<usize> = counterexample
        .entries
        .iter()
        .filter(|entry| !entry.text.is_empty())
        .map(|entry| entry.step)
        .collect();
    steps.dedup();
    steps
}

#[test]
fn every_counterexample_has_a_picture() {
    let (mut runner, mut kinds) = (Runner::new(), String::new());
    for (name, saved) in saved_schedules::kept() {
        let scenario = scenario_of(&saved, saved.lease).unwrap();
        let replayed = replay_saved(&mut runner, &scenario, &saved).unwrap();
        let counterexample =
            Counterexample::new(&saved, &replayed.history, replayed.violation.as_ref().unwrap());
        let svg = counterexample.to_svg();
        assert_eq!(check(&svg), steps(&counterexample), "{name}");
        kinds += &svg;
    }
    for kind in [
        "request",
        "reply",
        "lost-request",
        "lost-reply",
        "replying",
        "inside",
        "believes",
        "clash",
        "acts fault",
        "gap",
    ] {
        assert!(kinds.contains(&format!("<path class=\"{kind}\"")), "no picture has {kind}");
    }
}

#[test]
fn a_picture_of_a_small_counterexample() {
    let report = exhaustive(&broken("small")).unwrap_err();
    let file = tempfile("small");
    report.write_svg(&file).unwrap();
    let svg = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    check(&svg);
    expect_file![Path::new(env!("CARGO_MANIFEST_DIR")).join("../suite/data/small.svg")].assert_eq(&svg);
}

#[test]
fn a_report_without_a_violation_has_no_picture() {
    let fails = Scenario::new("fails").actors(1, |_| async { panic!("always") });
    let report = exhaustive(&fails).unwrap_err();
    let error = report.write_svg(tempfile("none")).unwrap_err();
    assert!(error.to_string().contains("the report has no violation"), "{error}");
    assert!(!tempfile("none").exists());
}

/// Markup, characters that XML forbids, and texts that are very long stay text in their places.
#[test]
fn the_text_of_a_stranger_is_only_text() {
    let mut counterexample = exhaustive(&broken("small")).unwrap_err().counterexample().unwrap();
    let hostile = [
        "</text></svg><script>alert(1)</script>&amp;&#0;]]>",
        "\0\u{1}\u{2}\u{1b}[31m\u{7f}\u{85}\r\n\t",
        "\u{202e}\u{fffe}\u{ffff}\u{2028}\u{feff}\u{301}",
        "漢字🦀👩‍👩‍👧 ﷽",
        "\" onload=\"alert(1)",
    ];
    for evil in hostile.map(str::to_owned).into_iter().chain([hostile.concat().repeat(9_000)]) {
        counterexample.name.clone_from(&evil);
        counterexample.property.clone_from(&evil);
        counterexample.violation.clone_from(&evil);
        counterexample.clients[0].clone_from(&evil);
        for entry in &mut counterexample.entries {
            entry.text.clone_from(&evil);
            for detail in &mut entry.details {
                detail.text.clone_from(&evil);
                if let Some(key) = &mut detail.key {
                    (key.key, key.value) = (evil.clone(), Some(evil.clone()));
                }
            }
        }
        let svg = counterexample.to_svg();
        check(&svg);
        assert!(svg.len() < 30_000, "{}", svg.len());
    }
}

/// A long history has a picture of its last acts, which says so.
#[test]
fn a_picture_of_a_long_history_is_of_its_end() {
    let counterexample = exhaustive(&broken("long")).unwrap_err().counterexample().unwrap();
    for (len, is_whole) in [(60, true), (10_000, false)] {
        let mut entries: Vec<_> = counterexample.entries.iter().cloned().cycle().take(len).collect();
        entries.iter_mut().zip(1..).for_each(|(entry, step)| entry.step = step);
        let of = Counterexample { entries, ..counterexample.clone() };
        let svg = of.to_svg();
        let shown = check(&svg);
        assert_eq!(shown.last(), Some(&len));
        assert_eq!(shown.len() == len, is_whole);
        let left_out =
            format!("It begins at step {}: the first {} acts are left out", shown[0], shown[0] - 1);
        assert_eq!(svg.contains(&left_out), !is_whole);
        let height = number(Document::parse(&svg).unwrap().root_element(), "height");
        assert!(height < 8_000.0, "{height}");
    }
}

#[test]
fn explain_and_replay_write_a_picture_if_there_is_a_counterexample() {
    let saved: &str = &saved_schedules::path_of("setnx.crash.recovers.txt");
    let file = tempfile("explain");
    let path = file.to_str().unwrap();
    for args in [&["explain", "setnx", "--class", "crash"][..], &["replay", saved]] {
        stdout(&[args, &["--svg", path]].concat());
        let svg = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        check(&svg);
        assert!(svg.contains("setnx: recovers is violated in the fault class crash"), "{args:?}: {svg}");
    }
    let output =
        lockstep(&["explain", "mutex", "--class", "order", "--limit", "10", "--samples", "1", "--svg", path]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no file is written: there is no counterexample"), "{said}");
    assert!(!file.exists());
}
