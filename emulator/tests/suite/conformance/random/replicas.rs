//! Random commands on a primary: its replica must end with the same data.

use emulator::{Clock, DATABASES, Emulator};
use proptest::prelude::*;

use super::super::wire::{Emulated, Peer as _, request};
use super::command::{self, CLIENTS_MAX, Step};
use super::{SEQUENCES_PER_SEED, failure, first_seed, quote, runner};
use crate::bounds::SEQUENCES;

#[test]
fn random_commands_leave_the_same_data_on_a_replica() {
    for sequences in [command::sequences(), command::timed_sequences()] {
        let (seed, cases) = (first_seed(), SEQUENCES.get().div_ceil(2));
        for seed in seed..seed + cases.div_ceil(SEQUENCES_PER_SEED) {
            let result = runner(seed, SEQUENCES_PER_SEED.min(cases))
                .run(&sequences, |steps| play(&steps).map_err(TestCaseError::fail));
            if let Some((reason, steps)) = failure(result) {
                let show = |step: &Step| match step {
                    Step::Call(client, argv) => {
                        let words: Vec<_> = argv.iter().map(|word| quote(word)).collect();
                        format!("{client}> {}\n", words.join(" "))
                    }
                    Step::Advance(span) => format!("advance {}ms\n", span.as_millis()),
                };
                panic!("LOCKSTEP_SEED={seed}\n{}{reason}", steps.iter().map(show).collect::<String>());
            }
        }
    }
}

/// Plays a sequence on a primary.
///
/// # Errors
/// The data of both servers as text, if they differ.
fn play(steps: &[Step]) -> Result<(), String> {
    let clock = Clock::manual();
    let primary = Emulator::with_clock(clock.clone());
    let replica = primary.replica();
    let mut clients: [Emulated; CLIENTS_MAX] = std::array::from_fn(|_| Emulated::open(&primary));
    for step in steps {
        match step {
            Step::Call(client, argv) => {
                let words: Vec<&[u8]> = argv.iter().map(|word| word.as_bytes()).collect();
                clients[*client].send(&request(&words));
            }
            Step::Advance(span) => clock.advance(*span),
        }
    }
    primary.tick();
    for db in 0..DATABASES {
        let [own, copy] = [&primary, &replica].map(|server| server.dump(db));
        if own != copy {
            return Err(format!("database {db} of the primary:\n{own}of the replica:\n{copy}"));
        }
    }
    Ok(())
}
