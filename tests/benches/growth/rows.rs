//! The format of `rows.txt`: which commands are measured, on which keys.

use emulator::command::GROUPS;

/// The names of all commands and subcommands.
pub(crate) fn commands() -> Vec<&'static str> {
    let rows = GROUPS.iter().flat_map(|group| group.rows);
    rows.flat_map(|row| std::iter::once(row.name).chain(row.subcommands.iter().map(|sub| sub.name))).collect()
}

/// The rows of the file.
pub(crate) struct Rows {
    /// The commands that make the keys, before anything is measured.
    pub(crate) prepared: Vec<Template>,
    pub(crate) measured: Vec<Row>,
    /// The commands that are not measured.
    unmeasured: Vec<String>,
}

/// The commands that are measured as one call.
pub(crate) struct Row {
    /// The names of the measured commands.
    pub(crate) commands: Vec<String>,
    /// The row as it stands in the file.
    pub(crate) text: String,
    /// Commands before each call. They are not measured.
    pub(crate) before: Vec<Template>,
    /// The measured commands.
    pub(crate) calls: Vec<Template>,
}

/// A command line with places for numbers.
pub(crate) struct Template(Vec<String>);

impl Rows {
    /// Parses the file. `names` are the commands that there are. The error names the line.
    pub(crate) fn parse(text: &str, names: &[&str]) -> Result<Rows, String> {
        let mut rows = Rows { prepared: Vec::new(), measured: Vec::new(), unmeasured: Vec::new() };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in lines {
            if let Some(rest) = line.strip_prefix("@ ") {
                rows.prepared.push(Template::parse(rest));
            } else if let Some(rest) = line.strip_prefix("- ") {
                let (commands, reason) = rest.split_once(": ").unwrap_or_default();
                if reason.is_empty() {
                    return Err(format!("rows.txt: `{line}` lacks a reason, after a colon"));
                }
                rows.unmeasured.extend(commands.split(' ').map(str::to_owned));
            } else {
                rows.measured.push(Row::parse(line, names));
            }
        }
        rows.check(names)?;
        Ok(rows)
    }

    /// Checks that each command has a row, and that each row has a command. A command with
    /// subcommands needs no row of its own.
    fn check(&self, names: &[&str]) -> Result<(), String> {
        let measured = self.measured.iter().flat_map(|row| &row.commands);
        let given: Vec<&str> = measured.chain(&self.unmeasured).map(|name| &**name).collect();
        let is_container = |name: &str| names.iter().any(|other| other.starts_with(&format!("{name}|")));
        let is_missing = |name: &&str| !given.contains(name) && !is_container(name);
        let missing: Vec<&str> = names.iter().copied().filter(is_missing).collect();
        let unknown: Vec<&str> = given.iter().copied().filter(|name| !names.contains(name)).collect();
        if missing.is_empty() && unknown.is_empty() {
            return Ok(());
        }
        Err(format!(
            "tests/benches/growth/rows.txt: add rows for {missing:?}; there is no command {unknown:?}"
        ))
    }
}

impl Row {
    fn parse(line: &str, names: &[&str]) -> Row {
        let (before, calls) = line.split_once(" | ").unwrap_or(("", line));
        let templates = |text: &str| -> Vec<Template> {
            text.split(" ; ").filter(|text| !text.is_empty()).map(Template::parse).collect()
        };
        let (before, calls) = (templates(before), templates(calls));
        let commands = calls.iter().map(|call| call.command(names)).collect();
        Row { commands, text: line.to_owned(), before, calls }
    }
}

impl Template {
    /// Parses words, some of them in quotes.
    fn parse(line: &str) -> Template {
        let mut words = Vec::new();
        for (idx, part) in line.split('"').enumerate() {
            match idx % 2 {
                0 => words.extend(part.split_whitespace().map(str::to_owned)),
                _ => words.push(part.replace("\\n", "\n")),
            }
        }
        Template(words)
    }

    /// The name of its command, or of its subcommand if there is one.
    fn command(&self, names: &[&str]) -> String {
        let words: Vec<String> = self.0.iter().take(2).map(|word| word.to_lowercase()).collect();
        Some(words.join("|")).filter(|name| names.contains(&&**name)).unwrap_or_else(|| words[0].clone())
    }

    /// Whether it is sent for each member.
    pub(crate) fn is_repeated(&self) -> bool {
        self.0.iter().any(|word| word.contains("{i}"))
    }

    /// Writes the request: the `nth` of its kind, for keys of `size` members.
    pub(crate) fn request(&self, nth: usize, size: usize, request: &mut Vec<u8>) {
        /// Visits all members in an order with large gaps.
        const PRIME: usize = 618_033_989;
        let values = [
            ("{i}", nth),
            ("{r}", nth.wrapping_mul(PRIME) % size),
            ("{n}", size),
            ("{mid}", size / 2),
            ("{last}", size - 1),
        ];
        request.extend(format!("*{}\r\n", self.0.len()).bytes());
        for word in &self.0 {
            let mut word = word.clone();
            for (name, value) in values {
                if word.contains(name) {
                    word = word.replace(name, &value.to_string());
                }
            }
            request.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
        }
    }
}
