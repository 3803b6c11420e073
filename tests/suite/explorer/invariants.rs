//! What must hold always, by the data of the servers.

use std::time::Duration;

use expect_test::expect;
use harness::execution::{Learning, Runner};
use harness::explore::explore_all;
use harness::{Client, Faults, Report, Scenario, exhaustive, from_fn, sample};
use redis::{AsyncCommands as _, Commands as _, ConnectionLike as _, RedisResult};

use super::the_end::violated;

async fn buy(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    if link.get::<_, i64>("stock").await? > 0 {
        () = link.decr("stock", 1).await?;
    }
    Ok(())
}

/// Puts back what was one too much.
async fn buy_safely(client: Client) -> RedisResult<()> {
    let buy = redis::Script::new(
        "if tonumber(redis.call('GET', KEYS[1])) > 0 then return redis.call('DECR', KEYS[1]) end return -1",
    );
    let _left: i64 = buy.key("stock").invoke_async(&mut client.connection()).await?;
    Ok(())
}

fn shop(scenario: Scenario) -> Scenario {
    scenario
        .before(|client| async move { Ok(client.connection().set("stock", 1).await?) })
        .interchangeable()
        .invariant("the stock is never below 0", |data| {
            let stock: i64 = data.get("stock")?;
            if stock < 0 { Err(format!("the stock is {stock}").into()) } else { Ok(()) }
        })
}

/// The violation of a report, and the number of its steps.
fn violation(report: &Report) -> (String, usize) {
    let (what, _, schedule) = violated(report);
    (what.to_owned(), schedule.steps.len())
}

#[test]
fn a_stock_below_zero() {
    let scenario = shop(Scenario::new("shop").actors(3, from_fn(buy)));
    let report = exhaustive(&scenario).unwrap_err();
    assert_eq!(violation(&report), ("the stock is -1".into(), 4));
    assert_eq!(violation(&sample(&scenario, 100, 0).unwrap_err()).1, 4);
    let text = report.to_string();
    assert!(text.contains("This breaks «the stock is never below 0»: the stock is -1."), "{text}");
    exhaustive(&shop(Scenario::new("shop").actors(3, from_fn(buy_safely)))).unwrap();
}

/// No order of two writes may be left out if an invariant reads both keys, and none need be run
/// twice if it reads one.
#[test]
fn only_what_is_read_counts() {
    let write = |scenario: Scenario, key: &'static str| {
        scenario.actors(1, move |client: Client| async move { Ok(client.connection().set(key, 1).await?) })
    };
    let scenario = || write(write(Scenario::new("writes"), "x"), "y");
    let schedules = |scenario: &Scenario| exhaustive(scenario).unwrap().schedules;
    assert_eq!(schedules(&scenario().invariant("nothing", |_| Ok(()))), 1);
    assert_eq!(schedules(&scenario().invariant("x", |data| Ok(data.get("x")?))), 1);
    assert_eq!(schedules(&scenario().invariant("both", |data| Ok(data.mget(&["x", "y"])?))), 2);
    // What is read second depends on what was read first.
    let no_y_before_x = |scenario: Scenario| {
        scenario.invariant("no y before x", |data| {
            let y: bool = data.exists("y")?;
            let is_early = y && !data.exists("x")?;
            if is_early { Err("y is there before x".into()) } else { Ok(()) }
        })
    };
    assert_eq!(violation(&exhaustive(&no_y_before_x(scenario())).unwrap_err()).1, 1);
    let in_order = Scenario::new("in order").actors(1, |client: Client| async move {
        let mut link = client.connection();
        () = link.set("x", 1).await?;
        Ok(link.set("y", 1).await?)
    });
    exhaustive(&no_y_before_x(in_order)).unwrap();
}

/// Time changes data, too: a key ends.
#[test]
fn a_key_that_ends() {
    let sleeper = |ms: u64| {
        Scenario::new("end of a key")
            .actors(1, move |client: Client| async move {
                let mut link = client.connection();
                () = link.pset_ex("permit", 1, 50).await?;
                () = link.set("working", 1).await?;
                tokio::time::sleep(Duration::from_millis(ms)).await;
                Ok(link.del("working").await?)
            })
            .invariant("who works has a permit", |data| {
                let (works, may): (bool, bool) = (data.exists("working")?, data.exists("permit")?);
                if works && !may { Err("nobody may work".into()) } else { Ok(()) }
            })
    };
    exhaustive(&sleeper(20)).unwrap();
    assert_eq!(violation(&exhaustive(&sleeper(80)).unwrap_err()), ("nobody may work".into(), 3));
    // With a stall, no sleep is short.
    exhaustive(&sleeper(20).faults(Faults::none().stalls(1))).unwrap_err();
}

#[test]
fn what_is_broken_from_the_start() {
    let scenario = Scenario::new("start")
        .actors(1, from_fn(buy_safely))
        .before(|client| async move { Ok(client.connection().set("stock", 0).await?) });
    let broken = scenario.invariant("there is something", |data| {
        assert!(data.get::<_, i64>("stock")? > 0, "there is nothing");
        Ok(())
    });
    assert_eq!(violation(&exhaustive(&broken).unwrap_err()), ("there is nothing".into(), 0));
}

#[test]
fn the_second_of_two_invariants_is_broken() {
    let scenario = shop(Scenario::new("two").actors(1, from_fn(buy_safely)));
    let broken = scenario.invariant("there is something", |data| {
        if data.get::<_, i64>("stock")? > 0 { Ok(()) } else { Err("it is sold".into()) }
    });
    let report = exhaustive(&broken).unwrap_err().to_string();
    assert!(report.contains("two: there is something is violated"), "{report}");
}

/// An invariant that writes would change what it judges.
#[test]
fn an_invariant_only_reads() {
    let scenario = || {
        Scenario::new("reads")
            .actors(1, from_fn(buy_safely))
            .before(|client| async move { Ok(client.connection().set("stock", 0).await?) })
    };
    let writes = scenario().invariant("a write", |data| Ok(data.incr("stock", 1)?));
    expect!["a judgement of the servers only reads - Client: INCRBY may write, or is no command"]
        .assert_eq(&violation(&exhaustive(&writes).unwrap_err()).0);
    let unknown = scenario().invariant("unknown", |data| Ok(redis::cmd("nonsense").query(data)?));
    exhaustive(&unknown).unwrap_err();
    let all = scenario().invariant("several servers", |data| Ok(data.on(1).get("stock")?)).servers(2);
    exhaustive(&all).unwrap();
}

/// Clients of redis-rs ask such things of a connection.
#[test]
fn the_data_is_a_connection_to_each_server() {
    let scenario = Scenario::new("servers")
        .servers(3)
        .actors(1, |client: Client| async move { Ok(client.connection().set::<_, _, ()>("k", 1).await?) });
    let judged = scenario.invariant("it answers", |data| {
        assert_eq!((data.servers(), data.get_db()), (3, 0));
        assert!(data.check_connection() && data.is_open());
        Ok(())
    });
    exhaustive(&judged).unwrap();
}

/// Judgements are remembered. Their results are those of explorations in which all is judged.
#[test]
fn remembered_judgements() {
    let scenario = shop(Scenario::new("shop").actors(3, from_fn(buy)));
    let explore = |learning| {
        let mut runner = Runner::new().learning(learning);
        let found = [(); 2].map(|()| explore_all(&mut runner, &scenario).unwrap());
        found.map(|found| (found.schedules, found.blocked, found.findings[0].cost.clone()))
    };
    assert_eq!(explore(Learning::Off), explore(Learning::Eager));
}

/// An invariant reads keys that no request names.
#[test]
fn reads_of_an_invariant_are_no_habit_of_the_code() {
    let moves = |client: Client| async move {
        let script = redis::Script::new("redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])");
        let mut call = script.key("{a}:one");
        Ok(call.key("{a}:two").invoke_async::<()>(&mut client.connection()).await?)
    };
    let scenario = Scenario::new("moves").actors(2, moves).invariant("it reads another key", |data| {
        let other: Option<i64> = data.get("elsewhere")?;
        if other.is_some() { Err("it is there".into()) } else { Ok(()) }
    });
    let passed = exhaustive(&scenario).unwrap();
    assert!(passed.lints.is_empty(), "{passed}");
}
