//! The futures of what is no lock.

use harness::Client;
use locks::{Begin, CountDownLatch, Election, IdempotencyClaim, IdempotencyKeys, RateLimiter, Release};
use tokio::time::timeout;

use super::{Futures, LEASE, MOMENT, connection, renewed, unless_cancelled};
use crate::judged::note;

fn latch(client: &Client) -> CountDownLatch {
    CountDownLatch::builder(connection(client), "latch").env(client.env()).retry(LEASE).build().unwrap()
}

fn limiter(client: &Client) -> RateLimiter {
    let builder = RateLimiter::builder(connection(client), "rate").env(client.env());
    builder.sliding_window(2, LEASE).build().unwrap()
}

fn election(client: &Client) -> Election {
    renewed(Election::builder(connection(client), "office"), client)
}

fn keys(client: &Client) -> IdempotencyKeys {
    renewed(IdempotencyKeys::builder(connection(client), "payments"), client)
}

async fn claim(client: &Client) -> Result<Option<IdempotencyClaim>, locks::Error> {
    Ok(match keys(client).begin("7f3a").await? {
        Begin::Begun(claim) => Some(claim),
        Begin::InProgress | Begin::Done(_) => None,
    })
}

/// A limiter without a permit.
async fn used_up(client: &Client) -> Result<RateLimiter, locks::Error> {
    let limiter = limiter(client);
    while limiter.try_acquire().await?.is_allowed() {}
    Ok(limiter)
}

/// The count is three. The other client counts down once, and the call that is cancelled at most
/// once.
pub(super) const LATCH: Futures = Futures {
    before: act!(client => {
        let latch = latch(&client);
        assert!(latch.try_set_count(4).await?);
        assert_eq!(latch.count_down().await?, latch.count().await?);
        Ok(())
    }),
    cancelled: cancelled! {
        "CountDownLatch::try_set_count": client => latch(&client).try_set_count(1);
        "CountDownLatch::count_down": client => latch(&client).count_down();
        "CountDownLatch::count": client => latch(&client).count();
        "CountDownLatch::wait": client => async {
            timeout(LEASE, latch(&client).wait()).await.unwrap_or(Ok(()))
        };
        "CountDownLatch::wait_timeout": client => latch(&client).wait_timeout(MOMENT);
    },
    other: act!(client => {
        let left = latch(&client).count_down().await?;
        assert!((1..=2).contains(&left), "{left} are left");
        note(&client);
        Ok(())
    }),
    fresh: act!(client => Ok((1..=2).contains(&latch(&client).count().await?))),
    wanted: 1,
    servers: 1,
};

/// At the end, there must be as many permits as ever.
pub(super) const LIMITER: Futures = Futures {
    before: act!(client => {
        _ = limiter(&client).try_acquire_many(1).await?;
        _ = redis::cmd("DEL").arg("rate").query_async::<()>(&mut client.connection()).await;
        Ok(())
    }),
    cancelled: cancelled! {
        "RateLimiter::try_acquire": client => limiter(&client).try_acquire();
        "RateLimiter::try_acquire_many": client => limiter(&client).try_acquire_many(2);
        "RateLimiter::acquire": client => used_up(&client).await?.acquire();
        "RateLimiter::acquire_many": client => used_up(&client).await?.acquire_many(2);
        "RateLimiter::acquire_timeout": client => used_up(&client).await?.acquire_timeout(LEASE);
    },
    other: act!(client => {
        _ = limiter(&client).try_acquire().await?;
        note(&client);
        Ok(())
    }),
    fresh: act!(client => Ok(limiter(&client).try_acquire_many(2).await?.is_allowed())),
    wanted: 1,
    servers: 1,
};

pub(super) const ELECTION: Futures = Futures {
    before: act!(client => {
        let leadership = election(&client).try_campaign("before").await?.unwrap();
        leadership.extend().await?;
        _ = election(&client).leader().await?;
        leadership.resign().await?;
        Ok(())
    }),
    cancelled: &[
        (
            "Election::campaign",
            act!(client => {
                unless_cancelled(client.cancellable(async { election(&client).campaign("a").await }).await)
            }),
        ),
        (
            "Election::campaign_timeout",
            act!(client => {
                let campaign = async { election(&client).campaign_timeout(MOMENT, "a").await };
                unless_cancelled(client.cancellable(campaign).await)
            }),
        ),
        (
            "Election::try_campaign",
            act!(client => {
                unless_cancelled(client.cancellable(async { election(&client).try_campaign("a").await }).await)
            }),
        ),
        (
            "Election::leader",
            act!(client => {
                unless_cancelled(client.cancellable(async { election(&client).leader().await }).await)
            }),
        ),
        (
            "Leadership::resign",
            act!(client => {
                if let Some(leadership) = election(&client).try_campaign("a").await? {
                    _ = client.cancellable(leadership.resign()).await;
                }
                Ok(())
            }),
        ),
    ],
    other: act!(client => {
        if let Some(leadership) = election(&client).try_campaign("other").await? {
            leadership.extend().await?;
            assert_eq!(leadership.resign().await?, Release::Released);
        }
        note(&client);
        Ok(())
    }),
    fresh: act!(client => Ok(election(&client).try_campaign("fresh").await?.is_some())),
    wanted: 1,
    servers: 1,
};

/// At the end, the operation can be begun, or is done.
pub(super) const IDEMPOTENCY_KEYS: Futures = Futures {
    before: act!(client => {
        let begun = claim(&client).await?.unwrap();
        begun.extend().await?;
        begun.abandon().await?;
        let Begin::Begun(begun) = keys(&client).begin("before").await? else { unreachable!() };
        begun.complete("done").await?;
        _ = keys(&client).begin("before").await?;
        Ok(())
    }),
    cancelled: &[
        (
            "IdempotencyKeys::begin",
            act!(client => {
                unless_cancelled(client.cancellable(async { keys(&client).begin("7f3a").await }).await)
            }),
        ),
        (
            "IdempotencyClaim::complete",
            act!(client => {
                if let Some(claim) = claim(&client).await? {
                    _ = client.cancellable(claim.complete("done")).await;
                }
                Ok(())
            }),
        ),
        (
            "IdempotencyClaim::abandon",
            act!(client => {
                if let Some(claim) = claim(&client).await? {
                    _ = client.cancellable(claim.abandon()).await;
                }
                Ok(())
            }),
        ),
    ],
    other: act!(client => {
        if let Some(claim) = claim(&client).await? {
            claim.extend().await?;
            assert_eq!(claim.abandon().await?, Release::Released);
        }
        note(&client);
        Ok(())
    }),
    fresh: act!(client => Ok(!matches!(keys(&client).begin("7f3a").await?, Begin::InProgress))),
    wanted: 1,
    servers: 1,
};
