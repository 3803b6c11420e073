//! The line of an exploration: what was judged and found, in how many schedules, and what happened
//! in them.

use std::collections::BTreeSet;
use std::fmt;

use super::exploration::Exploration;
use crate::lint::Allowance;
use crate::oracle::list;
use crate::render::on_one_line;
use crate::shrink::Finding;
use crate::trace::Reached;

/// One line: what was judged and found, in how many schedules, and what happened in them.
/// As [`Display`](fmt::Display): `unwrap_err` prints it if a scenario passes that has to fail.
impl fmt::Debug for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n{self}")
    }
}

impl fmt::Display for Exploration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Exploration { schedules, blocked, findings, reached, lints, allowances, unloaded, .. } = self;
        if findings.is_empty() {
            let judged: BTreeSet<&str> = self.judged.iter().map(|&(_, name)| name).collect();
            match judged.is_empty() {
                // A shard may have no branches, or nothing to judge.
                true => f.write_str("nothing was judged")?,
                false => write!(f, "no violation of {}", list(&Vec::from_iter(judged)))?,
            }
        } else {
            let violated = findings.iter().map(|Finding { oracle, schedule, .. }| {
                format!("{} (after {} steps)", oracle.name(), schedule.steps.len())
            });
            write!(f, "violations of {}", list(&Vec::from_iter(violated)))?;
        }
        write!(f, " in {schedules} schedule{}", if *schedules == 1 { "" } else { "s" })?;
        if *blocked > 0 {
            write!(f, " (and {blocked} that others cover)")?;
        }
        if *reached != Reached::default() {
            write!(f, "; reached: {reached}")?;
        }
        if self.are_replies_prompt {
            f.write_str("; left out by prompt_replies: late replies, and processes that stand still")?;
        }
        if self.is_overrun_unjudged {
            f.write_str(
                "; a holder was still inside when its lease had ended, and no oracle was asked about that: ",
            )?;
            f.write_str("ask ExclusiveBelief, or Fenced")?;
        }
        if !lints.is_empty() {
            let names: BTreeSet<&str> = lints.iter().map(|warning| warning.lint.name).collect();
            write!(f, "; lints: {}", Vec::from_iter(names).join(", "))?;
        }
        for Allowance { lint, reason, is_fulfilled } in allowances {
            let allowed = if *is_fulfilled { "allowed" } else { "allowed without need" };
            write!(f, "; {allowed}: {} ({})", lint.name, on_one_line(reason))?;
        }
        if !unloaded.is_empty() {
            let scripts = on_one_line(&list(unloaded));
            write!(f, "; clients had to load {scripts}: Scenario::script leaves that out")?;
        }
        Ok(())
    }
}
