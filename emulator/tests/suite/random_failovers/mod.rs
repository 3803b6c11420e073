//! Random failovers under clients of redis-rs. No client hangs, and none gets a reply that a real
//! server could not give.
//!
//! [`ledger`] judges replies: it knows what a client has written, and when that may be lost.
//! [`course`] is what clients and failovers know of each other. [`links`] has the clients, and
//! [`group`] the servers and what happens to them.
//!
//! `LOCKSTEP_FAILOVERS` is the number of failovers, and `LOCKSTEP_SEED` the first seed. A seed
//! fixes what happens to the servers, and what each client sends. The machine decides how both
//! interleave.

mod course;
mod ledger;
mod group;
mod links;

use std::sync::Arc;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg32;

use crate::bounds::FAILOVERS;
use course::{Course, End};
use group::{Group, Kind};
use ledger::Ledger;
use links::Link;
pub use links::{connect, patient};

/// The failovers of one group of servers.
const FAILOVERS_PER_SEED: u64 = 25;

#[test]
fn clients_of_a_cluster_get_what_a_real_server_could_reply() {
    check(Kind::Cluster);
}

#[test]
fn clients_that_ask_sentinels_get_what_a_real_server_could_reply() {
    check(Kind::Sentinels);
}

/// Plays half of the failovers, with this kind of group.
fn check(kind: Kind) {
    let first = std::env::var("LOCKSTEP_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    for seed in first..first + (FAILOVERS.get() / 2).div_ceil(FAILOVERS_PER_SEED) {
        if let Err(report) = play(kind, seed) {
            panic!("LOCKSTEP_SEED={seed} LOCKSTEP_FAILOVERS=2, {kind:?}: {report}");
        }
    }
}

/// Lets the servers fail over, one time after the other, while the clients send requests.
fn play(kind: Kind, seed: u64) -> Result<(), String> {
    let group = Group::new(kind, seed);
    let links = links::open(&group);
    let course = Arc::new(Course::new(links.len()));
    let end = End(&course);
    let mut rng = Pcg32::seed_from_u64(seed);
    let clients = links.into_iter().enumerate().map(|(nth, link)| {
        let (course, rng) = (course.clone(), Pcg32::seed_from_u64(rng.random()));
        std::thread::spawn(move || serve(nth, link, rng, &course))
    });
    let clients: Vec<_> = clients.collect();
    for _ in 0..FAILOVERS_PER_SEED {
        group.fail_over(&mut rng, &course)?;
        course.pause(rng.random_range(1..=3))?;
    }
    drop(end);
    // Otherwise one would be a client of servers that are gone.
    clients.into_iter().for_each(|client| client.join().expect("a client reports what fails"));
    course.report()
}

/// Sends random requests of one client, until the course is over or a reply is wrong.
fn serve(nth: usize, mut link: Box<dyn Link>, mut rng: Pcg32, course: &Course) {
    let mut ledger = Ledger::new(nth, link.resends_max());
    while course.goes_on() {
        let (request, expected) = ledger.next(&mut rng);
        let began = course.losses();
        let reply = link.ask(&request);
        let verdict = ledger.judge(&expected, reply, [began, course.losses()]);
        course.served(nth, verdict.map_err(|report| format!("client {nth}, {expected:?}: {report}")));
    }
}
