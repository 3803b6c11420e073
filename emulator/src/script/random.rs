//! `math.random` and `math.randomseed`.

use super::args::{Args, raise};
use super::lrand48::Lrand48;
use super::running::with_running;

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
