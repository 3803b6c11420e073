//! Servers that were dropped leave no task, no thread and no open file, whatever their clients did.

use std::process::Command;
use std::time::Duration;

use emulator::{Clock, Emulator, Server};
use redis::cluster::ClusterClient;
use redis::sentinel::{SentinelClient, SentinelServerType};
use redis::{AsyncCommands as _, Commands as _, RedisResult};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bounds::DROPPED;
use crate::random_failovers::{connect, patient};

/// Set in the process that runs the test alone: other tests of a process open files, too.
const ALONE: &str = "LOCKSTEP_ALONE";
/// The path of the test, for that process.
const NAME: &str = "dropped::servers_leave_no_task_thread_or_file";
/// The most time until all tasks have noticed that their connections are closed.
const END_MAX: Duration = Duration::from_secs(30);

#[test]
fn servers_leave_no_task_thread_or_file() -> RedisResult<()> {
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe()?);
        let output = alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1").output()?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
        return Ok(());
    }
    let rounds = DROPPED.get();
    for runtime in [&mut Builder::new_current_thread(), Builder::new_multi_thread().worker_threads(2)] {
        let before = held_by_this_process()?;
        let runtime = runtime.enable_all().build()?;
        start_and_drop(&runtime, rounds / 2)?;
        drop(runtime);
        assert_eq!(held_by_this_process()?, before, "threads, files");
    }
    Ok(())
}

/// The number of threads and of open files.
fn held_by_this_process() -> std::io::Result<[usize; 2]> {
    let count = |folder| std::fs::read_dir(folder).map(Iterator::count);
    Ok([count("/proc/self/task")?, count("/proc/self/fd")?])
}

/// Starts and drops servers of all kinds in turn. Afterwards, no task of the runtime is left.
fn start_and_drop(runtime: &Runtime, rounds: u64) -> RedisResult<()> {
    runtime.block_on(async {
        for nth in 0..rounds {
            match nth % 5 {
                0 => alone().await?,
                1 => on_a_unix_socket(nth).await?,
                2 => on_its_own_thread()?,
                3 => cluster().await?,
                _ => with_sentinels().await?,
            }
        }
        let all_have_ended = async {
            while Handle::current().metrics().num_alive_tasks() > 0 {
                tokio::task::yield_now().await;
            }
        };
        let is_clean = tokio::time::timeout(END_MAX, all_have_ended).await.is_ok();
        assert!(is_clean, "{} tasks are left", Handle::current().metrics().num_alive_tasks());
        Ok(())
    })
}

/// A server whose clients wait when it is dropped: for a key, for a message and for a request.
async fn alone() -> RedisResult<()> {
    let emulator = Emulator::new();
    let server = emulator.listen("127.0.0.1:0").await?;
    let client = redis::Client::open(server.url())?;
    let _idle = client.get_multiplexed_async_connection_with_config(&patient()).await?;
    let mut waiting = client.get_multiplexed_async_connection_with_config(&patient()).await?;
    let blocked = tokio::spawn(async move { waiting.blpop::<_, ()>("none", 0.0).await });
    let mut subscriber = client.get_async_pubsub().await?;
    subscriber.subscribe("channel").await?;
    emulator.until_blocked(1).await;
    drop((server, emulator));
    assert!(blocked.await.expect("it does not panic").is_err(), "its server is gone");
    Ok(())
}

/// A server that is dropped between two requests of its client.
async fn on_a_unix_socket(nth: u64) -> RedisResult<()> {
    let path = std::env::temp_dir().join(format!("lockstep-dropped-{}-{nth}.sock", std::process::id()));
    let server = Emulator::new().listen_unix(&path, 0o600).await?;
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection_with_config(&patient()).await?;
    () = connection.set("k", "v").await?;
    drop(server);
    assert!(!path.exists());
    Ok(())
}

/// A server that listens on its own thread, and a replica that does not listen.
fn on_its_own_thread() -> RedisResult<()> {
    let emulator = Emulator::new();
    let replica = emulator.replica();
    let mut connection = emulator.client().get_connection()?;
    () = connection.set("k", "v")?;
    assert_eq!(replica.get("k").as_deref(), Some(&b"v"[..]));
    drop(emulator);
    assert!(connection.get::<_, Option<String>>("k").is_err(), "its server is gone");
    Ok(())
}

async fn cluster() -> RedisResult<()> {
    let servers = Emulator::cluster(&Clock::system(), 3, 1).expect("it is a cluster");
    let listening = listen(&servers).await?;
    let urls: Vec<String> = listening.iter().map(Server::url).collect();
    let mut client = ClusterClient::builder(urls)
        .connection_timeout(END_MAX)
        .response_timeout(END_MAX)
        .build()?
        .get_async_connection()
        .await?;
    () = client.set("b", 1).await?;
    () = redis::cmd("CLUSTER").arg("FAILOVER").query(&mut servers[3].connection())?;
    assert_eq!(client.incr::<_, _, i32>("b", 1).await?, 2);
    Ok(())
}

async fn with_sentinels() -> RedisResult<()> {
    let (primary, mut servers) = Emulator::replicated(Clock::system(), 2);
    let sentinels = primary.sentinels(3);
    servers.push(primary);
    let _listening = listen(&servers).await?;
    let watching = listen(&sentinels).await?;
    let urls: Vec<String> = watching.iter().map(Server::url).collect();
    let mut client = SentinelClient::build(urls, "mymaster".to_owned(), None, SentinelServerType::Master)?;
    for nth in 1..=2 {
        assert_eq!(connect(&mut client).await?.incr::<_, _, i32>("n", 1).await?, nth);
        () = redis::cmd("SENTINEL").arg(&["FAILOVER", "mymaster"]).query(&mut sentinels[0].connection())?;
    }
    Ok(())
}

async fn listen(emulators: &[Emulator]) -> RedisResult<Vec<Server>> {
    let mut listening = Vec::new();
    for emulator in emulators {
        listening.push(emulator.listen("127.0.0.1:0").await?);
    }
    Ok(listening)
}
