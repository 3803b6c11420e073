//! The commands on strings.

use emulator::Reply;

use super::arguments::{Expiry, Key, Number, Start, Text, Unit};
use super::op::Op;
use super::{Answer, Entry, Model, STRING_BYTES_MAX, Value, WRONG_TYPE, bulk, count, truth};

const NOT_AN_INTEGER: &str = "ERR value is not an integer or out of range";

impl Model {
    pub(super) fn set(
        &mut self,
        op: &Op,
        key: Key,
        text: &Text,
        must_exist: Option<bool>,
        get: bool,
        expiry: Expiry,
    ) -> Answer {
        let deadline_ms = match expiry {
            Expiry::None => None,
            Expiry::Keep => self.deadline(key),
            Expiry::At(amount, unit, from) => Some(self.positive(op, amount, unit, from)?),
        };
        let old = if get { bulk(self.string(key)?) } else { Reply::OK };
        let is_wanted = must_exist.is_none_or(|must| self.keys.contains_key(&key) == must);
        if is_wanted {
            self.put(key, text.bytes(), deadline_ms);
        }
        Ok(if is_wanted || get { old } else { Reply::Nil })
    }

    pub(super) fn set_nx(&mut self, key: Key, text: &Text) -> Answer {
        let is_free = !self.keys.contains_key(&key);
        if is_free {
            self.put(key, text.bytes(), None);
        }
        Ok(truth(is_free))
    }

    pub(super) fn set_ex(&mut self, op: &Op, key: Key, amount: Number, unit: Unit, text: &Text) -> Answer {
        let deadline_ms = self.positive(op, amount, unit, Start::Now)?;
        self.put(key, text.bytes(), Some(deadline_ms));
        Ok(Reply::OK)
    }

    pub(super) fn get_set(&mut self, key: Key, text: &Text) -> Answer {
        let old = bulk(self.string(key)?);
        self.put(key, text.bytes(), None);
        Ok(old)
    }

    pub(super) fn get_ex(&mut self, op: &Op, key: Key, expiry: Expiry) -> Answer {
        let Some(old) = self.string(key)?.cloned() else { return Ok(Reply::Nil) };
        match expiry {
            Expiry::None => {}
            Expiry::Keep => self.set_deadline(key, None),
            Expiry::At(amount, unit, from) => {
                let deadline_ms = self.positive(op, amount, unit, from)?;
                self.set_deadline(key, Some(deadline_ms));
            }
        }
        Ok(bulk(Some(&old)))
    }

    pub(super) fn get_del(&mut self, key: Key) -> Answer {
        let old = bulk(self.string(key)?);
        self.keys.remove(&key);
        Ok(old)
    }

    pub(super) fn get_range(&self, key: Key, start: Number, end: Number) -> Answer {
        let text = self.string(key)?.cloned().unwrap_or_default();
        let (start, end, len) = (start.get(), end.get(), text.len() as i64);
        if start < 0 && end < 0 && start > end {
            return Ok(bulk(Some(&Vec::new())));
        }
        let place = |idx: i64| if idx < 0 { (len + idx).max(0) } else { idx };
        let (start, end) = (place(start), place(end).min(len - 1));
        let part = if start > end { &[][..] } else { &text[start as usize..=end as usize] };
        Ok(bulk(Some(&part.to_vec())))
    }

    pub(super) fn set_range(&mut self, key: Key, offset: Number, text: &Text) -> Answer {
        let (offset, text) = (offset.get(), text.bytes());
        if offset < 0 {
            return Err("ERR offset is out of range".into());
        }
        let old = self.string(key)?.cloned();
        let len = old.as_ref().map_or(0, Vec::len);
        if text.is_empty() {
            return Ok(count(len));
        }
        if offset.saturating_add(text.len() as i64) > STRING_BYTES_MAX {
            return Err("ERR string exceeds maximum allowed size (proto-max-bulk-len)".into());
        }
        let (mut new, offset) = (old.unwrap_or_default(), offset as usize);
        new.resize(new.len().max(offset + text.len()), 0);
        new[offset..offset + text.len()].copy_from_slice(&text);
        Ok(count(self.put_keeping(key, new)))
    }

    pub(super) fn append(&mut self, key: Key, text: &Text) -> Answer {
        let mut new = self.string(key)?.cloned().unwrap_or_default();
        new.extend(text.bytes());
        Ok(count(self.put_keeping(key, new)))
    }

    pub(super) fn increment(&mut self, key: Key, by: Option<i64>) -> Answer {
        let by = by.ok_or("ERR decrement would overflow")?;
        let text = self.string(key)?.cloned().unwrap_or_else(|| b"0".into());
        let old = std::str::from_utf8(&text).ok().and_then(|text| text.parse::<i64>().ok());
        // Redis accepts a number only in the form in which Redis writes it.
        let old = old.filter(|old| old.to_string().as_bytes() == text).ok_or(NOT_AN_INTEGER)?;
        let new = old.checked_add(by).ok_or("ERR increment or decrement would overflow")?;
        self.put_keeping(key, new.to_string().into());
        Ok(Reply::Integer(new))
    }

    pub(super) fn m_set(&mut self, pairs: &[(Key, Text)]) -> Reply {
        self.put_all(pairs);
        Reply::OK
    }

    pub(super) fn m_set_nx(&mut self, pairs: &[(Key, Text)]) -> Reply {
        let are_free = pairs.iter().all(|(key, _)| !self.keys.contains_key(key));
        if are_free {
            self.put_all(pairs);
        }
        truth(are_free)
    }

    pub(super) fn m_get(&self, keys: &[Key]) -> Reply {
        let texts = keys.iter().map(|key| bulk(self.string(*key).unwrap_or_default()));
        Reply::Array(texts.collect())
    }

    pub(super) fn string(&self, key: Key) -> Result<Option<&Vec<u8>>, String> {
        match self.keys.get(&key).map(|entry| &entry.value) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::ZSet(_)) => Err(WRONG_TYPE.into()),
        }
    }

    fn put(&mut self, key: Key, text: Vec<u8>, deadline_ms: Option<i64>) {
        self.keys.insert(key, Entry { value: Value::String(text), deadline_ms });
    }

    fn put_all(&mut self, pairs: &[(Key, Text)]) {
        pairs.iter().for_each(|(key, text)| self.put(*key, text.bytes(), None));
    }

    /// Stores a string and keeps the deadline. Returns the length of the string.
    fn put_keeping(&mut self, key: Key, text: Vec<u8>) -> usize {
        let len = text.len();
        self.put(key, text, self.deadline(key));
        len
    }
}
