//! The bounds of tests that take long, of all three suites. `cargo test` has the short ones. With
//! `LOCKSTEP_THOROUGH=1`, as in `.ci/run`, it has the thorough ones.

/// The variable that chooses the thorough bounds.
pub const THOROUGH: &str = "LOCKSTEP_THOROUGH";

/// How many cases a test compares.
pub struct Bound {
    /// The environment variable that sets another number.
    pub variable: &'static str,
    /// The cases, in the plural.
    pub cases: &'static str,
    short: u64,
    pub thorough: u64,
}

pub const SEQUENCES: Bound = Bound {
    variable: "LOCKSTEP_SEQUENCES",
    cases: "random sequences of commands, whose replies are compared with redis-server",
    short: 2_000,
    thorough: 20_000,
};
pub const LIBRARY_SEQUENCES: Bound = Bound {
    variable: "LOCKSTEP_SEQUENCES",
    cases: "random sequences of calls in scripts, compared in the same way",
    short: 500,
    thorough: 3_000,
};
pub const STREAMS: Bound = Bound {
    variable: "LOCKSTEP_SEQUENCES",
    cases: "random streams of bytes, compared in the same way",
    short: 1_000,
    thorough: 8_000,
};
pub const PROGRAMS: Bound = Bound {
    variable: "LOCKSTEP_PROGRAMS",
    cases: "random programs, whose traces are compared with brute force",
    short: 50,
    thorough: 1_500,
};
pub const OUTCOMES: Bound = Bound {
    variable: "LOCKSTEP_OUTCOMES",
    cases: "random programs of each kind, whose outcomes are compared with brute force",
    short: 1,
    thorough: 25,
};
pub const POLLED: Bound = Bound {
    variable: "LOCKSTEP_POLLED",
    cases: "programs beside a service that polls, compared in the same way",
    short: 20,
    thorough: 140,
};
pub const REPEATS: Bound = Bound {
    variable: "LOCKSTEP_REPEATS",
    cases: "random programs of each kind, whose explorations are repeated",
    short: 1,
    thorough: 15,
};
pub const DENSE: Bound = Bound {
    variable: "LOCKSTEP_DENSE",
    cases: "random programs of each kind, in which time moves by every millisecond",
    short: 1,
    thorough: 10,
};
pub const SHRUNK: Bound = Bound {
    variable: "LOCKSTEP_SHRUNK",
    cases: "random failing schedules of each lock, which are shrunk",
    short: 1,
    thorough: 20,
};
pub const EXCHANGED: Bound = Bound {
    variable: "LOCKSTEP_EXCHANGED",
    cases: "random programs of interchangeable actors, compared with all their orders",
    short: 100,
    thorough: 400,
};
pub const TRIALS: Bound = Bound {
    variable: "LOCKSTEP_TRIALS",
    cases: "random schedules of a mutex and a semaphore with all faults",
    short: 150,
    thorough: 500,
};
pub const SAMPLED: Bound = Bound {
    variable: "LOCKSTEP_SAMPLED",
    cases: "random schedules of each scenario of the Redlock for use",
    short: 200,
    thorough: 2_000,
};
pub const STRESSED: Bound = Bound {
    variable: "LOCKSTEP_STRESSED",
    cases: "seconds in which processes take each kind of lock on real servers",
    short: 1,
    thorough: 5,
};
pub const KNOWN: Bound = Bound {
    variable: "LOCKSTEP_KNOWN",
    cases: "random schedules of the repaired code of each known bug, with late replies and in two rounds",
    short: 200,
    thorough: 2_000,
};
pub const VERDICTS: Bound = Bound {
    variable: "LOCKSTEP_VERDICTS",
    cases: "locks whose verdicts are found by the suite",
    short: 2,
    thorough: 6,
};
pub const PICTURES: Bound = Bound {
    variable: "LOCKSTEP_PICTURES",
    cases: "pictures whose texts are measured in a browser",
    short: 1,
    thorough: 4,
};
pub const MINIMA: Bound = Bound {
    variable: "LOCKSTEP_MINIMA",
    cases: "random failures of two locks, whose trials are shrunk to the minimum",
    short: 1,
    thorough: 3,
};
pub const DROPPED: Bound = Bound {
    variable: "LOCKSTEP_DROPPED",
    cases: "servers, clusters and groups with Sentinels that are started and dropped",
    short: 200,
    thorough: 10_000,
};
pub const FAILOVERS: Bound = Bound {
    variable: "LOCKSTEP_FAILOVERS",
    cases: "random failovers, after each of which a model judges what clients of redis-rs get",
    short: 50,
    thorough: 1_000,
};

pub const COUNTED: Bound = Bound {
    variable: "LOCKSTEP_COUNTS",
    cases: "traces in the largest program of the literature, whose number of traces is known",
    short: 2_500,
    thorough: 33_000,
};
pub const DIVISIONS: Bound = Bound {
    variable: "LOCKSTEP_DIVISIONS",
    cases: "ways to divide an exploration among processes",
    short: 1,
    thorough: 3,
};
pub const KILLED: Bound = Bound {
    variable: "LOCKSTEP_KILLED",
    cases: "explorations that are killed and resumed",
    short: 1,
    thorough: 3,
};
pub const LEARNINGS: Bound = Bound {
    variable: "LOCKSTEP_LEARNINGS",
    cases: "ways to remember clients whose tasks outlive them",
    short: 1,
    thorough: 3,
};

/// All bounds, which the program `what_is_left_out` reads.
pub const BOUNDS: [Bound; 23] = [
    SEQUENCES,
    LIBRARY_SEQUENCES,
    STREAMS,
    PROGRAMS,
    OUTCOMES,
    POLLED,
    REPEATS,
    DENSE,
    SHRUNK,
    EXCHANGED,
    TRIALS,
    SAMPLED,
    STRESSED,
    MINIMA,
    COUNTED,
    DIVISIONS,
    KILLED,
    LEARNINGS,
    KNOWN,
    VERDICTS,
    PICTURES,
    DROPPED,
    FAILOVERS,
];

/// A test that only a thorough run has.
pub struct Long(pub &'static str);

pub const REAL_COUNTEREXAMPLES: Long = Long("replays of all kept counterexamples on a real server");
pub const REAL_ALGORITHMS: Long = Long("conversations of all locks with a real server, while leases pass");
pub const SILENT_SERVER: Long = Long("a replay on a server that never answers");
pub const SHORTEST: Long = Long("the lengths of the published counterexamples");
pub const LINTS_OF_LOCKS: Long = Long("the lints of all locks");
pub const BROKEN_CONNECTIONS: Long = Long("a transaction after every fault that breaks a connection");
pub const SPINNING: Long =
    Long("brute force of clients that try again and again: three of them, and two that stand still");
pub const SESSIONS: Long = Long("the commands of the guide's page about a bug");
pub const REPAIRED: Long = Long("all schedules of the repaired code of known bugs");
pub const PAGES: Long = Long("the pages of most kept counterexamples");
pub const DIVIDED: Long = Long("checks that are divided, and compared with the whole");
pub const SLOW_REQUESTS: Long = Long("brute force of most programs whose requests are slow");
pub const MUTANTS: Long = Long("mutants of locks that wait, renew, or have several servers");
pub const LATE_CALLERS: Long =
    Long("callers and leaders that go on after their leases, beside crashes and lost messages");

/// All long tests, which the program `what_is_left_out` reads.
pub const LONG: [Long; 14] = [
    REAL_COUNTEREXAMPLES,
    REAL_ALGORITHMS,
    SILENT_SERVER,
    SHORTEST,
    LINTS_OF_LOCKS,
    BROKEN_CONNECTIONS,
    SPINNING,
    SESSIONS,
    LATE_CALLERS,
    REPAIRED,
    PAGES,
    DIVIDED,
    SLOW_REQUESTS,
    MUTANTS,
];

impl Long {
    /// Whether this run leaves the test out.
    pub fn is_left_out(&self) -> bool {
        !is_thorough()
    }
}

/// Whether this run has the thorough bounds.
pub fn is_thorough() -> bool {
    std::env::var(THOROUGH).is_ok_and(|value| value == "1")
}

impl Bound {
    /// The number that holds in this run.
    pub fn get(&self) -> u64 {
        let Self { variable, short, thorough, .. } = *self;
        match std::env::var(variable) {
            Ok(number) => number.parse().unwrap_or_else(|error| panic!("{variable} is a number: {error}")),
            Err(_) if is_thorough() => thorough,
            Err(_) => short,
        }
    }
}
