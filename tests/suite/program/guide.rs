//! The guide and the READMEs: links lead somewhere, every block of code is run by somebody, and
//! what stands after a `$` prints what the page says.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use harness::lint::LINTS;
use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, LinkType, Options, Parser, Tag, TagEnd};

use crate::bounds::SESSIONS;
use crate::program::tidy::sources;
use crate::redis_server;

pub(crate) const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const GUIDE: &str = "tests/guide";
/// Stands for any real server.
const URL_OF_REDIS: &str = "redis://localhost:6379/9";
/// The port of servers in the pages. It may be taken here.
const PORT: &str = "--port 7000";
/// Begins the output of a command.
const MARK: char = '\u{1}';
/// The programs that pages use, on free ports. Everything ends with the shell.
const STAND_INS: &str = r#"
exec 2>&1
trap 'kill $(jobs -p) 2>/dev/null' EXIT
begin_output() { local status=$?; printf '\001'; return $status; }
lockstep() {
    case $1 in
        serve) exec env lockstep "$@" >"serve.$BASHPID.log" ;;
        *) command lockstep "$@" ;;
    esac
}
# The tests of a project.
cargo() { SUITE_EXPLORATION="my lock" "$SUITE" --exact program::explorations::a_process_of_the_tests_below; }
# Port 7001 is that of the second server, and 27000 that of the first Sentinel.
redis-cli() {
    local tries=0 kind='redis://' nth=1 line
    case "$1 $2" in
        '-p 70'??) nth=$(($2 - 6999)) && shift 2 ;;
        '-p 270'??) kind='(sentinel)' nth=$(($2 - 26999)) && shift 2 ;;
    esac
    until line=$(grep -F -- "$kind" "serve.$!.log" 2>/dev/null | sed -n "${nth}p"); [[ $line ]]; do
        if ((++tries > 1000)); then cat "serve.$!.log"; return 1; fi
        sleep 0.02
    done
    command redis-cli --no-raw -p "$(sed 's|.*redis://[^:]*:\([0-9]*\).*|\1|' <<<"$line")" "$@"
}
"#;

/// A Markdown file of the workspace, by its path there.
pub(crate) struct Page {
    path: String,
    text: String,
}

impl Page {
    pub(crate) fn open(path: &str) -> Page {
        let text = fs::read_to_string(Path::new(WORKSPACE).join(path)).unwrap();
        Page { path: path.to_owned(), text }
    }

    fn events<'a>(&'a self) -> impl Iterator<Item = (Event<'a>, Range<usize>)> {
        // A link whose label the page does not define counts as a link to a file of that name.
        // Brackets alone, as in `[NAME…]`, are text.
        let undefined = |link: BrokenLink<'a>| {
            let is_link = link.link_type == LinkType::Reference;
            is_link.then_some((link.reference, CowStr::Borrowed("")))
        };
        let options = Options::ENABLE_TABLES;
        Parser::new_with_broken_link_callback(&self.text, options, Some(undefined)).into_offset_iter()
    }

    /// The anchors of the headings, as GitHub and rustdoc make them.
    fn anchors(&self) -> BTreeSet<String> {
        let mut heading = None;
        let mut anchors = BTreeSet::new();
        for (event, _) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => anchors.extend(heading.take().map(|text| slug(&text))),
                Event::Text(text) | Event::Code(text) => {
                    heading.iter_mut().for_each(|heading| *heading += &text);
                }
                _ => {}
            }
        }
        anchors
    }

    /// The fenced blocks: the language, the place of the text, and the mark in the line before it.
    fn blocks(&self) -> Vec<(String, Range<usize>, Option<&str>)> {
        let mut blocks = Vec::new();
        let mut events = self.events();
        while let Some((event, fences)) = events.next() {
            let Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) = event else { continue };
            let mut text = fences.end..fences.end;
            for (event, range) in events.by_ref() {
                match event {
                    Event::Text(_) => text = text.start.min(range.start)..range.end,
                    _ => break,
                }
            }
            let before = self.text[..fences.start].trim_end().lines().next_back().unwrap_or_default();
            let mark = before.strip_prefix("<!-- ").and_then(|mark| mark.strip_suffix(" -->"));
            blocks.push((language.into_string(), text, mark));
        }
        blocks
    }

    /// The text of the block with this mark.
    pub(crate) fn block(&self, mark: &str) -> &str {
        let block = self.blocks().into_iter().find(|(.., own)| *own == Some(mark));
        let (_, text, _) = block.unwrap_or_else(|| panic!("{} has no block {mark}", self.path));
        &self.text[text]
    }
}

/// The files and the names of a page that the sources do not have. A name is code without spaces.
fn unknown_names(page: &Page, sources: &[(String, String)]) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let words: BTreeSet<&str> = sources.iter().flat_map(|(_, text)| text.split(|c| !is_name(c))).collect();
    let is_path = |text: &str| text.contains('/') || text.contains('.');
    let exists =
        |path: &str| ["", "tests/src"].iter().any(|root| Path::new(WORKSPACE).join(root).join(path).exists());
    // Paths stand in the picture, too, where nothing marks them.
    let bare = page.text.split([' ', '\n', '`', '(', ')']);
    let files = bare.filter(|word| word.ends_with(".rs") && !word.starts_with('.')).map(str::to_owned);
    let spans = page.events().filter_map(|(event, _)| match event {
        Event::Code(text) if !text.contains(' ') && !text.ends_with(".rs") => Some(text.into_string()),
        _ => None,
    });
    let is_known = |text: &String| match text.rsplit("::").next() {
        _ if is_path(text) => exists(text),
        name => name.is_some_and(|name| words.contains(name)),
    };
    files.chain(spans).filter(|text| !is_known(text)).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase().replace(' ', "-");
    kept.chars().filter(|&c| c.is_alphanumeric() || "-_".contains(c)).collect()
}

fn chapters() -> Vec<Page> {
    let mut paths: Vec<String> = fs::read_dir(Path::new(WORKSPACE).join(GUIDE))
        .unwrap()
        .map(|entry| format!("{GUIDE}/{}", entry.unwrap().file_name().to_str().unwrap()))
        .collect();
    paths.retain(|path| path.ends_with(".md"));
    paths.sort();
    paths.iter().map(|path| Page::open(path)).collect()
}

fn pages() -> Vec<Page> {
    let mut pages = chapters();
    let others =
        ["README.md", "emulator/README.md", "locks/README.md", "tests/README.md", "tests/program/README.md"];
    pages.extend(others.map(Page::open));
    pages
}

/// The links of a page that lead nowhere.
fn broken_links(page: &Page) -> Vec<String> {
    let folder = Path::new(&page.path).parent().unwrap();
    let is_broken = |link: &str| {
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        if file.is_empty() {
            return !page.anchors().contains(anchor);
        }
        let path = folder.join(file);
        let has_anchor = || Page::open(path.to_str().unwrap()).anchors().contains(anchor);
        !Path::new(WORKSPACE).join(&path).exists() || !anchor.is_empty() && !has_anchor()
    };
    let links = page.events().filter_map(|(event, _)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. })
            if !dest_url.starts_with("http") =>
        {
            Some(dest_url)
        }
        _ => None,
    });
    links.filter(|link| is_broken(link)).map(|link| format!("{}: {link}", page.path)).collect()
}

/// The links of a chapter that rustdoc cannot follow, because `links.md` does not replace them.
fn links_to_files(page: &Page, replaced: &BTreeSet<&str>) -> Vec<String> {
    let links = page.events().filter_map(|(event, _)| match event {
        Event::Start(Tag::Link { link_type, dest_url, id, .. }) => {
            let is_replaced = link_type != LinkType::Inline && replaced.contains(&*id);
            let is_kept = dest_url.starts_with("http") || dest_url.starts_with('#');
            (!is_kept && !is_replaced).then(|| format!("{}: {dest_url}", page.path))
        }
        _ => None,
    });
    links.collect()
}

/// Each mark before a block that something else runs or compares, and the words by which that finds
/// it.
const MARKS: [(&str, &str, &str); 11] = [
    ("run by .ci/run", ".ci/run", "readme_command 'cargo test'"),
    ("packages", "tests/packages/try", "/<!-- packages -->/"),
    ("dependencies", "tests/suite/program/first_test.rs", "\"dependencies\""),
    ("first test", "tests/suite/program/first_test.rs", "\"first test\""),
    ("test double", "tests/suite/program/first_test.rs", "\"test double\""),
    ("my lock", "tests/suite/program/first_test.rs", "\"my lock\""),
    ("saved schedule", "tests/suite/program/readme.rs", "\"saved schedule\""),
    ("example.py", "tests/suite/program/readme.rs", "\"example.py\""),
    ("example.mjs", "tests/suite/program/readme.rs", "\"example.mjs\""),
    ("file", "tests/suite/program/readme.rs", "<!-- file: "),
    ("report", "tests/suite/program/chapters/mod.rs", "\"report: "),
];

/// The blocks of a page that nothing runs. Rust is run by rustdoc, commands by this file.
fn blocks_not_run(page: &Page) -> Vec<String> {
    let is_known = |mark: &str| {
        let name = mark.split(": ").next().unwrap();
        MARKS.iter().any(|&(known, ..)| known == name) || LINTS.iter().any(|lint| lint.name == name)
    };
    let is_run = |language: &str, text: &str, mark: Option<&str>| match (language, mark) {
        ("rust" | "rust,no_run" | "console", _) => true,
        ("text", None) => !text.starts_with("$ "),
        (_, mark) => mark.is_some_and(is_known),
    };
    let blocks = page.blocks().into_iter();
    let idle = blocks.filter(|(language, text, mark)| !is_run(language, &page.text[text.clone()], *mark));
    idle.map(|(language, text, _)| format!("{}: {language}: {}", page.path, &page.text[text])).collect()
}

/// The commands of a block, without their outputs. A line that ends with `\` goes on.
fn commands(block: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push(command.to_owned()),
            None if goes_on => *commands.last_mut().unwrap() += &format!("\n{line}"),
            None => continue,
        }
        goes_on = line.ends_with('\\');
    }
    commands
}

/// Runs commands in one shell and a folder of their own. Returns their outputs.
fn run(commands: &[String], redis: Option<&str>) -> Vec<String> {
    static NTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let nth = NTH.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("lockstep-guide-{}-{nth}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut script = STAND_INS.to_owned();
    for command in commands {
        script += &format!("begin_output\n{command}\n");
    }
    script = script.replace(PORT, "--port 0");
    if let Some(redis) = redis {
        script = script.replace(URL_OF_REDIS, redis);
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_lockstep")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path))).unwrap();
    let mut bash = Command::new("bash");
    bash.args(["-c", &script]).env("PATH", path).env("SUITE", std::env::current_exe().unwrap());
    let output = bash.current_dir(&folder).output();
    fs::remove_dir_all(&folder).unwrap();
    let output = String::from_utf8(output.unwrap().stdout).unwrap();
    output.split(MARK).skip(1).map(str::to_owned).collect()
}

/// Runs all commands of a page. Returns the page with their outputs.
fn with_outputs(page: &Page, redis: Option<&str>) -> String {
    let blocks: Vec<_> = page.blocks().into_iter().filter(|(language, ..)| language == "console").collect();
    let commands_of = |range: &Range<usize>| commands(&page.text[range.clone()]);
    let all: Vec<String> = blocks.iter().flat_map(|(_, range, _)| commands_of(range)).collect();
    let outputs = run(&all, redis);
    assert_eq!(outputs.len(), all.len(), "{}: a command has ended the shell: {outputs:?}", page.path);
    let mut outputs = outputs.into_iter();
    let (mut text, mut end) = (String::new(), 0);
    for (_, range, _) in blocks {
        text += &page.text[end..range.start];
        for command in commands_of(&range) {
            text += &format!("$ {command}\n{}", outputs.next().unwrap());
        }
        end = range.end;
    }
    text + &page.text[end..]
}

#[test]
fn links_lead_somewhere() {
    let broken: Vec<String> = pages().iter().flat_map(broken_links).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    let canary = |text: &str| Page { path: format!("{GUIDE}/canary.md"), text: text.to_owned() };
    assert_eq!(broken_links(&canary("# Two `Words`\n\n[a](#two-words) [b](bug.md)")), [""; 0]);
    for link in ["[a](no.md)", "[a](#no)", "[a](bug.md#no)", "![a](no.svg)", "[a][no]"] {
        assert_eq!(broken_links(&canary(link)).len(), 1, "{link}");
    }
}

#[test]
fn the_architecture_names_what_exists() {
    let sources: Vec<(String, String)> =
        sources().into_iter().filter(|(path, _)| path.contains("/src/")).collect();
    let page = Page::open(&format!("{GUIDE}/architecture.md"));
    assert_eq!(unknown_names(&page, &sources), [""; 0]);
    let canary = |text: &str| unknown_names(&Page { path: "canary".into(), text: text.to_owned() }, &sources);
    assert_eq!(
        canary("`explore/mod.rs` `exhaustive` `locks::Env` `clippy.toml` `SET lock`\n\n`Dpor`"),
        [""; 0]
    );
    for text in ["`no.rs`", "```text\nexplore/no.rs  a\n```", "`no.toml`", "`NoName`", "`locks::NoName`"] {
        assert_eq!(canary(text).len(), 1, "{text}");
    }
}

#[test]
fn chapters_link_to_modules_in_rustdoc() {
    let links = fs::read_to_string(Path::new(WORKSPACE).join("tests/src/guide/links.md")).unwrap();
    let replaced: BTreeSet<&str> =
        links.lines().map(|line| line.strip_prefix('[').unwrap().split_once(']').unwrap().0).collect();
    let kept: Vec<String> = chapters().iter().flat_map(|page| links_to_files(page, &replaced)).collect();
    assert!(kept.is_empty(), "{}", kept.join("\n"));
    let text = "[bug](bug.md) [other] [bug]\n\n[other]: other.md\n[bug]: bug.md\n".to_owned();
    assert_eq!(links_to_files(&Page { path: "canary".into(), text }, &replaced).len(), 2);
}

#[test]
fn the_index_has_every_chapter_and_so_does_rustdoc() {
    let (index, module) = (Page::open(&format!("{GUIDE}/README.md")), Page::open("tests/src/guide/mod.rs"));
    for page in chapters().iter().filter(|page| page.path != index.path) {
        let file = page.path.rsplit('/').next().unwrap();
        let name = file.strip_suffix(".md").unwrap();
        assert!(index.text.contains(&format!("[{name}]: {file}\n")), "{file}");
        let chapter = format!("{name}: include_str!(\"../../guide/{file}\");");
        assert!(module.text.contains(&chapter), "tests/src/guide/mod.rs does not list {name}");
    }
}

#[test]
fn every_block_of_code_is_run() {
    let pages = pages();
    let idle: Vec<String> = pages.iter().flat_map(blocks_not_run).collect();
    assert!(idle.is_empty(), "nothing runs these:\n{}", idle.join("\n"));
    for (mark, reader, words) in MARKS {
        let text = fs::read_to_string(Path::new(WORKSPACE).join(reader)).unwrap();
        assert!(text.contains(words), "{reader} does not read {mark}");
        let begin = format!("<!-- {mark}");
        assert!(pages.iter().any(|page| page.text.contains(&begin)), "no page has the mark {mark}");
    }
    for block in ["```sh\nls\n```", "```text\n$ ls\n```", "<!-- nobody -->\n```yaml\na: 1\n```"] {
        let canary = Page { path: "canary".into(), text: block.into() };
        assert_eq!(blocks_not_run(&canary).len(), 1, "{block}");
    }
}

#[test]
fn commands_print_what_the_pages_say() {
    let borrowed = redis_server::borrow();
    let has_cli = Command::new("redis-cli").arg("--version").output().is_ok();
    if borrowed.is_some() && !has_cli {
        redis_server::say_it_is_missing("install redis-tools");
    }
    let redis = borrowed.as_ref().filter(|_| has_cli).map(redis_server::RedisServer::url);
    let updates = std::env::var_os("UPDATE_EXPECT").is_some();
    let mut stale = Vec::new();
    for page in pages() {
        if page.path == format!("{GUIDE}/bug.md") && SESSIONS.is_left_out() && !updates {
            continue;
        }
        let needs_redis = [URL_OF_REDIS, "$ redis-cli"].iter().any(|text| page.text.contains(text));
        if needs_redis && redis.is_none() {
            eprintln!("{} did not run", page.path);
            continue;
        }
        let text = with_outputs(&page, redis.as_deref());
        if text == page.text {
            continue;
        }
        if updates {
            fs::write(Path::new(WORKSPACE).join(&page.path), text).unwrap();
        } else {
            stale.push(format!("{}:\n{text}", page.path));
        }
    }
    assert!(stale.is_empty(), "run once with UPDATE_EXPECT=1, and read what changes:\n{}", stale.join("\n"));
}

/// To install the program takes minutes, so only the path is looked at.
#[test]
fn what_is_to_be_installed_is_the_program() {
    let mut paths = 0;
    for page in pages() {
        for rest in page.text.split("cargo install --locked --path ").skip(1) {
            let path = rest.split(['`', '\n', ' ']).next().unwrap();
            let folder = path.rsplit("lockstep/").next().unwrap();
            let manifest = fs::read_to_string(Path::new(WORKSPACE).join(folder).join("Cargo.toml"));
            assert!(manifest.unwrap().contains("name = \"lockstep\"\n"), "{}: {path}", page.path);
            paths += 1;
        }
    }
    assert!(paths > 3, "{paths}");
}

/// A command inside a sentence runs if it is whole: no word stands for a name.
#[test]
fn explanations_named_in_a_sentence_exist() {
    let mut named = BTreeSet::new();
    for page in pages() {
        named.extend(page.events().filter_map(|(event, _)| match event {
            Event::Code(text) if text.starts_with("lockstep explain ") => Some(text.into_string()),
            _ => None,
        }));
    }
    named.retain(|command| !command.contains(|c: char| c.is_uppercase() || "[…".contains(c)));
    assert!(named.len() > 4, "{named:?}");
    let commands: Vec<String> =
        named.iter().map(|command| format!("{command} >/dev/null && echo ran")).collect();
    for (command, output) in named.iter().zip(run(&commands, None)) {
        assert_eq!(output, "ran\n", "{command}");
    }
}

#[test]
fn commands_are_run_in_one_shell() {
    let text = "```console\n$ a=1; \\\nfalse\nold\n$ echo $? $a\n```\n\n```console\n$ echo \"$a\" >&2\n```\n";
    let page = Page { path: "canary".into(), text: text.into() };
    let expected =
        "```console\n$ a=1; \\\nfalse\n$ echo $? $a\n1 1\n```\n\n```console\n$ echo \"$a\" >&2\n1\n```\n";
    assert_eq!(with_outputs(&page, None), expected);
}
