//! Writes the results of this process while it explores, and continues where an earlier process
//! stopped. It does not know how schedules are run.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::division::Division;
use super::report::Report;
use super::results::{
    BranchResult, Ending, Line, Origin, Plan, RESULTS_EXTENSION, Results, ResultsError, complete_lines,
};
use super::shard::{BranchId, Shard};
use crate::execution::{KnownCode, Runner, cores};
use crate::fingerprint::fingerprint;
use crate::scenario::Scenario;

/// The shard of an exploration that this process runs, and what is done.
#[derive(Debug)]
pub(super) struct Journal {
    origin: Origin,
    /// How many branches run at the same time.
    jobs: usize,
    plans: Vec<Plan>,
    done: BTreeMap<BranchId, BranchResult>,
    counts: Counts,
    /// How often the exploration has begun.
    begun: usize,
    /// A shard that has failed, and the branch at which it did.
    failed: OnceLock<(Shard, BranchId)>,
    file: Option<Kept>,
}

/// Numbers of branches, with trunks.
#[derive(Debug, Default)]
struct Counts {
    /// All that there are.
    all: usize,
    /// Those of this shard.
    own: usize,
    /// Those of this shard that an earlier process has done.
    resumed: usize,
}

/// An open file with results.
#[derive(Debug)]
struct Kept {
    path: PathBuf,
    file: Mutex<File>,
    /// The knowledge of the earlier process.
    known: Option<KnownCode>,
}

impl Journal {
    /// A journal of a whole exploration that is not written.
    pub(super) fn unwritten(scenario: &Scenario) -> Journal {
        Journal {
            origin: Origin::of(scenario, "exhaustive", Shard::WHOLE),
            jobs: cores(),
            plans: Vec::new(),
            done: BTreeMap::new(),
            counts: Counts::default(),
            begun: 0,
            failed: OnceLock::new(),
            file: None,
        }
    }

    /// The journal of a shard. If an earlier process has written it, reads what is done.
    ///
    /// # Errors
    /// The file cannot be used, or is that of something else.
    pub(super) fn open(
        division: &Division,
        scenario: &Scenario,
        method: &str,
    ) -> Result<Journal, Box<Report>> {
        let origin = Origin::of(scenario, method, division.shard);
        let mut journal = Journal { origin, jobs: division.jobs, ..Journal::unwritten(scenario) };
        if let Some(folder) = &division.results {
            journal.read(folder).map_err(|why| journal.refuse(&why))?;
        }
        Ok(journal)
    }

    fn read(&mut self, folder: &Path) -> Result<(), String> {
        let path = folder.join(self.file_name());
        let unreachable = |error| ResultsError::unreachable(&path, &error).to_string();
        fs::create_dir_all(folder).map_err(unreachable)?;
        let open = OpenOptions::new().read(true).append(true).create(true).open(&path);
        let mut file = open.map_err(unreachable)?;
        // Some file systems have no locks.
        if let Err(TryLockError::WouldBlock) = file.try_lock() {
            return Err(format!(
                "{} is in use: two explorations have this name, or two processes run this shard. \
                 Give each scenario its own name, and each process its own shard",
                path.display()
            ));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(unreachable)?;
        let whole = complete_lines(&text);
        file.set_len(whole.len() as u64).map_err(unreachable)?;
        let earlier = Results::parse(&path, whole).map_err(|error| error.to_string())?;
        let mut known = None;
        if let Some(earlier) = earlier {
            if let Some((was, is)) = earlier.origin.difference(&self.origin) {
                return Err(format!("{} has results of {was}, and this is {is}. {CHANGED}", path.display()));
            }
            known = Some(earlier.origin.known);
            self.plans = earlier.plans;
            let branches = earlier.branches.into_iter();
            self.done = branches.map(|branch| ((branch.actors, branch.nth), branch)).collect();
        }
        self.file = Some(Kept { path, file: Mutex::new(file), known });
        Ok(())
    }

    /// A file name that another exploration or shard does not have.
    fn file_name(&self) -> String {
        const READABLE_MAX: usize = 40;
        let Origin { scenario, method, shard, .. } = &self.origin;
        let readable: String = scenario
            .chars()
            .take(READABLE_MAX)
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
            .collect();
        let hash = fingerprint((scenario, method)) as u32;
        let shard = shard.to_string().replace('/', "-of-");
        format!("{readable}.{hash:08x}.{shard}.{RESULTS_EXTENSION}")
    }

    /// The results of other shards, and earlier ones of this shard, as far as they are in the
    /// folder.
    fn alike(&self) -> Result<Vec<Results>, Box<Report>> {
        let Some(Kept { path, .. }) = &self.file else { return Ok(Vec::new()) };
        let folder = path.parent().unwrap_or(path);
        let entries = fs::read_dir(folder).map_err(|error| self.unwritable(&error))?;
        let files = entries.flatten().map(|entry| entry.path());
        let files = files.filter(|file| file.extension().is_some_and(|of| of == RESULTS_EXTENSION));
        // Files that cannot be used are for their own shards to report.
        let results = files.filter_map(|file| Results::read(&file).ok().flatten());
        let is_alike = |Results { origin, .. }: &Results| {
            (&origin.scenario, &origin.method) == (&self.origin.scenario, &self.origin.method)
                && origin.difference(&self.origin).is_none()
        };
        Ok(results.filter(is_alike).collect())
    }

    /// Whether another shard has failed at an earlier branch. One process would have ended there.
    pub(super) fn is_over_before(&self, branch: BranchId) -> bool {
        if self.is_shared() && self.failed.get().is_none() {
            let is_same_code = |results: &Results, at: BranchId| {
                let mut plans = results.plans.iter().filter(|plan| plan.actors <= at.0);
                results.origin.known == self.origin.known && plans.all(|plan| self.plans.contains(plan))
            };
            let failed = |results: &Results| {
                let at = results.failure().filter(|_| results.origin.shard != self.origin.shard)?.at?;
                (at < branch && is_same_code(results, at)).then_some((results.origin.shard, at))
            };
            // If the folder cannot be read, this shard goes on.
            let failed = self.alike().unwrap_or_default().iter().find_map(failed);
            failed.map(|failed| self.failed.set(failed));
        }
        self.failed.get().is_some_and(|&(_, at)| at < branch)
    }

    /// Lets the runner know what this shard and others have found out about the scenario's code.
    pub(super) fn tell(&mut self, runner: &mut Runner, scenario: &Scenario) -> Result<(), Box<Report>> {
        if self.file.is_none() {
            return Ok(());
        }
        let known = self.alike()?.into_iter().map(|results| results.origin.known);
        self.origin.known = known.fold(KnownCode::default(), KnownCode::or);
        runner.know_code(scenario, &self.origin.known);
        Ok(())
    }

    /// Begins the exploration, or begins it again because more is known.
    pub(super) fn begin(&mut self, runner: &Runner, scenario: &Scenario) -> Result<(), Box<Report>> {
        let mut known = runner.known_code(scenario);
        known.is_unlearned = self.origin.known.is_unlearned;
        // If nothing else is known now, the code does not do what was learned.
        known.is_unlearned |= self.begun > 0 && known == self.origin.known;
        self.begun += 1;
        self.origin.known = known;
        let Some(kept) = &mut self.file else { return Ok(()) };
        if self.begun > 1 || kept.known.as_ref() != Some(&self.origin.known) {
            self.plans.clear();
            self.done.clear();
            let file = kept.file.get_mut().unwrap_or_else(PoisonError::into_inner);
            let emptied = file.set_len(0);
            emptied.map_err(|error| self.unwritable(&error))?;
            self.write(&Line::Exploration(Box::new(self.origin.clone())))?;
        }
        self.counts = Counts::default();
        Ok(())
    }

    /// Whether results are written.
    pub(super) fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Whether other processes run other shards.
    pub(super) fn is_shared(&self) -> bool {
        self.origin.shard != Shard::WHOLE
    }

    /// How many branches run at the same time.
    pub(super) fn jobs(&self) -> usize {
        self.jobs
    }

    /// Whether this shard has the trunks, with all schedules of what is not divided.
    pub(super) fn has_trunk(&self) -> bool {
        self.origin.has_trunk()
    }

    /// Notes how one number of actors is divided. Returns the branches of this shard, by their
    /// numbers.
    pub(super) fn plan(&mut self, plan: Plan) -> Result<Vec<BranchId>, Box<Report>> {
        let (actors, branches) = (plan.actors, plan.branches);
        match self.plans.iter().find(|other| other.actors == actors) {
            Some(other) if *other != plan => {
                let path = self.file.as_ref().map(|kept| kept.path.display().to_string());
                return Err(self.refuse(&format!(
                    "{} has results of other code: the clients now do something else. {CHANGED}",
                    path.unwrap_or_default()
                )));
            }
            Some(_) => {}
            None => {
                self.write(&Line::Plan(plan.clone()))?;
                self.plans.push(plan);
            }
        }
        let own: Vec<BranchId> = self.origin.branches(actors, branches).collect();
        self.counts.all += 1 + branches;
        self.counts.own += own.len();
        self.counts.resumed += own.iter().filter(|id| self.done.contains_key(id)).count();
        Ok(own)
    }

    /// The result of a branch, if it is done.
    pub(super) fn done(&self, id: BranchId) -> Option<&BranchResult> {
        self.done.get(&id)
    }

    /// Writes the result of a branch.
    pub(super) fn save(&self, branch: &BranchResult) -> Result<(), Box<Report>> {
        self.write(&Line::Branch(std::borrow::Cow::Borrowed(branch)))
    }

    /// Writes how the shard ended.
    pub(super) fn end(&self, report: Option<&Report>) -> Result<(), Box<Report>> {
        self.write(&Line::Ending(Ending { failure: report.map(Report::failure) }))
    }

    /// A note for the user, if this process did not simply run everything.
    pub(super) fn note(&self, schedules: u64) -> Option<String> {
        let Origin { scenario, shard, .. } = &self.origin;
        let Counts { all, own, resumed } = self.counts;
        let resumed = match resumed {
            0 => String::new(),
            _ => format!(" It resumed: {resumed} of {own} branches were done."),
        };
        let what = match (*shard, own) {
            (Shard::WHOLE, _) if resumed.is_empty() => return None,
            (Shard::WHOLE, _) => return Some(format!("{scenario}:{resumed}")),
            (_, 0) => "has nothing to do: other shards have all branches".into(),
            _ => format!("has {own} of {all} branches, with {schedules} schedules"),
        };
        let ended = match self.failed.get() {
            Some((failed, _)) => format!(" It ended early, because shard {failed} has failed."),
            None => String::new(),
        };
        let judge = match &self.file {
            Some(Kept { path, .. }) => {
                let folder = path.parent().unwrap_or(path);
                format!("`lockstep merge {}`, with the results of all shards, tells", folder.display())
            }
            None => "Set LOCKSTEP_RESULTS to a folder, so that `lockstep merge` can tell".into(),
        };
        Some(format!("{scenario}: shard {shard} {what}.{resumed}{ended} {judge} whether the whole passes."))
    }

    fn write(&self, line: &Line<'_>) -> Result<(), Box<Report>> {
        let Some(Kept { file, .. }) = &self.file else { return Ok(()) };
        let mut text = serde_json::to_string(line).expect("results have no keys but texts");
        text.push('\n');
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(text.as_bytes()).map_err(|error| self.unwritable(&error))
    }

    fn unwritable(&self, error: &std::io::Error) -> Box<Report> {
        let path = self.file.as_ref().map_or(Path::new(""), |kept| &kept.path);
        self.refuse(&ResultsError::unreachable(path, error))
    }

    /// The report of an exploration that cannot be divided, or not resumed.
    fn refuse(&self, why: &impl ToString) -> Box<Report> {
        Box::new(Report::undivided(&self.origin.scenario, why.to_string()))
    }
}

/// The advice for results of something else.
const CHANGED: &str = "If the test has changed, remove the files with results, and run all shards again. \
                       If two explorations have this name, give each its own";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::{KnownCode, Learning, Mode};

    /// Otherwise two processes would explore different schedules of one scenario.
    #[test]
    fn a_runner_takes_over_what_another_process_found_out() {
        let scenario = Scenario::new("one").actors(1, |_| async { Ok(()) });
        let mut runner = Runner::new().learning(Learning::Eager);
        assert!(runner.best_mode(&scenario) != Mode::Real);
        let mut known: KnownCode = runner.known_code(&scenario);
        assert!(!known.has_thresholds);
        (known.has_thresholds, known.is_unlearned) = (true, true);
        runner.know_code(&scenario, &known);
        assert!(runner.known_code(&scenario).has_thresholds);
        assert!(runner.best_mode(&scenario) == Mode::Real);
    }
}
