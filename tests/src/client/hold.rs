//! Holds, by which a client's code marks when it is inside a section. This file does not check
//! whether the client was really granted anything.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use locks::Record;

use super::Client;
use crate::interned::interned;
use crate::live::Act;
use crate::trace::HoldId;

/// A client that was granted a section, and what is known of the grant.
///
/// Oracles judge by these marks and nothing else:
///
/// | mark | use it |
/// | --- | --- |
/// | [`until`](Hold::until) | if the client does nothing inside but release |
/// | [`during`](Hold::during) | if the client sends commands inside, such as renewals and writes |
/// | [`enter`](Hold::enter) | if neither fits: the client is inside until the guard is dropped |
/// | [`since`](Hold::since) | if an attempt has several commands, so that the last is not the first |
/// | [`record`](Hold::record) | for [`OwnerSafe`](crate::oracle::OwnerSafe) |
/// | [`extend`](HoldGuard::extend) | after each renewal; for [`Unbroken`](crate::oracle::Unbroken), too |
///
/// The lease is [`Client::lease`]. It counts from when the client's last request was made, unless
/// [`since`](Hold::since) says otherwise.
#[must_use = "a client is inside only after `enter`, or while `during` or `until` is awaited"]
pub struct Hold<'a> {
    pub(super) client: &'a Client,
    pub(super) section: &'static str,
    pub(super) since: Option<Duration>,
    pub(super) record: Option<Record>,
}

impl Client {
    /// Marks that the client was granted `section` and is inside. To be called when the code knows
    /// of the grant. [`Hold`] says which mark is for what.
    pub fn hold(&self, section: impl AsRef<str>) -> Hold<'_> {
        Hold { client: self, section: interned(section.as_ref()), since: None, record: None }
    }
}

impl Hold<'_> {
    /// The lease counts from this time, and not from the client's last request. Use it for locks
    /// that take several commands, with [`Client::true_time`] or [`Client::now`] before the first
    /// of them.
    ///
    /// # Panics
    /// The time is in the future, and the client has not read it from its clock.
    #[track_caller]
    pub fn since(self, since: Duration) -> Self {
        Hold { since: Some(self.client.past(since)), ..self }
    }

    /// The place where the server keeps the grant. With it, the harness notices which client ends
    /// the grant.
    pub fn record(self, record: Record) -> Self {
        Hold { record: Some(record), ..self }
    }

    /// Stays inside until the first command of `release` runs, and returns the output of `release`.
    /// While that command waits at its gate, the client is inside: it stalls before its release.
    ///
    /// A renewal that is part of `release` is the first command, and ends the stay. It is then not
    /// tested what happens inside after it: use [`during`](Hold::during) or [`enter`](Hold::enter).
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        self.enter().until(release).await
    }

    /// Stays inside while `work` runs, and returns its output. Use it for sections in which
    /// commands are sent.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        let _guard = self.enter();
        work.await
    }

    /// Is inside from now on, until the guard is dropped.
    pub fn enter(self) -> HoldGuard {
        let Hold { client, section, since, record } = self;
        let id = client.0.enter(section, since, record);
        HoldGuard { client: client.clone(), id }
    }
}

/// A client inside a section. If it is dropped, the client has left.
#[must_use = "the client leaves the section when the guard is dropped"]
pub struct HoldGuard {
    client: Client,
    id: HoldId,
}

impl HoldGuard {
    /// The client was granted the section once more while it is inside, for example by a renewal.
    /// Its lease counts from `since` now, which is [`Client::true_time`] or [`Client::now`] before
    /// the renewal began.
    ///
    /// # Panics
    /// `since` is in the future, and the client has not read it from its clock.
    #[track_caller]
    pub fn extend(&self, since: Duration, record: Record) {
        let since = self.client.past(since);
        self.client.0.note(Act::Extend { hold: self.id, since, record });
    }

    /// Stays inside until the first command of `release` runs, as [`Hold::until`] does.
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        let HoldGuard { client, id } = &self;
        let mut release = pin!(release);
        client.0.set_release_to_come(Some(*id));
        // Only a request of the release itself ends the hold. The client may do other things
        // meanwhile.
        let released = poll_fn(|cx| client.0.releasing(Some(*id), || release.as_mut().poll(cx)));
        let released = released.await;
        client.0.set_release_to_come(None);
        released
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.client.0.note(Act::Leave { hold: self.id });
    }
}
