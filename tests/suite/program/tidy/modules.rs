//! The order of modules. Data flows one way: a module imports only from modules that its parent
//! declares before it.
//!
//! The code of the parent itself has a place in that order, too. It stands after the last module
//! that it uses, and only modules after that may import its items. A re-export does not count as a
//! use. An import through it is an import from the module that defines the item.
//!
//! The check knows names, not types: it does not see a call of a method that a later module adds.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use super::sources;

/// The crates that the rule holds for, by the files of their roots.
const CRATES: [&str; 4] =
    ["emulator/src/lib.rs", "locks/src/lib.rs", "tests/src/lib.rs", "tests/program/src/main.rs"];
/// Most re-exports between a name and its definition.
const HOPS_MAX: usize = 8;

/// A path of a module of a crate, such as `["script", "vm"]`. The root is empty.
type Path = Vec<String>;

/// A name that a `use` brings into a module.
struct Import {
    path: Path,
    name: String,
    is_public: bool,
}

/// A module, as the check knows it.
#[derive(Default)]
struct Module {
    /// The file, from the folder of the workspace.
    file: String,
    /// The modules that it declares, in order.
    children: Vec<String>,
    imports: Vec<Import>,
    /// The paths outside of imports.
    paths: Vec<Path>,
    /// All names outside of imports, without those of fields and methods.
    names: BTreeSet<String>,
}

/// The modules of a crate by their paths.
type Crate = BTreeMap<Path, Module>;

/// The names and marks of a source, without comments, literals, and items for tests.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|raw| raw.len() - raw.trim_start_matches('#').len());
        let len = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            'r' if raw.is_some_and(|marks| rest[1 + marks..].starts_with('"')) => {
                let end = format!("\"{}", "#".repeat(raw.unwrap()));
                let start = 2 + raw.unwrap();
                start + rest[start..].find(&end).unwrap() + end.len()
            }
            '"' => literal(rest, '"'),
            '\'' if rest.starts_with("'\\") || rest.chars().nth(2) == Some('\'') => literal(rest, '\''),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ if rest.starts_with("::") => 2,
            _ => first.len_utf8(),
        };
        let is_literal = len > 1 && !is_word(rest[..len].chars().next_back().unwrap()) && first != ':';
        if !first.is_whitespace() && !is_literal && !rest.starts_with("//") {
            tokens.push(&rest[..len]);
        }
        rest = &rest[len..];
    }
    without_tests(&tokens)
}

/// The length of a literal that begins and ends with this mark.
fn literal(text: &str, mark: char) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|&(_, c)| {
        let is_end = c == mark && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// The tokens without each item behind `#[cfg(test)]`.
fn without_tests<'a>(tokens: &[&'a str]) -> Vec<&'a str> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) {
            at += 7;
            let mut depth = 0;
            while at < tokens.len() {
                depth += i32::from(["{", "(", "["].contains(&tokens[at]));
                depth -= i32::from(["}", ")", "]"].contains(&tokens[at]));
                at += 1;
                if depth == 0 && [";", "}"].contains(&tokens[at - 1]) {
                    break;
                }
            }
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// Reads one module.
fn module(file: &str, text: &str) -> Module {
    let tokens = tokens(text);
    let mut module = Module { file: file.to_owned(), ..Module::default() };
    let is_name = |token: &str| token.starts_with(|c: char| c.is_alphabetic() || c == '_');
    let mut at = 0;
    while at < tokens.len() {
        let before = if at == 0 { "" } else { tokens[at - 1] };
        if tokens[at] == "mod" && tokens.get(at + 2) == Some(&";") {
            module.children.push(tokens[at + 1].to_owned());
            at += 2;
        } else if tokens[at] == "in" && before == "(" {
            // `pub(in …)` imports nothing.
            at += tokens[at..].iter().take_while(|token| **token != ")").count();
        } else if tokens[at] == "use" && tokens.get(at + 1) != Some(&"<") {
            let is_public = ["pub", ")"].contains(&before);
            let mut tree = tokens[at + 1..].iter().copied().take_while(|token| *token != ";").peekable();
            at += 1 + tree.clone().count();
            import(&mut tree, &[], is_public, &mut module.imports);
        } else if is_name(tokens[at]) && before != "." {
            let mut path = vec![tokens[at].to_owned()];
            while tokens.get(at + 1) == Some(&"::") && tokens.get(at + 2).is_some_and(|token| is_name(token))
            {
                path.push(tokens[at + 2].to_owned());
                at += 2;
            }
            module.names.insert(path[0].clone());
            module.paths.push(path);
        }
        at += 1;
    }
    module
}

/// Reads the tree of a `use` up to the end of its group.
fn import<'a>(
    tree: &mut iter::Peekable<impl Iterator<Item = &'a str>>,
    prefix: &[String],
    is_public: bool,
    imports: &mut Vec<Import>,
) {
    let mut path = prefix.to_vec();
    let mut alias = None;
    let mut is_named = false;
    loop {
        let token = tree.next();
        match token {
            Some("{") => {
                import(tree, &path, is_public, imports);
                is_named = false;
            }
            Some("::") => {}
            Some("as") => alias = tree.next().map(str::to_owned),
            Some("self") if !path.is_empty() => is_named = true,
            None | Some("," | "}") => {
                if is_named {
                    let name = alias.take().or_else(|| path.last().cloned()).unwrap();
                    imports.push(Import { path, name, is_public });
                }
                if token != Some(",") {
                    return;
                }
                path = prefix.to_vec();
                is_named = false;
            }
            Some(name) => {
                path.push(name.to_owned());
                is_named = true;
            }
        }
    }
}

/// Reads the modules of a crate, beginning with its root. `files` has the texts by their names.
fn modules(root: &str, files: &BTreeMap<String, String>) -> Crate {
    fn visit(path: &Path, file: &str, folder: &str, files: &BTreeMap<String, String>, found: &mut Crate) {
        let read = module(file, &files[file]);
        for child in &read.children {
            let path: Path = path.iter().chain([child]).cloned().collect();
            let below = format!("{folder}/{child}");
            let names = [format!("{below}.rs"), format!("{below}/mod.rs")];
            let file = names.iter().find(|name| files.contains_key(*name));
            visit(&path, file.unwrap_or_else(|| panic!("no file for {below}")), &below, files, found);
        }
        found.insert(path.clone(), read);
    }
    let mut found = Crate::new();
    visit(&Path::new(), root, root.rsplit_once('/').unwrap().0, files, &mut found);
    found
}

/// The module that defines what a path names, seen from this module. None if it is no module of the
/// crate.
fn definition(modules: &Crate, from: &Path, path: &[String], hops: usize) -> Option<Path> {
    let child = |module: &Path, name: &String| {
        let child: Path = module.iter().chain([name]).cloned().collect();
        modules.contains_key(&child).then_some(child)
    };
    let (first, rest) = path.split_first()?;
    let mut module = match first.as_str() {
        "crate" => Path::new(),
        "self" => from.clone(),
        "super" => from.split_last()?.1.to_vec(),
        _ => child(from, first)?,
    };
    for name in rest {
        if name == "super" {
            module.pop()?;
        } else if let Some(child) = child(&module, name) {
            module = child;
        } else {
            let mut imports = modules[&module].imports.iter();
            let Some(import) = imports.find(|import| import.name == *name) else { break };
            return (hops < HOPS_MAX).then(|| definition(modules, &module, &import.path, hops + 1))?;
        }
    }
    Some(module)
}

/// The modules that a module uses: not those below it of which it only re-exports names.
fn uses(modules: &Crate, path: &Path) -> BTreeSet<Path> {
    let module = &modules[path];
    let imported = module.imports.iter().filter_map(|import| {
        let used = definition(modules, path, &import.path, 0)?;
        let is_only_passed_on = import.is_public && !module.names.contains(&import.name);
        (!is_only_passed_on || !used.starts_with(path)).then_some(used)
    });
    let longer = module.paths.iter().filter(|path| path.len() > 1);
    imported.chain(longer.filter_map(|used| definition(modules, path, used, 0))).collect()
}

/// The places of a crate that break the rule.
fn breaks(modules: &Crate) -> Vec<String> {
    let mut broken = Vec::new();
    let place = |parent: &Path, name: &String| {
        modules[parent].children.iter().position(|child| child == name).expect("the parent declares it")
    };
    // The last module that a parent uses, and the modules that import from their parents.
    let mut last_used: BTreeMap<Path, usize> = BTreeMap::new();
    let mut from_parent = Vec::new();
    for user in modules.keys() {
        for used in uses(modules, user) {
            let depth = iter::zip(user, &used).take_while(|(user, used)| user == used).count();
            let parent = user[..depth].to_vec();
            match (user.get(depth), used.get(depth)) {
                (Some(own), Some(other)) if place(&parent, other) > place(&parent, own) => {
                    broken.push(format!("{} imports from {}", modules[user].file, modules[&used].file));
                }
                (None, Some(other)) => {
                    let place = place(&parent, other);
                    let last = last_used.entry(parent).or_insert(place);
                    *last = place.max(*last);
                }
                (Some(own), None) => from_parent.push((user, place(&parent, own), parent)),
                _ => {}
            }
        }
    }
    for (user, place, parent) in from_parent {
        let Some(&last) = last_used.get(&parent).filter(|last| place <= **last) else { continue };
        let (user, file) = (&modules[user].file, &modules[&parent].file);
        broken.push(format!("{user} imports from {file}, which uses {}", modules[&parent].children[last]));
    }
    for (path, module) in modules {
        let mut globs = module.imports.iter().filter(|import| import.name == "*");
        if globs.any(|glob| definition(modules, path, &glob.path, 0).is_some()) {
            broken.push(format!("{} has a glob, which hides what it imports", module.file));
        }
    }
    broken
}

#[test]
fn modules_import_from_earlier_ones_only() {
    let files: BTreeMap<String, String> = sources().into_iter().collect();
    let mut broken = Vec::new();
    for root in CRATES {
        let modules = modules(root, &files);
        assert!(modules.len() > 15, "{root}: {:?}", modules.keys());
        broken.extend(breaks(&modules));
    }
    assert!(broken.is_empty(), "imports from later modules:\n{}", broken.join("\n"));
}

/// The breaks of a crate of these files. The first one is its root.
fn breaks_of(files: &[(&str, &str)]) -> Vec<String> {
    let texts = files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect();
    breaks(&modules(files[0].0, &texts))
}

/// The breaks of a crate of two modules and their parent.
fn breaks_of_two(parent: &str, first: &str, second: &str) -> Vec<String> {
    let root = format!("mod first; mod second; {parent}");
    breaks_of(&[("src/lib.rs", &root), ("src/first.rs", first), ("src/second/mod.rs", second)])
}

#[test]
fn a_module_with_a_folder_is_in_it() {
    let files: BTreeSet<String> = sources().into_iter().map(|(name, _)| name).collect();
    let folder = |file: &String| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let folders: BTreeSet<String> = files.iter().filter_map(folder).collect();
    let beside = |file: &&String| file.strip_suffix(".rs").is_some_and(|name| folders.contains(name));
    let beside: Vec<&String> = files.iter().filter(beside).collect();
    assert!(beside.is_empty(), "move each to `mod.rs` in its folder: {beside:?}");
}

#[test]
fn an_import_from_a_later_module_breaks_the_order() {
    let expected = ["src/first.rs imports from src/second/mod.rs"];
    for import in [
        "use super::second::Name;",
        "use crate::second::{self, Name};",
        "use super::{Name, second};",
        "fn f() -> crate::second::Name { todo!() }",
        "fn f() { '\"'; super::second::f(); }",
        "use super::second;\nfn f() { second::f(); }",
        "pub use super::second::Name as Other;",
    ] {
        assert_eq!(breaks_of_two("", import, ""), expected, "{import}");
        assert!(breaks_of_two("", "", &import.replace("second", "first")).is_empty(), "{import}");
    }
    for (reexport, import) in [
        ("pub use second::Name;", "use super::Name;"),
        ("pub(crate) use second::{Name, Other};", "use crate::{Name};"),
        ("use second::Other as Name;", "use super::{Name};"),
    ] {
        assert_eq!(breaks_of_two(reexport, import, ""), expected, "{reexport}");
        assert!(breaks_of_two(&reexport.replace("second", "first"), "", import).is_empty(), "{reexport}");
    }
    for import in [
        "// use super::second::Name;",
        "const TEXT: &str = \"super::second\";",
        "#[cfg(test)]\nmod tests { use super::super::second::Name; fn f() {} }",
        "#[cfg(test)]\nuse super::second::Name;",
        "use second::Name;",
    ] {
        assert!(breaks_of_two("", import, "").is_empty(), "{import}");
    }
}

#[test]
fn a_module_below_another_has_the_place_of_that_one() {
    let files = |inner| {
        [
            ("src/lib.rs", "mod first; mod second;"),
            ("src/first.rs", "mod inner;"),
            ("src/first/inner.rs", inner),
            ("src/second.rs", ""),
        ]
    };
    assert_eq!(
        breaks_of(&files("use super::super::second::Name;")),
        ["src/first/inner.rs imports from src/second.rs"]
    );
    assert!(breaks_of(&files("use super::Name;")).is_empty());
}

#[test]
fn the_code_of_a_parent_has_a_place_between_its_modules() {
    let expected = ["src/first.rs imports from src/lib.rs, which uses first"];
    for parent in [
        "use first::f; struct Name;",
        "pub use first::Other; struct Name(Other);",
        "struct Name(first::Other);",
        "pub(crate) use self::first::Other; fn f() { Other::new(); }",
    ] {
        assert_eq!(breaks_of_two(parent, "use super::Name;", ""), expected, "{parent}");
        // The module after the ones that the parent uses may import from the parent.
        assert!(breaks_of_two(parent, "", "use super::Name; pub(super) fn f() {}").is_empty(), "{parent}");
    }
    let later = "use second::f; struct Name;";
    assert_eq!(
        breaks_of_two(later, "use super::Name;", ""),
        ["src/first.rs imports from src/lib.rs, which uses second"]
    );
    for parent in ["pub use first::Other; struct Name;", "struct Name { first: i32 }"] {
        assert!(breaks_of_two(parent, "use super::Name; pub(in super) fn f() {}", "").is_empty(), "{parent}");
    }
}

#[test]
fn a_glob_breaks_the_order() {
    assert!(!breaks_of_two("pub use first::*;", "", "").is_empty());
    assert!(breaks_of_two("use std::fmt::*;", "", "").is_empty());
}
