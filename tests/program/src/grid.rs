//! Columns of text.

use comfy_table::{ContentArrangement, Table as Grid, presets};

/// Columns that are as wide as their cells.
pub(crate) fn grid() -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(presets::NOTHING);
    grid
}

/// Columns that wrap their cells to fit this width together.
pub(crate) fn wrapping(width: usize) -> Grid {
    let mut grid = grid();
    grid.set_content_arrangement(ContentArrangement::Dynamic);
    grid.set_width(width.try_into().unwrap_or(u16::MAX));
    grid
}

/// The lines of a grid, without spaces at their ends.
pub(crate) fn drawn(grid: &Grid) -> String {
    grid.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}
