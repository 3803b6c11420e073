//! The engine behind its lock.
//!
//! A thread may block on the lock. A task is notified instead, because a script may keep the engine
//! for as long as it runs.

use std::fmt;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::task::{Context, Poll};

use tokio::sync::futures::OwnedNotified;

use crate::busy::Busy;
use crate::client::Slot;
use crate::clock::{Clock, Timestamp};
use crate::cluster::Cluster;
use crate::command;
use crate::engine::{Departed, Engine, Job};
use crate::replication::{Address, Answer, Copy, Network, Node, Peer, Replica};

pub(crate) struct Shared {
    engine: Mutex<Box<Engine>>,
    /// A task waits for the engine. The holder notifies it when the engine is free.
    is_awaited: AtomicBool,
    busy: Arc<Busy<Job>>,
    departed: Arc<Departed>,
    /// The place among the servers that it reaches, if there are others.
    place: OnceLock<(Network, Node)>,
    /// Whether it is a Sentinel.
    is_sentinel: OnceLock<()>,
}

/// The most primaries in a chain that a replica asks for their data.
const HOPS_MAX: usize = 8;
/// How often a Sentinel looks at the other servers until it finds nothing new.
const LOOKS_MAX: usize = 4;
/// How often a server is tried that another thread has, before it counts as busy with a script.
/// Other threads run in between.
const LOCK_TRIES: usize = 1_000;

/// The exclusive right to the engine, until it is dropped. Only its holder can run commands.
pub(crate) struct Held<'a> {
    // Fields are dropped in this order, so a notified task finds the engine free.
    engine: MutexGuard<'a, Box<Engine>>,
    _release: Release<'a>,
}

struct Release<'a>(&'a Shared);

/// The state that a task keeps between two polls while it waits for the engine.
pub(crate) type Waiting = Option<Pin<Box<OwnedNotified>>>;

impl Shared {
    pub(crate) fn new(engine: Engine) -> Shared {
        let (busy, departed) = (engine.busy.clone(), engine.departed.clone());
        Shared {
            engine: Mutex::new(Box::new(engine)),
            is_awaited: AtomicBool::new(false),
            busy,
            departed,
            place: OnceLock::new(),
            is_sentinel: OnceLock::new(),
        }
    }

    /// Joins a network, as a replica of another server or as a primary.
    fn join(self: &Arc<Self>, network: &Network, primary: Option<Node>) -> Node {
        let peer: Weak<dyn Peer> = Arc::<Shared>::downgrade(self);
        let mut engine = self.lock();
        let node = network.join(primary, engine.clock().clone(), peer, engine.wake_up());
        engine.replication.place = Some((network.clone(), node));
        node
    }

    /// Makes another server, which is new, a replica of this one.
    pub(crate) fn take_replica(self: &Arc<Self>, replica: &Arc<Shared>) {
        let (network, node) = self.own_place();
        _ = replica.place.set((network.clone(), replica.join(network, Some(*node))));
        let (host, port) = network.address(*node);
        replica.engine().follow(host.into(), port);
        replica.engine();
    }

    fn own_place(self: &Arc<Self>) -> &(Network, Node) {
        self.place.get_or_init(|| {
            let network = Network::default();
            let node = self.join(&network, None);
            (network, node)
        })
    }

    /// Lets another server, which is new, reach this one.
    pub(crate) fn take_neighbour(self: &Arc<Self>, neighbour: &Arc<Shared>) {
        let (network, _) = self.own_place();
        _ = neighbour.place.set((network.clone(), neighbour.join(network, None)));
    }

    /// Whether it is this server, or one that it reaches.
    pub(crate) fn reaches(&self, other: &Shared) -> bool {
        let networks = (self.place.get(), other.place.get());
        std::ptr::eq(self, other)
            || matches!(networks, (Some((own, _)), Some((others, _))) if own.is_same(others))
    }

    /// Makes a server, which is new, a Sentinel of these primaries, each with a name and a quorum.
    /// They reach each other.
    pub(crate) fn watch(&self, primaries: &[(&str, &Arc<Shared>, u64)]) {
        let named = primaries.iter().filter_map(|(name, primary, quorum)| {
            let (network, node) = primary.place.get()?;
            Some((name.as_bytes().to_vec(), network.address(*node), *quorum))
        });
        self.lock().become_sentinel(named.collect());
        _ = self.is_sentinel.set(());
    }

    /// Makes a cluster of these servers, which are new: primaries first, and then the replicas of
    /// each.
    pub(crate) fn make_cluster(servers: &[Arc<Shared>], primaries: usize, replicas: usize) {
        let network = Network::default();
        for (own, server) in servers.iter().enumerate() {
            let cluster = Cluster::new(own, primaries, replicas);
            let node = server.join(&network, cluster.own_primary());
            _ = server.place.set((network.clone(), node));
            server.lock().cluster = Some(Box::new(cluster));
        }
        for server in servers {
            server.lock().settle_role();
        }
        // The links begin now.
        servers.iter().for_each(|server| drop(server.engine()));
    }

    /// Sets the address at which other servers and clients find this one.
    pub(crate) fn set_address(&self, address: &Address) {
        if let Some((network, node)) = self.place.get() {
            network.set_address(*node, address);
        }
    }

    /// Returns the engine. Blocks until it is free.
    pub(crate) fn engine(&self) -> Held<'_> {
        self.settle();
        let held = self.lock();
        let Some(address) = held.lacks_link_to() else { return held };
        // The lock of a server is not taken while that of another one is held.
        drop(held);
        let copy = self.copy_from(&address, HOPS_MAX);
        let mut held = self.lock();
        held.begin_link(&address, copy);
        held
    }

    /// Returns the engine, if it is free.
    pub(crate) fn try_engine(&self) -> Option<Held<'_>> {
        self.settle();
        self.try_engine_within(HOPS_MAX)
    }

    /// Lets the servers of the network do what they have been told, and notice what others have
    /// done. Nobody holds this engine.
    fn settle(&self) {
        let Some((network, _)) = self.place.get() else { return };
        for _ in 0..LOOKS_MAX {
            network.settle();
            if self.look_as_sentinel() != Some(true) {
                return;
            }
        }
    }

    /// Looks at the other servers, if this one is a Sentinel. Returns whether it has found anything
    /// new, or `None` if the server is not free.
    fn look_as_sentinel(&self) -> Option<bool> {
        let (Some((network, node)), Some(())) = (self.place.get(), self.is_sentinel.get()) else {
            return Some(false);
        };
        // It does first what it has been told. The lock of a server is not taken while that of
        // another one is held.
        drop(self.lock_soon()?);
        let addresses = network.addresses();
        let answers = network.others(*node).into_iter().map(|(address, peer)| {
            let answer = peer.map_or(Answer::Gone, |peer| peer.report());
            (address, answer)
        });
        let survey: Vec<_> = answers.collect();
        let mut held = self.lock_soon()?;
        // A server has begun to listen meanwhile, and answered by its former address.
        let is_stale = network.addresses() != addresses;
        Some(is_stale || held.look(&survey))
    }

    fn try_engine_within(&self, hops: usize) -> Option<Held<'_>> {
        let held = self.try_lock()?;
        let Some(address) = held.lacks_link_to().filter(|_| hops > 0) else { return Some(held) };
        drop(held);
        let copy = self.copy_from(&address, hops - 1);
        let mut held = self.try_lock()?;
        held.begin_link(&address, copy);
        Some(held)
    }

    /// A copy of the data of another server, if that is free: it may run a script for long.
    fn copy_from(&self, address: &Address, hops: usize) -> Option<Copy> {
        let (peer, replica) = self.reach(address)?;
        peer.copy_for(replica, hops)
    }

    /// The server at an address, and who this one is to it.
    fn reach(&self, address: &Address) -> Option<(Arc<dyn Peer>, Replica)> {
        let (network, node) = self.place.get()?;
        network.reach(*node, address)
    }

    fn lock(&self) -> Held<'_> {
        // A panic inside a command is a bug of the emulator. Later tests of the process still get
        // the engine, and report the bug themselves.
        self.held(self.engine.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn try_lock(&self) -> Option<Held<'_>> {
        match self.engine.try_lock() {
            Ok(engine) => Some(self.held(engine)),
            Err(TryLockError::Poisoned(poisoned)) => Some(self.held(poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Returns the engine, unless somebody has it for long: a script. A thread that only looks at
    /// it must not make a Sentinel take the server for busy.
    fn lock_soon(&self) -> Option<Held<'_>> {
        soon(|| self.try_lock())
    }

    /// Returns the engine when it is free.
    ///
    /// Until then, the task is woken whenever the engine may be free. It is also woken when a
    /// script has run so long that it runs jobs of other clients.
    ///
    /// No wake-up is lost. A task registers, sets `is_awaited`, and then tries once more. A holder
    /// releases the engine, and then reads `is_awaited`. The fences order the two sides: either the
    /// task finds the engine free, or the holder finds the flag set. In the second case it notifies
    /// a task that has registered.
    ///
    /// A holder that clears the flag wakes every task. A task that finds the engine held again sets
    /// the flag again.
    pub(crate) fn poll_engine(&self, waiting: &mut Waiting, cx: &mut Context<'_>) -> Poll<Held<'_>> {
        loop {
            if let Some(engine) = self.try_engine() {
                *waiting = None;
                return Poll::Ready(engine);
            }
            let changed = waiting.get_or_insert_with(|| self.busy.changed());
            if changed.as_mut().poll(cx).is_ready() {
                *waiting = None;
                continue;
            }
            self.is_awaited.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            return match self.try_engine() {
                Some(engine) => {
                    *waiting = None;
                    Poll::Ready(engine)
                }
                None => Poll::Pending,
            };
        }
    }

    /// The script that keeps the engine.
    pub(crate) fn busy(&self) -> &Busy<Job> {
        &self.busy
    }

    /// Calls `act` with the engine when it is free.
    pub(crate) async fn when_free<R>(&self, act: impl FnOnce(&mut Box<Engine>) -> R) -> R {
        let (mut act, mut waiting) = (Some(act), None);
        poll_fn(|cx| {
            self.poll_engine(&mut waiting, cx).map(|mut engine| act.take().map(|act| act(&mut engine)))
        })
        .await
        .expect("a future is not polled after it is ready")
    }

    /// Runs a job when the engine is free, or leaves it to a script that has run for long.
    pub(crate) async fn submit(&self, job: Job) {
        let (mut job, mut waiting) = (Some(job), None);
        poll_fn(|cx| {
            let Some(own) = job.take() else { return Poll::Ready(()) };
            match self.poll_engine(&mut waiting, cx) {
                Poll::Ready(mut engine) => own(&mut engine),
                Poll::Pending => match self.busy.submit(own) {
                    Ok(()) => {}
                    Err(own) => {
                        job = Some(own);
                        return Poll::Pending;
                    }
                },
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Closes a client whose connection has ended. Never blocks.
    ///
    /// If the engine is not free, the next holder closes the client before it does anything else. A
    /// script that runs jobs of other clients does so, too.
    pub(crate) fn close_client(&self, slot: Slot) {
        match self.try_engine() {
            Some(mut engine) => engine.close_client(slot),
            None => self.departed.push(slot),
        }
    }

    /// Runs everything that is due by the server's clock, for ever: keys expire, and blocked
    /// clients reach their timeouts.
    pub(crate) async fn drive(self: Arc<Self>) {
        let (_, moved) = self.when_free(|engine| Engine::next_wake_up(engine)).await;
        loop {
            let mut moved = pin!(moved.notified());
            moved.as_mut().enable();
            let (next_wake_up, patience, lacks_link_to) = self
                .when_free(|engine| {
                    let next_wake_up = engine.next_wake_up().0.map(|at| (engine.clock().clone(), at));
                    (next_wake_up, engine.first_patience(), engine.lacks_link_to())
                })
                .await;
            tokio::select! {
                () = self.link_to(lacks_link_to) => {}
                () = moved => {}
                () = until(next_wake_up) => {
                    self.when_free(Engine::tick).await;
                    // If more is due, clients get their turn before.
                    tokio::task::yield_now().await;
                }
                () = until(patience) => self.when_free(Engine::tick).await,
            }
        }
    }

    /// Begins the link to a primary, or waits for ever if it cannot be reached.
    async fn link_to(&self, address: Option<Address>) {
        if let Some(address) = address
            && let Some((peer, replica)) = self.reach(&address)
            && let Some(copy) = peer.copy_when_free(replica).await
        {
            self.when_free(|engine| engine.begin_link(&address, Some(copy))).await;
        } else {
            std::future::pending::<()>().await;
        }
    }

    fn held<'a>(&'a self, engine: MutexGuard<'a, Box<Engine>>) -> Held<'a> {
        let mut held = Held { engine, _release: Release(self) };
        held.close_departed();
        command::catch_up(&mut held);
        held
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Peer for Shared {
    fn copy_for(&self, replica: Replica, hops: usize) -> Option<Copy> {
        soon(|| self.try_engine_within(hops))?.accept(replica.address, replica.wake_up)
    }

    fn look_around(&self) -> bool {
        self.look_as_sentinel().is_some() && self.try_engine_within(HOPS_MAX).is_some()
    }

    fn report(&self) -> Answer {
        self.lock_soon().map_or(Answer::Busy, |engine| engine.report())
    }

    fn copy_when_free(
        self: Arc<Self>,
        replica: Replica,
    ) -> Pin<Box<dyn Future<Output = Option<Copy>> + Send + Sync>> {
        Box::pin(
            async move { self.when_free(|engine| engine.accept(replica.address, replica.wake_up)).await },
        )
    }
}

/// Tries so often that only a server with a script stays busy, and not one that runs a command.
fn soon<'a>(lock: impl Fn() -> Option<Held<'a>>) -> Option<Held<'a>> {
    (0..LOCK_TRIES).find_map(|_| {
        let held = lock();
        if held.is_none() {
            std::thread::yield_now();
        }
        held
    })
}

/// Waits until a clock shows a time, or for ever if there is none.
async fn until(time: Option<(Clock, Timestamp)>) {
    match time {
        Some((clock, time)) => clock.sleep_until(time).await,
        None => std::future::pending().await,
    }
}

impl Deref for Held<'_> {
    type Target = Box<Engine>;

    fn deref(&self) -> &Box<Engine> {
        &self.engine
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Box<Engine> {
        &mut self.engine
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        // After the release and before the flag is read: see `poll_engine`.
        fence(Ordering::SeqCst);
        if self.0.is_awaited.load(Ordering::Relaxed) && self.0.is_awaited.swap(false, Ordering::AcqRel) {
            self.0.busy.notify();
        }
        // What a command does to other servers has happened before its reply is sent.
        if let Some((network, _)) = self.0.place.get() {
            network.settle_after_use();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::Connection;

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn every_task_that_waits_gets_the_engine() {
        const TURNS: usize = 20_000;
        let shared = Arc::new(Shared::new(Engine::new(Clock::manual(), 1)));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                std::thread::spawn(move || (0..TURNS).for_each(|_| _ = shared.engine().now()))
            })
            .collect();
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let shared = shared.clone();
                tokio::spawn(async move {
                    for _ in 0..TURNS {
                        shared.when_free(|engine| engine.now()).await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("it ends");
        }
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    }

    #[test]
    fn effects_do_not_pile_up_for_a_replica_that_nobody_looks_at() {
        const WRITES: usize = 10_000;
        let [primary, replica] =
            std::array::from_fn(|_| Arc::new(Shared::new(Engine::new(Clock::manual(), 1))));
        primary.take_replica(&replica);
        let (mut connection, mut output) = (Connection::over(&primary), BytesMut::new());
        (0..WRITES).for_each(|_| connection.receive(b"SET k v\r\n", &mut output));
        // Without a look at the links.
        let engine = replica.engine.lock().expect("no test has failed with the lock");
        let upstream = engine.replication.upstream.as_ref().expect("it is a replica");
        let link = upstream.link.as_ref().expect("the link has begun");
        assert!(link.0.receive().len() < WRITES / 4);
    }

    #[test]
    fn a_client_that_goes_while_the_engine_is_held_is_closed_before_anything_else() {
        let shared = Shared::new(Engine::new(Clock::manual(), 1));
        let mut held = shared.engine();
        let [first, second] = [held.open_client().slot, held.open_client().slot];
        shared.close_client(first);
        assert_eq!(held.clients.len(), 2);
        drop(held);
        assert_eq!(shared.engine().clients.len(), 1);
        shared.close_client(second);
        assert_eq!(shared.engine().clients.len(), 0);
    }
}
