//! *Stale fill.* A reader misses the cache, reads the database, and fills the cache. If a writer
//! changes the database and clears the cache in between, the old value stays in the cache
//! (dust-tt/dust#31576).
//!
//! Repair: a writer raises a generation, and a fill is refused if the generation is another one
//! now.

use harness::{Client, Scenario, exhaustive, from_fn};
use redis::{AsyncCommands as _, RedisResult, Script};

use super::{Code, finds, passes};

const CACHE: &str = "{user:7}";
const GENERATION: &str = "{user:7}:generation";

const FILL: &str = "--fill
if (redis.call('GET', KEYS[2]) or '0') ~= ARGV[2] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 60)
return 1";

const CLEAR: &str = "--clear
redis.call('DEL', KEYS[1])
return redis.call('INCR', KEYS[2])";

/// Reads through the cache. The second server stands for the database.
async fn read(client: Client, code: Code) -> RedisResult<String> {
    let (mut cache, mut database) = (client.connection(), client.connection_to(1));
    let (known, generation): (Option<String>, Option<String>) = cache.mget(&[CACHE, GENERATION]).await?;
    if let Some(known) = known {
        return Ok(known);
    }
    let fresh: String = database.get("user 7").await?;
    match code {
        Code::Reported => () = cache.set_ex(CACHE, &fresh, 60).await?,
        Code::Repaired => {
            let fill = Script::new(FILL);
            let mut fill = fill.key(&[CACHE, GENERATION]);
            () = fill.arg(&fresh).arg(generation.unwrap_or("0".into())).invoke_async(&mut cache).await?;
        }
    }
    Ok(fresh)
}

async fn write(client: Client, code: Code) -> RedisResult<()> {
    let (mut cache, mut database) = (client.connection(), client.connection_to(1));
    () = database.set("user 7", format!("by {}", client.name())).await?;
    match code {
        Code::Reported => cache.del(CACHE).await,
        Code::Repaired => Script::new(CLEAR).key(&[CACHE, GENERATION]).invoke_async(&mut cache).await,
    }
}

fn cache(readers: usize, writers: usize, code: Code) -> Scenario {
    Scenario::new("read-through cache")
        .servers(2)
        .script(&Script::new(FILL))
        .script(&Script::new(CLEAR))
        .before(|client| async move { Ok(client.connection_to(1).set("user 7", "as before").await?) })
        .actors(readers, from_fn(move |client| async move { read(client, code).await.map(drop) }))
        .actors(writers, from_fn(move |client| write(client, code)))
        .finally("the cache has what the database has", move |client, _| async move {
            let seen = read(client.clone(), code).await?;
            let stored: String = client.connection_to(1).get("user 7").await?;
            if seen == stored {
                Ok(())
            } else {
                Err(format!("a reader sees {seen:?}, and the database has {stored:?}").into())
            }
        })
}

#[test]
fn an_old_value_stays_in_the_cache() {
    let words = r#"a reader sees "as before", and the database has "by B""#;
    finds(&cache(1, 1, Code::Reported), "the cache has what the database has", 5, words);
}

#[test]
fn no_fill_after_a_write() {
    passes(exhaustive(&cache(1, 1, Code::Repaired)));
    passes(exhaustive(&cache(2, 2, Code::Repaired).interchangeable()));
}
