//! How many edges of `emulator/src` the inputs of each target reach: `fuzz/coverage` builds and runs this.
//!
//! An edge is one of the places that the compiler counts for the fuzzer (`sancov-module`, inline 8-bit counters) in a function that is
//! written in a file of `emulator/src`. What is inlined there counts with it. What no target could call is not linked, and does not
//! count; the edges to a panic do, which no input reaches as long as nothing is wrong.
//!
//! The compiler makes a generic or small function several times. It counts once: at each of its lines, with the most edges that one of
//! its copies has there, and with the most that are covered in one copy. So no edge counts as covered that is covered in no copy.

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
    /// The number of the function's name, and that of this copy of it.
    function: [usize; 2],
    /// The file and the line of the edge itself, which may be inlined.
    line: (String, u32),
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
        show(name, inputs.len(), seconds, once(&edges, &is_covered));
        edges.iter_mut().zip(is_covered).for_each(|(edge, covered)| edge.is_covered |= covered);
        inputs_of_all += inputs.len();
        seconds_of_all += seconds;
    }
    let is_covered: Vec<bool> = edges.iter().map(|edge| edge.is_covered).collect();
    show("all", inputs_of_all, seconds_of_all, once(&edges, &is_covered));
    println!("Each function counts once. With each of its copies by itself:");
    let covered = is_covered.iter().filter(|&&covered| covered).count();
    show("all", inputs_of_all, seconds_of_all, [covered, edges.len()]);
    match args.next().as_deref() {
        None => {}
        Some("files") => tell(&edges, |edge| Some(edge.file.clone())),
        Some(file) => tell(&edges, |edge| {
            let (own, line) = &edge.line;
            own.ends_with(file).then(|| format!("{line:5}"))
        }),
    }
}

/// How many are covered of how many, where each function counts once.
fn once(edges: &[Edge], is_covered: &[bool]) -> [usize; 2] {
    let mut copies = BTreeMap::<_, [usize; 2]>::new();
    for (edge, covered) in edges.iter().zip(is_covered) {
        let [function, copy] = edge.function;
        let [n_covered, n] = copies.entry((function, &edge.line, copy)).or_default();
        *n_covered += usize::from(*covered);
        *n += 1;
    }
    let mut lines = BTreeMap::<_, [usize; 2]>::new();
    for ((function, line, _), [n_covered, n]) in copies {
        let most = lines.entry((function, line)).or_default();
        *most = [most[0].max(n_covered), most[1].max(n)];
    }
    lines.values().fold([0, 0], |[all_covered, all], [covered, n]| [all_covered + covered, all + n])
}

fn show(name: &str, inputs: usize, seconds: f64, [covered, all]: [usize; 2]) {
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
    let (mut function, mut names, mut n_copies) = (None, BTreeMap::new(), 0);
    let of_place = |(idx, &[address, flags]): (usize, &Place)| {
        let (name, file, line) = location(address).unwrap_or_default();
        if flags & BEGINS_FUNCTION != 0 {
            n_copies += 1;
            function = file.split_once(SOURCES).map(|(_, own)| {
                let number = names.len();
                // Closures have no names of their own.
                let number = *names.entry((without_types(&name), file.clone(), line)).or_insert(number);
                (own.to_owned(), [number, n_copies])
            });
        }
        let (own, function) = function.clone()?;
        Some(Edge { idx, file: own, function, line: (file, line), is_covered: false })
    };
    places().iter().enumerate().filter_map(of_place).collect()
}

/// The name of a function without the types that make it one of several.
fn without_types(name: &str) -> String {
    // Types stand behind `::` in angle brackets; others are those of a trait or of its implementation.
    let (mut kept, mut depth, mut rest) = (String::new(), 0, name);
    while let Some(letter) = rest.chars().next() {
        let opens = if depth == 0 { rest.starts_with("::<") } else { letter == '<' };
        if opens {
            depth += 1;
            rest = &rest[if depth == 1 { 3 } else { 1 }..];
            continue;
        }
        let is_arrow = kept.ends_with('-');
        match (depth, letter) {
            (0, _) => kept.push(letter),
            (_, '>') if !is_arrow => depth -= 1,
            _ => {}
        }
        rest = &rest[letter.len_utf8()..];
    }
    kept
}

/// The name of the function that is at an address and not inlined there; the file and the line of that place in it.
fn location(address: usize) -> Option<(String, String, u32)> {
    let mut place = None;
    // For the address of a return: it looks one byte in front of that. Functions that are inlined come first.
    backtrace::resolve((address + 1) as *mut _, |symbol| {
        let file = symbol.filename().map(|file| file.to_string_lossy().into_owned());
        let name = symbol.name().map(|name| format!("{name:#}"));
        place = name.zip(file).zip(symbol.lineno()).map(|((name, file), line)| (name, file, line));
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
