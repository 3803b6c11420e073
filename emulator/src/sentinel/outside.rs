//! What a Sentinel gets from outside, and what it does there.

use crate::replication::{Address, Answer, Order};

/// The answers of the other servers, by their addresses.
pub type Survey = [(Address, Answer)];

/// Holds an election for a failover: gets the name of the primary and the greatest known epoch, and
/// returns the epoch if this Sentinel may try.
pub type Elect<'a> = &'a dyn Fn(&[u8], u64) -> Option<u64>;

/// One act of a Sentinel.
#[derive(Clone, Debug)]
pub enum Deed {
    /// It publishes an event.
    Publish(&'static str, Vec<u8>),
    /// It gives the server at an address an order.
    Command(Address, Order),
}
