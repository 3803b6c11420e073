//! The oracles for queues, limiters and caches: each on code that breaks it, and on code that does
//! not.

use std::time::Duration;

use harness::oracle::{AtLeastOnce, AtMostOnce, ExactlyOnce, Rate, Recovers};
use harness::{Client, Faults, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult};

use super::the_end::violated;

const SECOND: Duration = Duration::from_secs(1);

/// A queue with one job.
fn queue(name: &str) -> Scenario {
    Scenario::new(name)
        .before(|client| async move { Ok(client.connection().lpush("jobs", "1").await?) })
        .lease(5 * SECOND)
}

/// Takes a job and runs it.
async fn pops(client: Client) -> RedisResult<()> {
    if let Some(job) = client.connection().rpop::<_, Option<String>>("jobs", None).await? {
        client.connection().set::<_, _, ()>("running", &job).await?;
        client.did(format!("job {job}"));
    }
    Ok(())
}

/// Reads a job and runs it, and removes it after that.
async fn reads_first(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    if let Some(job) = link.lindex::<_, Option<String>>("jobs", -1).await? {
        client.did(format!("job {job}"));
        () = link.lrem("jobs", 1, job).await?;
    }
    Ok(())
}

#[test]
fn a_job_is_run_twice() {
    let broken = queue("reads first").actors(2, from_fn(reads_first)).always(AtMostOnce::of("job 1"));
    let report = exhaustive(&broken).unwrap_err();
    let (what, _, schedule) = violated(&report);
    assert_eq!(what, "A has done «job 1», and B does it once more");
    assert_eq!(schedule.steps.len(), 2, "{report}");
    assert!(report.to_string().contains("A does «job 1»."), "{report}");
    assert!(!report.to_string().contains("its grant"), "{report}");
    exhaustive(&queue("pops").actors(2, from_fn(pops)).always(AtMostOnce::of("job 1"))).unwrap();
}

#[test]
fn a_job_is_lost_with_its_worker() {
    let crashes = Faults::none().crashes(1);
    let lost = queue("pops").actors(2, from_fn(pops)).faults(crashes).always(AtLeastOnce::of("job 1"));
    let report = exhaustive(&lost).unwrap_err();
    assert_eq!(violated(&report).0, "no client runs any more, and nobody has done «job 1»");
    // Nobody takes it off the queue before it is done.
    let kept = queue("reads first").actors(2, from_fn(reads_first)).faults(crashes);
    exhaustive(&kept.always(AtLeastOnce::of("job 1"))).unwrap();
    let once = |scenario: Scenario| scenario.always(ExactlyOnce::of("job 1"));
    let popped = once(queue("pops").actors(2, from_fn(pops)));
    exhaustive(&popped).unwrap();
    let report = exhaustive(&popped.faults(crashes)).unwrap_err();
    assert_eq!(violated(&report).0, "no client runs any more, and nobody has done «job 1»");
    let report = exhaustive(&once(queue("reads first").actors(2, from_fn(reads_first)))).unwrap_err();
    assert_eq!(violated(&report).0, "A has done «job 1», and B does it once more");
}

/// A reaper gives the jobs of workers that are gone to others.
#[test]
fn a_reaper_runs_what_a_worker_left() {
    let works = |client: Client| async move {
        let mut link = client.connection();
        let job: Option<String> =
            redis::cmd("LMOVE").arg(&["jobs", "working", "RIGHT", "LEFT"]).query_async(&mut link).await?;
        if let Some(job) = job {
            () = link.set_ex("alive", 1, 1).await?;
            client.did(format!("job {job}"));
            () = link.lrem("working", 1, job).await?;
        }
        Ok(())
    };
    let reaps = |client: Client| async move {
        let mut link = client.connection();
        loop {
            tokio::time::sleep(2 * SECOND).await;
            if !link.exists("alive").await?
                && let Some(job) = link.rpop::<_, Option<String>>("working", None).await?
            {
                client.did(format!("job {job}"));
            }
        }
    };
    let queue = queue("reaper").actors(1, works).services(1, reaps).faults(Faults::none().crashes(1));
    exhaustive(&queue.clone().always(AtLeastOnce::of("job 1"))).unwrap_or_else(|report| panic!("{report}"));
    // It did the job, and crashed before it took it off the list.
    let report = exhaustive(&queue.always(AtMostOnce::of("job 1"))).unwrap_err();
    assert_eq!(violated(&report).0, "A has done «job 1», and B does it once more");
}

/// Lets two requests through in each second, by a counter for each.
async fn limits(client: Client) -> RedisResult<()> {
    let mut link = client.connection();
    for _ in 0..2 {
        let (seconds, _): (u64, u64) = redis::cmd("TIME").query_async(&mut link).await?;
        let key = format!("second {seconds}");
        let (count,): (u64,) =
            redis::pipe().atomic().incr(&key, 1).expire(&key, 2).ignore().query_async(&mut link).await?;
        if count <= 1 {
            client.did("request");
        }
        tokio::time::sleep(Duration::from_millis(600)).await;
    }
    Ok(())
}

#[test]
fn a_fixed_window_lets_twice_as_many_through_at_its_edge() {
    let limiter = || Scenario::new("fixed window").actors(1, from_fn(limits));
    exhaustive(&limiter().always(Rate::of("request", 1, SECOND).fixed()))
        .unwrap_or_else(|report| panic!("{report}"));
    let report = exhaustive(&limiter().always(Rate::of("request", 1, SECOND))).unwrap_err();
    assert_eq!(
        violated(&report).0,
        "«request» is done 2 times in a window of 1000 ms by the server's clock, where 1 is the limit"
    );
}

/// A reply that comes late does not bring two requests closer to each other.
#[test]
fn the_server_decides_when_a_request_is_let_through() {
    let limits = |client: Client| async move {
        let mut link = client.connection();
        let set = redis::cmd("SET").arg(&["gate", "1", "NX", "PX", "1000"]).to_owned();
        if set.query_async::<bool>(&mut link).await? {
            client.did("request");
        }
        Ok(())
    };
    let limiter = Scenario::new("gate").actors(2, limits).faults(Faults::none().stalls(2)).lease(SECOND);
    exhaustive(&limiter.always(Rate::of("request", 1, SECOND))).unwrap_or_else(|report| panic!("{report}"));
}

/// A client fills a cache, and marks with a placeholder that it does: `RecoversWithin`.
#[test]
fn a_placeholder_outlives_a_cancelled_fill() {
    let fills = |client: Client| async move {
        let fill = async {
            let mut link = client.connection();
            let set = redis::cmd("SET").arg(&["page", "filling", "NX", "EX", "60"]).to_owned();
            if set.query_async::<bool>(&mut link).await? {
                () = link.set("page", "text").await?;
            }
            RedisResult::Ok(())
        };
        client.cancellable(fill).await.transpose()?;
        Ok(())
    };
    let cache = || {
        Scenario::new("cache").actors(1, fills).faults(Faults::none().cancels(1)).probe(
            1,
            |client| async move {
                Ok(client.connection().get::<_, Option<String>>("page").await?.as_deref() != Some("filling"))
            },
        )
    };
    let report = exhaustive(&cache().always(Recovers::within(5 * SECOND))).unwrap_err();
    assert_eq!(violated(&report).0, "5000 ms after the end, only 0 of 1 fresh clients succeed");
    assert!(report.to_string().contains("No client runs any more, and 5000 ms have passed."), "{report}");
    exhaustive(&cache().always(Recovers::within(61 * SECOND))).unwrap();
}

#[test]
fn stock_is_free_or_sold() {
    let shop = |is_atomic: bool| {
        Scenario::new("shop")
            .before(|client| async move { Ok(client.connection().set("free", 2).await?) })
            .actors(2, move |client: Client| async move {
                let mut link = client.connection();
                if is_atomic {
                    let mut sale = redis::pipe();
                    sale.atomic().decr("free", 1).rpush("sold", client.name()).exec_async(&mut link).await?;
                } else {
                    () = link.decr("free", 1).await?;
                    () = link.rpush("sold", client.name()).await?;
                }
                Ok(())
            })
            .conserved("nothing is lost", ["free", "sold"], 2)
    };
    exhaustive(&shop(true)).unwrap();
    let report = exhaustive(&shop(false)).unwrap_err();
    assert_eq!(violated(&report).0, "free has 1 and sold has 0: together that is not 2");
}
