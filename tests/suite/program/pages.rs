//! The pages and the JSON of counterexamples.

use std::fs;
use std::time::Duration;

use expect_test::expect;
use harness::check::scenario_of;
use harness::execution::Runner;
use harness::oracle::{ExclusiveBelief, ExclusiveFact, Violation};
use harness::page::Counterexample;
use harness::render::story::{ClientState, Sender};
use harness::{Faults, Record, SavedSchedule, Scenario, exhaustive, replay_saved};
use serde_json::Value;

use super::cli::{lockstep, stdout};
use crate::bounds::PAGES;
use crate::explorer::saved_schedules;

/// A page needs nothing from elsewhere, and names all that happened.
#[test]
fn every_counterexample_has_a_page() {
    let mut runner = Runner::new();
    let kept = saved_schedules::kept();
    assert!(!kept.is_empty());
    let every = if PAGES.is_left_out() { 20 } else { 1 };
    for (name, saved) in kept.into_iter().step_by(every) {
        let scenario = scenario_of(&saved, saved.lease).unwrap();
        let replayed = replay_saved(&mut runner, &scenario, &saved).unwrap();
        let counterexample = replayed.counterexample(&mut runner, &scenario).unwrap().unwrap();
        assert!(counterexample.neighbours.is_some(), "{name} does not fail by its possible steps");
        let page = counterexample.to_html();
        for outside in ["http:", "https:", "src=", "url(", "@import"] {
            assert!(!page.contains(outside), "{name} has {outside}");
        }
        let entries = &counterexample.entries;
        assert_eq!(page.matches("<li value=").count(), entries.len(), "{name}");
        // A request and its reply are drawn as one.
        let requests: usize = entries.iter().filter(|entry| !entry.messages.is_empty()).count();
        assert!(requests > 0 && page.matches("\" style=\"--s:").count() >= requests, "{name}");
        // Even if a server has lost its scripts, the text names them.
        let mut texts = entries.iter().map(|entry| &entry.text);
        let unnamed = texts.find(|text| text.contains("EVALSHA"));
        assert_eq!(unnamed, None, "{name} shows a script without its name");
        let last = format!("<li value=\"{}\"", entries.last().unwrap().step);
        assert!(page.contains(&last), "{name} has no {last}");
    }
}

/// Two clients that are both inside at once.
pub(super) fn broken(name: &str) -> Scenario {
    Scenario::new(name).always(ExclusiveBelief::of("cs", 1)).actors(2, |client| async move {
        let ping = redis::cmd("PING");
        () = ping.query_async(&mut client.connection()).await?;
        Ok(client.hold("cs").until(ping.query_async::<()>(&mut client.connection())).await?)
    })
}

#[test]
fn a_report_of_ones_own_test_has_a_page_and_its_texts_are_escaped() {
    let report = exhaustive(&broken("<script>alert(1)</script>")).unwrap_err();
    let file = std::env::temp_dir().join(format!("lockstep-page-{}.html", std::process::id()));
    report.write_html(&file).unwrap();
    let page = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    assert!(!page.contains("<script>alert"), "{page}");
    assert!(page.contains("&lt;script&gt;alert"));
    assert!(page.contains("A and B are inside at once, but only one may be"));
    assert!(page.contains(&format!("{} schedules", report.schedules)));
    let counterexample = report.counterexample().unwrap();
    assert!(counterexample.schedule.starts_with("lockstep schedule 1\n"));
}

#[test]
fn explain_writes_a_page_and_json() {
    let folder = std::env::temp_dir().join(format!("lockstep-explain-{}", std::process::id()));
    let file = folder.join("of/setnx.html");
    let path = file.to_str().unwrap();
    let json = stdout(&["explain", "setnx", "--class", "crash", "--format", "json", "--html", path]);
    let page = fs::read_to_string(&file).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["version"], &json["property"]), (&1.into(), &"recovers".into()));
    assert_eq!(json["class"], "crash");
    let violation = json["violation"].as_str().unwrap();
    assert!(page.contains(violation), "{page}");
    let faults = json["faults"].as_array().unwrap();
    assert!(faults.iter().any(|fault| fault["fault"].as_str().unwrap().starts_with("crash")), "{faults:?}");
}

#[test]
fn replay_writes_a_page_if_there_is_a_violation() {
    let saved: &str = &saved_schedules::path_of("setnx.crash.recovers.txt");
    let file = std::env::temp_dir().join(format!("lockstep-replay-{}.html", std::process::id()));
    let path = file.to_str().unwrap();
    stdout(&["replay", saved, "--html", path]);
    assert!(fs::read_to_string(&file).unwrap().contains("recovers"));
    fs::remove_file(&file).unwrap();
    // The schedule in which the holder does not crash.
    let passes = fs::read_to_string(saved).unwrap().replace("crash A", "# crash A");
    let other = file.with_extension("txt");
    fs::write(&other, passes).unwrap();
    let output = lockstep(&["replay", other.to_str().unwrap(), "--html", path]);
    fs::remove_file(&other).unwrap();
    assert_eq!(output.status.code(), Some(1), "the outcome is not as stated, either");
    assert!(String::from_utf8_lossy(&output.stderr).contains("no file is written: there is no violation"));
    assert!(!file.exists());
}

#[test]
fn a_file_that_is_named_twice_is_an_error() {
    let saved: &str = &saved_schedules::path_of("setnx.crash.recovers.txt");
    for args in [
        ["explain", "setnx", "--save", "twice", "--svg", "twice"],
        ["explain", "setnx", "--html", "twice", "--svg", "twice"],
        ["replay", saved, "--html", "twice", "--svg", "twice"],
    ] {
        let output = lockstep(&args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "lockstep: twice is named twice: each file needs a name of its own\n");
    }
}

/// The value of the first key that a step changes, before that step.
fn before(counterexample: &Counterexample, step: usize) -> Option<&str> {
    let entry = counterexample.entries.iter().find(|entry| entry.step == step).unwrap();
    let key = entry.details.iter().find_map(|detail| detail.key.as_ref()).unwrap();
    key.before.as_deref()
}

#[test]
fn a_value_before_a_change_is_one_that_was_still_there() {
    let counterexample = |name: &str| {
        let kept = saved_schedules::kept();
        let (_, saved) = kept.into_iter().find(|(file, _)| file.starts_with(name)).unwrap();
        let scenario = scenario_of(&saved, saved.lease).unwrap();
        let replayed = replay_saved(&mut Runner::new(), &scenario, &saved).unwrap();
        Counterexample::new(&saved, &replayed.history, replayed.violation.as_ref().unwrap())
    };
    assert_eq!(before(&counterexample("fair_semaphore_comment.order.over-issue"), 9), Some("[A1 1]"));
    // Step 4 restarts the server without its data.
    assert_eq!(before(&counterexample("redlock.server.exclusive-fact"), 5), None);
}

/// While a reply is on its way, its client does not know what the server has done. When the reply
/// arrives, the lease that it grants may be over.
#[test]
fn a_late_reply_is_seen_from_its_request_to_its_arrival() {
    let schedule = "lockstep schedule 1\nalgorithm set_nx_ex_del\nclass slow\npermits 1\nclients 2\nlease 10000ms\n\
                    property exclusive-belief\nmust fail\n\nstart A\nsend A\ntime +10001ms\nB\nreceive A\n";
    let saved: SavedSchedule = schedule.parse().unwrap();
    let scenario = scenario_of(&saved, saved.lease).unwrap();
    let replayed = replay_saved(&mut Runner::new(), &scenario, &saved).unwrap();
    let counterexample = Counterexample::new(&saved, &replayed.history, replayed.violation.as_ref().unwrap());
    // The key of A has expired, so the key of B replaces nothing.
    assert_eq!(before(&counterexample, 4), None);
    let replying: Vec<&[usize]> = counterexample.entries.iter().map(|entry| &*entry.replying).collect();
    assert_eq!(replying, [&[][..], &[0], &[0], &[0], &[]]);
    let last = counterexample.entries.last().unwrap().details.last().unwrap();
    assert_eq!(last.clients, [ClientState::Believes, ClientState::Inside]);
    assert_eq!(last.text, "A is inside. Its lease ran until +10000 ms. Now A and B are inside.");
    // The bar has the rows of steps 2, 3 and 4, which are the lines 2 to 5 of the grid.
    let page = counterexample.to_html();
    assert!(page.contains("<i class=\"replying\" style=\"grid-area: 2/4/5/5\"></i>"), "{page}");
}

/// A renewal without a mark: the lease of the hold ends, and the server keeps its record longer.
#[test]
fn a_bar_follows_what_the_server_keeps() {
    let scenario = Scenario::new("renewed").always(ExclusiveFact::of("cs")).actors(1, |client| async move {
        let mut link = client.connection();
        let set = redis::cmd("SET").arg(&["lock", "A", "PX", "10000"]).to_owned();
        () = set.query_async(&mut link).await?;
        let inside = client.hold("cs").record(Record::Value("lock".into(), "A".into())).enter();
        for _ in 0..2 {
            tokio::time::sleep(Duration::from_secs(6)).await;
            () = redis::cmd("PEXPIRE").arg("lock").arg(10_000).query_async(&mut link).await?;
        }
        tokio::time::sleep(Duration::from_secs(11)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(inside);
        Ok(())
    });
    let schedule = "lockstep schedule 1\nscenario renewed\nclients 1\nlease 10000ms\nproperty exclusive-fact\nmust pass\n\nA\n";
    let replayed = replay_saved(&mut Runner::new(), &scenario, &schedule.parse().unwrap()).unwrap();
    let violation = Violation { step: replayed.history.steps.len(), what: "none".into() };
    let entries = Counterexample::new(&replayed.saved, &replayed.history, &violation).entries;
    let states = entries.iter().filter_map(|entry| {
        let state = entry.details.last().map_or(&entry.clients, |detail| &detail.clients)[0];
        entry.actor.is_none().then(|| format!("{} ms: {state:?}", entry.at_ms))
    });
    expect!["6000 ms: Inside, 12000 ms: Inside, 24000 ms: Running"]
        .assert_eq(&states.collect::<Vec<_>>().join(", "));
}

/// Late replies of several servers may arrive in another order than their requests.
#[test]
fn a_late_reply_comes_from_its_own_server() {
    let scenario =
        Scenario::new("two").servers(2).faults(Faults::none().stalls(1)).actors(2, |client| async move {
            let ping = redis::cmd("PING");
            let mut connections = [client.connection_to(0), client.connection_to(1)];
            let [one, other] = &mut connections;
            let (one, other) = tokio::join!(ping.query_async::<()>(one), ping.query_async::<()>(other));
            one.and(other)?;
            Ok(client.hold("cs").until(ping.query_async::<()>(&mut client.connection())).await?)
        });
    let schedule = "lockstep schedule 1\nscenario two\nclients 2\nlease 10000ms\nproperty exclusive-belief\nmust fail\n\n\
                    start A\nsend A\nsend A.2\nreceive A.2\nreceive A\nB\nB\nB.2\n";
    let scenario = scenario.always(ExclusiveBelief::of("cs", 1));
    let saved: SavedSchedule = schedule.parse().unwrap();
    let replayed = replay_saved(&mut Runner::new(), &scenario, &saved).unwrap();
    assert!(replayed.divergences.is_empty(), "{replayed}");
    let counterexample = Counterexample::new(&saved, &replayed.history, replayed.violation.as_ref().unwrap());
    let of_a = counterexample.entries.iter().flat_map(|entry| &entry.messages);
    let of_a: Vec<_> =
        of_a.filter(|message| message.client == 0).map(|message| (message.by, message.server)).collect();
    let (request, reply) = (Sender::Client, Sender::Server);
    assert_eq!(of_a, [(request, 0), (request, 1), (reply, 1), (reply, 0)]);
}

/// The texts of a long history are limited, and the page says so.
#[test]
fn a_page_of_a_long_history_is_small() {
    let counterexample = exhaustive(&broken("long")).unwrap_err().counterexample().unwrap();
    for (len, is_whole) in [(10_000, false), (4_000, true)] {
        let entries: Vec<_> = counterexample.entries.iter().cloned().cycle().take(len).collect();
        let page = Counterexample { entries, neighbours: None, ..counterexample.clone() }.to_html();
        assert!(page.len() < 2_000_000, "{}", page.len());
        assert_eq!(!page.contains("are left out"), is_whole);
    }
    let mut entries = vec![counterexample.entries[0].clone(); 10_000];
    entries.iter_mut().for_each(|entry| entry.text = "{\"a\": \"b\"}".repeat(9));
    let page = Counterexample { entries, neighbours: None, ..counterexample }.to_html();
    assert!(page.len() < 2_000_000, "{}", page.len());
}

/// The table is a page. Each violated verdict has a page, each other one a place with its bounds,
/// and no link is dead.
#[test]
fn check_writes_the_table_and_its_counterexamples() {
    let folder = std::env::temp_dir().join(format!("lockstep-table-{}", std::process::id()));
    let path = folder.to_str().unwrap();
    let json = stdout(&["check", "setnx", "set_nx_ex_del", "--format", "json", "--html", path]);
    let index = fs::read_to_string(folder.join("index.html")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let verdicts = json["verdicts"].as_array().unwrap();
    let violated = verdicts.iter().filter(|verdict| verdict["verdict"] == "violated").count();
    assert_eq!(index.matches("<td class=\"violated\">").count(), violated);
    assert_eq!(index.matches("<td class=\"holds\">").count(), verdicts.len() - violated);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), violated + 1);
    for link in index.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
        match link.strip_prefix('#') {
            Some(place) => assert!(index.contains(&format!("id=\"{place}\"")), "{link}"),
            None => assert!(fs::read_to_string(folder.join(link)).unwrap().contains("is violated"), "{link}"),
        }
    }
    assert!(!index.contains("PARTIAL"));
    fs::remove_dir_all(&folder).unwrap();
}

/// If there are more schedules beside a counterexample than are run, the page says so.
#[test]
fn a_page_says_if_other_steps_are_missing() {
    let scenario =
        Scenario::new("long").always(ExclusiveBelief::of("cs", 1)).actors(2, |client| async move {
            let ping = redis::cmd("PING");
            let rounds = if client.name() == "A" { 300 } else { 1 };
            for _ in 0..rounds {
                () = ping.query_async(&mut client.connection()).await?;
            }
            Ok(client.hold("cs").until(ping.query_async::<()>(&mut client.connection())).await?)
        });
    let steps = "A\n".repeat(300) + "B\n";
    let schedule = format!(
        "lockstep schedule 1\nscenario long\nclients 2\nlease 10000ms\nproperty exclusive-belief\nmust fail\n\n{steps}"
    );
    let (mut runner, saved) = (Runner::new(), schedule.parse().unwrap());
    let replayed = replay_saved(&mut runner, &scenario, &saved).unwrap();
    let counterexample = replayed.counterexample(&mut runner, &scenario).unwrap().unwrap();
    assert!(counterexample.neighbours.as_ref().unwrap().is_partial);
    assert!(counterexample.to_html().contains("than were run"));
    let small = exhaustive(&broken("small")).unwrap_err().counterexample().unwrap();
    assert!(!small.neighbours.as_ref().unwrap().is_partial && !small.to_html().contains("than were run"));
}
