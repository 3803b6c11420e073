//! How often faults may happen, and by how much: the budgets that keep an exploration finite.

use std::fmt;
use std::time::Duration;

use emulator::DRIFT_PPM;

use super::kind::{FaultKind, FaultKinds};
use super::lost_writes::BEHIND_MAX;

/// A budget as a field of [`Faults`]. Texts and samples use one list of them.
pub(crate) struct Field {
    /// The name of the method that sets it.
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    sampling: Sampling,
}

/// Whether samples draw a budget for every schedule.
enum Sampling {
    Sampled,
    /// The field sets details of a fault instead of a number of faults. If it is a number, it is at
    /// most this: each number up to it is a step of its own.
    Fixed(u32),
}

/// The unit of a budget, and a function to access it.
pub(crate) enum Value {
    Count(fn(&mut Faults) -> &mut u32),
    Ppm(fn(&mut Faults) -> &mut u32),
    Span(fn(&mut Faults) -> &mut Duration),
}

macro_rules! budgets {
    ($($(#[$doc:meta])+ $method:ident($field:ident: $type:ty as $unit:ident, $sampling:expr);)+) => {
        /// Fault budgets for one execution. Without any, only the order of commands is explored.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct Faults {
            $($(#[$doc])+ pub $field: $type,)+
            /// Kinds of faults that do not happen, whatever the budgets are.
            pub left_out: FaultKinds,
        }

        impl Faults {
            /// No faults.
            pub fn none() -> Faults {
                Faults::default()
            }

            $($(#[$doc])+ pub fn $method(self, $field: $type) -> Faults {
                Faults { $field, ..self }
            })+
        }

        /// All budgets.
        pub(crate) const FIELDS: &[Field] = &[$(Field {
            name: stringify!($method),
            value: Value::$unit(|faults| &mut faults.$field),
            sampling: $sampling,
        },)+];
    };
}

const SAMPLED: Sampling = Sampling::Sampled;
const UP_TO_100: Sampling = Sampling::Fixed(100);

budgets! {
    /// How many clients may crash, each at any time between its steps, or after a command has run
    /// and before the reply arrives.
    crashes(crashes: u32 as Count, SAMPLED);
    /// How often a service may crash and start anew, as a process that a supervisor watches: each
    /// at any time between its steps, or after a command has run and before the reply arrives. Only
    /// [services](crate::Scenario::services) do.
    respawns(respawns: u32 as Count, SAMPLED);
    /// How many stalls there may be. A stall is one step of time while clients wait to send a
    /// command. Each request and reply on its way then is slow: until it arrives, time may move
    /// twice more, each time to a timer of another client.
    ///
    /// A step of time may also come between reading the clock and the first command of a client. If
    /// [`crate::Scenario::prompt_replies`] is not set, it may also come between a reply and its
    /// arrival. If a client may have a timer, its whole process may stand still meanwhile, so that
    /// it notices the timer late. Time moves to an instant that matters, or just past it, or until
    /// a timer of a client fires. Instants that matter are the ends of leases and of times to live.
    /// Others follow from the spans that the code distinguishes, as far as probes find them. If
    /// nothing is about to expire, time moves by a millisecond, or by a lease and some grace.
    ///
    /// When a key was accessed is seen by `OBJECT IDLETIME` and `DEBUG OBJECT` alone. Not every
    /// idle time that they can show is explored: otherwise each `GET` would depend on the time.
    stalls(stalls: u32 as Count, SAMPLED);
    /// How many messages may be lost. There are three cases: a request never arrives; the client
    /// never gets a reply; or its library repeats a request without a reply.
    lost(lost: u32 as Count, SAMPLED);
    /// How often a connection may break: before a request is sent, or before its reply arrives. The
    /// server drops all state of that connection: watched keys, queued commands, the selected
    /// database, blocking commands. The client gets a broken-pipe error. Its next request goes over
    /// a new connection, as with a `ConnectionManager`. If a subscribed connection breaks while a
    /// message is on its way, the subscription ends.
    drops(drops: u32 as Count, SAMPLED);
    /// How often a client and a server may be parted for a while ([`Faults::parted_for`]). The
    /// client gets a timeout error for each request that is lost, or whose reply is. A message ends
    /// its subscription. A partition begins with what is lost first, and ends early when it has
    /// kept ten requests and messages from arriving. For one that ends earlier still, see
    /// [`Faults::lost`].
    ///
    /// There are three cases: nothing passes from a request on; nothing passes from a reply on; or
    /// requests pass and no replies. A partition of servers is a failover that leaves the old
    /// primary writable ([`Faults::old_primary_writable`]), or a replica that is
    /// [behind](Faults::behind).
    partitions(partitions: u32 as Count, SAMPLED);
    /// How long a partition lasts; zero for a lease and some grace.
    parted_for(parted_for: Duration as Span, UP_TO_100);
    /// How often an operation may be cancelled that the client marks as
    /// [`cancellable`](crate::Client::cancellable). It may be cancelled wherever it waits, or after
    /// its request has run and before the reply arrives.
    cancels(cancels: u32 as Count, SAMPLED);
    /// How many requests may be delayed. The client gets a timeout error while its request is still
    /// on its way. The request runs at any later time, in order with later requests on its
    /// connection.
    delays(delays: u32 as Count, SAMPLED);
    /// By how much the clock of one client may be ahead or behind; zero for correct clocks. This
    /// fault and the next three hold from the start. At most one of all clocks is wrong.
    skew(skew: Duration as Span, SAMPLED);
    /// By how many millionths the clock of one client may be too fast or too slow.
    drift(drift_ppm: u32 as Ppm, SAMPLED);
    /// By how much the clock of one server may be ahead or behind.
    server_skew(server_skew: Duration as Span, SAMPLED);
    /// By how many millionths the clock of one server may be too fast or too slow.
    server_drift(server_drift_ppm: u32 as Ppm, SAMPLED);
    /// By how much the clock of one client may jump ahead or back, once, at any time.
    jump(jump: Duration as Span, SAMPLED);
    /// By how much the clock of one server may jump ahead, once, if no server restarts without
    /// data; zero for no jump.
    server_jump(server_jump: Duration as Span, SAMPLED);
    /// How often a server without persistence may restart. It then loses all its data and scripts.
    /// Subscribed and blocked clients get a connection error. Other clients reconnect
    /// transparently.
    restarts(restarts: u32 as Count, SAMPLED);
    /// How often a server with persistence may restart. It keeps its data and loses its scripts.
    /// The effect on clients is that of [`Faults::restarts`].
    reloads(reloads: u32 as Count, SAMPLED);
    /// How many of its last writes a server with persistence may lose, because its log ends early,
    /// as with `appendfsync everysec`. A write is a command, a transaction or a script that changed
    /// data. Any number of the latest writes up to this one may be missing. At most 100.
    unsynced(unsynced: u32 as Count, UP_TO_100);
    /// How often a server may lose only its scripts, as after `SCRIPT FLUSH`.
    flushes(flushes: u32 as Count, SAMPLED);
    /// How long a server that restarts refuses all requests; zero if it is available at once.
    outage(outage: Duration as Span, UP_TO_100);
    /// How often a replica may take over from its primary, which is gone: see
    /// [`Scenario::replicas`](crate::Scenario::replicas). It knows no scripts, and lacks what its
    /// primary has not sent by then ([`Faults::behind`]). Subscribed and blocked clients get a
    /// connection error, and so do those whose connection has a state, such as watched keys. A
    /// `WAIT` for earlier writes fails, too. Others follow to the new primary.
    failovers(failovers: u32 as Count, SAMPLED);
    /// How many of its primary's writes a replica may lack, at most 4. A write is a command, a
    /// transaction or a script that changed data. With 0, replicas have everything at any time.
    ///
    /// What a replica lacks is decided when it matters: when it takes over, and when a client waits
    /// for it (`WAIT`). A replica that lacks a write lacks also all that came about because of it.
    behind(behind: u32 as Count, Sampling::Fixed(BEHIND_MAX));
    /// In how many failovers the old primary goes on to serve the connections that are open, until
    /// the actors have ended. New connections lead to the new primary.
    old_primary_writable(old_primary_writable: u32 as Count, SAMPLED);
    /// How often a replica may take over when it has everything, as after `FAILOVER`. It knows no
    /// scripts. The effect on clients is that of [`Faults::failovers`].
    planned_failovers(planned_failovers: u32 as Count, SAMPLED);
    /// How many slots of a [cluster](crate::Scenario::cluster) may move to another server while
    /// clients work. A move begins in one step and ends in another. In between, the old server asks
    /// clients to look for keys which it has not at the new one (`ASK`). If it has some keys of a
    /// request and not all, clients have to try again (`TRYAGAIN`).
    ///
    /// The slots are those of keys that there are at the start, or that a request has named. All
    /// keys of a slot move when its move ends, where Redis moves one by one. A move may have no end
    /// until the actors have ended.
    moves(moves: u32 as Count, SAMPLED);
}

impl Faults {
    /// Leaves out a kind of fault: `lost(1).without(FaultKind::Resend)` for a library that does not
    /// send requests again.
    pub fn without(self, kind: FaultKind) -> Faults {
        Faults { left_out: self.left_out.with(kind), ..self }
    }

    /// Leaves out all other kinds that share the budget of this one: `lost(1)` with
    /// `only(FaultKind::LoseReply)` loses replies alone.
    pub fn only(self, kind: FaultKind) -> Faults {
        let shares = |&&other: &&FaultKind| other != kind && other.row().set_by == kind.row().set_by;
        FaultKind::ALL.iter().filter(shares).fold(self, |faults, &other| faults.without(other))
    }

    /// Whether a fault of this kind can happen at all.
    pub(crate) fn allows(&self, kind: FaultKind) -> bool {
        !self.left_out.has(kind) && (kind.row().limit)(self) > 0
    }
}

/// The budgets that are not zero, by the names of their methods: `stalls 1, skew 10000ms`. Then
/// come the kinds that they allow and that are left out: `lost 1, without resend`.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut faults = *self;
        let set = FIELDS.iter().filter_map(|field| {
            let value = match field.value {
                Value::Count(of) => format!("{}", *of(&mut faults)),
                Value::Ppm(of) => format!("{}ppm", *of(&mut faults)),
                Value::Span(of) => format!("{}ms", of(&mut faults).as_millis()),
            };
            (!value.starts_with('0')).then(|| format!("{} {value}", field.name))
        });
        let is_left_out = |&&kind: &&FaultKind| self.left_out.has(kind) && (kind.row().limit)(self) > 0;
        let left_out = FaultKind::ALL.iter().filter(is_left_out);
        let left_out = left_out.map(|kind| format!("without {}", kind.word()));
        let set: Vec<String> = set.chain(left_out).collect();
        let text = set.join(", ");
        f.write_str(if text.is_empty() { "no faults" } else { &text })
    }
}

impl Faults {
    /// A message if a budget is larger than any clock can show, or would make too many steps.
    pub(crate) fn excess(mut self, span_max: Duration) -> Option<String> {
        let ppm_max = DRIFT_PPM.end().unsigned_abs();
        FIELDS.iter().find_map(|Field { name, value, sampling }| match (value, sampling) {
            (Value::Span(of), _) if *of(&mut self) > span_max => {
                Some(format!("`Faults::{name}` is at most ten years, not {:?}", of(&mut self)))
            }
            (Value::Ppm(of), _) if u64::from(*of(&mut self)) > ppm_max => {
                Some(format!("`Faults::{name}` is at most {ppm_max} ppm, not {}", of(&mut self)))
            }
            (Value::Count(of), Sampling::Fixed(most)) if *of(&mut self) > *most => {
                Some(format!("`Faults::{name}` is at most {most}, not {}", of(&mut self)))
            }
            _ => None,
        })
    }

    /// For each budget the larger one of the two. A kind is left out if neither allows it.
    pub(crate) fn or(mut self, mut other: Faults) -> Faults {
        let is_left_out = |&&kind: &&FaultKind| !self.allows(kind) && !other.allows(kind);
        let left_out = FaultKind::ALL.iter().filter(is_left_out);
        self.left_out = left_out.fold(FaultKinds::default(), |kinds, &kind| kinds.with(kind));
        for field in FIELDS {
            match field.value {
                Value::Count(of) | Value::Ppm(of) => *of(&mut self) = (*of(&mut self)).max(*of(&mut other)),
                Value::Span(of) => *of(&mut self) = (*of(&mut self)).max(*of(&mut other)),
            }
        }
        self
    }

    /// Draws smaller budgets: `draw` returns a number from zero to its argument. Sizes stay as they
    /// are, for example how far a clock is wrong.
    pub(crate) fn sampled(mut self, mut draw: impl FnMut(u32) -> u32) -> Faults {
        for field in FIELDS.iter().filter(|field| matches!(field.sampling, Sampling::Sampled)) {
            match field.value {
                Value::Count(of) => *of(&mut self) = draw(*of(&mut self)),
                Value::Ppm(of) => *of(&mut self) *= draw(1),
                Value::Span(of) => *of(&mut self) *= draw(1),
            }
        }
        self
    }
}

/// The budget that a fault uses. Two faults that share a budget are dependent: the first may use up
/// the budget of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Budget(pub &'static str);

impl Budget {
    /// Time that passes while clients have requests to send.
    pub const STALLS: Budget = Budget("stalls");
}
