//! The parts of `--help` that are not options: examples and exit statuses.

use clap::builder::StyledStr;
use clap::builder::styling::Styles;

use crate::stop;

/// A purpose, and the command for it.
pub(crate) type Example = (&'static str, &'static str);

pub(crate) const MAIN: &[Example] = &[
    ("All algorithms, fault classes and properties, in a minute or two", "lockstep check"),
    ("The shortest schedule that breaks a lock, step by step", "lockstep explain setnx"),
    ("The names of all algorithms, properties, fault classes and faults", "lockstep list"),
    ("A server for tests in any language, with a clock that they control", "lockstep serve --control"),
];

pub(crate) const CHECK: &[Example] = &[
    ("Two algorithms", "lockstep check mutex setnx"),
    ("Thirty times as many schedules, on two cores", "lockstep check mutex --thorough --jobs 2"),
    ("One of four parts, for one of four machines", "lockstep check --shard 1/4 --format json > 1.json"),
];

pub(crate) const LIST: &[Example] = &[
    ("Algorithms with their guarantees", "lockstep list algorithms"),
    ("Everything, for a program", "lockstep list --format json"),
];

pub(crate) const MERGE: &[Example] = &[
    ("The whole table from its four parts", "lockstep merge 1.json 2.json 3.json 4.json"),
    ("The explorations of a test that ran in several processes", "lockstep merge results"),
];

pub(crate) const EXPLAIN: &[Example] = &[
    ("The mildest class of faults that breaks a lock", "lockstep explain setnx"),
    ("One property in one class", "lockstep explain set_nx_get_del --class slow --property exclusive-fact"),
    ("A debate about locks, with what comes out of each claim", "lockstep explain fencing"),
    ("A schedule to edit and to replay", "lockstep explain setnx --save setnx.txt"),
    ("A page to send to people", "lockstep explain setnx --html setnx.html"),
    ("A picture for a README or a pull request", "lockstep explain setnx --svg setnx.svg"),
];

pub(crate) const REPLAY: &[Example] = &[
    ("The timeline of a saved schedule", "lockstep replay setnx.txt"),
    (
        "Also on a real server, in an empty database",
        "lockstep replay setnx.txt --redis redis://localhost:6379/9",
    ),
    (
        "Also on real servers that it starts, so that a replica can take over",
        "lockstep replay setnx.txt --redis",
    ),
];

pub(crate) const SERVE: &[Example] = &[
    ("On a free port, which it prints", "lockstep serve --port 0"),
    ("Tests move the clock with EMULATOR CLOCK ADVANCE 10001", "lockstep serve --control"),
    ("Only through a Unix socket and the loopback address", "lockstep serve --unix /tmp/lockstep.sock"),
];

pub(crate) const COMPLETIONS: &[Example] = &[
    (
        "For bash, in a file that it loads by itself",
        "lockstep completions bash > ~/.local/share/bash-completion/completions/lockstep",
    ),
    ("For zsh, in a folder of $fpath", "lockstep completions zsh > ~/.zfunc/_lockstep"),
    ("For fish", "lockstep completions fish > ~/.config/fish/completions/lockstep.fish"),
];

pub(crate) const MAN: &[Example] = &[
    ("Read the page of a command", "lockstep man explain | man -l -"),
    ("Write all pages", "lockstep man --dir ~/.local/share/man/man1"),
];

const STATUSES: [(u8, &str); 5] = [
    (0, "everything is as stated: verdicts, expectations, explorations"),
    (1, "something is not as stated; the output says what"),
    (2, "wrong usage, or a file, a shard or a server that cannot be used"),
    (3, "`replay --redis` only: the server was too slow to compare"),
    (stop::STATUS, "stopped by Ctrl-C: what is printed is only a part"),
];

/// Examples for the end of a help page.
pub(crate) fn examples(examples: &[Example]) -> StyledStr {
    let lines = examples.iter().map(|(purpose, command)| format!("\n  # {purpose}\n  {command}"));
    format!("{}{}", head("Examples:"), lines.collect::<String>()).into()
}

/// Examples and exit statuses for the end of the main help page.
pub(crate) fn examples_and_statuses(of: &[Example]) -> StyledStr {
    let lines = STATUSES.iter().map(|(status, meaning)| format!("\n  {status:<4} {meaning}"));
    let statuses = format!("{}{}", head("Exit status:"), lines.collect::<String>());
    format!("{}\n\n{statuses}", examples(of).ansi()).into()
}

fn head(text: &str) -> String {
    let styles = Styles::styled();
    let style = styles.get_header();
    format!("{style}{text}{style:#}")
}
