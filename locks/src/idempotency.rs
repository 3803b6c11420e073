//! Idempotency keys: an operation runs once per key, and its result is remembered.
//!
//! The record of a key is a hash. While the operation runs, it has the token of the claim. When the
//! operation is done, it has the result, and the token of the claim that kept it.
//!
//! 1. Begin, one script: if there is no record, write our token with a time to live of one lease.
//!    The claim is ours. Otherwise read the record: it says that the operation runs, or has its
//!    result.
//! 2. Renew, one script: if the record has our token, its time to live is one lease again.
//! 3. Complete, one script: if the record has our token, write the result in its place, with a time
//!    to live of the retention. Otherwise the claim is lost, and nothing is written.
//! 4. Abandon, the same script without a result: delete the record if it has our token.
//!
//! If a completion is sent again because its reply was lost, it finds its token beside the result.
//! So it is no loss.
//!
//! A completion needs the record of its claim, also if nobody has begun the operation since. So
//! each success means that no other claim was granted between the beginning and the completion.
//!
//! It assumes one server that keeps its data. If the server loses a record, the operation may run
//! again.
//!
//! The documentation of [`IdempotencyKeys`] names the sources.

use std::ops::Deref;
use std::time::Duration;

use redis::RedisResult;

use crate::connection::Connection;
use crate::error::{Error, Operation};
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts};
use crate::lock::Release;
use crate::request::millis;
use crate::script::{SPAN_MAX, Script};
use crate::spec::{Algorithm, AlgorithmKind, FaultClass, Open, Property, Spec};
use crate::task::{Side, Task, Work, nothing};

const BEGIN: &str = "\
-- begin
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], 'token') ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, 0}";

const RENEW: &str = "\
-- renew
if redis.call('HGET', KEYS[1], 'token') == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0";

/// `ARGV[5]` is the retention. `ARGV[6]` is the result, if the operation is done.
const END: &str = "\
-- end
local token, result = ARGV[1], ARGV[6]
if redis.call('HGET', KEYS[1], 'token') == token then
  if not result then
    return redis.call('DEL', KEYS[1])
  end
  redis.call('HSET', KEYS[1], 'result', result, 'by', token)
  redis.call('HDEL', KEYS[1], 'token')
  return redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return result and redis.call('HGET', KEYS[1], 'by') == token and 1 or 0";

static SCRIPTS: Scripts =
    Scripts { acquire: Script::new(BEGIN), extend: Script::new(RENEW), release: Script::new(END) };

/// Whether there is a record, and its result if the operation is done.
const LOOK: &str = "\
-- look
return {redis.call('EXISTS', KEYS[1]), redis.call('HGET', KEYS[1], 'result')}";

static LOOK_SCRIPT: Script = Script::new(LOOK);

const KIND: Kind<IdempotencyKeys> = Kind {
    protocol: |names, details| Protocol {
        scripts: &SCRIPTS,
        keys: vec![names[0].key.clone()],
        channels: Vec::new(),
        has_queue: false,
        more: vec![millis(details.retention).to_string().into_bytes()],
    },
    new: |lease, _| IdempotencyKeys(lease),
};

/// The idempotency keys of one kind of operation, such as a payment. Clones share them.
///
/// A caller that may send a request twice gives both the same key. The operation of a key is begun
/// by one of them. The others learn that it runs, or get its result.
///
/// ```
/// use std::time::Duration;
/// use locks::{Begin, Connection, IdempotencyKeys};
///
/// # async fn charge() -> Vec<u8> { b"201 Created".to_vec() }
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let payments = IdempotencyKeys::builder(connection, "payments")
///     .retention(Duration::from_secs(24 * 60 * 60))
///     .build()?;
/// for _request in 0..2 {
///     let reply = match payments.begin("8e03978e-40d5-43dd-bc93").await? {
///         Begin::Begun(claim) => {
///             let reply = charge().await;
///             claim.complete(&reply).await?;
///             reply
///         }
///         Begin::InProgress => b"409 Conflict".to_vec(),
///         Begin::Done(reply) => reply,
///     };
///     assert_eq!(reply, b"201 Created");
/// }
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
///
/// # At most once, and what a crash changes
///
/// An operation that is completed runs once per key, for as long as its result is kept. It may run
/// again in each of these cases:
///
/// - Its caller crashes. The claim ends with its lease, and then another caller may begin. Nobody
///   knows how far the first one came: with a crash, an operation runs *at least* once.
/// - Its caller stalls for longer than the lease. Another may begin meanwhile, and both run. The
///   late one is told so by [`IdempotencyClaim::complete`], and its result is not kept.
/// - Its claim is abandoned or dropped before it is completed.
/// - The retention is over, or the server loses its data.
///
/// If an operation must not run again even then, write its key and its effect in one transaction
/// of the resource.
///
/// The key alone decides. If a key comes with another request, the caller has to notice: keep a
/// digest of the request in the result. The IETF draft calls it a fingerprint.
///
/// # Settings
///
/// A claim lasts for 30 seconds and is renewed, unless [`Builder::lease`] and [`Builder::renew`]
/// say otherwise. [`Builder::wait`] and [`Builder::retry`] do nothing, because nobody waits. The
/// record of the key `KEY` is at `NAME:KEY`.
///
/// # Sources
///
/// J. Jena and S. Dalal, [The Idempotency-Key HTTP Header Field][draft] (IETF draft), and the
/// [idempotent requests][stripe] of Stripe.
///
/// A report says how such a guard breaks: it read the record, and then wrote its own claim over any
/// other. So two requests with one key both ran: [idempot-dev/idempot-js#182][claim]. Here, one
/// script does both.
///
/// [draft]: https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
/// [stripe]: https://docs.stripe.com/api/idempotent_requests
/// [claim]: https://github.com/idempot-dev/idempot-js/issues/182
#[derive(Clone, Debug)]
pub struct IdempotencyKeys(Lease);

/// How an operation stands when it is begun.
#[derive(Debug)]
#[must_use = "an operation may run only if it has begun"]
pub enum Begin {
    /// The caller runs the operation, and then completes the claim or abandons it.
    Begun(IdempotencyClaim),
    /// Another caller runs it. A server of HTTP replies with 409 Conflict.
    InProgress,
    /// It is done, and this is its result.
    Done(Vec<u8>),
}

/// The claim of a caller to run an operation, until it is completed or abandoned, or lost.
///
/// It has the methods of its [`Guard`], such as [`Guard::lost`] and [`Guard::extend`]. If it is
/// dropped, a task abandons it, as that of a dropped [`Guard`] releases its lock.
#[derive(Debug)]
#[must_use = "a claim is abandoned as soon as it is dropped"]
pub struct IdempotencyClaim(Guard);

impl IdempotencyKeys {
    /// The settings of the keys with this name. All callers use the same ones.
    pub fn builder(connection: Connection, name: &str) -> Builder<IdempotencyKeys> {
        Builder::on_one(connection, name, Details::default(), KIND)
    }

    /// Begins the operation of this key, unless it runs or is done. It never waits.
    ///
    /// If the future is dropped, the operation is not begun: a task abandons what was granted.
    ///
    /// # Errors
    /// [`Error::Invalid`]: the key is empty. [`Error::TooLate`]: the server was too slow for the
    /// lease. [`Error::Server`]: a server did not do what it was asked. A task then abandons what
    /// may have been granted, and otherwise the lease ends it.
    pub async fn begin(&self, key: &str) -> Result<Begin, Error> {
        if key.is_empty() {
            return Err(self.0.invalid("the key is empty"));
        }
        let lease = self.0.below(key);
        loop {
            if let Some(guard) = lease.try_acquire(&[]).await? {
                return Ok(Begin::Begun(IdempotencyClaim(guard)));
            }
            match lease.look(&LOOK_SCRIPT).await? {
                (true, Some(result)) => return Ok(Begin::Done(result)),
                (true, None) => return Ok(Begin::InProgress),
                // The record has ended since: its claim was abandoned, or its time is over.
                (false, _) => {}
            }
        }
    }
}

impl Builder<IdempotencyKeys> {
    /// How long a result is kept: one day if this is not called. After that, the operation of its
    /// key can be begun again.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.details.retention = retention;
        self
    }
}

impl IdempotencyClaim {
    /// Keeps the result of the operation, which is any bytes up to the limit of the server for a
    /// value. From now on, [`IdempotencyKeys::begin`] returns it. The renewal ends before.
    ///
    /// If the future is dropped while it waits, or if the server does not reply, a task tries once
    /// more: the operation has run, so it must not be abandoned.
    ///
    /// # Errors
    /// [`Error::Lost`]: the claim had ended, and nothing is changed. Another caller may have begun
    /// the operation, and its result stands. [`Error::Server`]: whether the result is kept is not
    /// known.
    pub async fn complete(self, result: impl AsRef<[u8]>) -> Result<(), Error> {
        let lost = self.0.lost_error();
        match self.0.release_with(result.as_ref()).await {
            Ok(Release::Released | Release::Inner) => Ok(()),
            Ok(Release::NotHeld | Release::Unknown) => Err(lost),
            Err(Error::Server { lock, source, .. }) => {
                Err(Error::Server { lock, operation: Operation::Complete, source })
            }
            Err(error) => Err(error),
        }
    }

    /// Gives the claim up without a result, and says what the server had. Others may begin the
    /// operation at once.
    ///
    /// # Errors
    /// [`Error::Server`]: the server did not reply. A task tries once more, and otherwise the lease
    /// ends the claim.
    pub async fn abandon(self) -> Result<Release, Error> {
        self.0.release().await
    }
}

/// All methods of the grant, but those that end it.
impl Deref for IdempotencyClaim {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// The row of the registry.
pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "idempotency_keys",
    spec: &Spec {
        kind: AlgorithmKind::Once,
        abilities: &[],
        guarantees: "an operation runs once per key, and its result is kept",
        assumes: "that no caller crashes or outlives its lease, and a server that keeps its data",
        objection: "nobody knows how far a caller came that has crashed, so its operation runs once more",
        breaks: &[
            (Property::AtMostOnce, FaultClass::Crash),
            (Property::AtMostOnce, FaultClass::Slow),
            (Property::AtMostOnce, FaultClass::Server),
            (Property::AtMostOnce, FaultClass::Failover),
        ],
    },
    scripts: &[BEGIN, RENEW, END, LOOK],
    open: Open::Task(Task { prepare: nothing, run: |side, work| Box::pin(run(side, work)) }),
};

async fn run(Side { connection, env, terms }: Side, work: Work<'_>) -> RedisResult<bool> {
    let keys = IdempotencyKeys::builder(connection, &terms.key).retention(SPAN_MAX).of(env, &terms)?;
    let claim = match keys.begin(JOB).await {
        Ok(Begin::Begun(claim)) => claim,
        // What may have been granted is abandoned.
        Ok(Begin::InProgress | Begin::Done(_)) | Err(Error::TooLate { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    work.await?;
    match claim.complete("done").await {
        // The caller was late, and the result of another stands.
        Ok(()) | Err(Error::Lost { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// The key of the only operation of [`ALGORITHM`].
const JOB: &str = "1";
