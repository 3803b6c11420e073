//! Counts how many edges of `emulator/src` the inputs of each target reach: `fuzz/coverage` builds
//! and runs this.
//!
//! An edge is one of the places that the compiler counts for the fuzzer (`sancov-module`, inline
//! 8-bit counters). It belongs to `emulator/src` if its source line is there. Inlined code of the
//! standard library or a dependency does not count. The figure at the end also counts such code
//! inside functions of `emulator/src`.
//!
//! Code that no target can call is not linked and does not count. Edges to a panic count, although
//! no input reaches them unless there is a bug. The build leaves out the compiler's checks of
//! `unsafe` code, because nearly all of the emulator has no such code.
//!
//! The compiler makes several copies of a generic or small function, and inlines it in many places.
//! Each line of such a function counts once. Its number of edges, and of covered edges, is the
//! largest in any one copy. So an edge that no copy covers never counts as covered.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

// Needed for the functions that the compiler's counters call, not for its `main`.
use libfuzzer_sys as _;
use lockstep_fuzz::targets::TARGETS;

/// The folder of the sources that count.
const SOURCES: &str = "/emulator/src/";
/// A flag in the table of places: this place begins a function.
const BEGINS_FUNCTION: usize = 1;

/// A place: its address and its flags.
type Place = [usize; 2];

/// The name of a function, and a file, a line and a column in it.
type Frame = (String, String, u32, u32);

/// An edge of the emulator.
struct Edge {
    /// The index among all counters.
    idx: usize,
    /// The edge by the source line of its place, if that line is in the emulator.
    own: Option<Spot>,
    /// The edge by the enclosing function that is not inlined, if that function is in the emulator.
    outer: Option<Spot>,
    /// The number of the emulator's line that directly or indirectly calls the inlined code at this
    /// place.
    line_number: Option<usize>,
    is_covered: bool,
}

/// The place of an edge in the sources, and its copy.
struct Spot {
    /// The path below `emulator/src`.
    file: String,
    line: u32,
    /// The number of this line of the function, which is equal in all copies.
    line_id: usize,
    copy_id: usize,
}

// The linker creates these names for the two sections that the compiler fills, entry by entry.
unsafe extern "C" {
    static mut __start___sancov_cntrs: u8;
    static mut __stop___sancov_cntrs: u8;
    static __start___sancov_pcs: Place;
    static __stop___sancov_pcs: Place;
}

/// `coverage FOLDER [files | FILE]`: the coverage of the corpora in a folder. With a second
/// argument, also by file, or by line of a file; `.rs` is every file.
#[expect(clippy::disallowed_methods, reason = "how fast the inputs run is no part of any outcome")]
fn main() {
    let mut args = std::env::args().skip(1);
    let corpora = args.next().expect("the folder of the corpora");
    let mut edges = edges();
    println!("{:16} {:>8} {:>10} {:>8} {:>8} {:>6}", "target", "inputs", "inputs/s", "edges", "of", "%");
    let (mut inputs_of_all, mut seconds_of_all) = (0, 0.0);
    for (name, check) in TARGETS {
        let inputs = inputs(&Path::new(&corpora).join(name));
        let mut is_covered = vec![false; edges.len()];
        let began = Instant::now();
        for input in &inputs {
            counters().fill(0);
            check(input);
            for (covered, edge) in is_covered.iter_mut().zip(&edges) {
                *covered |= counters()[edge.idx] > 0;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        show(name, inputs.len(), seconds, sum(&lines(&edges, &is_covered, own)));
        edges.iter_mut().zip(is_covered).for_each(|(edge, covered)| edge.is_covered |= covered);
        inputs_of_all += inputs.len();
        seconds_of_all += seconds;
    }
    let is_covered: Vec<bool> = edges.iter().map(|edge| edge.is_covered).collect();
    let of_lines = lines(&edges, &is_covered, own);
    show("all", inputs_of_all, seconds_of_all, sum(&of_lines));
    println!("With what is inlined in the functions of emulator/src:");
    let of_functions = lines(&edges, &is_covered, |edge| edge.outer.as_ref());
    show("all", inputs_of_all, seconds_of_all, sum(&of_functions));
    println!("Lines of emulator/src with an edge:");
    show("all", inputs_of_all, seconds_of_all, reached_lines(&edges));
    match args.next().as_deref() {
        None => {}
        Some("files") => tell(&of_lines, |spot| Some(spot.file.clone())),
        Some(file) => tell(&of_lines, |spot| {
            spot.file.ends_with(file).then(|| format!("{}:{:03}", spot.file, spot.line))
        }),
    }
}

/// How many lines have a covered edge, and how many have any edge.
fn reached_lines(edges: &[Edge]) -> [usize; 2] {
    let mut lines = BTreeMap::new();
    for edge in edges {
        if let Some(line) = edge.line_number {
            *lines.entry(line).or_default() |= edge.is_covered;
        }
    }
    [lines.values().filter(|&&is_covered| is_covered).count(), lines.len()]
}

fn own(edge: &Edge) -> Option<&Spot> {
    edge.own.as_ref()
}

/// Each line of a function, with its numbers of covered edges and of all edges.
type Lines<'a> = Vec<(&'a Spot, [usize; 2])>;

/// The lines of all functions. Several copies of a function count once.
fn lines<'a>(edges: &'a [Edge], is_covered: &[bool], spot: impl Fn(&Edge) -> Option<&Spot>) -> Lines<'a> {
    let mut copies = BTreeMap::<_, (&Spot, [usize; 2])>::new();
    for (edge, covered) in edges.iter().zip(is_covered) {
        if let Some(spot) = spot(edge) {
            let (_, [n_covered, n]) = copies.entry((spot.line_id, spot.copy_id)).or_insert((spot, [0, 0]));
            *n_covered += usize::from(*covered);
            *n += 1;
        }
    }
    let mut lines = BTreeMap::<_, (&Spot, [usize; 2])>::new();
    for ((line_id, _), (spot, [n_covered, n])) in copies {
        let (_, most) = lines.entry(line_id).or_insert((spot, [0, 0]));
        *most = [most[0].max(n_covered), most[1].max(n)];
    }
    lines.into_values().collect()
}

fn sum(lines: &Lines<'_>) -> [usize; 2] {
    lines.iter().fold([0, 0], |[all_covered, all], (_, [covered, n])| [all_covered + covered, all + n])
}

fn show(name: &str, inputs: usize, seconds: f64, [covered, all]: [usize; 2]) {
    let percent = 100.0 * covered as f64 / all as f64;
    println!("{name:16} {inputs:8} {:10.0} {covered:8} {all:8} {percent:6.1}", inputs as f64 / seconds);
}

/// Prints the covered edges and all edges for each name.
fn tell(lines: &Lines<'_>, name: impl Fn(&Spot) -> Option<String>) {
    let mut groups = BTreeMap::<String, [usize; 2]>::new();
    for (spot, [covered, n]) in lines {
        if let Some(name) = name(spot) {
            let [all_covered, all] = groups.entry(name).or_default();
            *all_covered += covered;
            *all += n;
        }
    }
    groups.iter().for_each(|(name, [covered, all])| println!("{covered:6} of {all:6}  {name}"));
}

/// The inputs in the order of their file names.
fn inputs(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder that can be read").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file that can be read")).collect()
}

/// All edges of the emulator.
fn edges() -> Vec<Edge> {
    let (mut line_ids, mut copy_ids, mut line_numbers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut function, mut n_copies) = (None, 0);
    let mut spot = |function: &Frame, line: u32, copy: (usize, &[Frame])| {
        let (name, file, begins_at, _) = function;
        let (_, own) = file.split_once(SOURCES)?;
        // Closures have no unique names, so the line where they begin identifies them.
        let line_id = id(&mut line_ids, (without_types(name), file.clone(), *begins_at, line));
        let copy_id = id(&mut copy_ids, (copy.0, copy.1.to_vec()));
        Some(Spot { file: own.to_owned(), line, line_id, copy_id })
    };
    let of_place = |(idx, &[address, flags]): (usize, &Place)| {
        let frames = frames(address);
        if flags & BEGINS_FUNCTION != 0 {
            n_copies += 1;
            function = frames.last().cloned();
        }
        let [own @ (_, _, line, _), callers @ ..] = &frames[..] else { return None };
        let own = spot(own, *line, (n_copies, callers));
        let outer = spot(function.as_ref()?, frames.last()?.2, (n_copies, &[]));
        let line = frames.iter().find(|(_, file, ..)| file.contains(SOURCES));
        let line_number = line.map(|(_, file, line, _)| id(&mut line_numbers, (file.clone(), *line)));
        let edge = Edge { idx, own, outer, line_number, is_covered: false };
        (edge.own.is_some() || edge.outer.is_some()).then_some(edge)
    };
    places().iter().enumerate().filter_map(of_place).collect()
}

/// Returns equal numbers for equal names.
fn id<T: Ord>(ids: &mut BTreeMap<T, usize>, name: T) -> usize {
    let next = ids.len();
    *ids.entry(name).or_insert(next)
}

/// The name of a function without its type arguments, which stand in angle brackets after it. Other
/// angle brackets belong to a trait or its implementation, and stay.
fn without_types(name: &str) -> String {
    let (mut kept, mut depth, mut before) = (String::new(), 0, ' ');
    for letter in name.chars() {
        let is_behind_name = before.is_alphanumeric() || "_}:".contains(before);
        match letter {
            '<' if depth > 0 || is_behind_name => depth += 1,
            // The `>` of an arrow `->` ends no angle bracket.
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
        before = letter;
    }
    kept
}

/// The functions at an address, from the innermost inlined one to the one that is not inlined.
fn frames(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    // `resolve` expects a return address and looks up the byte before it.
    backtrace::resolve((address + 1) as *mut _, |symbol| {
        let file = symbol.filename().map(|file| file.to_string_lossy().into_owned());
        let name = symbol.name().map(|name| format!("{name:#}"));
        let place = name.zip(file).zip(symbol.lineno());
        frames
            .extend(place.map(|((name, file), line)| (name, file, line, symbol.colno().unwrap_or_default())));
    });
    frames
}

fn counters() -> &'static mut [u8] {
    // SAFETY: the linker puts both symbols at the ends of one array of bytes, and no reference to
    // it exists while a target runs.
    unsafe {
        let (start, end) = (&raw mut __start___sancov_cntrs, &raw mut __stop___sancov_cntrs);
        std::slice::from_raw_parts_mut(start, end.offset_from(start) as usize)
    }
}

fn places() -> &'static [Place] {
    // SAFETY: the linker puts both symbols at the ends of one array of pairs.
    unsafe {
        let (start, end) = (&raw const __start___sancov_pcs, &raw const __stop___sancov_pcs);
        std::slice::from_raw_parts(start, end.offset_from(start) as usize)
    }
}
