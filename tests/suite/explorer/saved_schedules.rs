//! Saved schedules: their text, and their replay after the code has changed. Also checks the
//! counterexamples of all algorithms in `data/schedules`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use expect_test::{Expect, expect, expect_file};
use harness::check::{Effort, Verdict, check, match_class, properties, save, scenario_of};
use harness::execution::Runner;
use harness::oracle::{ExclusiveFact, Recovers};
use harness::replay::{MismatchError, Replayed, replay_loosely};
use harness::{Faults, SavedSchedule, Scenario, replay_saved};
use locks::registry::{ALGORITHMS, Algorithm, FaultClass};

/// The path of a saved counterexample, by the name of its file.
pub(crate) fn path_of(file: &str) -> String {
    format!("{}/{file}", folder().display())
}

fn folder() -> PathBuf {
    Path::new(crate::SUITE).join("data/schedules")
}

/// Every saved counterexample by the name of its file.
pub(crate) fn kept() -> BTreeMap<String, SavedSchedule> {
    let _turn = turn();
    read()
}

/// With `UPDATE_EXPECT`, several tests write files that other tests read.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read() -> BTreeMap<String, SavedSchedule> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let parse = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let saved: SavedSchedule = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(saved.to_string(), text, "{}", path.display());
        (path.file_name().unwrap().to_str().unwrap().to_owned(), saved)
    };
    files.map(parse).collect()
}

fn file_name(algorithm: &Algorithm, class: FaultClass, property: locks::registry::Property) -> String {
    format!("{}.{class}.{property}.txt", algorithm.name)
}

/// With `UPDATE_EXPECT`, the test explores to replace every counterexample that is missing or that
/// no longer replays as stated. To get a new one for an algorithm, delete its file first.
#[test]
fn every_counterexample_is_kept() {
    let _turn = turn();
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        look_for_what_is_missing();
    }
    let mut stated: Vec<String> = cells().flat_map(|(algorithm, class)| stated(algorithm, class)).collect();
    stated.sort();
    let kept = read();
    assert_eq!(kept.keys().cloned().collect::<Vec<_>>(), stated, "run this test once with UPDATE_EXPECT=1");
    for (name, saved) in kept {
        assert_eq!(match_class(&saved), Ok(()), "{name}");
        let replayed = replay_kept(&saved).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(is_whole(&replayed), "run this test once with UPDATE_EXPECT=1: {name}\n{replayed}");
    }
}

fn cells() -> impl Iterator<Item = (&'static Algorithm, FaultClass)> {
    ALGORITHMS.iter().flat_map(|algorithm| FaultClass::ALL.iter().map(move |&class| (algorithm, class)))
}

/// The files of all counterexamples that the algorithm's spec claims.
fn stated(algorithm: &'static Algorithm, class: FaultClass) -> Vec<String> {
    let asked = properties(algorithm, class).into_iter();
    let broken = asked.filter(|&property| !algorithm.spec.holds(property, class));
    broken.map(|property| file_name(algorithm, class, property)).collect()
}

fn replay_kept(saved: &SavedSchedule) -> Result<Replayed, MismatchError> {
    replay_saved(&mut Runner::new(), &scenario_of(saved, saved.lease).unwrap(), saved)
}

/// Whether the replay is as stated, without divergences, and violates the property in its last
/// step.
fn is_whole(replayed: &Replayed) -> bool {
    let step = replayed.violation.as_ref().map(|violation| violation.step);
    replayed.is_as_stated() && replayed.divergences.is_empty() && step == Some(replayed.saved.steps.len())
}

/// Only algorithms that are explored quickly.
#[test]
fn a_saved_schedule_is_the_finding() {
    let mut runner = Runner::new();
    for name in ["setnx_expire", "set_nx_ex_del", "set_nx_get_del", "set_nx_px_cad", "mutex"] {
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.name == name).unwrap();
        for &class in FaultClass::ALL {
            for (name, saved) in counterexamples(&mut runner, algorithm, class) {
                expect_file![folder().join(name)].assert_eq(&saved.to_string());
            }
        }
    }
}

fn counterexamples(
    runner: &mut Runner,
    algorithm: &'static Algorithm,
    class: FaultClass,
) -> Vec<(String, SavedSchedule)> {
    let verdicts = check(runner, algorithm, class, Effort::default()).unwrap();
    let named = |verdict: &Verdict| file_name(algorithm, class, verdict.property);
    verdicts.iter().filter_map(|verdict| Some((named(verdict), save(runner, verdict)?))).collect()
}

fn look_for_what_is_missing() {
    std::fs::create_dir_all(folder()).unwrap();
    let mut kept = read();
    for name in kept.keys() {
        std::fs::remove_file(folder().join(name)).unwrap();
    }
    kept.retain(|_, saved| replay_kept(saved).is_ok_and(|replayed| is_whole(&replayed)));
    let cells = Mutex::new(cells());
    std::thread::scope(|scope| {
        for _ in 0..harness::execution::cores() {
            scope.spawn(|| {
                let mut runner = Runner::new();
                let next = || cells.lock().unwrap().next();
                while let Some((algorithm, class)) = next() {
                    let known = |name| Some((String::clone(name), kept.get(name)?.clone()));
                    let known: Option<Vec<_>> = stated(algorithm, class).iter().map(known).collect();
                    for (name, saved) in
                        known.unwrap_or_else(|| counterexamples(&mut runner, algorithm, class))
                    {
                        std::fs::write(folder().join(name), saved.to_string()).unwrap();
                    }
                }
            });
        }
    });
}

/// Two clients that take and release the lock with these commands.
fn lock(take: &'static [&'static str], release: &'static [&'static str]) -> Scenario {
    let send = |words: &'static [&'static str]| redis::cmd(words[0]).arg(&words[1..]).to_owned();
    Scenario::new("a lock")
        .lease(Duration::from_secs(10))
        .faults(Faults::none().stalls(1).crashes(1))
        .actors(2, move |client| async move {
            let mut link = client.connection();
            if send(take).query_async(&mut link).await? {
                client.hold("cs").until(send(release).query_async::<()>(&mut link)).await?;
            }
            Ok(())
        })
        .probe(1, move |client| async move { Ok(send(take).query_async(&mut client.connection()).await?) })
        .always(ExclusiveFact::of("cs"))
        .always(Recovers)
}

fn sound() -> Scenario {
    lock(&["SET", "lock", "1", "NX", "PX", "10000"], &["DEL", "lock"])
}

const HEADER: &str =
    "lockstep schedule 1\nscenario a lock\nclients 2\nlease 10000ms\nproperty exclusive-fact\n";

fn replay(scenario: &Scenario, must: &str, steps: &str) -> Replayed {
    let saved = format!("{HEADER}must {must}\n{steps}").parse().unwrap();
    replay_saved(&mut Runner::new(), scenario, &saved).unwrap()
}

#[track_caller]
fn check_replay(scenario: &Scenario, must: &str, steps: &str, expected: &Expect) {
    expected.assert_eq(&replay(scenario, must, steps).to_string());
}

/// No client crashes in this schedule, so `recovers` has nothing to judge. The other client never
/// starts, so there is no end.
#[test]
fn a_schedule_that_tests_nothing_does_not_pass() {
    let scenario = sound().finally("the lock is free", |_, _| async { Ok(()) });
    for property in ["recovers", "the lock is free"] {
        let saved = HEADER.replace("exclusive-fact", property) + "must pass\n\nA 1 SET lock\nA 2 DEL lock\n";
        let replayed = replay_saved(&mut Runner::new(), &scenario, &saved.parse().unwrap()).unwrap();
        assert!(!replayed.is_as_stated());
        let end = format!("\n{property} had nothing to judge, but must hold.\n");
        assert!(replayed.to_string().ends_with(&end), "{replayed}");
    }
}

#[test]
fn a_schedule_passes_or_fails() {
    let steps = "start A\nA 1 SET lock\nstart B\nB 1 SET lock # fails\n";
    check_replay(
        &sound(),
        "pass",
        steps,
        &expect![[r#"
            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: SET lock 1 NX PX 10000 → OK
                              │ ·      now lock = "1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ┃ ●  B starts, and has not sent its first command
               4       +0 ms  ┃ ●  B: SET lock 1 NX PX 10000 → (nil)
               5       +0 ms  ● │  A: DEL lock → 1
                              │ │      now lock is gone
                              │ │    ▸ A begins its release, and no longer counts as a holder.
                              │ │      probe1: SET lock 1 NX PX 10000 → OK
                              │ │      now lock = "1" (10000 ms left)
                              │ │    ▸ All clients have ended, none crashed, and no message was lost. Fresh clients try: 1 of 1 succeed.

            exclusive-fact holds, as expected.
        "#]],
    );
    let broken = lock(&["SET", "lock", "1", "PX", "10000"], &["DEL", "lock"]);
    check_replay(
        &broken,
        "pass",
        steps,
        &expect![[r#"
            step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
               1       +0 ms  ● ·  A starts, and has not sent its first command
               2       +0 ms  ● ·  A: SET lock 1 PX 10000 → OK
                              │ ·      now lock = "1" (10000 ms left)
                              ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
               3       +0 ms  ┃ ●  B starts, and has not sent its first command
               4       +0 ms  ┃ ●  B: SET lock 1 PX 10000 → OK
                              ┃ │      now lock = "1" (10000 ms left)
                              ┃ ┃    ▸ B is inside. Its lease runs until +10000 ms. Now A and B are inside.

            ✗ A and B hold the lock, each with a lease that still runs.

            exclusive-fact is violated, but must hold.
        "#]],
    );
    assert!(replay(&sound(), "pass", steps).is_as_stated());
    assert!(!replay(&sound(), "fail", steps).is_as_stated());
    assert!(!replay(&broken, "pass", steps).is_as_stated());
    assert!(replay(&broken, "fail", steps).is_as_stated());
}

/// In a schedule that a person writes, any span of time is allowed, and `start` steps and command
/// names are optional.
#[test]
fn a_schedule_may_be_written_by_hand() {
    let replayed = replay(&sound(), "pass", "A\ntime +4321ms\ncrash A\ntime +5680ms\nB\n");
    assert_eq!(replayed.divergences, Vec::<String>::new());
    expect![[r#"
        step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
           1       +0 ms  ● ·  A: SET lock 1 NX PX 10000 → OK
                          │ ·      now lock = "1" (10000 ms left)
                          ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
           2    +4321 ms  ┃ ·  4321 ms pass: every client is slow
           3    +4321 ms  ● ·  A crashes
           4   +10001 ms    ·  5680 ms pass: every client is slow
           5   +10001 ms    ●  B: SET lock 1 NX PX 10000 → OK
                            │      now lock = "1" (10000 ms left)
                            ┃    ▸ B is inside. Its lease runs until +20001 ms.
           6   +10001 ms    ●  B: DEL lock → 1
                            │      now lock is gone
                            │    ▸ B begins its release, and no longer counts as a holder.
               +22001 ms    │  12000 ms pass
                            │      probe1: SET lock 1 NX PX 10000 → OK
                            │      now lock = "1" (10000 ms left)
                            │    ▸ No client runs any more, and 12000 ms have passed. Fresh clients try: 1 of 1 succeed.

        exclusive-fact holds, as expected.
    "#]].assert_eq(&replayed.to_string());
}

#[test]
fn where_the_code_goes_another_way() {
    let changed = lock(&["SETNX", "lock", "1"], &["UNLINK", "lock"]);
    let steps =
        "A 1 SET lock\nA 2 DEL lock\nA 3 DEL lock\ncrash A\nB 2 SETNX lock\nB 2 UNLINK\nskew B +5ms\n";
    let replayed = replay(&changed, "pass", steps);
    expect![[r#"
        step 1: expected A's command 1 "SET lock", client sent "SETNX lock"
        step 2: expected A's command 2 "DEL lock", client sent "UNLINK lock"
        step 3: expected A's command 3 "DEL lock", A has nothing to send: skipped
        step 4: `crash A` is not possible here: skipped
        step 5: expected B's command 2 "SETNX lock", client sent its command 1 "SETNX lock"
        step 7: `skew B +5ms` is not possible here: skipped
    "#]]
    .assert_eq(&(replayed.divergences.join("\n") + "\n"));
    // It no longer tests what it was saved for, unless that is allowed.
    assert_eq!((replayed.skipped, replayed.is_as_stated()), (3, false));
    let last = |replayed: &Replayed| replayed.to_string().lines().last().unwrap().to_owned();
    expect![
        "exclusive-fact holds, as expected, but 3 steps were skipped: the schedule does not fit the code."
    ]
    .assert_eq(&last(&replayed));
    let loosely = replay_loosely(&mut Runner::new(), &changed, &replayed.saved).unwrap();
    assert!(loosely.is_as_stated());
    assert_eq!(last(&loosely), "exclusive-fact holds, as expected.");
}

/// If nothing else can happen, time passes by itself.
#[test]
fn a_wait_may_be_skipped() {
    assert!(replay(&sound(), "pass", "A\nA\nwait\nB\n").is_as_stated());
}

#[test]
fn a_schedule_of_something_else() {
    let mismatch = |from: &str, to: &str| {
        let saved = format!("{HEADER}must fail\n\nA\n").replace(from, to).parse().unwrap();
        replay_saved(&mut Runner::new(), &sound(), &saved).unwrap_err().to_string()
    };
    assert_eq!(
        mismatch("clients 2", "clients 3"),
        r#"the schedule has 3 clients, and the scenario "a lock" has only 2: change `clients`"#
    );
    assert_eq!(
        mismatch("exclusive-fact", "speed"),
        r#"the scenario "a lock" has no property "speed"; it has exclusive-fact, recovers"#
    );
    assert_eq!(
        mismatch("scenario a lock", "scenario another lock"),
        r#"the schedule is of the scenario "another lock", and this one is "a lock": correct the line `scenario`, or allow other names by `harness::replay::replay_loosely`"#
    );
    let renamed = HEADER.replace("a lock", "another lock") + "must pass\n\nA\nA\n";
    let loosely = replay_loosely(&mut Runner::new(), &sound(), &renamed.parse().unwrap()).unwrap();
    assert!(loosely.is_as_stated());
}

#[test]
fn mistakes_are_named_with_their_line() {
    let error = |text: &str| text.parse::<SavedSchedule>().unwrap_err().to_string();
    let with =
        |from: &str, to: &str| error(&format!("{HEADER}must fail\n\nA 1 SET lock\n").replace(from, to));
    let errors = [
        error(""),
        with("schedule 1", "schedule 2"),
        with("clients 2\n", ""),
        with("clients 2", "clients two"),
        with("clients 2", "clients 27"),
        with("lease 10000ms", "lease 10s"),
        with("lease 10000ms", "lease 0ms"),
        with("must fail", "must break"),
        with("scenario a lock", "algorithm setnx\npermits 1\nclass oder"),
        with("scenario a lock", "algorithm setnx\npermits 4294967295\nclass order"),
        with("scenario a lock", "scenario a lock\nalgorithm setnx"),
        with("clients 2", "clients 2\nclients 3"),
        with("scenario a lock", "algorithm rw_hash\npermits 1\nclass order\nreaders 3"),
        with("A 1 SET lock", "A SET lock"),
        with("A 1 SET lock", "A 0"),
        with("A 1 SET lock", "stop A"),
        with("A 1 SET lock", "time 5ms\nlease 1ms"),
    ];
    expect![[r#"
        line 1: a saved schedule begins with `lockstep schedule 1`
        line 1: the file has format version 2, and this program reads only version 1
        line 7: `clients` is missing before this line: write for example `clients 2`
        line 3: `clients two` is not valid: write a number up to 26, for example `clients 2`
        line 3: `clients 27` is not valid: write a number up to 26, for example `clients 2`
        line 4: `lease 10s` is not valid: write a time up to 315360000000ms, for example `lease 10000ms`
        line 4: `lease 0ms` is not valid: write a time up to 315360000000ms, for example `lease 10000ms`
        line 6: `must break` is not valid: write `must fail` or `must pass`
        line 4: `class oder` is not valid: write one of order, skew, crash, slow, lost, server, failover, cluster, cancel, pairs, rounds
        line 3: `permits 4294967295` is not valid: write a number up to 26, for example `permits 1`
        line 2: there is an `algorithm` already: remove one of the lines
        line 4: `clients` is there twice: remove one of the lines
        line 5: `readers 3` is not valid: write the number of clients that read, for example `readers 1`
        line 8: "SET" is not the number of a command: write `A 1 SET lock` for A's first command, or only `A`
        line 8: "0" is not the number of a command: write `A 1 SET lock` for A's first command, or only `A`
        line 8: "stop A" is not a step: write `A 1 SET lock`, `start A`, `send A`, `receive A`, `skew A +5ms`, `drift A +200ppm`, `skew 1 +5ms`, `drift 1 +200ppm`, `lose-request A`, `lose-reply A`, `resend A`, `drop-before A`, `drop-after A`, `partition A`, `partition-after A`, `one-way A`, `delay A`, `cancel-after A`, `cancel A`, `crash A`, `crash-after A`, `respawn A`, `respawn-after A`, `pause A +5ms`, `jump A +5ms`, `jump 1 +5ms`, `restart 1`, `reload 1 -1`, `flush 1`, `failover 2 -A`, `split-brain 2 -A`, `planned-failover 2`, `unacknowledged A 2`, `stale A -A`, `begin-move 1 1234`, `end-move 1 1234`, `time +5ms` or `wait`
        line 9: `lease` belongs before the first step
    "#]].assert_eq(&(errors.join("\n") + "\n"));
}

/// Tries every number of a schedule at its limits and beyond. Either the parser refuses the number,
/// or the replay ends and its text parses to the same schedule.
#[test]
fn no_number_makes_a_replay_endless() {
    const NUMBERS: [&str; 24] = [
        "0",
        "-0",
        "1",
        "007",
        "-1",
        "+1",
        "26",
        "27",
        "1000000",
        "4294967295",
        "4294967296",
        "315360000000",
        "315360000001",
        "4000000000000000000",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "999999999999999999999999999999999999999999",
        "NaN",
        "inf",
        "1e9",
        "0x10",
        "",
    ];
    const HEADER: &str = "lockstep schedule 1\nalgorithm rw_hash\nclass slow\npermits 1\nreaders 1\nclients 2\nlease 10000ms\n\
        property writer-alone\nmust pass\n";
    let fields = ["permits 1", "readers 1", "clients 2", "lease 10000ms"];
    let fields = fields.map(|field| {
        let number = |c: char| c.is_ascii_digit();
        (HEADER.replace(field, &field.replacen(number, "?", 1).replace(number, "")), "A\nB\n".to_owned())
    });
    let steps = [
        "time ?ms",
        "time +?ms",
        "skew A ?ms",
        "skew 1 +?ms",
        "drift A ?ppm",
        "drift 1 ?ppm",
        "jump A ?ms",
        "jump 1 ?ms",
        "restart ?",
        "reload ?",
        "reload 1 -?",
        "flush ?",
        "A.?",
        "late A.?",
        "delay A.?",
        "A ? EVALSHA lock",
    ];
    let steps = steps.map(|step| (HEADER.to_owned(), format!("A\n{step}\n{step}\nB\n")));
    let mut runner = Runner::new();
    for (header, steps) in fields.into_iter().chain(steps) {
        for number in NUMBERS {
            let text = format!("{header}{steps}").replace('?', number);
            let saved: SavedSchedule = match text.parse() {
                Ok(saved) => saved,
                Err(error) => {
                    assert!(!error.to_string().contains("line 0"), "{text}{error}");
                    continue;
                }
            };
            assert_eq!(saved.to_string().parse().as_ref(), Ok(&saved), "{text}");
            let scenario = scenario_of(&saved, saved.lease).unwrap();
            _ = replay_saved(&mut runner, &scenario, &saved).map(|replayed| replayed.to_string());
        }
    }
}

#[test]
fn a_value_over_a_limit_is_an_error_with_the_limit() {
    let error = |from: &str, to: &str| {
        let text = format!("{HEADER}must fail\n\nA 1 SET lock\n").replace(from, to);
        text.parse::<SavedSchedule>().unwrap_err().to_string()
    };
    let errors = [
        error("lease 10000ms", "lease 315360000001ms"),
        error("lease 10000ms", "lease 99999999999999999999999ms"),
        error("clients 2", "clients 1000000"),
        error("scenario a lock", "algorithm setnx\npermits 4000000000\nclass order"),
        error("A 1 SET lock", "time +4000000000000000000ms"),
        error("A 1 SET lock", "time +99999999999999999999999ms"),
        error("A 1 SET lock", "skew A -315360000001ms"),
        error("A 1 SET lock", "jump 1 +9223372036854775807ms"),
        error("A 1 SET lock", "A 99999999999999999999999"),
    ];
    expect![[r#"
        line 4: `lease 315360000001ms` is not valid: write a time up to 315360000000ms, for example `lease 10000ms`
        line 4: `lease 99999999999999999999999ms` is not valid: write a time up to 315360000000ms, for example `lease 10000ms`
        line 3: `clients 1000000` is not valid: write a number up to 26, for example `clients 2`
        line 3: `permits 4000000000` is not valid: write a number up to 26, for example `permits 1`
        line 8: the time in "time +4000000000000000000ms" is too long: write at most 315360000000ms (ten years)
        line 8: the time in "time +99999999999999999999999ms" is too long: write at most 315360000000ms (ten years)
        line 8: the time in "skew A -315360000001ms" is too long: write at most 315360000000ms (ten years)
        line 8: the time in "jump 1 +9223372036854775807ms" is too long: write at most 315360000000ms (ten years)
        line 8: "99999999999999999999999" is not the number of a command: write `A 1 SET lock` for A's first command, or only `A`
    "#]]
    .assert_eq(&(errors.join("\n") + "\n"));
}

/// Two clients that wake every millisecond during a step of ten years.
#[test]
fn time_stands_when_too_much_has_happened_in_it() {
    let restless = Scenario::new("restless").always(ExclusiveFact::of("cs")).actors(2, |_| async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    let text = HEADER.replace("a lock", "restless") + "must pass\n\nA\ntime +315360000000ms\n";
    let replayed = replay_saved(&mut Runner::new(), &restless, &text.parse().unwrap()).unwrap();
    assert!(replayed.failure.unwrap().contains("polled 100000 times"));
}
