//! Keeps failures of `proptest` as text, in place of the seeds that it stores by itself.

use std::any::Any;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use ::proptest::test_runner::{FailurePersistence, PersistedSeed};

use super::parameters::Parameters;
use crate::render::printable;
use crate::schedule::Schedule;

/// The first word of each trial in a file.
pub(super) const PARAMETERS: &str = "parameters";

const HEADER: &str = "# Trials that failed once: the parameters of the scenario, and the schedule. Every run begins with them, as\n\
    # long as `Trials::regression_file` names this file. Read and edit them as you like.\n";

/// Stores failed trials as text in a file, after shrinking. It stores parameters and steps, which
/// keep their meaning if strategies or random numbers change. Use it as
/// `Config::failure_persistence`. [`super::Trials::regression_file`] runs the stored trials again.
///
/// ```text
/// parameters clients 2, permits 1, lease 1000ms, stalls 1
/// A
/// time +1001ms
/// B
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegressionFile {
    path: PathBuf,
}

impl RegressionFile {
    /// Stores trials in this file, which is created by the first failure. The path is relative to
    /// the folder of the test's crate.
    pub fn in_file(path: impl Into<PathBuf>) -> RegressionFile {
        RegressionFile { path: path.into() }
    }

    fn save(&self, trial: &str) -> io::Result<()> {
        let known = match std::fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => HEADER.to_owned(),
            known => known?,
        };
        if known.split("\n\n").any(|other| other.trim_end() == trial.trim_end()) {
            return Ok(());
        }
        std::fs::write(&self.path, format!("{known}\n{trial}"))
    }
}

impl FailurePersistence for RegressionFile {
    /// Returns nothing, because no seeds are stored.
    fn load_persisted_failures2(&self, _: Option<&'static str>) -> Vec<PersistedSeed> {
        Vec::new()
    }

    fn save_persisted_failure2(
        &mut self,
        _: Option<&'static str>,
        _: PersistedSeed,
        shrunken_value: &dyn Debug,
    ) {
        // The trial may stand among other arguments of the test.
        let text = format!("{shrunken_value:?}");
        let begin = text.lines().skip_while(|line| parameters(line).is_none());
        let mut lines = begin.map(|line| format!("{line}\n"));
        let head = lines.next();
        let steps =
            lines.take_while(|line| line.parse::<Schedule>().is_ok_and(|step| !step.steps.is_empty()));
        let trial: String = head.into_iter().chain(steps).collect();
        if !trial.is_empty()
            && let Err(error) = self.save(&trial)
        {
            eprintln!("{} cannot be written: {error}", printable(&self.path.display().to_string()));
        }
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Reads the trials of a file; none if the file does not exist.
pub(super) fn read(path: &Path) -> Result<Vec<(Parameters, Schedule)>, String> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?,
    };
    let mut trials: Vec<(Parameters, Schedule)> = Vec::new();
    for (idx, line) in text.lines().enumerate() {
        let wrong = |error: &dyn std::fmt::Display| format!("{}:{}: {error}", path.display(), idx + 1);
        match (parameters(line), trials.last_mut()) {
            (Some(text), _) => {
                trials.push((text.parse().map_err(|error| wrong(&error))?, Schedule::default()));
            }
            (None, last) => {
                let steps = line.parse::<Schedule>().map_err(|error| wrong(&error))?.steps;
                match last {
                    Some((_, schedule)) => schedule.steps.extend(steps),
                    None if steps.is_empty() => {}
                    None => return Err(wrong(&"write a line with `parameters` before the first step")),
                }
            }
        }
    }
    Ok(trials)
}

/// The text after the first word, if that word is `parameters`.
fn parameters(line: &str) -> Option<&str> {
    line.strip_prefix(PARAMETERS).filter(|rest| rest.is_empty() || rest.starts_with(' '))
}
