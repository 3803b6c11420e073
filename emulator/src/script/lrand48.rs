//! The generator of `math.random`.

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
    pub fn from_seed(seed: u32) -> Lrand48 {
        Lrand48(u64::from(seed) << 16 | 0x330E)
    }

    /// The next number from 0 up to, but not including, 1.
    pub fn draw(&mut self) -> f64 {
        const MODULUS: u32 = i32::MAX as u32;
        self.0 = self.0.wrapping_mul(0x5_DEEC_E66D).wrapping_add(0xB) & ((1 << 48) - 1);
        f64::from((self.0 >> 17) as u32 % MODULUS) / f64::from(MODULUS)
    }
}
