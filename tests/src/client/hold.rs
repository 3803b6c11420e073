use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use locks::Record;

use super::Client;
use crate::trace::HoldId;

/// A client inside a section.
#[must_use = "a client is inside only while `until` is awaited"]
pub struct Hold<'a> {
    pub(super) client: &'a Client,
    pub(super) section: &'static str,
    pub(super) since: Option<Duration>,
    pub(super) record: Option<Record>,
}

impl Hold<'_> {
    /// The lease counts from then, and not from when the client's last request was sent: for locks that take several commands.
    pub fn since(self, since: Duration) -> Self {
        Hold { since: Some(since), ..self }
    }

    /// Where the server keeps the grant, so that it is noticed who ends it.
    pub fn record(self, record: Record) -> Self {
        Hold { record: Some(record), ..self }
    }

    /// Stays inside until the first command of `release` runs, and gives what `release` gives. A command that waits at the gate
    /// has not been sent for all that anybody can tell, so a client that stalls inside is one whose release waits.
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        self.enter().until(release).await
    }

    /// Stays inside while `work` is done, and gives what it gives: for sections in which commands are sent.
    pub async fn during<F: Future>(self, work: F) -> F::Output {
        let _stay = self.enter();
        work.await
    }

    /// Is inside from now on: for sections in which there is more to tell.
    pub fn enter(self) -> HoldGuard {
        let Hold { client, section, since, record } = self;
        let id = client.sim.enter(client.actor, section, since, record);
        HoldGuard { client: client.clone(), id }
    }
}

/// A client's stay in a section. Dropped, it is over.
#[must_use = "a client is inside only while its stay is not dropped"]
pub struct HoldGuard {
    client: Client,
    id: HoldId,
}

impl HoldGuard {
    /// The client was granted the section once more, while it is inside: its lease counts from `since` now.
    pub fn extend(&self, since: Duration, record: Record) {
        self.client.sim.extend(self.id, since, record);
    }

    /// Stays inside until the first command of `release` runs, as [`Hold::until`] does.
    pub async fn until<F: Future>(self, release: F) -> F::Output {
        let HoldGuard { client, id } = &self;
        let mut release = pin!(release);
        client.sim.set_release_to_come(client.actor, Some(*id));
        // Only what the release itself sends ends the stay: the client may do other things besides.
        let released =
            poll_fn(|cx| client.sim.releasing(client.actor, Some(*id), || release.as_mut().poll(cx)));
        let released = released.await;
        client.sim.set_release_to_come(client.actor, None);
        released
    }
}

impl Drop for HoldGuard {
    fn drop(&mut self) {
        self.client.sim.leave(self.id);
    }
}
