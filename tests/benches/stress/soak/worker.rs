//! A client with its own keys: every reply is compared with the model. Its connection may be lost
//! at any byte. The data must then be what a prefix of the pending commands left.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rand::{Rng, RngExt as _};
use redis::Value;

use super::arguments::Argv;
use super::draw::{self, argv, batch};
use super::model::Model;
use super::scripts;
use super::state::{End, Member, Soak, lock, show_command};
use crate::client::{Lost, bulk, request, show};
use crate::server::{now, pause, since, wait_for};

/// How many commands before a wrong reply are shown.
const SHOWN_MAX: usize = 20;
/// The most time until the server notices that a client has disconnected.
const GONE_MAX: Duration = Duration::from_secs(30);

struct Worker<'a> {
    soak: &'a Soak<'a>,
    name: String,
    model: Model,
    member: Member,
    /// The last commands and their replies.
    last: VecDeque<String>,
}

pub(super) fn run(soak: &Soak<'_>, name: &str, rng: &mut impl Rng) -> Result<(), End> {
    let member = soak.join_as_victim()?;
    let mut worker =
        Worker { soak, name: name.into(), model: Model::default(), member, last: VecDeque::new() };
    while !soak.is_stopping() {
        let calm = soak.calm.read().unwrap_or_else(PoisonError::into_inner);
        worker.step(rng)?;
        drop(calm);
    }
    // Checks the replies that are still on the connection before the sum is checked.
    worker.reconcile(&[])?;
    lock(&soak.ledger).added += worker.model.keyspace.number(&draw::counter(name));
    soak.leave(worker.member.id);
    Ok(())
}

impl Worker<'_> {
    fn step(&mut self, rng: &mut impl Rng) -> Result<(), End> {
        match rng.random_range(0..400) {
            0 => self.expire(rng),
            1..5 => self.cut(rng),
            _ => self.converse(&batch(rng, &self.name)),
        }
    }

    /// Sends all commands at once, and checks each reply.
    fn converse(&mut self, batch: &[Argv]) -> Result<(), End> {
        let bytes = batch.iter().flat_map(|argv| request(argv)).collect::<Vec<_>>();
        if let Err(lost) = self.member.client.send_bytes(&bytes) {
            return self.lost(lost, batch);
        }
        for (nth, argv) in batch.iter().enumerate() {
            match self.member.client.receive() {
                Ok(reply) => self.check(argv, &reply)?,
                Err(lost) => return self.lost(lost, &batch[nth..]),
            }
        }
        Ok(())
    }

    fn check(&mut self, argv: &Argv, reply: &Value) -> Result<(), End> {
        let expect = self.model.apply(argv);
        self.soak.counts.checked.fetch_add(1, Ordering::Relaxed);
        let mut shown = show(reply);
        if shown.len() > 200 {
            shown = format!("{}… ({} characters)", shown.chars().take(200).collect::<String>(), shown.len());
        }
        if self.last.len() == SHOWN_MAX {
            self.last.pop_front();
        }
        self.last.push_back(format!("{} -> {shown}", show_command(argv)));
        if expect.allows(reply) { Ok(()) } else { Err(self.wrong(&format!("expected {expect:?}"))) }
    }

    fn wrong(&self, what: &str) -> End {
        let last = self.last.iter().map(|line| format!("\n    {line}")).collect::<String>();
        let what: String = what.chars().take(2000).collect();
        End::Wrong(format!("{what}; the last commands of client {}:{last}", self.member.id))
    }

    /// Closes the connection in the middle of a request or of its replies.
    fn cut(&mut self, rng: &mut impl Rng) -> Result<(), End> {
        let batch = batch(rng, &self.name);
        let bytes = batch.iter().flat_map(|argv| request(argv)).collect::<Vec<_>>();
        let len = rng.random_range(0..=bytes.len());
        // If the client was killed before, the effect is the same: some of the commands have run.
        _ = self.member.client.send_bytes(&bytes[..len]);
        if rng.random_range(0..3) == 0 && len == bytes.len() {
            // If a reply is unread, closing the socket sends a reset.
            _ = self.member.client.wait_unread();
        }
        self.soak.leave(self.member.id);
        self.rejoin(&batch)
    }

    /// The connection was lost while these commands were pending.
    fn lost(&mut self, lost: Lost, pending: &[Argv]) -> Result<(), End> {
        self.soak.mourn(&self.member, lost)?;
        self.rejoin(pending)
    }

    fn rejoin(&mut self, pending: &[Argv]) -> Result<(), End> {
        let old = std::mem::replace(&mut self.member, self.soak.join_as_victim()?);
        let id = old.id.to_string();
        drop(old);
        // While the server still serves the old connection, its commands may run after those of the
        // new one.
        let soak = self.soak;
        let mut observer = soak.join()?;
        let gone =
            wait_for(GONE_MAX, || match soak.ask(&mut observer.client, &["CLIENT", "LIST", "ID", &id]) {
                Ok(list) if list == bulk("") => Some(Ok(())),
                Ok(_) => None,
                Err(lost) => Some(Err(lost)),
            });
        gone.ok_or_else(|| self.wrong(&format!("client {id} has gone, and CLIENT LIST still shows it")))??;
        self.reconcile(pending)
    }

    /// Reads the data, and moves the model to the number of pending commands that explains it.
    fn reconcile(&mut self, pending: &[Argv]) -> Result<(), End> {
        let keys = draw::keys(&self.name);
        let refs: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        let dump = draw::run_script(0, &scripts::DUMP, &refs, &[]);
        // This connection is never killed, so its reply comes.
        let mut observer = self.soak.join()?;
        let reply = self.soak.ask(&mut observer.client, &dump)?;
        let mut model = self.model.clone();
        for n_run in 0..=pending.len() {
            let mut candidate = model.clone();
            candidate.disconnect();
            if candidate.keyspace.dump(&keys).allows(&reply) {
                self.model = candidate;
                self.last.push_back(format!("(a new connection; {n_run} of {} had run)", pending.len()));
                return Ok(());
            }
            if let Some(argv) = pending.get(n_run) {
                model.apply(argv);
            }
        }
        let pending = pending.iter().map(|argv| format!("\n    {}", show_command(argv))).collect::<String>();
        Err(self.wrong(&format!(
            "after a disconnect there is {}, and no number of these leads there:{pending}",
            show(&reply)
        )))
    }

    /// A key with a short time to live: it exists well before the end of that time, and not after
    /// it.
    fn expire(&mut self, rng: &mut impl Rng) -> Result<(), End> {
        let key = format!("{}:brief", self.name);
        let span = Duration::from_millis(rng.random_range(1..20));
        let soak = self.soak;
        let mut observer = soak.join()?;
        let ms = span.as_millis().to_string();
        let key = key.as_str();
        soak.expect(&mut observer.client, &argv(["SET", key, "v", "PX", &ms]), &Value::Okay)?;
        let start = now();
        // The server may have read its clock earlier than the client, by the time of a reply. It
        // never reads the clock later.
        while since(start) <= span + Duration::from_millis(1) {
            pause(Duration::from_millis(1));
        }
        soak.expect(&mut observer.client, &["GET", key], &Value::Nil)?;
        soak.expect(&mut observer.client, &["PTTL", key], &Value::Int(-2))
    }
}
