//! All algorithms by name, for programs that run, list or test them. A program that only uses a
//! lock does not need this module.

use crate::published::{jobs, limiters};
pub use crate::spec::{Ability, Algorithm, AlgorithmKind, DynLock, FaultClass, Open, Property, Spec};
pub use crate::task::{Doing, Side, Task, Work};
use crate::{
    election, idempotency, multi_lock, mutex, published, rate_limiter, redlock, reentrant_mutex, rw_lock,
    semaphore,
};

/// Every algorithm: the locks, then the limiters, then what is done once. The published ones come
/// before the correct ones.
pub const ALGORITHMS: &[Algorithm] = &[
    published::exists_set::ALGORITHM,
    published::setnx::ALGORITHM,
    published::setnx_expire::ALGORITHM,
    published::del_setnx_takeover::ALGORITHM,
    published::getset_takeover::ALGORITHM,
    published::lua_setnx_expire::ALGORITHM,
    published::lua_token::ALGORITHM,
    published::set_nx_ex_del::ALGORITHM,
    published::set_nx_get_del::ALGORITHM,
    published::set_nx_px_cad::ALGORITHM,
    published::redlock::ALGORITHM,
    published::redlock::ALGORITHM_OF_THREE,
    published::reentrant_hash::ALGORITHM,
    published::renewed_hash::ALGORITHM,
    published::local_reentrant::ALGORITHM,
    published::redisson::ALGORITHM,
    published::redisson::ALGORITHM_IN_PROCESS,
    published::subscribed::ALGORITHM,
    published::rw_two_keys::ALGORITHM,
    published::rw_hash::ALGORITHM,
    published::zset_semaphore::ALGORITHM,
    published::fair_semaphore_posted::ALGORITHM,
    published::fair_semaphore_comment::ALGORITHM,
    published::fair_semaphore_weighted::ALGORITHM,
    published::fair_semaphore_locked::ALGORITHM,
    published::quorum_semaphore::ALGORITHM,
    published::leader_set::ALGORITHM,
    published::leader_set::ALGORITHM_CHECKED,
    mutex::ALGORITHM,
    mutex::ALGORITHM_RENEWED,
    mutex::ALGORITHM_WAITING,
    mutex::ALGORITHM_FAIR,
    reentrant_mutex::ALGORITHM,
    semaphore::ALGORITHM,
    semaphore::ALGORITHM_WAITING,
    semaphore::ALGORITHM_FAIR,
    semaphore::ALGORITHM_RENEWED,
    rw_lock::ALGORITHM,
    rw_lock::ALGORITHM_WAITING,
    rw_lock::ALGORITHM_RENEWED,
    multi_lock::ALGORITHM,
    multi_lock::ALGORITHM_WAITING,
    multi_lock::ALGORITHM_RENEWED,
    redlock::ALGORITHM,
    election::ALGORITHM,
    limiters::incr_expire::ALGORITHM,
    limiters::incr_by_window::ALGORITHM,
    limiters::incr_in_script::ALGORITHM,
    limiters::sliding_window_counter::ALGORITHM,
    limiters::zset_log::ALGORITHM,
    limiters::token_bucket::ALGORITHM,
    limiters::token_bucket::ALGORITHM_BY_TIME,
    limiters::leaky_bucket::ALGORITHM,
    limiters::gcra::ALGORITHM,
    rate_limiter::ALGORITHM_WINDOW,
    rate_limiter::ALGORITHM_BUCKET,
    jobs::popped_queue::ALGORITHM,
    jobs::delayed_queue::ALGORITHM,
    jobs::delayed_queue::ALGORITHM_CHECKED,
    jobs::lmove_queue::ALGORITHM,
    jobs::stalled_queue::ALGORITHM,
    jobs::stock::ALGORITHM,
    jobs::stock::ALGORITHM_IN_SCRIPT,
    jobs::cache_fill::ALGORITHM,
    jobs::cache_fill::ALGORITHM_PLACEHOLDER,
    jobs::idempotency_key::ALGORITHM,
    jobs::idempotency_key::ALGORITHM_NX,
    idempotency::ALGORITHM,
];

/// The algorithms that are locks.
pub fn locks() -> impl Iterator<Item = &'static Algorithm> {
    ALGORITHMS.iter().filter(|algorithm| algorithm.spec.kind.is_lock())
}
