//! The settings of `cjson`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The settings of one instance of the library. They persist from script to script.
#[derive(Clone, Default)]
pub struct Config(Arc<Shared>);

#[derive(Default)]
struct Shared {
    settings: Mutex<Settings>,
    /// Whether a script has changed the settings since the last [`Config::take_change`].
    has_changed: AtomicBool,
}

/// The values of the settings.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Settings {
    pub sparse_convert: usize,
    pub sparse_ratio: i32,
    pub sparse_safe: i32,
    pub encode_depth_max: i32,
    pub decode_depth_max: i32,
    pub encode_invalid: usize,
    pub decode_invalid: usize,
    pub keep_buffer: usize,
    pub precision: i32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse_convert: 0,
            sparse_ratio: 2,
            sparse_safe: 10,
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            encode_invalid: 0,
            decode_invalid: 1,
            keep_buffer: 1,
            precision: PRECISION_MAX,
        }
    }
}

impl Config {
    /// Restores the defaults of Redis.
    pub fn reset(&self) {
        *self.lock() = Settings::default();
    }

    /// Whether the settings are the defaults of Redis.
    pub fn is_default(&self) -> bool {
        *self.lock() == Settings::default()
    }

    /// Whether scripts have changed the settings since the last call.
    pub fn take_change(&self) -> bool {
        let has_changed = self.0.has_changed.load(Ordering::Relaxed);
        if has_changed {
            self.0.has_changed.store(false, Ordering::Relaxed);
        }
        has_changed
    }

    /// The values now.
    pub(super) fn get(&self) -> Settings {
        *self.lock()
    }

    /// Changes the values.
    pub(super) fn change<R>(&self, act: impl FnOnce(&mut Settings) -> R) -> R {
        let mut settings = self.lock();
        let before = *settings;
        let outcome = act(&mut settings);
        if *settings != before {
            self.0.has_changed.store(true, Ordering::Relaxed);
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, Settings> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The largest number of digits of a number.
pub(super) const PRECISION_MAX: i32 = 14;
