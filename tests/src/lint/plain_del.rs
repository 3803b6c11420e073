//! Releases that delete the lock key, even if another client holds the lock.

use super::habit::Lint;
use super::usage::Usage;

pub(super) const LINT: Lint = Lint {
    name: "plain-del",
    summary: "A release deletes the lock key without a check that the grant is its own.",
    advice: "After the lease, it deletes the key of another client: compare the token and delete the key in one script.",
    find,
};

fn find(usage: &Usage<'_>) -> Option<String> {
    usage.stays.iter().find_map(|stay| {
        let own = usage.attempted(stay);
        let mut releases = stay.after.iter().chain(&stay.inside).map(|&nth| &usage.calls[nth]);
        let deletes = releases.find(|call| {
            let args = call.args_of(&["DEL", "UNLINK"]).unwrap_or_default();
            args.iter().any(|key| own.contains(&(call.server, key.clone())))
        })?;
        Some(deletes.said())
    })
}
