//! The bounds of tests that take long. `cargo test` has the short ones. With `LOCKSTEP_THOROUGH=1`,
//! as in `.ci/run`, it has the thorough ones.

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

pub const PROGRAMS: Bound = Bound {
    variable: "LOCKSTEP_PROGRAMS",
    cases: "random programs, whose traces are compared with brute force",
    short: 200,
    thorough: 2_000,
};
pub const OUTCOMES: Bound = Bound {
    variable: "LOCKSTEP_OUTCOMES",
    cases: "random programs of each kind, whose outcomes are compared with brute force",
    short: 5,
    thorough: 25,
};
pub const REPEATS: Bound = Bound {
    variable: "LOCKSTEP_REPEATS",
    cases: "random programs of each kind, whose explorations are repeated",
    short: 3,
    thorough: 15,
};
pub const DENSE: Bound = Bound {
    variable: "LOCKSTEP_DENSE",
    cases: "random programs of each kind, in which time moves by every millisecond",
    short: 10,
    thorough: 10,
};
pub const SHRUNK: Bound = Bound {
    variable: "LOCKSTEP_SHRUNK",
    cases: "random failing schedules of each lock, which are shrunk",
    short: 20,
    thorough: 20,
};

pub const MINIMA: Bound = Bound {
    variable: "LOCKSTEP_MINIMA",
    cases: "random failures of two locks, whose trials are shrunk to the minimum",
    short: 1,
    thorough: 5,
};

/// All bounds, which the program `what_is_left_out` reads.
pub const BOUNDS: [Bound; 6] = [PROGRAMS, OUTCOMES, REPEATS, DENSE, SHRUNK, MINIMA];

impl Bound {
    /// The number that holds in this run.
    pub fn get(&self) -> u64 {
        let Self { variable, short, thorough, .. } = *self;
        match std::env::var(variable) {
            Ok(number) => number.parse().unwrap_or_else(|error| panic!("{variable} is a number: {error}")),
            Err(_) if std::env::var(THOROUGH).is_ok_and(|value| value == "1") => thorough,
            Err(_) => short,
        }
    }
}
