//! Oracles that look at commands.

use expect_test::{Expect, expect};
use harness::explore::Problem;
use harness::oracle::{Oracle, Violation};
use harness::trace::{EventKind, History};
use harness::{Client, Scenario, exhaustive, from_fn, sample};
use redis::{AsyncCommands as _, RedisResult};

/// The stock is never below zero.
#[derive(Debug)]
struct NeverNegative {
    judges_always: bool,
    says_what_it_needs: bool,
}

impl Oracle for NeverNegative {
    fn name(&self) -> &'static str {
        "never-negative"
    }

    fn judges(&self, history: &History) -> bool {
        self.judges_always
            || history.events.iter().any(|event| matches!(event.kind, EventKind::Command { .. }))
    }

    fn needs_commands(&self) -> bool {
        self.says_what_it_needs
    }

    fn check(&self, history: &History) -> Option<Violation> {
        history.events.iter().find_map(|event| {
            let EventKind::Command { changed, .. } = &event.kind else { return None };
            let is_below =
                changed.iter().any(|change| change.value.as_ref().is_some_and(|value| value == "\"-1\""));
            is_below.then(|| Violation { step: event.step, what: "the stock is below zero".into() })
        })
    }
}

/// Buys the last piece, if there is one.
async fn buy(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    if link.get::<_, Option<i64>>("stock").await?.unwrap_or(0) > 0 {
        () = link.decr("stock", 1).await?;
    }
    Ok(())
}

fn shop(judges_always: bool, says_what_it_needs: bool) -> Scenario {
    Scenario::new("shop")
        .before(|client| async move { Ok(client.connection().set("stock", 1).await?) })
        .actors(2, from_fn(buy))
        .interchangeable()
        .always(NeverNegative { judges_always, says_what_it_needs })
}

#[test]
fn an_oracle_that_needs_commands_gets_them() {
    for explore in [|shop: &Scenario| exhaustive(shop), |shop: &Scenario| sample(shop, 50, 0)] {
        let report = explore(&shop(false, true)).unwrap_err();
        let Problem::Violated { schedule, .. } = &report.problem else { panic!("{report}") };
        assert_eq!(schedule.steps.len(), 4, "{report}");
    }
}

/// It may depend on the order of commands that touch different keys.
#[test]
fn the_order_of_all_commands_is_judged() {
    let writes = |key: &'static str| {
        move |client: Client| async move { Ok(client.connection().set::<_, _, ()>(key, 1).await?) }
    };
    let schedules = |says_what_it_needs| {
        let scenario = Scenario::new("writes").actors(1, writes("x")).actors(1, writes("y"));
        let oracle = NeverNegative { judges_always: true, says_what_it_needs };
        exhaustive(&scenario.always(oracle)).unwrap().schedules
    };
    assert_eq!((schedules(false), schedules(true)), (1, 2));
}

#[test]
fn an_oracle_that_does_not_say_so_is_reported() {
    fn check(judges_always: bool, expected: &Expect) {
        expected.assert_eq(&exhaustive(&shop(judges_always, false)).unwrap_err().to_string());
    }
    let expected = expect![
        "shop: vacuous: in 4 schedules never-negative saw no commands, and judges otherwise if it does: let its `Oracle::needs_commands` return true, so the pass means nothing"
    ];
    check(true, &expected);
    check(false, &expected);
}
