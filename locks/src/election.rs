//! An election: one of several processes is the leader, and each leadership has a higher term.
//!
//! It is a fenced [`Mutex`](crate::Mutex) that says who holds it. The term of a leadership is the
//! fencing token of its grant. A further key has the leader: its candidate, its term, and the token
//! of its grant.
//!
//! 1. Campaign, the script of the mutex with one more step: if it grants, write the leader, with a
//!    time to live of one lease.
//! 2. Renew, one script: if the key of the mutex holds our token, both keys live for one lease
//!    again. Otherwise the leadership is lost, whoever leads now.
//! 3. Resign, the script of the mutex: delete its key if it holds our token, and wake the first
//!    candidate.
//! 4. Look, one script: if the key of the mutex holds the token of the leader that was written
//!    last, that one leads. Otherwise nobody does.
//!
//! A token belongs to one leadership, and not to a process. So a process that starts again, or has
//! lost its leadership, never finds itself the leader. It campaigns, and gets a new term.
//!
//! Each renewal keeps the last term for a day more. Otherwise it could be gone when a leadership of
//! several days ends.
//!
//! The documentation of [`Election`] names the sources.

use std::ops::Deref;
use std::time::Duration;

use crate::connection::Connection;
use crate::error::Error;
use crate::lease::{Builder, Details, Guard, Kind, Lease, Protocol, Scripts};
use crate::lock::{Record, Release};
use crate::mutex;
use crate::name::Name;
use crate::row::{self, ClientSide};
use crate::script::{Script, lua_raise};
use crate::spec::{Ability, Algorithm, Open, Spec};

/// Most bytes of the name of a candidate. Every look returns it.
const CANDIDATE_MAX: usize = 1024;

/// `KEYS[5]` is the leader, and `ARGV[6]` is the candidate.
const CAMPAIGN: &str = mutex::acquire!(
    "\
redis.call('HSET', KEYS[5], 'token', token, 'candidate', ARGV[6], 'term', string.format('%.0f', fencing_token))
redis.call('PEXPIRE', KEYS[5], lease)
"
);

const RENEW: &str = concat!(
    "-- renew\n",
    lua_raise!(),
    "\
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
raise(KEYS[4], math.max(86400000, 2 * ARGV[2]))
redis.call('PEXPIRE', KEYS[5], ARGV[2])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"
);

static SCRIPTS: Scripts = Scripts {
    acquire: Script::new(CAMPAIGN),
    extend: Script::new(RENEW),
    release: Script::new(mutex::RELEASE),
};

/// `{candidate, term}`, or nil if nobody leads. After a resignation, the last leader is still there
/// for a while.
static LOOK: Script = Script::new(
    "\
-- look
local holder = redis.call('GET', KEYS[1])
local leader = redis.call('HMGET', KEYS[5], 'token', 'candidate', 'term')
if holder and holder == leader[1] then
  return {leader[2], tonumber(leader[3])}
end
return nil",
);

const KIND: Kind<Election> = Kind {
    protocol: |names: &[Name], _| {
        let further_keys = ["fence", "leader"].map(|part| names[0].side_key(part));
        Protocol::with_queue(&SCRIPTS, &names[0], further_keys, Vec::new())
    },
    new: |lease, _| Election(lease),
};

/// An election of one leader at a time, with terms. Clones share it.
///
/// Each process campaigns with a text that says who it is, such as its address. A leadership lasts
/// until the leader resigns, or is lost. A task renews it, unless [`Builder::renew`] says
/// otherwise.
///
/// A process that stalls for longer than its lease may still believe that it leads, while the next
/// leader does. So followers and resources remember the highest [`Leadership::term`] that they have
/// seen, and refuse requests with a smaller one.
///
/// ```
/// use std::time::Duration;
/// use locks::{Connection, Election, Leader, Release};
///
/// # async fn example(connection: Connection) -> Result<(), locks::Error> {
/// let election = Election::builder(connection, "scheduler").lease(Duration::from_secs(10)).build()?;
/// let first = election.campaign("10.0.0.7:8080").await?;
/// // It leads. `first.lost()` resolves if the leadership is lost meanwhile.
/// assert!(election.try_campaign("10.0.0.8:8080").await?.is_none());
/// let leader = Leader { candidate: "10.0.0.7:8080".into(), term: first.term() };
/// assert_eq!(election.leader().await?, Some(leader));
///
/// let term = first.term();
/// assert_eq!(first.resign().await?, Release::Released);
/// assert_eq!(election.leader().await?, None);
/// let second = election.campaign("10.0.0.8:8080").await?;
/// assert!(second.term() > term);
/// # Ok(()) }
/// # let server = emulator::Emulator::new();
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(example(Connection::new(server.connection()))).unwrap();
/// ```
///
/// # Beside a fenced mutex
///
/// An election is a [`Mutex`](crate::Mutex) that is made with `fenced`, with the same keys and one
/// more: `{NAME}:leader`. An election and such a mutex of one name exclude each other, and their
/// terms and tokens are one sequence. If a mutex has the name, nobody leads.
///
/// # Sources
///
/// The lease is the pattern of [`SET key value NX PX`][set]. The methods are those of an election
/// in [etcd]. The word *term* is that of Diego Ongaro and John Ousterhout, "In Search of an
/// Understandable Consensus Algorithm" (2014). Their terms rise by one, and these by more.
///
/// Two reports say how such elections break:
///
/// - A process leads if the key exists, and renews it without a look at its value. So it renews the
///   leadership of another process, and both lead: [n8n-io/n8n#7964][presence].
/// - The value is the name of the process. So a process that starts again finds its former
///   leadership, and leads without having been elected: [n8n-io/n8n#27126][name].
///
/// Here, the value is a token of one leadership. Each renewal and resignation needs it.
///
/// [set]: https://redis.io/docs/latest/commands/set/#patterns
/// [etcd]: https://pkg.go.dev/go.etcd.io/etcd/client/v3/concurrency#Election
/// [presence]: https://github.com/n8n-io/n8n/pull/7964
/// [name]: https://github.com/n8n-io/n8n/pull/27126
#[derive(Clone, Debug)]
pub struct Election(Lease);

/// The leadership of one candidate in one term, until it resigns, drops this, or loses it.
///
/// It has the methods of its [`Guard`], such as [`Guard::lost`], [`Guard::is_lost`] and
/// [`Guard::extend`]. None of them takes a lost leadership back: a candidate has to campaign anew.
///
/// If it is dropped, a task resigns, as that of a dropped [`Guard`] releases its lock.
#[derive(Debug)]
#[must_use = "a leader resigns as soon as its leadership is dropped"]
pub struct Leadership(Guard);

/// Who leads, as the server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The text with which the leader has campaigned.
    pub candidate: String,
    /// Its [`Leadership::term`].
    pub term: i64,
}

impl Election {
    /// The settings of the election with this name. All candidates use the same ones.
    pub fn builder(connection: Connection, name: &str) -> Builder<Election> {
        Builder::on_one(connection, name, Details::default(), KIND).renew(true)
    }

    /// Waits until nobody leads, and leads. If the future is dropped, the candidate no longer
    /// waits, and does not lead.
    ///
    /// `candidate` is what [`Election::leader`] shows: from 1 to 1024 bytes. Candidates need not
    /// have different ones.
    ///
    /// # Errors
    /// [`Error::TimedOut`]: there was another leader for as long as [`Builder::wait`] says.
    /// [`Error::TooLate`]: the server was too slow for the lease. [`Error::Server`]: a server did
    /// not do what it was asked, and whether the candidate was elected is not known.
    /// [`Error::Invalid`]: the candidate is empty, or too long.
    pub async fn campaign(&self, candidate: &str) -> Result<Leadership, Error> {
        let more = [self.checked(candidate)?];
        self.0.acquire(&more).await.map(Leadership)
    }

    /// Waits up to `timeout` until nobody leads, and leads.
    ///
    /// # Errors
    /// Those of [`Election::campaign`].
    pub async fn campaign_timeout(&self, timeout: Duration, candidate: &str) -> Result<Leadership, Error> {
        let more = [self.checked(candidate)?];
        self.0.acquire_timeout(timeout, &more).await.map(Leadership)
    }

    /// Leads if nobody does. `None` if there is a leader, or if the election is fair and candidates
    /// wait.
    ///
    /// # Errors
    /// Those of [`Election::campaign`], without the first.
    pub async fn try_campaign(&self, candidate: &str) -> Result<Option<Leadership>, Error> {
        let more = [self.checked(candidate)?];
        Ok(self.0.try_acquire(&more).await?.map(Leadership))
    }

    /// Who leads; `None` if nobody does. A client that never campaigns may ask, too.
    ///
    /// When the reply arrives, another one may lead. A leader whose term is smaller than one that
    /// was seen before no longer leads.
    ///
    /// # Errors
    /// [`Error::Server`]: a server did not do what it was asked.
    pub async fn leader(&self) -> Result<Option<Leader>, Error> {
        let found: Option<(String, i64)> = self.0.look(&LOOK).await?;
        Ok(found.map(|(candidate, term)| Leader { candidate, term }))
    }

    fn checked<'a>(&self, candidate: &'a str) -> Result<&'a [u8], Error> {
        match candidate.len() {
            0 => Err(self.0.invalid("the candidate is empty")),
            len if len > CANDIDATE_MAX => {
                Err(self.0.invalid(format!("a candidate has at most {CANDIDATE_MAX} bytes, and not {len}")))
            }
            _ => Ok(candidate.as_bytes()),
        }
    }
}

impl Leadership {
    /// A number that is greater than that of every earlier leadership of this election. It is the
    /// time of the server in microseconds, or one more than the last term, if that is greater.
    ///
    /// The server keeps the last term for a day. As long as its clock does not go back, terms rise
    /// even if it loses that.
    pub fn term(&self) -> i64 {
        self.0.fencing_token().expect("every election is fenced")
    }

    /// Ends the leadership, and says what the server had. It never ends that of another. The
    /// renewal ends before, and the first candidate that waits is woken.
    ///
    /// If the future is dropped before it returns, the leader resigns as if the leadership had been
    /// dropped.
    ///
    /// # Errors
    /// [`Error::Server`]: the server did not reply. A task tries once more, and otherwise the lease
    /// ends the leadership.
    pub async fn resign(self) -> Result<Release, Error> {
        self.0.release().await
    }
}

/// All methods of the grant, but those that end it.
impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.0
    }
}

/// The row of the registry. A candidate tries once, and a task renews its leadership.
pub const ALGORITHM: Algorithm = Algorithm {
    name: "election",
    spec: &Spec {
        abilities: &[Ability::Fences, Ability::Renews],
        guarantees: "one leader at a time, until it resigns or its lease ends, with a term that is greater than all before",
        objection: "a leader that outlives its lease does not know it: only a resource that checks terms keeps it out",
        ..mutex::SPEC
    },
    scripts: &[CAMPAIGN, RENEW, mutex::RELEASE],
    open: Open::One(|connection, env, terms| {
        let election = Election::builder(connection, &terms.key).of(env, terms);
        row::open(terms, election, |Election(lease)| {
            Box::new(ClientSide::new(lease, &[b"candidate"], Record::Value))
        })
    }),
};
