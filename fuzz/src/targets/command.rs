//! Compares strings, sorted sets and times to live with a model. Each command must give the model's
//! reply. At the end, both must hold the same keys, values and deadlines.

use std::cell::RefCell;

use arbitrary::{Arbitrary as _, Unstructured};
use emulator::{Clock, DirectConnection, Emulator, Reply, Timestamp};

use crate::model::Model;
use crate::model::arguments::{Key, Number, Range, Start, Unit};
use crate::model::op::Op;

/// The number is large enough for commands to use the same keys.
const OPS_MAX: usize = 64;

thread_local! {
    /// One emulator for all inputs, because creating one takes longer than an input.
    static EMULATOR: RefCell<Emulator> = RefCell::new(Emulator::with_clock(Clock::manual()));
}

pub fn check(data: &[u8]) {
    EMULATOR.with_borrow(|emulator| {
        let clock = Clock::manual();
        emulator.reset(clock.clone());
        let (mut connection, mut model) = (emulator.connection(), Model::at(clock.now().millis()));
        let mut choices = Unstructured::new(data);
        for _ in 0..OPS_MAX {
            // After its last byte, `arbitrary` would return zeros for ever.
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

/// Compares doubles by value: 0 equals -0.
fn is_same(reply: &Reply, expected: &Reply) -> bool {
    match (reply, expected) {
        (Reply::Array(items), Reply::Array(expected)) => {
            items.len() == expected.len()
                && items.iter().zip(expected).all(|(item, other)| is_same(item, other))
        }
        _ => reply == expected,
    }
}
