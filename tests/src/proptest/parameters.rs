//! The parameters of a scenario, as values and as text. They do not say which code the clients run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use emulator::DRIFT_PPM;

use crate::actor::ACTORS_MAX;
use crate::fault::{self, Faults};
use crate::scenario::Limits;
use crate::schedule::SPAN_MAX;

/// The usual parameters of a scenario. As text: `clients 2, permits 1, lease 10000ms, stalls 1`.
/// Budgets of zero are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// The number of actors.
    pub clients: usize,
    /// How many of them may be inside at once.
    pub permits: u32,
    /// How long a grant lasts.
    pub lease: Duration,
    /// The fault budgets.
    pub faults: Faults,
}

/// Two clients, one permit, ten seconds, no faults.
impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { clients: 2, permits: 1, lease: Duration::from_secs(10), faults: Faults::none() }
    }
}

/// One of the parameters.
struct Field {
    name: String,
    value: Value,
}

/// The place of a parameter and its unit.
enum Value {
    Actors,
    Permits,
    Lease,
    Fault(&'static fault::Value),
}

/// This many of the first parameters are always printed.
const ALWAYS: usize = 3;

/// All parameters: the scenario's own, and the fault budgets.
fn fields() -> impl Iterator<Item = Field> {
    let own = [("clients", Value::Actors), ("permits", Value::Permits), ("lease", Value::Lease)];
    let faults = fault::FIELDS.iter().map(|field| (field.name, Value::Fault(&field.value)));
    own.into_iter().chain(faults).map(|(name, value)| Field { name: name.replace('_', "-"), value })
}

impl Field {
    fn unit(&self) -> &'static str {
        match self.value {
            Value::Actors | Value::Permits | Value::Fault(fault::Value::Count(_)) => "",
            Value::Fault(fault::Value::Ppm(_)) => "ppm",
            Value::Lease | Value::Fault(fault::Value::Span(_)) => "ms",
        }
    }

    fn get(&self, mut parameters: Parameters) -> u64 {
        match self.value {
            Value::Actors => parameters.clients as u64,
            Value::Permits => parameters.permits.into(),
            Value::Lease => parameters.lease.as_millis() as u64,
            Value::Fault(fault::Value::Count(of) | fault::Value::Ppm(of)) => {
                (*of(&mut parameters.faults)).into()
            }
            Value::Fault(fault::Value::Span(of)) => of(&mut parameters.faults).as_millis() as u64,
        }
    }

    /// The largest number that a text may have. In one execution, no event happens more often than
    /// there are steps.
    fn max(&self) -> u64 {
        match self.value {
            Value::Actors => ACTORS_MAX as u64,
            Value::Permits | Value::Fault(fault::Value::Count(_)) => Limits::default().steps as u64,
            Value::Fault(fault::Value::Ppm(_)) => DRIFT_PPM.end().unsigned_abs(),
            Value::Lease | Value::Fault(fault::Value::Span(_)) => SPAN_MAX.as_millis() as u64,
        }
    }

    /// Sets the parameter; `None` if the number is too large.
    fn set(&self, parameters: &mut Parameters, number: u64) -> Option<()> {
        let number = Some(number).filter(|&number| number <= self.max())?;
        match self.value {
            Value::Actors => parameters.clients = number as usize,
            Value::Permits => parameters.permits = number as u32,
            Value::Lease => parameters.lease = Duration::from_millis(number),
            Value::Fault(fault::Value::Count(of) | fault::Value::Ppm(of)) => {
                *of(&mut parameters.faults) = number as u32;
            }
            Value::Fault(fault::Value::Span(of)) => {
                *of(&mut parameters.faults) = Duration::from_millis(number);
            }
        }
        Some(())
    }
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = fields().enumerate().filter(|(nth, field)| *nth < ALWAYS || field.get(*self) != 0);
        let words = shown.map(|(_, field)| format!("{} {}{}", field.name, field.get(*self), field.unit()));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// Why a text is not a parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParametersError(String);

/// Parameters that are left out keep their default.
impl FromStr for Parameters {
    type Err = ParametersError;

    fn from_str(text: &str) -> Result<Parameters, ParametersError> {
        let mut parameters = Parameters::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = part.split_once(' ').and_then(|(name, value)| {
                let field = fields().find(|field| field.name == name)?;
                let number = value.trim().strip_suffix(field.unit())?;
                Some((field, number)).filter(|_| number.bytes().all(|byte| byte.is_ascii_digit()))
            });
            let Some((field, number)) = known.filter(|(_, number)| !number.is_empty()) else {
                return Err(ParametersError(format!(
                    "{part:?} is not a parameter: write for example `clients 2, permits 1, lease 10000ms, stalls 1`"
                )));
            };
            let set = number.parse().ok().and_then(|number| field.set(&mut parameters, number));
            set.ok_or_else(|| {
                ParametersError(format!(
                    "{part:?} is too large: write at most {}{}",
                    field.max(),
                    field.unit()
                ))
            })?;
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultKinds;

    /// The fields are listed one by one, so that a new fault does not compile until it is added
    /// here.
    #[test]
    fn text_and_back() {
        let faults = Faults {
            crashes: 1,
            respawns: 18,
            stalls: 2,
            lost: 3,
            drops: 4,
            partitions: 23,
            parted_for: Duration::from_millis(24),
            cancels: 5,
            delays: 6,
            skew: Duration::from_millis(7),
            drift_ppm: 8,
            server_skew: Duration::from_millis(9),
            server_drift_ppm: 10,
            jump: Duration::from_millis(11),
            server_jump: Duration::from_millis(12),
            restarts: 13,
            reloads: 14,
            unsynced: 15,
            flushes: 16,
            outage: Duration::from_millis(17),
            failovers: 19,
            behind: 4,
            old_primary_writable: 20,
            planned_failovers: 21,
            moves: 22,
            left_out: FaultKinds::default(),
        };
        let parameters = Parameters { clients: 3, permits: 2, lease: Duration::from_millis(1_500), faults };
        let text = parameters.to_string();
        assert_eq!(text.parse(), Ok(parameters));
        assert_eq!(
            text,
            "clients 3, permits 2, lease 1500ms, crashes 1, respawns 18, stalls 2, lost 3, drops 4, partitions 23, parted-for 24ms, cancels 5, delays 6, \
             skew 7ms, drift 8ppm, server-skew 9ms, server-drift 10ppm, jump 11ms, server-jump 12ms, restarts 13, reloads 14, unsynced 15, \
             flushes 16, outage 17ms, failovers 19, behind 4, old-primary-writable 20, planned-failovers 21, moves 22"
        );
        assert_eq!(Parameters::default().to_string(), "clients 2, permits 1, lease 10000ms");
        assert_eq!("".parse(), Ok(Parameters::default()));
    }

    #[test]
    fn mistakes_are_shown() {
        let error = "clients 2, leases 3ms".parse::<Parameters>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""leases 3ms" is not a parameter: write for example `clients 2, permits 1, lease 10000ms, stalls 1`"#
        );
        assert!("lease 3s".parse::<Parameters>().is_err());
        let most = |text: &str| text.parse::<Parameters>().unwrap_err().to_string();
        assert_eq!(most("unsynced 4294967295"), r#""unsynced 4294967295" is too large: write at most 5000"#);
        assert_eq!(most("clients 27"), r#""clients 27" is too large: write at most 26"#);
        assert_eq!(
            most("outage 99999999999999999999ms"),
            r#""outage 99999999999999999999ms" is too large: write at most 315360000000ms"#
        );
    }
}
