//! Explorations that are divided among processes, stopped, and resumed. This program runs itself as
//! the other processes.

mod failures;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use harness::explore::{Division, JOBS_VARIABLE, RESULTS_VARIABLE, SHARD_VARIABLE, Shard, exhaustive_shard};
use harness::oracle::{ExclusiveFact, Fenced, Oracle, Violation};
use harness::trace::{EventKind, HappensBefore, History, Reached};
use harness::{Client, Faults, Scenario, exhaustive, sample};

use crate::bounds::{DIVISIONS, KILLED};
use crate::program::cli::lockstep;

/// The variables that this file itself uses: the exploration of a process, the file for its traces,
/// and the number of traces after which it is killed.
const EXPLORATION: &str = "SUITE_EXPLORATION";
const TRACES: &str = "SUITE_TRACES";
const KILLED_AFTER: &str = "SUITE_KILLED_AFTER";

/// Writes the trace of each execution that it judges to a file, a line each.
#[derive(Debug)]
struct Recorder {
    file: File,
    recorded: AtomicU64,
    killed_after: Option<u64>,
}

impl Recorder {
    fn from_env() -> Recorder {
        let path = std::env::var_os(TRACES).unwrap();
        let killed_after = std::env::var(KILLED_AFTER).ok().map(|count| count.parse().unwrap());
        let file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        Recorder { file, recorded: AtomicU64::new(0), killed_after }
    }
}

impl Oracle for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        // Some executions run again with all commands.
        if history.events.iter().any(|event| matches!(event.kind, EventKind::Command { .. })) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        HappensBefore::of(history).foata_normal_form(history).hash(&mut hasher);
        (&self.file).write_all(format!("{:016x}\n", hasher.finish()).as_bytes()).unwrap();
        if Some(self.recorded.fetch_add(1, Ordering::Relaxed) + 1) == self.killed_after {
            std::process::abort();
        }
        None
    }
}

/// So many clients take a lock, and release it.
fn lock(name: &str, clients: usize, faults: Faults) -> Scenario {
    let locked = |client: Client| async move {
        let mut connection = client.connection();
        let mut set = redis::cmd("SET");
        set.arg("lock").arg(client.name()).arg("NX").arg("PX").arg(10_000);
        if set.query_async(&mut connection).await? {
            let del = redis::Cmd::del("lock");
            client.hold("section").until(del.exec_async(&mut connection)).await?;
        }
        Ok(())
    };
    Scenario::new(name).actors(clients, locked).faults(faults).always(ExclusiveFact::of("section"))
}

/// Clients try to take a lock for ever, and one gives up by itself. That is found late, and the
/// exploration begins again.
fn trying(name: &str) -> Scenario {
    let locks = |tries: usize| {
        move |client: Client| async move {
            let mut connection = client.connection();
            for _ in 0..tries {
                let mut set = redis::cmd("SET");
                if set.arg("lock").arg(1).arg("NX").query_async(&mut connection).await? {
                    return Ok(redis::Cmd::del("lock").exec_async(&mut connection).await?);
                }
            }
            Ok(())
        }
    };
    Scenario::new(name).actors(2, locks(1_000)).actors(1, locks(6)).faults(Faults::none().crashes(1))
}

/// The explorations that processes run, by their names.
fn explore(name: &str) -> Result<(), Box<harness::Report>> {
    let none = Faults::none();
    let explored = match name {
        // One, two and three clients have few traces, four have many.
        "divided" => exhaustive(&lock(name, 4, none.crashes(2)).always(Recorder::from_env())),
        "my lock" => exhaustive(&lock(name, 4, none.crashes(2))), // for `tests/guide/ci.md`
        "few" => exhaustive(&lock(name, 2, none).always(Recorder::from_env())),
        "sample" => sample(&lock(name, 3, none.crashes(1)).always(Recorder::from_env()), 1_000, 7),
        "broken" => exhaustive(&lock(name, 3, none.stalls(1))),
        "late" => exhaustive(&failures::violating(name)),
        "fails late" => exhaustive(&failures::failing(name)),
        "broken sample" => sample(&lock(name, 3, none.stalls(1)), 1_000, 7),
        "vacuous" => exhaustive(&lock(name, 2, none).always(Fenced::of("data"))),
        "gives up" => exhaustive(&trying(name).always(Recorder::from_env())),
        "unreached" => {
            exhaustive(&lock(name, 2, none).must_reach(Reached { overrun: true, ..Reached::default() }))
        }
        _ => panic!("there is no exploration {name:?}"),
    };
    explored.map(|_| ())
}

/// Runs in the other processes. It is no test of its own.
#[test]
fn a_process_of_the_tests_below() {
    if let Ok(name) = std::env::var(EXPLORATION) {
        explore(&name).unwrap();
    }
}

/// The end of a process.
struct Ended {
    has_passed: bool,
    said: String,
    /// The traces that it judged, in order.
    traces: Vec<String>,
}

/// A folder for the results and traces of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shards").join(name);
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn results(&self) -> PathBuf {
        self.0.join("results")
    }

    /// Runs an exploration in a process of its own.
    fn run(&self, exploration: &str, variables: &[(&str, &str)]) -> Ended {
        let traces = self.0.join("traces");
        _ = fs::remove_file(&traces);
        let test = format!("{}::a_process_of_the_tests_below", module_path!().split_once("::").unwrap().1);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &test]).env(EXPLORATION, exploration).env(TRACES, &traces);
        for variable in [SHARD_VARIABLE, JOBS_VARIABLE, RESULTS_VARIABLE] {
            command.env_remove(variable);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        Ended {
            has_passed: output.status.success(),
            said: String::from_utf8(said).unwrap(),
            traces: fs::read_to_string(&traces).unwrap_or_default().lines().map(str::to_owned).collect(),
        }
    }

    /// Runs a shard in a process of its own, with results.
    fn run_shard(&self, exploration: &str, shard: &str) -> Ended {
        let results = self.results();
        self.run(exploration, &[(SHARD_VARIABLE, shard), (RESULTS_VARIABLE, results.to_str().unwrap())])
    }

    /// Runs all shards of a division.
    fn run_all(&self, exploration: &str, of: usize) -> Vec<Ended> {
        (1..=of).map(|nth| self.run_shard(exploration, &format!("{nth}/{of}"))).collect()
    }

    /// The file with the results of a shard.
    fn file(&self, shard: &str) -> PathBuf {
        let ending = format!(".{}.jsonl", shard.replace('/', "-of-"));
        let files = fs::read_dir(self.results()).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|file| file.to_str().unwrap().ends_with(&ending)).unwrap()
    }

    /// Changes the text of a shard's file.
    fn edit(&self, shard: &str, edit: impl FnOnce(String) -> String) {
        let text = fs::read_to_string(self.file(shard)).unwrap();
        let edited = edit(text.clone());
        assert_ne!(edited, text);
        fs::write(self.file(shard), edited).unwrap();
    }

    /// Joins the results. Returns the exit status and the output.
    fn merge(&self) -> (i32, String) {
        let output = lockstep(&["merge", self.results().to_str().unwrap()]);
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        (output.status.code().unwrap(), self.without_path(&said))
    }

    fn without_path(&self, said: &str) -> String {
        said.replace(&format!("{}/", self.results().display()), "")
            .replace(self.results().to_str().unwrap(), "DIR")
    }
}

/// How often each trace was judged.
fn counted<'a>(traces: impl IntoIterator<Item = &'a String>) -> BTreeMap<&'a String, usize> {
    let mut counts = BTreeMap::new();
    traces.into_iter().for_each(|trace| *counts.entry(trace).or_default() += 1);
    counts
}

fn sorted(mut traces: Vec<String>) -> Vec<String> {
    traces.sort_unstable();
    traces
}

/// The line of a process about its shard.
fn note<'a>(said: &'a str, exploration: &str) -> &'a str {
    let begin = format!("{exploration}: ");
    let mut lines = said.lines().filter_map(|line| line.find(&begin).map(|at| &line[at..]));
    lines.next().unwrap_or_else(|| panic!("{said}"))
}

/// Each trace of the whole is judged by one shard. Those of the trunk are judged by all, so that
/// all end at a violation there.
#[test]
fn shards_are_disjoint_and_their_union_is_the_whole() {
    let divisions =
        [("divided", &[3, 1, 8][..]), ("few", &[3, 1, 8]), ("sample", &[3, 1, 8]), ("gives up", &[3])];
    for (exploration, divisions) in divisions.into_iter().take(2 + DIVISIONS.get() as usize) {
        let folder = Folder::new(exploration);
        let whole = folder.run(exploration, &[]);
        assert!(whole.has_passed && !whole.traces.is_empty(), "{}", whole.said);
        for &of in divisions.iter().take(DIVISIONS.get() as usize) {
            let shards =
                (1..=of).map(|nth| folder.run(exploration, &[(SHARD_VARIABLE, &format!("{nth}/{of}"))]));
            let shards: Vec<Ended> = shards.collect();
            assert!(shards.iter().all(|shard| shard.has_passed));
            let (judged, whole) =
                (counted(shards.iter().flat_map(|shard| &shard.traces)), counted(&whole.traces));
            assert!(judged.keys().eq(whole.keys()), "{exploration} in {of} shards");
            let is_shared =
                |(trace, by): (&&String, &usize)| [1, of].map(|of| whole[*trace] * of).contains(by);
            assert!(judged.iter().all(is_shared), "{exploration} in {of} shards");
        }
    }
}

/// One thread runs the branches one after the other, in their order.
#[test]
fn the_number_of_jobs_changes_no_result() {
    let folder = Folder::new("jobs");
    let [one, again, three] = ["1", "1", "3"].map(|jobs| folder.run("divided", &[(JOBS_VARIABLE, jobs)]));
    assert!(one.has_passed && !one.traces.is_empty() && one.traces == again.traces, "{}", one.said);
    // With stacks that large, the system refuses each thread.
    let alone = folder.run("divided", &[(JOBS_VARIABLE, "3"), ("RUST_MIN_STACK", "1152921504606846976")]);
    assert!(alone.has_passed && alone.traces == one.traces, "{}", alone.said);
    assert!(sorted(one.traces) == sorted(three.traces));
}

#[test]
fn a_shard_says_what_it_does_and_who_judges() {
    let folder = Folder::new("said");
    let mut said = String::new();
    for shard in ["1/3", "3/3"] {
        for exploration in ["few", "divided"] {
            said += &format!("{}\n", note(&folder.run_shard(exploration, shard).said, exploration));
        }
    }
    said += note(&folder.run("few", &[(SHARD_VARIABLE, "2/3")]).said, "few");
    expect_test::expect![[r#"
        few: shard 1/3 has nothing to do: other shards have all branches. `lockstep merge DIR`, with the results of all shards, tells whether the whole passes.
        divided: shard 1/3 has 160 of 483 branches, with 321 schedules. `lockstep merge DIR`, with the results of all shards, tells whether the whole passes.
        few: shard 3/3 has 2 of 2 branches, with 5 schedules. `lockstep merge DIR`, with the results of all shards, tells whether the whole passes.
        divided: shard 3/3 has 159 of 483 branches, with 319 schedules. `lockstep merge DIR`, with the results of all shards, tells whether the whole passes.
        few: shard 2/3 has nothing to do: other shards have all branches. Set LOCKSTEP_RESULTS to a folder, so that `lockstep merge` can tell whether the whole passes."#]].assert_eq(&folder.without_path(&said));
}

/// Results with other digests of the executions.
fn with_other_digests(text: &str) -> String {
    const DIGEST: &str = r#""digest":"#;
    let parts = text.split(DIGEST).enumerate();
    let without = parts.map(|(nth, part)| part.trim_start_matches(|c: char| nth > 0 && c.is_ascii_digit()));
    without.collect::<Vec<_>>().join(r#""digest":1"#)
}

/// The first line of a branch.
fn branch_of(text: &str) -> String {
    text.lines().find(|line| line.starts_with(r#"{"branch""#)).unwrap().to_owned() + "\n"
}

#[test]
fn merge_says_what_does_not_fit() {
    let folder = Folder::new("merged");
    assert!(folder.run_all("divided", 3).iter().all(|shard| shard.has_passed));
    let kept = fs::read_to_string(folder.file("2/3")).unwrap();
    let (status, mut said) = folder.merge();
    assert_eq!(status, 0, "{said}");
    type Edit = fn(String) -> String;
    let edits: [(&str, Edit); 7] = [
        ("other bounds", |text| text.replace("crashes 2", "crashes 1")),
        ("other code", |text| with_other_digests(&text)),
        ("other knowledge", |text| text.replace(r#""has_thresholds":false"#, r#""has_thresholds":true"#)),
        ("a dropped branch", |text| text.replacen(&branch_of(&text), "", 1)),
        ("a doubled branch", |text| text.replacen(&branch_of(&text), &branch_of(&text).repeat(2), 1)),
        ("a shard that has only begun", |text| text.lines().next().unwrap().to_owned() + "\n"),
        ("another text", |text| text.replacen('{', "[", 1)),
    ];
    for (what, edit) in edits {
        folder.edit("2/3", edit);
        let (status, text) = folder.merge();
        assert_eq!(status, 2, "{what}: {text}");
        said += &format!("# {what}\n{text}");
        fs::write(folder.file("2/3"), &kept).unwrap();
    }
    expect_test::expect![[r#"
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       483      3,258      126       –  ✓ holds
        # other bounds
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       483      3,258      126       –  unknown
        lockstep: divided, exhaustive: divided.f390104c.1-of-3.jsonl and divided.f390104c.2-of-3.jsonl are of 4 actors with leases of 10s and 10s and 10s and 10s, 1 servers, 0 probes, crashes 2, equal code, 5000 steps at most and of 4 actors with leases of 10s and 10s and 10s and 10s, 1 servers, 0 probes, crashes 1, equal code, 5000 steps at most: merge only shards of one test
        # other code
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       483      3,258      126       –  unknown
        lockstep: divided, exhaustive: divided.f390104c.1-of-3.jsonl and divided.f390104c.2-of-3.jsonl are of different code: run all shards of one version
        # other knowledge
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       483      3,258      126       –  unknown
        lockstep: divided, exhaustive: divided.f390104c.1-of-3.jsonl and divided.f390104c.2-of-3.jsonl know different things of the code: put the files of all shards into one folder, and run all shards again with LOCKSTEP_RESULTS there
        # a dropped branch
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       482      3,254      126       –  unknown
        lockstep: divided, exhaustive: shard 2/3 is not finished; 1 of the branches that it has are missing: run it again with divided.f390104c.2-of-3.jsonl where it is, and it continues
        # a doubled branch
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       484      3,262      126       –  unknown
        lockstep: divided, exhaustive: branches are there twice: 0 of 1 actors; run all shards again
        # a shard that has only begun
        exploration          shards  branches  schedules  blocked  traces  verdict
        divided, exhaustive       3       319        640        0       –  unknown
        lockstep: divided, exhaustive: shard 2/3 is not finished; 164 of the branches that it has are missing: run it again with divided.f390104c.2-of-3.jsonl where it is, and it continues
        # another text
        lockstep: divided.f390104c.2-of-3.jsonl, line 1, is not a result of a shard: expected value at line 1 column 1; remove the file, and run the shard again
    "#]].assert_eq(&said);
}

#[test]
fn merge_says_which_shards_are_missing_or_doubled() {
    let folder = Folder::new("shards");
    assert!(folder.run_all("few", 3).iter().all(|shard| shard.has_passed));
    let mut said = String::new();
    let mut merge = |what: &str| {
        let (status, text) = folder.merge();
        assert_eq!(status, 2, "{what}: {text}");
        said += &format!("# {what}\n{text}");
    };
    let copy = folder.results().join("copy.jsonl");
    fs::copy(folder.file("2/3"), &copy).unwrap();
    merge("a doubled shard");
    fs::remove_file(copy).unwrap();
    assert!(folder.run_shard("few", "1/2").has_passed);
    merge("a shard of another division");
    fs::remove_file(folder.file("1/2")).unwrap();
    fs::remove_file(folder.file("2/3")).unwrap();
    merge("a missing shard");
    fs::remove_dir_all(folder.results()).unwrap();
    merge("no folder");
    fs::create_dir(folder.results()).unwrap();
    merge("an empty folder");
    fs::write(folder.results().join("empty.jsonl"), "").unwrap();
    merge("an empty file");
    expect_test::expect![[r#"
        # a doubled shard
        exploration      shards  branches  schedules  blocked  traces  verdict
        few, exhaustive       4         2          5        0       –  unknown
        lockstep: few, exhaustive: copy.jsonl and few.5cab4192.2-of-3.jsonl are both shard 2/3: leave one out
        # a shard of another division
        exploration      shards  branches  schedules  blocked  traces  verdict
        few, exhaustive       4         2          5        0       –  unknown
        lockstep: few, exhaustive: few.5cab4192.1-of-2.jsonl and few.5cab4192.1-of-3.jsonl are shards 1/2 and 1/3: merge only shards of one division
        lockstep: few, exhaustive: few.5cab4192.1-of-2.jsonl and few.5cab4192.2-of-3.jsonl are shards 1/2 and 2/3: merge only shards of one division
        lockstep: few, exhaustive: few.5cab4192.1-of-2.jsonl and few.5cab4192.3-of-3.jsonl are shards 1/2 and 3/3: merge only shards of one division
        # a missing shard
        exploration      shards  branches  schedules  blocked  traces  verdict
        few, exhaustive       2         2          5        0       –  unknown
        lockstep: few, exhaustive: shards are missing: 2/3; run the test with LOCKSTEP_SHARD=2/3
        # no folder
        lockstep: cannot read DIR: name files and folders that have results of shards: No such file or directory (os error 2)
        # an empty folder
        lockstep: DIR has no results: no file *.json or *.jsonl; name another folder, or run the shards first
        # an empty file
        lockstep: no file has a result: each shard was stopped at its very start; run the shards again
    "#]].assert_eq(&said);
}

/// A process is killed, and the next one continues.
#[test]
fn what_was_done_before_a_kill_is_not_done_again() {
    let killed = [("divided", "2800"), ("sample", "500"), ("gives up", "2800")];
    for (exploration, killed_after) in killed.into_iter().take(KILLED.get() as usize) {
        let folder = Folder::new(&format!("killed {exploration}"));
        let whole = folder.run(exploration, &[]).traces;
        let results = folder.results();
        let results = (RESULTS_VARIABLE, results.to_str().unwrap());
        let killed = folder.run(exploration, &[results, (KILLED_AFTER, killed_after)]);
        assert!(!killed.has_passed);
        // The process was killed while it wrote.
        let half = r#"{"branch":{"actors":4,"nth"#;
        let text = fs::read_to_string(folder.file("1/1")).unwrap();
        assert_eq!(text.contains(r#""gives_up":[["#), exploration == "gives up", "{text}");
        folder.edit("1/1", |text| text + half);
        let resumed = folder.run(exploration, &[results]);
        assert!(resumed.has_passed, "{}", resumed.said);
        assert!(note(&resumed.said, exploration).contains("It resumed: "), "{}", resumed.said);
        println!("{exploration}: {} of {} after the kill", resumed.traces.len(), whole.len());
        assert!(resumed.traces.len() < whole.len());
        let both: BTreeSet<String> = killed.traces.into_iter().chain(resumed.traces).collect();
        assert!(both == whole.into_iter().collect(), "{exploration}");
        let again = folder.run(exploration, &[results]);
        assert!(again.has_passed && again.traces.is_empty(), "{}", again.said);
        let (status, text) = folder.merge();
        assert_eq!(status, 0, "{text}");
    }
}

/// An exploration does not continue what it has not begun.
#[test]
fn results_that_do_not_fit_are_not_resumed() {
    let folder = Folder::new("unfit");
    assert!(folder.run_shard("few", "1/1").has_passed);
    let kept = fs::read_to_string(folder.file("1/1")).unwrap();
    let mut said = String::new();
    let edits: [fn(String) -> String; 3] = [
        |text| text.replace("2 actors with", "3 actors with"),
        |text| with_other_digests(&text),
        |text| text.replace('{', "["),
    ];
    for edit in edits {
        folder.edit("1/1", edit);
        let ended = folder.run_shard("few", "1/1");
        assert!(!ended.has_passed && ended.traces.len() <= 10, "{}", ended.said);
        said += &format!("{}\n", note(&ended.said, "few"));
        fs::write(folder.file("1/1"), &kept).unwrap();
    }
    let file = File::open(folder.file("1/1")).unwrap();
    file.lock().unwrap();
    said += &format!("{}\n", note(&folder.run_shard("few", "1/1").said, "few"));
    let path = folder.file("1/1");
    let path = path.to_str().unwrap();
    said += note(&folder.run("few", &[(RESULTS_VARIABLE, path)]).said, "few");
    expect_test::expect![[r#"
        few: few.5cab4192.1-of-1.jsonl has results of 3 actors with leases of 10s and 10s, 1 servers, 0 probes, no faults, equal code, 5000 steps at most, and this is 2 actors with leases of 10s and 10s, 1 servers, 0 probes, no faults, equal code, 5000 steps at most. If the test has changed, remove the files with results, and run all shards again. If two explorations have this name, give each its own
        few: few.5cab4192.1-of-1.jsonl has results of other code: the clients now do something else. If the test has changed, remove the files with results, and run all shards again. If two explorations have this name, give each its own
        few: few.5cab4192.1-of-1.jsonl, line 1, is not a result of a shard: expected value at line 1 column 1; remove the file, and run the shard again
        few: few.5cab4192.1-of-1.jsonl is in use: two explorations have this name, or two processes run this shard. Give each scenario its own name, and each process its own shard
        few: cannot read or write few.5cab4192.1-of-1.jsonl/few.5cab4192.1-of-1.jsonl: File exists (os error 17)"#]].assert_eq(&folder.without_path(&said));
}

#[test]
fn a_variable_with_a_bad_value_is_an_error() {
    let folder = Folder::new("bad");
    for bad in ["9/8", "0/8", "x", "", "1/1001"] {
        let ended = folder.run("few", &[(SHARD_VARIABLE, bad)]);
        let expected = format!(
            "few: LOCKSTEP_SHARD is {bad:?}: write I/N for part I of N, as in 2/3: I from 1 to N, and N at most 1000"
        );
        assert!(!ended.has_passed && ended.said.contains(&expected), "{}", ended.said);
        assert!(ended.traces.is_empty());
    }
    for bad in ["0", "-1", "x", "", "1001"] {
        let ended = folder.run("few", &[(JOBS_VARIABLE, bad)]);
        let remedy = "write how many schedules may run at the same time, from 1 to 1000";
        assert!(
            !ended.has_passed && ended.said.contains(&format!("few: LOCKSTEP_JOBS is {bad:?}: {remedy}"))
        );
    }
}

#[test]
fn shards_have_an_interface_of_their_own() {
    let folder = Folder::new("interface");
    let scenario = lock("interface", 3, Faults::none().crashes(1));
    let whole = exhaustive_shard(&scenario, &Division::from(Shard::WHOLE)).unwrap().schedules;
    let shards = Shard::new(1, 4).unwrap().all();
    let run = |shard| {
        exhaustive_shard(&scenario, &Division::from(shard).results(folder.results())).unwrap().schedules
    };
    assert_eq!(shards.map(run).sum::<u64>(), whole);
    assert_eq!(folder.merge().0, 0);
}
