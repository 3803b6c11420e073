//! What `lockstep explain` prints.

use crate::program::cli::{lockstep, stdout};

#[test]
fn explain_says_what_holds() {
    let text = stdout(&["explain", "set_nx_px_cad", "--property", "owner-safe"]);
    let holds = "owner-safe holds in order, skew, crash, slow, lost, server, failover, cluster, cancel, pairs, rounds: none of ";
    assert!(text.contains(holds), "{text}");
    assert!(text.ends_with("schedules is a counterexample.\n"), "{text}");
    let text = stdout(&["explain", "set_nx_px_cad", "--property", "owner-safe", "--limit", "300"]);
    assert!(text.contains(holds), "{text}");
    let sampled =
        "In skew, slow, server, failover, cluster, pairs, rounds, some schedules were only sampled.\n";
    assert!(text.ends_with(sampled), "{text}");
}

#[test]
fn explain_runs_each_claim_of_a_debate() {
    let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/fencing.txt");
    let page = concat!(env!("CARGO_TARGET_TMPDIR"), "/fencing.html");
    let fencing = stdout(&["explain", "fencing", "--save", path, "--html", page]);
    expect_test::expect![[r#"
        fencing
          about   What happens to the data if a client writes after its lease has ended?
          source  Martin Kleppmann, "How to do distributed locking" (2016), https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html

        1. A client that pauses overwrites what a later holder of the lock has written.
        a storage that takes every write: fenced is violated.

        step        time  A B  ● acts · not begun │ runs ┃ inside ╏ its grant has ended
           1       +0 ms  ● ·  A to locks: script acquire lock {lock}:token A 10000 → 1
                          │ ·      now on locks: lock = "A" (10000 ms left)
                          │ ·      now on locks: {lock}:token = "1"
                          ┃ ·    ▸ A is inside. Its lease runs until +10000 ms.
           2   +10001 ms  ┃ ·  10001 ms pass: every client is slow
                          ╏ ·    ▸ The lease of A is over, and A is still inside.
           3   +10001 ms  ╏ ●  B to locks: script acquire lock {lock}:token B 10000 → 2
                          ╏ │      now on locks: lock = "B" (10000 ms left)
                          ╏ │      now on locks: {lock}:token = "2"
                          ╏ ┃    ▸ B is inside. Its lease runs until +20001 ms. Now A and B are inside.
           4   +10001 ms  ╏ ●  B to storage: script write file {file}:token by B 2 → 1
                          ╏ ┃      now on storage: file = "by B"
                          ╏ ┃    ▸ storage accepts B's write with token 2.
           5   +10001 ms  ● ┃  A to storage: script write file {file}:token by A 1 → 1
                          ╏ ┃      now on storage: file = "by A"
                          ╏ ┃    ▸ storage accepts A's write with token 1.

        ✗ storage accepts A's write with token 1 after B's with token 2.

        fenced is violated, as expected.

        2. A storage that refuses a write with an older token than the last one prevents that.
        a storage that checks tokens: no violation of fenced in 435 schedules (and 65 that others cover); reached: contention, overrun.
    "#]].assert_eq(&fencing);
    let replayed = stdout(&["replay", path]);
    assert!(replayed.ends_with("\nfenced is violated, as expected.\n"), "{replayed}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(">locks<") && page.contains(">storage<"), "a lane has its server's name");
    let refused = |args: &[&str]| {
        let output = lockstep(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let of_third = stdout(&["explain", "promotion", "--claim", "3", "--save", path]);
    assert!(of_third.contains("\n3. "), "{of_third}");
    assert!(std::fs::read_to_string(path).unwrap().contains("\nscenario fencing tokens from a counter\n"));
    let without = refused(&["explain", "fencing", "--claim", "2", "--save", path]);
    assert!(without.contains("no file is written: there is no counterexample of claim 2"), "{without}");
    let unknown = refused(&["explain", "fencing", "--claim", "3"]);
    assert!(unknown.contains("fencing has no claim 3: name one from 1 to 2"), "{unknown}");
    let of_none = refused(&["explain", "setnx", "--claim", "1"]);
    assert!(of_none.contains("setnx is an algorithm, which has no claims: leave out --claim"), "{of_none}");
    let pauses = stdout(&["explain", "pauses"]);
    let outcomes = [
        "before the check: no violation of exclusive-belief in ",
        "after the check: exclusive-belief is violated",
        "after the check, with one server: exclusive-belief is violated",
    ];
    outcomes.iter().for_each(|outcome| assert!(pauses.contains(outcome), "{pauses}"));
    assert_eq!(pauses.matches("A does «pause».").count(), 2, "{pauses}");
}

/// Each counterexample fits a screen.
#[test]
fn the_debates_about_failovers_are_short() {
    let mut outcomes = String::new();
    for debate in ["failover", "wait", "promotion", "cluster"] {
        let text = stdout(&["explain", debate]);
        outcomes += &format!("{debate}\n");
        let is_step =
            |line: &&str| line.split_whitespace().next().is_some_and(|word| word.parse::<u32>().is_ok());
        for told in text.split("\n\n").skip(1) {
            let outcome = told.lines().find(|line| line.contains(": ") && !line.starts_with(['✗', ' ']));
            outcomes += &outcome.map(|outcome| format!("  {outcome}\n")).unwrap_or_default();
            assert!(told.lines().filter(is_step).count() <= 8, "{text}");
        }
    }
    expect_test::expect![[r#"
        failover
          a failover without the last write: exclusive-belief is violated.
          a failover by Sentinel: exclusive-belief is violated.
          a failover by the primary: no violation of exclusive-belief in 18 schedules; reached: contention, server.
          a failover of one server of Redlock: exclusive-belief is violated.
        wait
          WAIT for one of two replicas: exclusive-belief is violated.
          WAIT for both replicas: no violation of exclusive-belief in 211 schedules (and 6 that others cover); reached: contention, lost, server.
          WAIT for both replicas, and a failover by Sentinel: no violation of exclusive-belief in 648 schedules (and 42 that others cover); reached: contention, lost, server.
        promotion
          a release by EVALSHA alone: no-leak is violated.
          a release by EVALSHA, or else by EVAL: no violation of no-leak in 12 schedules; reached: contention, server.
          fencing tokens from a counter: fenced is violated.
          servers whose clocks differ: exclusive-belief is violated.
        cluster
          keys in two slots: progress is violated.
          keys in one slot, which moves: no violation of exclusive-belief, fenced and no-leak in 31199 schedules; reached: contention, lost, server.
          a failover in a cluster: exclusive-belief is violated.
    "#]]
    .assert_eq(&outcomes);
}

#[test]
fn what_repeats_after_the_last_step_is_told_once() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../suite/data/schedules/redisson_process.lost.recovers.txt");
    let replayed = stdout(&["replay", path]);
    let folded = "A.3: script renew lock A1 10000 → 1
                  │      now lock = {A1: 1} (10000 ms left)
                  │    ▸ The same happens 2 more times, until +9999 ms.
       +12000 ms  │  2001 ms pass\n";
    assert!(replayed.contains(folded), "{replayed}");
}
