//! Strings, sorted sets and times to live do what a model of them does: each command answers what the model answers, and in the end
//! both hold the same keys, with the same contents and the same deadlines.

use std::cell::RefCell;

use arbitrary::{Arbitrary as _, Unstructured};
use emulator::{Clock, DirectConnection, Emulator, Reply, Timestamp};

use crate::model::Model;
use crate::model::op::{Key, Number, Op, Range, Start, Unit};

/// Enough for commands to meet.
const OPS_MAX: usize = 64;

thread_local! {
    /// To make one is dearer than an input.
    static EMULATOR: RefCell<Emulator> = RefCell::new(Emulator::with_clock(Clock::manual()));
}

pub fn check(data: &[u8]) {
    EMULATOR.with_borrow(|emulator| {
        let clock = Clock::manual();
        emulator.reset(clock.clone());
        let (mut connection, mut model) = (emulator.connection(), Model::at(clock.now().millis()));
        let mut choices = Unstructured::new(data);
        for _ in 0..OPS_MAX {
            // Where the bytes are over, zeros would follow for ever.
            let Ok(op) = Op::arbitrary(&mut choices) else { break };
            run(&mut connection, &clock, &mut model, &op);
            if choices.is_empty() {
                break;
            }
        }
        run(&mut connection, &clock, &mut model, &Op::DbSize);
        for key in Key::ALL {
            let range = Range::Rank(Number::Small(0), Number::Small(-1));
            let look = [
                Op::Type(key),
                Op::Ttl(key, Unit::Millis, Start::Epoch),
                Op::Get(key),
                Op::ZRange { key, range, reverse: false, limit: None, with_scores: true },
            ];
            look.iter().for_each(|op| run(&mut connection, &clock, &mut model, op));
        }
    });
}

fn run(connection: &mut DirectConnection, clock: &Clock, model: &mut Model, op: &Op) {
    if !model.takes(op) {
        return;
    }
    let expected = model.run(op);
    clock.set(Timestamp::from_millis(model.now_ms()));
    let Some(argv) = op.argv() else { return };
    let argv: Vec<&[u8]> = argv.iter().map(Vec::as_slice).collect();
    let reply = connection.execute(&argv);
    assert!(is_same(&reply, &expected), "{op:?}: got {reply:?}, and the model says {expected:?}");
}

/// Doubles are compared by value: 0 is -0.
fn is_same(reply: &Reply, expected: &Reply) -> bool {
    match (reply, expected) {
        (Reply::Array(items), Reply::Array(expected)) => {
            items.len() == expected.len()
                && items.iter().zip(expected).all(|(item, other)| is_same(item, other))
        }
        _ => reply == expected,
    }
}
