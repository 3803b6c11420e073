//! Shards that fail: together they report what one process would, and none runs much more than that.

use harness::oracle::{Oracle, Violation};
use harness::trace::History;
use harness::{Faults, Scenario};

use super::{Folder, lock, note};

/// Violated if the first three clients that run are D, C and B, in this order.
#[derive(Debug)]
struct InReverse;

impl Oracle for InReverse {
    fn name(&self) -> &'static str {
        "in-reverse"
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let first: String = history.steps.iter().take(3).map(|step| format!("{step} ")).collect();
        (first == "D C B ").then(|| Violation { step: 3, what: "the clients run in reverse".into() })
    }
}

/// Four clients have many schedules, and the first thousand do not violate the oracle.
pub(super) fn in_reverse(name: &str) -> Scenario {
    lock(name, 4, Faults::none().crashes(2)).always(InReverse)
}

/// One client fails if the others have run in reverse.
pub(super) fn failing(name: &str) -> Scenario {
    lock(name, 3, Faults::none().crashes(2)).actors(1, |client| async move {
        let mut connection = client.connection();
        let push = |name: &str| redis::cmd("APPEND").arg("log").arg(name).to_owned();
        () = push("D").query_async(&mut connection).await?;
        let log: String =
            redis::cmd("GET").arg("lock").query_async(&mut connection).await.unwrap_or_default();
        if log == "C" { Err("C was first".into()) } else { Ok(()) }
    })
}

/// A violation fails the shard that finds it, in this run and in one that resumes it.
#[test]
fn a_violation_fails_its_shard_and_the_whole() {
    let folder = Folder::new("broken");
    let shards = folder.run_all("broken", 3);
    let failed: Vec<usize> = (1..=3).filter(|nth| !shards[nth - 1].has_passed).collect();
    assert!(!failed.is_empty());
    let violated = |said: &str| said.contains("broken: exclusive-fact is violated");
    for &nth in &failed {
        assert!(violated(&shards[nth - 1].said), "{}", shards[nth - 1].said);
        let again = folder.run_shard("broken", &format!("{nth}/3"));
        assert!(!again.has_passed && violated(&again.said), "{}", again.said);
    }
    let (status, text) = folder.merge();
    assert!(status == 1 && violated(&text), "{text}");
}

/// The text is equal, with the numbers of schedules.
#[test]
fn merge_reports_what_one_process_would() {
    for exploration in ["broken", "late", "fails late"] {
        let folder = Folder::new(&format!("reported {exploration}"));
        let one = folder.run(exploration, &[]);
        assert!(!one.has_passed, "{}", one.said);
        let shards = folder.run_all(exploration, 3);
        let (status, text) = folder.merge();
        let (table, report) = text.split_once("\n\n").unwrap_or_else(|| panic!("{text}"));
        assert!(
            status == 1 && one.said.contains(report.trim_end()),
            "{text}\nand one process:\n{}",
            one.said
        );
        println!("{table}");
        shards.iter().for_each(|shard| println!("{}", note(&shard.said, exploration)));
    }
}

/// A shard that finds nothing ends when it sees that another one has failed before. What it leaves
/// out does not matter to the whole.
#[test]
fn a_shard_ends_if_another_has_failed() {
    let shards = ["1/2", "2/2"];
    let alone = shards.map(|shard| Folder::new("alone").run_shard("late", shard));
    let first = alone.iter().position(|ended| !ended.has_passed).unwrap();
    let (failing, other) = (shards[first], shards[1 - first]);
    let folder = Folder::new("together");
    assert!(!folder.run_shard("late", failing).has_passed);
    let ended = folder.run_shard("late", other);
    let said = note(&ended.said, "late");
    assert!(said.contains(&format!("It ended early, because shard {failing} has failed.")), "{said}");
    let schedules = |said: &str| {
        let number = said.split(" schedules").next().and_then(|text| text.rsplit(' ').next());
        number.unwrap().parse::<u64>().unwrap()
    };
    assert!(schedules(said) < schedules(note(&alone[1 - first].said, "late")), "{said}");
    let (status, text) = folder.merge();
    assert!(status == 1 && text.contains("late: in-reverse is violated"), "{text}");
}
