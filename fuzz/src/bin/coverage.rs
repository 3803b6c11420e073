//! How many edges of `emulator/src` the inputs of each target reach: `fuzz/coverage` builds and runs this.
//!
//! An edge is one of the places that the compiler counts for the fuzzer (`sancov-module`, inline 8-bit counters) in a function that is
//! written in a file of `emulator/src`. What is inlined there counts with it, and each instance of a generic function counts. What no
//! target could call is not linked, and does not count; the edges to a panic do, which no input reaches as long as nothing is wrong.

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

/// One of the emulator's edges.
struct Edge {
    /// Its number among all counters.
    idx: usize,
    /// Of the function, behind `emulator/src`.
    file: String,
    is_covered: bool,
}

// The linker makes these names for the two sections that the compiler fills, entry by entry.
unsafe extern "C" {
    static mut __start___sancov_cntrs: u8;
    static mut __stop___sancov_cntrs: u8;
    static __start___sancov_pcs: Place;
    static __stop___sancov_pcs: Place;
}

/// `coverage FOLDER [files | FILE]`: of the corpora in a folder, and then by file, or by line of a file.
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
        show(name, inputs.len(), seconds, &is_covered);
        edges.iter_mut().zip(is_covered).for_each(|(edge, covered)| edge.is_covered |= covered);
        inputs_of_all += inputs.len();
        seconds_of_all += seconds;
    }
    let is_covered: Vec<bool> = edges.iter().map(|edge| edge.is_covered).collect();
    show("all", inputs_of_all, seconds_of_all, &is_covered);
    match args.next().as_deref() {
        None => {}
        Some("files") => tell(&edges, |edge| Some(edge.file.clone())),
        Some(file) => tell(&edges, |edge| {
            let (own, line) = location(places()[edge.idx][0])?;
            own.ends_with(file).then(|| format!("{line:5}"))
        }),
    }
}

fn show(name: &str, inputs: usize, seconds: f64, is_covered: &[bool]) {
    let (covered, all) = (is_covered.iter().filter(|&&covered| covered).count(), is_covered.len());
    let percent = 100.0 * covered as f64 / all as f64;
    println!("{name:16} {inputs:8} {:10.0} {covered:8} {all:8} {percent:6.1}", inputs as f64 / seconds);
}

/// How many edges are covered of those that go by the same name.
fn tell(edges: &[Edge], name: impl Fn(&Edge) -> Option<String>) {
    let mut groups = BTreeMap::<String, [usize; 2]>::new();
    for edge in edges {
        if let Some(name) = name(edge) {
            let [covered, all] = groups.entry(name).or_default();
            *covered += usize::from(edge.is_covered);
            *all += 1;
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
    let mut file = None;
    let of_place = |(idx, &[address, flags]): (usize, &Place)| {
        if flags & BEGINS_FUNCTION != 0 {
            file = location(address).and_then(|(file, _)| Some(file.split_once(SOURCES)?.1.to_owned()));
        }
        Some(Edge { idx, file: file.clone()?, is_covered: false })
    };
    places().iter().enumerate().filter_map(of_place).collect()
}

/// The file and the line of an address, in the function that is there and not in one that is inlined.
fn location(address: usize) -> Option<(String, u32)> {
    let mut place = None;
    // For the address of a return: it looks one byte in front of that. Functions that are inlined come first.
    backtrace::resolve((address + 1) as *mut _, |symbol| {
        let file = symbol.filename().map(|file| file.to_string_lossy().into_owned());
        place = file.zip(symbol.lineno());
    });
    place
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
