//! The places where the network cuts a stream.

/// The lengths of the pieces. After the last length, the first is used again.
pub struct Cuts<'a>(&'a [u8]);

impl<'a> Cuts<'a> {
    /// The most lengths in one input.
    const LENGTHS_MAX: u8 = 15;

    /// Takes the lengths off the front of `data`: their number (its lower four bits), then one byte
    /// for each.
    pub fn take_from(data: &mut &'a [u8]) -> Cuts<'a> {
        let Some((&count, rest)) = data.split_first() else { return Cuts(&[]) };
        let (lengths, rest) = rest.split_at(rest.len().min((count & Cuts::LENGTHS_MAX).into()));
        *data = rest;
        Cuts(lengths)
    }

    /// The lengths as they stand in the input.
    pub fn lengths(&self) -> &'a [u8] {
        self.0
    }

    /// The pieces of `stream`, some of which may be empty. If all lengths are zero, the pieces are
    /// single bytes.
    pub fn pieces<'s>(&self, stream: &'s [u8]) -> impl Iterator<Item = &'s [u8]> + use<'s, 'a> {
        let lengths = if self.0.iter().all(|&len| len == 0) { &[1] } else { self.0 };
        let mut rest = stream;
        lengths.iter().cycle().map_while(move |&len| {
            let (piece, tail) = rest.split_at_checked(len.into()).unwrap_or((rest, &[]));
            let is_left = !rest.is_empty();
            rest = tail;
            is_left.then_some(piece)
        })
    }
}
