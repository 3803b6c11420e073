//! How often faults may happen, and by how much: the budgets that keep an exploration finite.

use std::time::Duration;

/// A budget as a field of [`Faults`], so that texts and samples go by one list.
pub(crate) struct Field {
    /// The name of the method that sets it.
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// A sample draws it anew for every schedule. The others say how, not how often.
    is_sampled: bool,
}

/// The unit of a budget, and where it is.
pub(crate) enum Value {
    Count(fn(&mut Faults) -> &mut u32),
    Ppm(fn(&mut Faults) -> &mut u32),
    Span(fn(&mut Faults) -> &mut Duration),
}

macro_rules! budgets {
    ($($(#[$doc:meta])+ $method:ident($field:ident: $type:ty as $unit:ident, $is_sampled:expr);)+) => {
        /// Budgets for one execution. Without any, only the order of commands is explored.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Faults {
            $($(#[$doc])+ pub $field: $type,)+
        }

        impl Faults {
            /// Nothing goes wrong.
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
            is_sampled: $is_sampled,
        },)+];
    };
}

const SAMPLED: bool = true;
const FIXED: bool = false;

budgets! {
    /// How many clients may crash, each at any time between its steps.
    crashes(crashes: u32 as Count, SAMPLED);
    /// How many stalls there may be. A stall is a step of time while clients wait to send a command, or have read their clock and not
    /// yet sent their first command. Time moves to an instant that matters, or just past it, or until a timer of a client fires. If
    /// nothing is about to expire, it moves by a millisecond, or by a lease and some grace.
    stalls(stalls: u32 as Count, SAMPLED);
    /// How many messages may be lost: a request never arrives, or the client never gets a reply, or the client's library sends a
    /// request again because it got no reply.
    lost(lost: u32 as Count, SAMPLED);
    /// How often a connection may break: before a request is sent, or before its reply arrives. The server drops what that connection
    /// watched, queued, selected or waited for. The client gets a broken-pipe error, and its next request goes over a new connection,
    /// as the requests of a `ConnectionManager` do. A subscribed connection may break while a message is on its way; then the
    /// subscription ends.
    drops(drops: u32 as Count, SAMPLED);
    /// How often an operation may be cancelled that the client marks as [`cancellable`](crate::Client::cancellable): wherever it
    /// waits, or when its request has run and its reply has not arrived.
    cancels(cancels: u32 as Count, SAMPLED);
    /// How many requests may be delayed: the client gets a timeout error while its request is still on its way. The request runs at
    /// any later time, in order with those behind it on the same connection.
    delays(delays: u32 as Count, SAMPLED);
    /// The clock of one client may be ahead by this much, or behind by as much; zero for clocks that agree. This fault and the next
    /// three hold from the start, and of all clocks one at most is wrong.
    skew(skew: Duration as Span, SAMPLED);
    /// The clock of one client may run too fast by so many millionths, or too slow by as many.
    drift(drift_ppm: u32 as Ppm, SAMPLED);
    /// The clock of one server may be ahead by this much, or behind by as much.
    server_skew(server_skew: Duration as Span, SAMPLED);
    /// The clock of one server may run too fast by so many millionths, or too slow by as many.
    server_drift(server_drift_ppm: u32 as Ppm, SAMPLED);
    /// The clock of one client may jump ahead by this much, or back by as much, once, at any time.
    client_jump(client_jump: Duration as Span, SAMPLED);
    /// The clock of one server may jump ahead by this much, once, if no server restarts without data; zero if it may not.
    jump(jump: Duration as Span, SAMPLED);
    /// How often a server may lose all its data and scripts, as a server without persistence does when it restarts. Subscribed and
    /// blocked clients get a connection error. Other clients reconnect transparently.
    restarts(restarts: u32 as Count, SAMPLED);
    /// How often a server with persistence may restart: it keeps its data and loses its scripts. Clients see what they see of
    /// [`Faults::restarts`].
    reloads(reloads: u32 as Count, SAMPLED);
    /// How many of its last writes such a server may lose, as a server with `appendfsync everysec` may: its log ends early. A write is
    /// a command, a transaction or a script that changed data. Any number of the latest writes up to this one may be missing.
    unsynced(unsynced: u32 as Count, FIXED);
    /// How often a server may forget its scripts, as after `SCRIPT FLUSH`, and nothing else.
    flushes(flushes: u32 as Count, SAMPLED);
    /// How long a server that restarts refuses all requests; zero if it is there again at once.
    outage(outage: Duration as Span, FIXED);
}

impl Faults {
    /// Budgets within these; `draw` gives a number from zero to its argument. Sizes, such as how far a clock is wrong, stay as they are.
    pub(crate) fn sampled(mut self, mut draw: impl FnMut(u32) -> u32) -> Faults {
        for field in FIELDS.iter().filter(|field| field.is_sampled) {
            match field.value {
                Value::Count(of) => *of(&mut self) = draw(*of(&mut self)),
                Value::Ppm(of) => *of(&mut self) *= draw(1),
                Value::Span(of) => *of(&mut self) *= draw(1),
            }
        }
        self
    }
}

/// What faults take from. Two faults that share a budget depend on each other: the first may leave nothing for the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(pub &'static str);

impl Budget {
    /// Time that passes while clients have something to send.
    pub const STALLS: Budget = Budget("stalls");
}
