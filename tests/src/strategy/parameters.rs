use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::fault::Faults;

/// What scenarios are commonly made from. As text `clients 2, permits 1, lease 10000ms, stalls 1`, without the faults that there
/// are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// How many actors.
    pub clients: usize,
    /// How many of them may be inside at once.
    pub permits: u32,
    /// How long a grant lasts.
    pub lease: Duration,
    /// What may go wrong.
    pub faults: Faults,
}

/// Two clients, one permit, ten seconds, no faults.
impl Default for Parameters {
    fn default() -> Parameters {
        Parameters { clients: 2, permits: 1, lease: Duration::from_secs(10), faults: Faults::none() }
    }
}

/// One of them, as a number.
struct Field {
    name: &'static str,
    unit: &'static str,
    get: fn(&Parameters) -> u64,
    set: fn(&mut Parameters, u64),
}

/// The first ones are shown in any case.
const ALWAYS: usize = 3;

const FIELDS: &[Field] = &[
    Field { name: "clients", unit: "", get: |p| p.clients as u64, set: |p, n| p.clients = n as usize },
    Field { name: "permits", unit: "", get: |p| p.permits.into(), set: |p, n| p.permits = n as u32 },
    Field { name: "lease", unit: "ms", get: |p| millis(p.lease), set: |p, n| p.lease = span(n) },
    Field {
        name: "crashes",
        unit: "",
        get: |p| p.faults.crashes.into(),
        set: |p, n| p.faults.crashes = n as u32,
    },
    Field {
        name: "stalls",
        unit: "",
        get: |p| p.faults.stalls.into(),
        set: |p, n| p.faults.stalls = n as u32,
    },
    Field { name: "lost", unit: "", get: |p| p.faults.lost.into(), set: |p, n| p.faults.lost = n as u32 },
    Field { name: "drops", unit: "", get: |p| p.faults.drops.into(), set: |p, n| p.faults.drops = n as u32 },
    Field {
        name: "cancels",
        unit: "",
        get: |p| p.faults.cancels.into(),
        set: |p, n| p.faults.cancels = n as u32,
    },
    Field {
        name: "delays",
        unit: "",
        get: |p| p.faults.delays.into(),
        set: |p, n| p.faults.delays = n as u32,
    },
    Field { name: "skew", unit: "ms", get: |p| millis(p.faults.skew), set: |p, n| p.faults.skew = span(n) },
    Field {
        name: "drift",
        unit: "ppm",
        get: |p| p.faults.drift_ppm.into(),
        set: |p, n| p.faults.drift_ppm = n as u32,
    },
    Field {
        name: "server-skew",
        unit: "ms",
        get: |p| millis(p.faults.server_skew),
        set: |p, n| p.faults.server_skew = span(n),
    },
    Field {
        name: "server-drift",
        unit: "ppm",
        get: |p| p.faults.server_drift_ppm.into(),
        set: |p, n| p.faults.server_drift_ppm = n as u32,
    },
    Field {
        name: "client-jump",
        unit: "ms",
        get: |p| millis(p.faults.client_jump),
        set: |p, n| p.faults.client_jump = span(n),
    },
    Field { name: "jump", unit: "ms", get: |p| millis(p.faults.jump), set: |p, n| p.faults.jump = span(n) },
    Field {
        name: "restarts",
        unit: "",
        get: |p| p.faults.restarts.into(),
        set: |p, n| p.faults.restarts = n as u32,
    },
    Field {
        name: "reloads",
        unit: "",
        get: |p| p.faults.reloads.into(),
        set: |p, n| p.faults.reloads = n as u32,
    },
    Field {
        name: "unsynced",
        unit: "",
        get: |p| p.faults.unsynced.into(),
        set: |p, n| p.faults.unsynced = n as u32,
    },
    Field {
        name: "flushes",
        unit: "",
        get: |p| p.faults.flushes.into(),
        set: |p, n| p.faults.flushes = n as u32,
    },
    Field {
        name: "outage",
        unit: "ms",
        get: |p| millis(p.faults.outage),
        set: |p, n| p.faults.outage = span(n),
    },
];

fn millis(span: Duration) -> u64 {
    span.as_millis() as u64
}

fn span(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl fmt::Display for Parameters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = FIELDS.iter().enumerate().filter(|(nth, field)| *nth < ALWAYS || (field.get)(self) != 0);
        let words = shown.map(|(_, field)| format!("{} {}{}", field.name, (field.get)(self), field.unit));
        f.write_str(&words.collect::<Vec<_>>().join(", "))
    }
}

/// Why a text is no parameter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} says nothing: write for example `clients 2, permits 1, lease 10000ms, stalls 1`")]
pub struct ParametersError(String);

/// What is not said is as by default.
impl FromStr for Parameters {
    type Err = ParametersError;

    fn from_str(text: &str) -> Result<Parameters, ParametersError> {
        let mut parameters = Parameters::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = part.split_once(' ').and_then(|(name, value)| {
                let field = FIELDS.iter().find(|field| field.name == name)?;
                let number: u32 = value.trim().strip_suffix(field.unit)?.parse().ok()?;
                Some((field, number))
            });
            let Some((field, number)) = known else { return Err(ParametersError(part.into())) };
            (field.set)(&mut parameters, number.into());
        }
        Ok(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written out whole, so that whoever adds a fault adds it to the fields.
    #[test]
    fn text_and_back() {
        let faults = Faults {
            crashes: 1,
            stalls: 2,
            lost: 3,
            drops: 4,
            cancels: 5,
            delays: 6,
            skew: span(7),
            drift_ppm: 8,
            server_skew: span(9),
            server_drift_ppm: 10,
            client_jump: span(11),
            jump: span(12),
            restarts: 13,
            reloads: 14,
            unsynced: 15,
            flushes: 16,
            outage: span(17),
        };
        let parameters = Parameters { clients: 3, permits: 2, lease: span(1_500), faults };
        let text = parameters.to_string();
        assert_eq!(text.parse(), Ok(parameters));
        assert_eq!(
            text,
            "clients 3, permits 2, lease 1500ms, crashes 1, stalls 2, lost 3, drops 4, cancels 5, delays 6, \
             skew 7ms, drift 8ppm, server-skew 9ms, server-drift 10ppm, client-jump 11ms, jump 12ms, restarts 13, reloads 14, unsynced 15, \
             flushes 16, outage 17ms"
        );
        assert_eq!(Parameters::default().to_string(), "clients 2, permits 1, lease 10000ms");
        assert_eq!("".parse(), Ok(Parameters::default()));
    }

    #[test]
    fn mistakes_are_shown() {
        let error = "clients 2, leases 3ms".parse::<Parameters>().unwrap_err();
        assert_eq!(
            error.to_string(),
            r#""leases 3ms" says nothing: write for example `clients 2, permits 1, lease 10000ms, stalls 1`"#
        );
        assert!("lease 3s".parse::<Parameters>().is_err());
    }
}
