//! Passes that mean nothing: what is known before the first schedule, and what was missing at the
//! end. Each text says what to add.

use std::collections::BTreeSet;

use crate::fault::Faults;
use crate::oracle::{Oracle, Wanted, list};
use crate::scenario::Scenario;
use crate::trace::Reached;

/// Why no schedule of the scenario can make a pass mean anything; `None` if one may.
pub(super) fn known_before(scenario: &Scenario) -> Option<String> {
    if scenario.actors.is_empty() {
        return Some("the scenario has no actors: add some by `Scenario::actors`".into());
    }
    let unreachable = reachable(&scenario.faults).missing(scenario.must_reach);
    let unreachable = unreachable.map(|missing| {
        format!("{missing}, because no budget allows it: add one by `Scenario::faults`, or leave it out of `Scenario::must_reach`")
    });
    unreachable.or_else(|| scenario.oracles.iter().find_map(|oracle| unjudgeable(scenario, &**oracle)))
}

/// Everything that can happen within the budgets, as far as that is known. Contention and overruns
/// depend on the code. So do lost messages: connections of redis-rs have timeouts of their own.
fn reachable(faults: &Faults) -> Reached {
    let Faults { crashes, respawns, cancels, skew, drift_ppm, server_skew, server_drift_ppm, jump, .. } =
        *faults;
    let Faults { server_jump, restarts, reloads, flushes, failovers, planned_failovers, moves, .. } = *faults;
    let strikes = [restarts, reloads, flushes, failovers, planned_failovers, moves];
    let is_clock_wrong = [skew, server_skew, jump].iter().any(|span| !span.is_zero());
    Reached {
        contention: true,
        overrun: true,
        crash: crashes > 0 || respawns > 0,
        lost: true,
        cancel: cancels > 0,
        skew: is_clock_wrong || drift_ppm > 0 || server_drift_ppm > 0,
        server: strikes.iter().any(|&budget| budget > 0) || !server_jump.is_zero(),
    }
}

/// Why the oracle can judge nothing in any schedule.
fn unjudgeable(scenario: &Scenario, oracle: &dyn Oracle) -> Option<String> {
    let name = oracle.name();
    let wanted = oracle.wants();
    if !matches!(wanted, Wanted::Probe | Wanted::ProbeAfterLoss) {
        return None;
    }
    if scenario.probe.is_none() {
        return Some(format!(
            "{name} judges what fresh clients get at the end, and there are none: add them by `Scenario::probe`"
        ));
    }
    (wanted == Wanted::ProbeAfterLoss && !can_lose(scenario)).then(|| {
        format!(
            "{name} judges what is free after a crash, a lost message or a cancellation, and no budget allows one: \
             add `crashes(1)`, `lost(1)` or `cancels(1)` to `Scenario::faults`"
        )
    })
}

/// Whether a client may crash, a message or a write may be lost, or an operation may be cancelled.
fn can_lose(scenario: &Scenario) -> bool {
    let Faults { crashes, respawns, lost, drops, partitions, delays, cancels, stalls, .. } = scenario.faults;
    let Faults { restarts, reloads, failovers, planned_failovers, .. } = scenario.faults;
    // Without a timeout, a stalled request is only late.
    let times_out = stalls > 0 && scenario.response_timeout.is_some();
    let of_clients = [crashes, respawns, lost, drops, partitions, delays, cancels];
    let of_servers = [restarts, reloads, failovers, planned_failovers];
    of_clients.iter().chain(&of_servers).any(|&budget| budget > 0) || times_out
}

/// The text about an oracle that no execution gave anything to judge. Clients entered these
/// sections.
pub(super) fn unjudged(oracle: &dyn Oracle, entered: &BTreeSet<String>) -> String {
    let missing = match oracle.wants() {
        Wanted::Sections(sections) => not_entered(&sections, entered),
        Wanted::Extension(section) => format!(
            ": no client inside {section:?} was granted it once more (call `extend` on the guard of its hold)"
        ),
        Wanted::Record => ": no hold named a place where a server kept its grant (add `.record(…)` to `client.hold(…)`, with the key and the value that the code writes)".into(),
        Wanted::Deed(what) => format!(": no client did {what:?} (mark it by `client.did({what:?})`)"),
        Wanted::Operation(object) => {
            let on = if object.is_empty() { String::new() } else { format!(".on({object:?})") };
            format!(": no client received the answer of an operation (call it by `client.operation(…){on}.run(…)`)")
        }
        Wanted::Resource(resource) => {
            format!(": {resource:?} accepted no write (call `client.accepted({resource:?}, token)` after each)")
        }
        Wanted::Probe => ": in every execution a client crashed, a message was lost, or an operation was cancelled".into(),
        Wanted::ProbeAfterLoss => ": no client crashed, no message was lost, and no operation was cancelled".into(),
        Wanted::End => ": in no execution had all actors started and ended".into(),
        Wanted::Other => String::new(),
    };
    format!("{} had nothing to judge{missing}", oracle.name())
}

fn not_entered(sections: &[&str], entered: &BTreeSet<String>) -> String {
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        list(&names.map(|name| format!("{name:?}")).collect::<Vec<_>>())
    };
    let missing: Vec<&str> = sections.iter().copied().filter(|&section| !entered.contains(section)).collect();
    if missing.is_empty() {
        return format!(": no execution had clients in {}", quoted(&mut sections.iter().copied()));
    }
    let missing = quoted(&mut missing.into_iter());
    if entered.is_empty() {
        return format!(": no client entered {missing}, nor any other section (mark it by `client.hold(…)`)");
    }
    let entered = quoted(&mut entered.iter().map(String::as_str));
    format!(": no client entered {missing}, but clients entered {entered}")
}

/// The text about an oracle that looks at commands, and does not say so.
pub(super) fn blind(oracle: &str) -> String {
    format!(
        "{oracle} saw no commands, and judges otherwise if it does: let its `Oracle::needs_commands` return true"
    )
}

/// The text of a pass that means nothing, if the scenario has no oracle.
pub(super) fn without_oracle(scenario: &Scenario) -> Option<String> {
    scenario.oracles.is_empty().then(|| {
        "no oracle judged anything. Add one by `Scenario::always`; `Success` asks only that every client ends without an error"
            .into()
    })
}
