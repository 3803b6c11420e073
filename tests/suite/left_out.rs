//! Says what `cargo test` leaves out. It is a test program without tests that runs after the suite,
//! because the output of tests that pass is hidden.

mod bounds;

use std::process::{Command, Stdio};

use bounds::{BOUNDS, LONG, THOROUGH};

/// Tests that pass and do nothing if this line of a shell fails, and what to install.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("comparisons with a real server", "test $LOCKSTEP_REDIS_URL || redis-server --version", "redis-server"),
    ("sessions of the guide in a shell", "redis-cli --version", "redis-tools"),
    (
        "pages in a browser",
        "for name in chromium chromium-browser google-chrome chrome; do $name --version && exit; done; false",
        "chromium",
    ),
    ("files of the guide for engines", "python3 -c 'import yaml'", "python3-yaml"),
];

fn main() {
    // A run of some tests leaves out others on purpose.
    if std::env::args().len() > 1 {
        return;
    }
    let mut lines = Vec::new();
    for bound in BOUNDS {
        let number = bound.get();
        if number < bound.thorough {
            lines.push(format!("  {} of {} {}", bound.thorough - number, bound.thorough, bound.cases));
        }
    }
    lines.extend(LONG.iter().filter(|test| test.is_left_out()).map(|test| format!("  {}", test.0)));
    if !lines.is_empty() {
        lines.push(format!("  {THOROUGH}=1 leaves out none of these, and takes minutes longer."));
    }
    for (tests, line, package) in PROGRAMS {
        if !succeeds(line) {
            lines.push(format!("  {tests}: install {package}"));
        }
    }
    if !lines.is_empty() {
        println!("\nleft out of the suites:\n{}\n", lines.join("\n"));
    }
}

fn succeeds(line: &str) -> bool {
    let status = Command::new("sh").args(["-c", line]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}
