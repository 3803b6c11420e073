//! `math.random` and `math.randomseed`.

use super::args::{Args, raise};
use super::vm::with_running;

/// `drand48`'s generator, which Redis uses for `math.random`.
///
/// Every script starts with the state that the first script of a server has. So no script can find
/// out which scripts ran before.
pub(super) struct Lrand48(u64);

impl Default for Lrand48 {
    fn default() -> Lrand48 {
        Lrand48(0x1234_ABCD_330E)
    }
}

impl Lrand48 {
    fn from_seed(seed: u32) -> Lrand48 {
        Lrand48(u64::from(seed) << 16 | 0x330E)
    }

    /// The next number from 0 up to, but not including, 1.
    fn draw(&mut self) -> f64 {
        const MODULUS: u32 = i32::MAX as u32;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        f64::from((self.0 >> 17) as u32 % MODULUS) / f64::from(MODULUS)
    }
}

/// `math.random([m [, n]])`
pub(super) fn random(bounds: &Args<'_>) -> mlua::Result<f64> {
    let drawn = with_running(bounds.lua, |running| running.random.draw());
    let (low, high) = match bounds.len() {
        0 => return Ok(drawn),
        1 => (1, bounds.int(1)?),
        2 => (bounds.int(1)?, bounds.int(2)?),
        _ => return Err(raise(bounds.lua, "wrong number of arguments")),
    };
    if low > high {
        return Err(bounds.error(bounds.len(), "interval is empty"));
    }
    // C counts the numbers in an `int`, which overflows.
    let n = high.wrapping_sub(low).wrapping_add(1);
    Ok((drawn * f64::from(n)).floor() + f64::from(low))
}

/// `math.randomseed(seed)`
pub(super) fn randomseed(args: &Args<'_>) -> mlua::Result<()> {
    let seed = args.int(1)?;
    with_running(args.lua, |running| running.random = Lrand48::from_seed(seed as u32));
    Ok(())
}
