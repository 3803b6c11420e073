//! Connections that close while a script has the engine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::Slot;

/// The clients whose connections closed while the engine was in use elsewhere.
#[derive(Default)]
pub struct Departed {
    slots: Mutex<Vec<Slot>>,
    /// Read before each execution, because a lock there would cost more.
    is_any: AtomicBool,
}

impl Departed {
    /// Leaves a client to be closed later.
    pub fn push(&self, slot: Slot) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.push(slot);
        self.is_any.store(true, Ordering::Release);
    }

    pub(super) fn take(&self) -> Vec<Slot> {
        if !self.is_any.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_any.store(false, Ordering::Relaxed);
        std::mem::take(&mut slots)
    }
}
