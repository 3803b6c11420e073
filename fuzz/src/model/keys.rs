//! The commands on keys of any type, and on their times to live.

use emulator::Reply;

use super::arguments::{Flags, Key, Number, Start, Unit};
use super::op::Op;
use super::{Answer, Model, Value, truth};

impl Model {
    pub(super) fn expire(
        &mut self,
        op: &Op,
        key: Key,
        (amount, unit, from): (Number, Unit, Start),
        flags: Flags,
    ) -> Answer {
        if flags.nx && (flags.xx || flags.gt || flags.lt) {
            return Err("ERR NX and XX, GT or LT options at the same time are not compatible".into());
        }
        if flags.gt && flags.lt {
            return Err("ERR GT and LT options at the same time are not compatible".into());
        }
        let new = self.moment(amount, unit, from).ok_or_else(|| invalid_expire(op))?;
        let Some(entry) = self.keys.get(&key) else { return Ok(truth(false)) };
        let is_refused = match entry.deadline_ms {
            None => flags.xx || flags.gt,
            Some(old) => flags.nx || flags.gt && new <= old || flags.lt && new >= old,
        };
        if !is_refused {
            self.set_deadline(key, Some(new));
        }
        Ok(truth(!is_refused))
    }

    pub(super) fn ttl(&self, key: Key, unit: Unit, from: Start) -> Reply {
        let Some(entry) = self.keys.get(&key) else { return Reply::Integer(-2) };
        let Some(deadline_ms) = entry.deadline_ms else { return Reply::Integer(-1) };
        let millis = if from == Start::Now { deadline_ms.saturating_sub(self.now_ms) } else { deadline_ms };
        // Rounded to the nearest second.
        let seconds = (i128::from(millis) + 500) / 1000;
        Reply::Integer(if unit == Unit::Millis { millis } else { seconds as i64 })
    }

    pub(super) fn persist(&mut self, key: Key) -> Reply {
        let had_deadline = self.deadline(key).is_some();
        self.set_deadline(key, None);
        truth(had_deadline)
    }

    pub(super) fn rename(&mut self, from: Key, to: Key, nx: bool) -> Answer {
        let entry = self.keys.get(&from).cloned().ok_or("ERR no such key")?;
        if nx && self.keys.contains_key(&to) {
            return Ok(truth(false));
        }
        self.keys.remove(&from);
        self.keys.insert(to, entry);
        Ok(if nx { truth(true) } else { Reply::OK })
    }

    pub(super) fn copy(&mut self, from: Key, to: Key, replace: bool) -> Answer {
        if from == to {
            return Err("ERR source and destination objects are the same".into());
        }
        let is_free = replace || !self.keys.contains_key(&to);
        match self.keys.get(&from).cloned() {
            Some(entry) if is_free => {
                self.keys.insert(to, entry);
                Ok(truth(true))
            }
            _ => Ok(truth(false)),
        }
    }

    pub(super) fn kind(&self, key: Key) -> Reply {
        Reply::status(match self.keys.get(&key).map(|entry| &entry.value) {
            None => "none",
            Some(Value::String(_)) => "string",
            Some(Value::ZSet(_)) => "zset",
        })
    }

    pub(super) fn deadline(&self, key: Key) -> Option<i64> {
        self.keys.get(&key)?.deadline_ms
    }

    /// Sets the deadline. If it has already passed, the key is deleted.
    pub(super) fn set_deadline(&mut self, key: Key, deadline_ms: Option<i64>) {
        if deadline_ms.is_some_and(|deadline_ms| deadline_ms <= self.now_ms) {
            self.keys.remove(&key);
        } else if let Some(entry) = self.keys.get_mut(&key) {
            entry.deadline_ms = deadline_ms;
        }
    }

    pub(super) fn positive(&self, op: &Op, amount: Number, unit: Unit, from: Start) -> Result<i64, String> {
        let moment = self.moment(amount, unit, from).filter(|_| amount.get() > 0);
        moment.ok_or_else(|| invalid_expire(op))
    }

    /// The time in milliseconds since the epoch; `None` if it does not fit.
    fn moment(&self, amount: Number, unit: Unit, from: Start) -> Option<i64> {
        let factor = if unit == Unit::Seconds { 1000 } else { 1 };
        let start_ms = if from == Start::Now { self.now_ms } else { 0 };
        i64::try_from(i128::from(amount.get()) * factor).ok()?.checked_add(start_ms)
    }
}

fn invalid_expire(op: &Op) -> String {
    format!("ERR invalid expire time in '{}' command", op.name().unwrap_or_default())
}
