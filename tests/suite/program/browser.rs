//! The pages of counterexamples in a real browser: keys, clicks, links, and the panel of keys.
//!
//! The browser is the first of [`BROWSERS`] on the `PATH`. Without one, the tests print one line
//! and pass. In CI (`CI` is set) they fail.

use std::fs;
use std::process::{Command, Stdio};

use harness::check::scenario_of;
use harness::execution::Runner;
use harness::page::Counterexample;
use harness::render::story::Strikes;
use harness::replay_saved;
use serde_json::{Value, json};

use crate::bounds::PICTURES;
use crate::explorer::saved_schedules;
use crate::redis_server::say_it_is_missing;

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// The name of a browser that is installed.
#[track_caller]
fn browser() -> Option<&'static str> {
    let answers = |name: &&&str| {
        let version =
            Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        version.is_ok_and(|status| status.success())
    };
    let found = BROWSERS.iter().find(answers).copied();
    if found.is_none() {
        say_it_is_missing("install chromium");
    }
    found
}

/// The counterexample of a kept schedule.
fn counterexample(name: &str) -> Counterexample {
    let kept = saved_schedules::kept();
    let (_, saved) = kept.into_iter().find(|(file, _)| file.starts_with(name)).expect("it is kept");
    let (mut runner, scenario) = (Runner::new(), scenario_of(&saved, saved.lease).unwrap());
    let replayed = replay_saved(&mut runner, &scenario, &saved).unwrap();
    replayed.counterexample(&mut runner, &scenario).unwrap().unwrap()
}

/// Opens a page at an address, runs this script in it, and returns the object that it makes.
fn open(browser: &str, page: &str, hash: &str, script: &str) -> Value {
    let seen = format!(
        "<pre id=seen></pre><script>window.onerror = (what) => document.getElementById('seen').textContent = what;\
         document.getElementById('seen').textContent = JSON.stringify((() => {{ {script} }})());</script>"
    );
    let dom = dump(browser, &page.replace("</body>", &format!("{seen}</body>")), "html", hash);
    let seen = dom.split("<pre id=\"seen\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let seen = seen.unwrap_or_else(|| panic!("the browser shows nothing: {dom}"));
    serde_json::from_str(&seen.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
        .unwrap_or_else(|error| panic!("{error}: {seen}"))
}

/// Opens a file with this end of its name. Returns what the browser has made of it.
fn dump(browser: &str, text: &str, extension: &str, hash: &str) -> String {
    let name = format!("lockstep-browser-{}-{}.{extension}", std::process::id(), text.len());
    let file = std::env::temp_dir().join(name);
    fs::write(&file, text).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=10000"])
        .arg(format!("file://{}{hash}", file.display()))
        .output()
        .unwrap();
    fs::remove_file(&file).unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_page_is_walked_by_keys_clicks_and_links() {
    let Some(browser) = browser() else { return };
    let counterexample = counterexample("fair_semaphore_comment.order");
    let last = counterexample.entries.last().unwrap().step;
    let page = counterexample.to_html();
    // The score of A was 1, and the page says why that matters.
    assert!(page.contains("[A1 <del>1</del><mark>1700000000501</mark>]"), "{page}");
    assert!(page.contains("every new client ranks before every holder"), "{page}");
    let seen = open(
        browser,
        &page,
        "#step=4",
        "const press = (key) => document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
         const steps = [location.hash];
         for (const key of ['j', 'ArrowDown', 'k', 'ArrowUp', '!', 'j']) { press(key); steps.push(location.hash); }
         const violation = document.querySelector('.current').classList.contains('violation');
         document.querySelectorAll('ol > li[value]')[8].click();
         steps.push(location.hash);
         const panel = document.getElementById('keys');
         const box = (element) => element.getBoundingClientRect();
         const bars = [...document.querySelectorAll('.bars .clash')].map(box);
         const text = box(document.querySelector('ol > li[value] > div'));
         return { steps, violation, keys: panel.hidden ? null : [...panel.children].map((line) => line.textContent),
                  marked: panel.querySelector('mark').textContent, bars: bars.length,
                  apart: bars.every((bar) => bar.height > 10 && bar.right < text.left) };",
    );
    let expected: Vec<Value> =
        [4, 5, 6, 5, 4, last, last, 9].map(|step| format!("#step={step}").into()).into();
    assert_eq!(seen["steps"], Value::Array(expected));
    assert_eq!(seen["violation"], true);
    // The bars of both holders are at the violation, and cover no text.
    assert_eq!((&seen["bars"], &seen["apart"]), (&2.into(), &true.into()));
    let keys: Vec<&str> =
        seen["keys"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(keys[0], "Keys after step 9");
    assert!(keys.contains(&"lock:counter = \"2\""), "{keys:?}");
    assert!(seen["marked"].as_str().unwrap().contains("A1 1700000000501"), "{seen}");
}

#[test]
fn a_page_says_why_and_what_else_was_possible() {
    let Some(browser) = browser() else { return };
    let counterexample = counterexample("set_nx_ex_del.slow.exclusive-fact");
    let near = counterexample.neighbours.clone().unwrap();
    let decisive = near.decisive.expect("an order of two steps decides it");
    assert!(decisive.early < decisive.late && !near.is_partial && near.races > 0);
    let seen = open(
        browser,
        &counterexample.to_html(),
        "",
        "const others = [...document.querySelectorAll('.others')];
         others.forEach((other) => other.open = true);
         document.querySelector('.why a[href^=\"#step=\"]').click();
         return { lines: others.flatMap((other) => [...other.querySelectorAll('li')]).length,
                  broken: document.querySelectorAll('.others li .broken').length,
                  why: document.querySelector('.why').textContent,
                  signs: document.querySelector('.legend').textContent.trim().split(/\\s*\\n\\s*/),
                  width: document.documentElement.scrollWidth <= window.innerWidth };",
    );
    let broken = near.alternatives.iter().filter(|other| other.violation.is_some()).count();
    assert_eq!(seen["lines"], near.alternatives.len());
    assert_eq!(seen["broken"], broken);
    assert!(broken > 0 && broken < near.alternatives.len());
    assert_eq!(seen["width"], true);
    assert_eq!(
        seen["why"].as_str().unwrap().trim(),
        "Time passes while clients have something to do (step 2), and step 4 comes before step 5. \
         In the other order of the two, exclusive-fact holds."
    );
    let drawn = [
        "acts",
        "time passes",
        "runs",
        "is inside",
        "believes to be inside, but its grant has ended",
        "at the violation",
    ];
    assert_eq!(seen["signs"], json!(drawn), "the legend has what is drawn, and nothing else");
}

/// A fault stands in the lane of what it strikes, with what is lost by it.
#[test]
fn a_restart_stands_in_the_lane_of_its_server() {
    let counterexample = counterexample("setnx.server.exclusive-fact");
    let restart = counterexample.entries.iter().find(|entry| entry.is_fault).expect("a server restarts");
    assert_eq!(restart.strikes, Some(Strikes::Server(0)));
    assert_eq!(restart.details[0].text, "now lock is gone");
    let page = counterexample.to_html();
    // After the lanes of time, of A and of B.
    assert!(page.contains("--c:4\" class=\"outside fault\""), "{page}");
}

/// Only a part of a long page is laid out, and each step can still be reached. The panel of keys
/// does not cover it.
#[test]
fn a_long_page_is_walked() {
    let Some(browser) = browser() else { return };
    let counterexample = counterexample("set_nx_ex_del.slow.owner-safe");
    let mut entries: Vec<_> = counterexample.entries.iter().cloned().cycle().take(3_000).collect();
    entries.iter_mut().zip(1..).for_each(|(entry, step)| entry.step = step);
    let page = Counterexample { entries, ..counterexample }.to_html();
    let seen = open(
        browser,
        &page,
        "#step=1234",
        "const press = (key) => document.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
         const box = (name) => document.querySelector(name).getBoundingClientRect();
         const isSeen = () => box('.head').bottom <= box('.current').top && box('.current').bottom <= box('aside').top;
         const seen = [[location.hash, isSeen()]];
         for (const key of ['j', '!', 'k']) { press(key); seen.push([location.hash, isSeen()]); }
         return { seen, bars: document.querySelectorAll('.bars').length };",
    );
    let expected = [1234, 1235, 3000, 2999].map(|step| json!([format!("#step={step}"), true]));
    assert_eq!(seen["seen"], json!(expected));
    assert_eq!(seen["bars"], 30);
}

/// A counterexample whose texts are markup.
fn hostile() -> Counterexample {
    let mut counterexample = counterexample("setnx.crash.recovers");
    let evil = "</script><img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>";
    counterexample.name = evil.into();
    counterexample.violation = evil.into();
    counterexample.schedule = evil.into();
    for entry in &mut counterexample.entries {
        entry.text = evil.into();
        entry.details.iter_mut().for_each(|detail| detail.text = evil.into());
        for key in entry.details.iter_mut().filter_map(|detail| detail.key.as_mut()) {
            (key.key, key.value) = (evil.into(), Some(evil.into()));
        }
    }
    counterexample
}

/// A stranger's text that is markup stays text.
#[test]
fn the_text_of_a_stranger_is_no_markup() {
    let Some(browser) = browser() else { return };
    let seen = open(
        browser,
        &hostile().to_html(),
        "#step=1",
        "return { title: document.title, images: document.images.length, scripts: document.scripts.length };",
    );
    assert!(seen["title"].as_str().unwrap().starts_with("</script><img"), "{seen}");
    // The script of the page, and that of this test.
    assert_eq!((&seen["images"], &seen["scripts"]), (&0.into(), &2.into()));
}

/// With the fonts of the browser, no text is outside of its picture, and no two texts overlap.
#[test]
fn the_texts_of_a_picture_have_room() {
    let Some(browser) = browser() else { return };
    let known =
        ["fair_semaphore_comment.order", "redlock.server.exclusive-fact", "set_nx_ex_del.slow.owner-safe"];
    let pictures = std::iter::once_with(hostile).chain(known.into_iter().map(counterexample));
    for counterexample in pictures.take(PICTURES.get() as usize) {
        let svg = counterexample.to_svg();
        let dom = dump(browser, &svg, "svg", "");
        assert!(dom.contains("<svg") && !dom.contains("parsererror"), "{dom}");
        let seen = open(
            browser,
            &format!("<html><body>{svg}</body></html>"),
            "",
            "const box = (element) => element.getBoundingClientRect();
             const picture = box(document.querySelector('svg'));
             const texts = [...document.querySelectorAll('svg > text')].map((text) => [text.textContent, box(text)]);
             const outside = texts.filter(([, text]) => text.left < picture.left || text.right > picture.right ||
                                                        text.top < picture.top || text.bottom > picture.bottom);
             const overlaps = texts.filter(([, one], nth) => texts.slice(nth + 1).some(([, other]) =>
                 one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom));
             const names = (texts) => texts.map(([text]) => text);
             return { texts: texts.length, outside: names(outside), overlaps: names(overlaps),
                      scripts: document.scripts.length, images: document.images.length };",
        );
        assert!(seen["texts"].as_u64().unwrap() > 20, "{seen}");
        assert_eq!((&seen["outside"], &seen["overlaps"]), (&json!([]), &json!([])));
        // The script of this test is the only one.
        assert_eq!((&seen["scripts"], &seen["images"]), (&json!(1), &json!(0)));
    }
}
