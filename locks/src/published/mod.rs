//! Algorithms exactly as their authors published them, flaws included. **Not for use.**
//!
//! Each doc states how the algorithm breaks. `lockstep explain NAME` shows an execution that breaks
//! it.
//!
//! Most of them share one flaw, which is not repeated there. They keep all that they know on one
//! server. If it restarts without its last write, and that was a release, the released grant is
//! back. In the same way, a job that was taken is back, and a request was never counted.

pub mod exists_set;
pub mod setnx;
pub mod setnx_expire;
pub mod del_setnx_takeover;
pub mod getset_takeover;
pub mod lua_setnx_expire;
pub mod lua_token;
pub mod set_nx_ex_del;
pub mod set_nx_get_del;
pub mod set_nx_px_cad;
pub mod redlock;
pub mod reentrant_hash;
pub mod renewed_hash;
pub mod local_reentrant;
pub mod redisson;
pub mod subscribed;
pub mod rw_two_keys;
pub mod rw_hash;
pub mod zset_semaphore;
mod fair_semaphore;
pub mod fair_semaphore_posted;
pub mod fair_semaphore_comment;
pub mod fair_semaphore_weighted;
pub mod fair_semaphore_locked;
pub mod quorum_semaphore;
pub mod leader_set;
pub mod limiters;
pub mod jobs;
