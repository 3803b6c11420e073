//! How many edges of `emulator/src` the inputs of each target reach: `fuzz/coverage` builds and runs this.
//!
//! An edge is one of the places that the compiler counts for the fuzzer (`sancov-module`, inline 8-bit counters). It is one of
//! `emulator/src` if the source line of the place lies there: what the standard library or a dependency has written, and the compiler
//! has inlined, does not count. The figure at the end counts that, too, in each function that is written in `emulator/src`.
//!
//! What no target could call is not linked, and does not count; the edges to a panic do, which no input reaches as long as nothing is
//! wrong. The checks of `unsafe` code that the compiler adds are left out of the build: the emulator has no such code.
//!
//! The compiler makes a generic or small function several times, and inlines it in many places. It counts once: at each of its lines,
//! with the most edges that one of its copies has there, and with the most that are covered in one copy. So no edge counts as covered
//! that is covered in no copy.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

// For what the compiler's counters call, not for its `main`.
use libfuzzer_sys as _;
use lockstep_fuzz::targets::TARGETS;

/// Where the sources are that count.
const SOURCES: &str = "/emulator/src/";
/// In the table of places: this one begins a function.
const BEGINS_FUNCTION: usize = 1;

/// A place: its address, and its flags.
type Place = [usize; 2];

/// The name of a function, and a file, a line and a column of it.
type Frame = (String, String, u32, u32);

/// One of the emulator's edges.
struct Edge {
    /// Its number among all counters.
    idx: usize,
    /// By the line of the place itself, if that is the emulator's.
    own: Option<Spot>,
    /// By the function that is not inlined there, if that is the emulator's.
    outer: Option<Spot>,
    /// The number of the emulator's line there, from which all the rest is called that is inlined.
    line_number: Option<usize>,
    is_covered: bool,
}

/// Where an edge is in the sources, and in which copy.
struct Spot {
    /// Behind `emulator/src`.
    file: String,
    line: u32,
    /// All copies of the function's line have this number.
    line_id: usize,
    copy_id: usize,
}

// The linker makes these names for the two sections that the compiler fills, entry by entry.
unsafe extern "C" {
    static mut __start___sancov_cntrs: u8;
    static mut __stop___sancov_cntrs: u8;
    static __start___sancov_pcs: Place;
    static __stop___sancov_pcs: Place;
}

/// `coverage FOLDER [files | FILE]`: of the corpora in a folder, and then by file, or by line of a file; `.rs` is every file.
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

/// How many lines have an edge that is covered, of those that have any.
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

/// Of each line of a function how many edges are covered of how many.
type Lines<'a> = Vec<(&'a Spot, [usize; 2])>;

/// Each function counts once.
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

/// How many edges are covered of those that go by the same name.
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

/// In the order of their names.
fn inputs(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder that can be read").path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).expect("a file that can be read")).collect()
}

/// Those of the emulator.
fn edges() -> Vec<Edge> {
    let (mut line_ids, mut copy_ids, mut line_numbers) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut function, mut n_copies) = (None, 0);
    let mut spot = |function: &Frame, line: u32, copy: (usize, &[Frame])| {
        let (name, file, begins_at, _) = function;
        let (_, own) = file.split_once(SOURCES)?;
        // Closures have no names of their own.
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

/// The same number for the same name.
fn id<T: Ord>(ids: &mut BTreeMap<T, usize>, name: T) -> usize {
    let next = ids.len();
    *ids.entry(name).or_insert(next)
}

/// The name of a function without the types that make it one of several: they stand in angle brackets behind it. Others are those of a
/// trait or of its implementation.
fn without_types(name: &str) -> String {
    let (mut kept, mut depth, mut before) = (String::new(), 0, ' ');
    for letter in name.chars() {
        let is_behind_name = before.is_alphanumeric() || "_}:".contains(before);
        match letter {
            '<' if depth > 0 || is_behind_name => depth += 1,
            // The arrow of a function's type ends nothing.
            '>' if depth > 0 && before != '-' => depth -= 1,
            _ if depth == 0 => kept.push(letter),
            _ => {}
        }
        before = letter;
    }
    kept
}

/// The functions at an address: the one that is inlined there first, the one that is not inlined last.
fn frames(address: usize) -> Vec<Frame> {
    let mut frames = Vec::new();
    // For the address of a return: it looks one byte in front of that.
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
    // SAFETY: the linker puts both at the ends of one array of bytes, and no reference to it lives while a target runs.
    unsafe {
        let (start, end) = (&raw mut __start___sancov_cntrs, &raw mut __stop___sancov_cntrs);
        std::slice::from_raw_parts_mut(start, end.offset_from(start) as usize)
    }
}

fn places() -> &'static [Place] {
    // SAFETY: the linker puts both at the ends of one array of pairs.
    unsafe {
        let (start, end) = (&raw const __start___sancov_pcs, &raw const __stop___sancov_pcs);
        std::slice::from_raw_parts(start, end.offset_from(start) as usize)
    }
}
