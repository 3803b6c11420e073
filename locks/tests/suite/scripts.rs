//! Servers that do not know the scripts of the locks.

use std::time::Duration;

use emulator::{DirectConnection, Emulator};
use locks::{CountDownLatch, Decision, Mutex, RateLimiter, Release};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};

const MINUTE: Duration = Duration::from_secs(60);

/// The server forgets all scripts right before each command.
#[derive(Clone)]
struct Forgetful(DirectConnection);

impl ConnectionLike for Forgetful {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            self.0.req_packed_command(redis::cmd("SCRIPT").arg("FLUSH")).await?;
            self.0.req_packed_command(cmd).await
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(pipeline, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

fn forgetful(server: &Emulator) -> locks::Connection {
    locks::Connection::new(Forgetful(server.connection()))
}

#[tokio::test]
async fn a_server_that_forgets_scripts_at_any_time_runs_them() {
    let server = Emulator::new();
    let mutex = Mutex::builder(forgetful(&server), "report").build().unwrap();
    let guard = mutex.lock().await.unwrap();
    guard.extend().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Release::Released);
    let limiter =
        RateLimiter::builder(forgetful(&server), "mails").sliding_window(1, MINUTE).build().unwrap();
    assert!(matches!(limiter.try_acquire().await.unwrap(), Decision::Allowed { .. }));
    let latch = CountDownLatch::builder(forgetful(&server), "start").build().unwrap();
    assert!(latch.try_set_count(1).await.unwrap());
}
