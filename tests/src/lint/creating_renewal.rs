//! Renewals that make a grant which has ended.

use super::habit::Lint;
use super::usage::Usage;

pub(super) const LINT: Lint = Lint {
    name: "creating-renewal",
    summary: "A renewal makes the lock key if it no longer exists.",
    advice: "After the lease, it takes the lock once more beside another client: renew by PEXPIRE, or with XX, in a script that compares the token.",
    find,
};

/// The commands that make a key unless an option forbids it. The commands of scripts are not seen.
const MAKING: [&str; 7] = ["SET", "SETEX", "PSETEX", "GETSET", "ZADD", "HSET", "HMSET"];

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.stays.iter().find_map(|stay| {
        let own = usage.attempted(stay);
        let mut renewals = stay.inside.iter().map(|&nth| &usage.calls[nth]);
        let renewal = renewals.find(|call| {
            let key = call.args_of(&MAKING).and_then(|args| call.first_key(args));
            key.is_some_and(|key| own.contains(&key)) && !call.has_option(&["XX", "NX"])
        })?;
        Some(renewal.said())
    })
}
