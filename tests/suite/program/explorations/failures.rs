//! Shards that fail: together they report what one process would, and none runs much more than
//! that.

use harness::Scenario;
use harness::oracle::{Oracle, Success, Violation};
use harness::trace::History;

use super::{Folder, note};

/// Violated if B counts first, and then C counts four times.
#[derive(Debug)]
struct InOrder;

impl Oracle for InOrder {
    fn name(&self) -> &'static str {
        "in-order"
    }

    fn judges(&self, _: &History) -> bool {
        true
    }

    fn check(&self, history: &History) -> Option<Violation> {
        let first: Vec<String> = history.steps.iter().take(5).map(ToString::to_string).collect();
        (first == ["B", "C", "C", "C", "C"]).then(|| Violation { step: 5, what: "C counts alone".into() })
    }
}

/// Clients count with one key. Three of them have 34,650 orders.
fn counting(name: &str, fails: bool) -> Scenario {
    Scenario::new(name).actors(3, move |client| async move {
        let mut connection = client.connection();
        let mut counts: Vec<i64> = Vec::new();
        for _ in 0..4 {
            counts.push(redis::Cmd::incr("n", 1).query_async(&mut connection).await?);
        }
        let is_after_one = client.name() == "C" && counts == [2, 3, 4, 5];
        if fails && is_after_one { Err("C counts after one".into()) } else { Ok(()) }
    })
}

/// The oracle is violated after many thousand schedules.
pub(super) fn violating(name: &str) -> Scenario {
    counting(name, false).always(InOrder)
}

/// A client fails after many thousand schedules.
pub(super) fn failing(name: &str) -> Scenario {
    counting(name, true).always(Success)
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
    for exploration in ["broken", "late", "fails late", "broken sample"] {
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

/// Every shard of a sample has a violation. The report is the one with the fewest steps.
#[test]
fn merge_reports_the_shortest_violation() {
    let folder = Folder::new("shortest");
    assert!(folder.run_all("broken sample", 2).iter().all(|shard| !shard.has_passed));
    let (own, longer) =
        ("\"violation\":[0,5],\"text\":[\"", "\"violation\":[0,6],\"text\":[\"A longer one of ");
    folder.edit("1/2", |text| text.replace(own, longer));
    let (status, text) = folder.merge();
    assert!(status == 1 && text.contains("\nbroken sample: exclusive-fact is violated"), "{text}");
}

/// A shard that finds nothing ends when it sees that another one has failed before. The whole does
/// not need the rest.
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
    assert!(status == 1 && text.contains("late: in-order is violated"), "{text}");
}

/// A shard can have nothing to judge. Only the whole is vacuous.
#[test]
fn only_the_whole_is_vacuous() {
    let mut said = String::new();
    for exploration in ["vacuous", "unreached"] {
        let folder = Folder::new(exploration);
        assert!(folder.run_all(exploration, 2).iter().all(|shard| shard.has_passed));
        let (status, text) = folder.merge();
        assert_eq!(status, 1);
        said += &text;
        assert!(!folder.run(exploration, &[]).has_passed);
    }
    expect_test::expect![[r#"
         exploration          shards  branches  schedules  blocked  traces  verdict
         vacuous, exhaustive       2         2          5        0       –  vacuous: fenced had nothing to judge
         exploration            shards  branches  schedules  blocked  traces  verdict
         unreached, exhaustive       2         2          5        0       –  vacuous: no lease ever ended while its holder was inside
    "#]].assert_eq(&said);
}
