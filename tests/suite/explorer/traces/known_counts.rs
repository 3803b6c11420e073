//! Programs of the literature, whose numbers of traces are known.

use harness::execution::{Learning, Runner};
use harness::explore::Dpor;
use harness::{Client, Scenario};
use redis::cmd;

use super::commands::{call, each, of};
use crate::bounds::COUNTED;

/// `LOCKSTEP_COUNTS=150000` also counts lastzero(15), which takes long because most of its
/// executions are blocked.
#[test]
fn counts_that_are_known() {
    let factorial = |n: usize| (1..=n).product::<usize>();
    let mut wrong = Vec::new();
    let largest = COUNTED.get() as usize;
    let mut check = |name: &str, n: usize, scenario: &Scenario, expected: usize| {
        if expected > largest {
            return;
        }
        for learning in [Learning::Off, Learning::Eager] {
            let (traces, blocked) = count_with(learning, scenario);
            println!("{name}({n}), learning {learning:?}: {traces} traces, {blocked} blocked");
            if traces != expected {
                wrong.push(format!("{name}({n}), learning {learning:?}: {traces} instead of {expected}"));
            }
        }
    };
    for n in [2, 3, 4, 5, 6, 7, 8, 13] {
        check("readers", n, &readers(n), 1 << n);
    }
    for n in 2..=5 {
        check("ainc", n, &each(n, |_| of(&["INCR a"])), factorial(n));
    }
    for n in 2..=4 {
        check("binc", n, &each(n, |_| of(&["INCR a", "INCR b"])), factorial(n).pow(2));
        check("lostupd", n, &each(n, |_| of(&["GET a", "SET a 1"])), factorial(n).pow(2));
    }
    for n in 2..=8 {
        check("cas", n, &each(n, |_| of(&["SET k v NX"])), n);
    }
    for (n, expected) in [(2, 5), (3, 13), (4, 33), (5, 81), (6, 193)] {
        let program = each(n + 1, |nth| vec![if nth == 0 { "SET k 1".into() } else { cas_script(1, 2) }]);
        let program = program.before(|client: Client| async move {
            call(&mut client.connection(), &cas_script(0, 0)).await?;
            Ok(())
        });
        check("wcas", n, &program, expected);
    }
    for (n, expected) in [(2, 2), (3, 5), (4, 14), (5, 43), (6, 144), (7, 523), (8, 2048), (9, 8597)] {
        let program = each(n, |nth| vec![cas_script(nth, nth + 1)]).before(|client: Client| async move {
            call(&mut client.connection(), "SET k 0").await?;
            call(&mut client.connection(), &cas_script(9, 9)).await?;
            Ok(())
        });
        check("casrot", n, &program, expected);
    }
    for (n, expected) in [(2, 6), (3, 66), (4, 1200), (5, 32_880)] {
        let program = each(n, |nth| vec![cas_script(0, nth + 1), format!("SET k {}", nth + 1)]).before(
            |client: Client| async move {
                call(&mut client.connection(), "SET k 0").await?;
                call(&mut client.connection(), &cas_script(9, 9)).await?;
                Ok(())
            },
        );
        check("casw", n, &program, expected);
    }
    for (n, expected) in [(3, 12), (5, 64), (10, 3328), (15, 147_456)] {
        check("lastzero", n, &last_zero(n), expected);
    }
    check("indexer", 12, &indexer(12), 8);
    check("indexer", 15, &indexer(15), 4096);
    assert_eq!(wrong, Vec::<String>::new());
}

/// The number of traces, and the number of blocked executions.
pub fn count(scenario: &Scenario) -> (usize, usize) {
    count_with(Learning::default(), scenario)
}

fn count_with(learning: Learning, scenario: &Scenario) -> (usize, usize) {
    let (mut runner, mut dpor) = (Runner::new().learning(learning), Dpor::default());
    let (mut traces, mut blocked) = (0, 0);
    while dpor.run_next(&mut runner, scenario).is_some() {
        if dpor.is_blocked() { blocked += 1 } else { traces += 1 }
    }
    (traces, blocked)
}

pub fn readers(n: usize) -> Scenario {
    each(n + 1, |nth| of(&[if nth == 0 { "SET k v" } else { "GET k" }]))
}

fn cas_script(from: usize, to: usize) -> String {
    // The script has no spaces, because `call` splits the command at spaces.
    format!(
        "EVAL if(redis.call('GET',KEYS[1])==ARGV[1])then\treturn(redis.call('SET',KEYS[1],ARGV[2]))end 1 k {from} {to}"
    )
}

/// Writers of `a[j] = a[j - 1] + 1`, and a reader that searches for the last zero.
pub fn last_zero(n: usize) -> Scenario {
    let scenario = Scenario::new("lastzero").actors(1, move |client| async move {
        let mut connection = client.connection();
        for place in (0..=n).rev() {
            let value: Option<i64> = cmd("GET").arg(format!("a{place}")).query_async(&mut connection).await?;
            if value.unwrap_or(0) == 0 {
                break;
            }
        }
        Ok(())
    });
    (1..=n).fold(scenario, |scenario, place| {
        scenario.actors(1, move |client| async move {
            let mut connection = client.connection();
            let left = format!("a{}", place - 1);
            let value: Option<i64> = cmd("GET").arg(left).query_async(&mut connection).await?;
            let own = format!("a{place}");
            () = cmd("SET").arg(own).arg(value.unwrap_or(0) + 1).query_async(&mut connection).await?;
            Ok(())
        })
    })
}

/// Threads that each put four messages into a hash table of 128 slots.
fn indexer(n: usize) -> Scenario {
    (0..n).fold(Scenario::new("indexer"), |scenario, thread| {
        scenario.actors(1, move |client| async move {
            let mut connection = client.connection();
            for message in 1..=4 {
                let word = message * 11 + thread;
                let mut hash = (word * 7) % 128;
                loop {
                    let is_free: bool = cmd("SETNX").arg(hash).arg(word).query_async(&mut connection).await?;
                    if is_free {
                        break;
                    }
                    hash = (hash + 1) % 128;
                }
            }
            Ok(())
        })
    })
}
