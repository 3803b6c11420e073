//! The types of faults: a fault as a step, and the row that says all about its kind.

use super::budget::{Budget, Faults};
use super::kind::FaultKind;
use super::lost_writes::LostWrites;
use super::target::{Target, TargetKind};
use crate::actor::Actor;

/// A fault as a step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// The target of the fault.
    pub target: Target,
    /// The kind of the fault.
    pub kind: FaultKind,
    /// By how much a clock is wrong, how many writes are lost, which servers are meant, a bit each,
    /// or which slot. Zero for a fault without a number.
    pub amount: i64,
}

impl Fault {
    /// The name of the client, without its connection.
    pub(super) fn client(self) -> String {
        self.target.actor().map_or_else(String::new, |actor| actor.to_string())
    }
}

/// Everything that the harness needs to know about a fault.
pub(crate) struct FaultRow {
    /// The first word of the fault in the text of a schedule. A fault of clients and one of servers
    /// may share a word.
    pub(crate) word: &'static str,
    /// A short description of the fault.
    pub(crate) summary: &'static str,
    pub(crate) target: TargetKind,
    /// The fault strikes only requests of an operation that can be cancelled.
    pub(crate) needs_operation: bool,
    /// The fault strikes only services, and they start anew after it.
    pub(crate) respawns: bool,
    pub(crate) unit: Unit,
    /// The methods of [`Faults`] that enable the fault, or set its details.
    pub(crate) set_by: &'static [&'static str],
    /// The budget that the fault uses. `None` if it holds from the start.
    pub(crate) budget: Option<Budget>,
    /// The fault can happen while less than this is spent of its budget. Zero if it cannot happen
    /// at all.
    pub(crate) limit: fn(&Faults) -> u32,
    /// The amounts with which the fault can happen.
    pub(crate) amounts: Amounts,
    pub(crate) effect: Effect,
    /// The description of the fault for a timeline. If the fault strikes a request, the text is
    /// that of the request.
    pub(crate) describe: fn(Fault, &str) -> Description,
}

/// The amounts with which a fault can happen.
#[derive(Clone, Copy)]
pub(crate) enum Amounts {
    /// They follow from the budgets.
    Of(fn(&Faults) -> Vec<i64>),
    /// Which writes the target may lack.
    LostWrites,
    /// Which replicas may not have the writes of the target.
    Unacknowledged,
    /// Which writes the replica may lack to which the target leads.
    Stale,
    /// The slots in use that the target has not.
    SlotsElsewhere,
    /// The slots that move to the target.
    SlotsOnTheirWay,
}

impl Amounts {
    /// The amount of a fault without a number.
    pub(super) const NONE: Amounts = Amounts::Of(|_| vec![0]);
}

/// The unit of a fault's number, and its notation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// No number.
    None,
    /// `+5ms`
    Millis,
    /// `-200ppm`
    Ppm,
    /// `-2`, or nothing for zero
    Writes,
    /// `-AAB`, or nothing for none
    LostWrites,
    /// `2,3`
    Servers,
    /// `1234`
    Slot,
}

impl Unit {
    /// These servers, which have a bit each.
    pub(crate) fn nodes(bits: i64) -> impl Iterator<Item = usize> {
        (0..i64::BITS as usize).filter(move |server| bits >> server & 1 == 1)
    }

    /// The numbers of these servers, as in a schedule.
    pub(super) fn servers(bits: i64) -> String {
        Unit::nodes(bits).map(|server| (server + 1).to_string()).collect::<Vec<_>>().join(",")
    }
}

/// The effect of a fault.
#[derive(Clone, Copy)]
pub(crate) enum Effect {
    /// The fault replaces the normal run and reply of a request.
    Request(RequestFault),
    /// The fault changes the execution. The function returns the fault as it happened.
    Act(fn(&mut dyn Effects, Fault) -> Fault),
    /// Time moves, and the client stands still.
    Pause,
}

/// How a request is handled instead of the normal run and reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestFault {
    pub(crate) delivery: Delivery,
    pub(crate) outcome: RequestOutcome,
    /// The fault can also strike a message of a subscription.
    pub(crate) strikes_messages: bool,
}

/// Whether and when a request reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    Never,
    Now,
    Later,
}

/// The result that the client gets instead of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    /// A timeout error.
    TimedOut,
    /// A broken-pipe error. A command that waits on the server stops waiting.
    Disconnected,
    /// The reply to an equal request, which waits to be sent again.
    Resent,
    /// Nothing: the operation of the request is cancelled. A command that waits on the server stops
    /// waiting.
    Cancelled,
    /// The reply, as without a fault.
    Answered,
    /// Nothing: the client has crashed. A command that waits on the server stops waiting.
    Crashed,
}

/// The effects of faults on an execution.
pub(crate) trait Effects {
    /// Ends the client.
    fn crash(&mut self, actor: Actor);
    /// Lets a client that has crashed start anew.
    fn respawn(&mut self, actor: Actor);
    /// Cancels the latest operation of the client that can be cancelled.
    fn cancel(&mut self, actor: Actor);
    /// Moves a clock by `by_ms` milliseconds. If that is negative, the clock goes back.
    fn shift_clock(&mut self, target: Target, by_ms: i64);
    /// Makes a clock too fast by `ppm` millionths, or too slow if that is negative.
    fn drift_clock(&mut self, target: Target, ppm: i64);
    /// Makes a server close its subscribed and blocked connections. If restarts take time, it also
    /// refuses requests meanwhile.
    fn stop_server(&mut self, server: usize);
    /// Makes a server run commands that no client sent.
    fn execute(&mut self, server: usize, commands: &[&str]);
    /// Makes a server lose all data and scripts.
    fn lose_data(&mut self, server: usize);
    /// Makes a server lose up to `count` of its last writes. Returns how many it lost.
    fn lose_writes(&mut self, server: usize, count: usize) -> usize;
    /// Lets a replica take over without these writes of its primary. If the primary `stays`, it
    /// still serves the connections that are open. Returns what is lost: also what others wrote
    /// after it and because of it.
    fn fail_over(&mut self, replica: usize, lost: LostWrites, stays: bool) -> LostWrites;
    /// Lets a slot of a cluster begin to move to this server.
    fn begin_move(&mut self, slot: u16, to: usize);
    /// Ends the move of a slot: its keys move, too.
    fn end_move(&mut self, slot: u16);
    /// Begins the log of a server. `lose_writes` cannot lose what the server holds now, and its
    /// replicas have all of that.
    fn begin_log(&mut self, server: usize);
}

/// The description of a fault in a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Description {
    /// The step of the fault, as an action of its client.
    OfClient(String),
    /// The step of the fault, as the end of its client.
    EndOfClient(String),
    /// The step of the fault, as an event outside of all clients.
    Outside(String),
    /// A remark on the command in the step of the fault.
    Remark(String),
}
