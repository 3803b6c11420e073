//! The memory of explorations whose clients send large values.

use harness::Scenario;
use harness::oracle::Success;

use super::{Folder, JOBS_VARIABLE};

/// Two clients write a value of many bytes, and read it.
pub(super) fn writing(name: &str) -> Scenario {
    const VALUE_BYTES: usize = 32 << 20;
    Scenario::new(name).always(Success).actors(2, |client| async move {
        let mut connection = client.connection();
        () = redis::Cmd::set("value", vec![b'v'; VALUE_BYTES]).query_async(&mut connection).await?;
        let value: Vec<u8> = redis::Cmd::get("value").query_async(&mut connection).await?;
        assert_eq!(value.len(), VALUE_BYTES);
        Ok(())
    })
}

/// Nothing is remembered of values so large, so the memory does not grow with the schedules.
#[test]
fn a_large_value_takes_a_few_times_its_memory() {
    let folder = Folder::new("large");
    let shard = folder.run("large", &[(JOBS_VARIABLE, "1"), ("RUST_TEST_NOCAPTURE", "1")]);
    assert!(shard.has_passed, "{}", shard.said);
    let Some((_, peak)) = shard.said.split_once("VmHWM:") else { return };
    let peak_kb: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    println!("{peak_kb} kB");
    assert!(peak_kb < 1_000_000, "{peak_kb} kB");
}
