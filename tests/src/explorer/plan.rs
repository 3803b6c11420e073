use std::fmt;

use crate::execution::{Choice, Policy};
use crate::history::History;
use crate::schedule::{Actor, Step};

/// What should happen next, if it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// This actor's next command.
    Run(Actor),
    /// One of the faults that are possible then, by its number among them, modulo how many there are.
    Fault(u8),
}

/// A list of wishes: how `proptest` makes and shrinks schedules. A wish that cannot be granted is passed over, so that what
/// follows one that was left out still means the same. When the wishes are over, nobody else starts.
#[derive(Clone)]
pub struct Plan {
    wishes: std::vec::IntoIter<Wish>,
}

impl Plan {
    /// From the first wish.
    pub fn new(wishes: Vec<Wish>) -> Plan {
        Plan { wishes: wishes.into_iter() }
    }
}

impl Policy for Plan {
    fn choose(&mut self, enabled: &[Step], _: &History) -> Choice {
        let place = |wish: Wish| match wish {
            Wish::Run(actor) => {
                enabled.iter().position(|step| matches!(step, Step::Run(other, _) if *other == actor))
            }
            Wish::Fault(number) => {
                let is_fault = |step: &&Step| !matches!(step, Step::Run(..));
                let faults = enabled.iter().filter(is_fault).count();
                let nth = usize::from(number).checked_rem(faults)?;
                let places = (0..enabled.len()).filter(|&idx| is_fault(&&enabled[idx]));
                places.into_iter().nth(nth)
            }
        };
        self.wishes.find_map(place).map_or(Choice::Finish, Choice::Take)
    }
}

/// `A A B fault 1`
impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.wishes.as_slice().iter().map(|wish| match wish {
            Wish::Run(actor) => actor.to_string(),
            Wish::Fault(number) => format!("fault {number}"),
        });
        f.write_str(&words.collect::<Vec<_>>().join(" "))
    }
}
