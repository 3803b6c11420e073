//! `lockstep`
fn main() {}
