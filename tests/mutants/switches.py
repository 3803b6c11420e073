"""Rewrites Rust source so that each mutant can be switched on while the program runs.

`a < b` becomes a choice between `a < b`, `a <= b`, and so on. `switch::is_on(17)` decides, and reads the environment variable
MUTANT. So one build has all mutants. They are those of `cargo mutants --list --json`, with their spans.

What is evaluated stands once in the new text, whatever its mutants are: so mutants inside of mutants take no more room. Marks in
comments say which text is of which mutant, so that an error of the compiler shows which one does not compile.
"""

import re

import tree_sitter
import tree_sitter_rust

PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
COMPARISONS = ("<", ">", "<=", ">=", "==", "!=")

# `is_on` is called often: an atomic read and a comparison. At its first call for a mutant it writes the number to the file that
# MUTANTS_REACHED names.
MODULE = """
#[doc(hidden)]
#[allow(clippy::all, missing_docs)]
pub mod switch {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

    static ON: AtomicU32 = AtomicU32::new(u32::MAX);
    static REACHED: [AtomicBool; 16384] = [const { AtomicBool::new(false) }; 16384];

    #[inline]
    pub fn is_on(mutant: u32) -> bool {
        let on = ON.load(Relaxed);
        on == mutant || on >= u32::MAX - 1 && decide(mutant)
    }

    #[cold]
    fn decide(mutant: u32) -> bool {
        if ON.load(Relaxed) == u32::MAX {
            let number = std::env::var("MUTANT").ok().and_then(|on| on.parse().ok());
            let otherwise = if std::env::var_os("MUTANTS_REACHED").is_some() { u32::MAX - 1 } else { u32::MAX - 2 };
            ON.store(number.unwrap_or(otherwise), Relaxed);
        }
        if ON.load(Relaxed) == u32::MAX - 1 && !REACHED[mutant as usize].swap(true, Relaxed) {
            let file = std::env::var_os("MUTANTS_REACHED").unwrap();
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap();
            file.write_all(format!("{mutant}\\n").as_bytes()).unwrap();
        }
        ON.load(Relaxed) == mutant
    }

    /// The type of a function that returns `impl Iterator`, and of its mutant.
    #[derive(Clone, Debug)]
    pub enum Either<L, R> { Left(L), Right(R) }

    impl<T, L: Iterator<Item = T>, R: Iterator<Item = T>> Iterator for Either<L, R> {
        type Item = T;
        fn next(&mut self) -> Option<T> {
            match self { Either::Left(it) => it.next(), Either::Right(it) => it.next() }
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            match self { Either::Left(it) => it.size_hint(), Either::Right(it) => it.size_hint() }
        }
    }

    impl<T, L: DoubleEndedIterator<Item = T>, R: DoubleEndedIterator<Item = T>> DoubleEndedIterator for Either<L, R> {
        fn next_back(&mut self) -> Option<T> {
            match self { Either::Left(it) => it.next_back(), Either::Right(it) => it.next_back() }
        }
    }
}
"""


class File:
    """A source file, and the mutants that it is to have: their numbers and descriptions. `impossible` are those among them that
    can be no Rust."""

    def __init__(self, source, mutants):
        self.source = source
        self.lines = source.split(b"\n")
        self.root = PARSER.parse(source).root_node
        self.impossible = set()
        self.at = {}
        for number, mutant in mutants:
            if node := self.node(mutant):
                self.at.setdefault(node.id, []).append((number, mutant))
            else:
                self.impossible.add(number)

    def node(self, mutant):
        """The node that a mutant changes."""
        genre, start, end = mutant["genre"], self.byte(mutant["span"]["start"]), self.byte(mutant["span"]["end"])
        # The spans of arms and fields have the comma after them.
        node = self.root.descendant_for_byte_range(start, start + 1 if genre in ("MatchArm", "StructField") else end)
        if genre in ("BinaryOperator", "UnaryOperator"):
            # A chain with `let` has no other operators.
            return node.parent if node.parent.type != "let_chain" else None
        while node and not (node.type in REWRITES and REWRITES[node.type][0] == genre and self.is_whole(node)):
            node = node.parent
        if genre == "MatchArm" and node:
            # An arm that only a guard switches off does not make a match exhaustive.
            patterns = [arm.child_by_field_name("pattern") for arm in node.parent.named_children if arm.type == "match_arm"]
            return node if any(self.raw(pattern) == "_" for pattern in patterns) else None
        return node

    def is_whole(self, node):
        return node.type != "block" or node.parent.type == "function_item"

    def byte(self, place):
        line = self.lines[place["line"] - 1].decode()
        return sum(len(line) + 1 for line in self.lines[: place["line"] - 1]) + len(line[: place["column"] - 1].encode())

    def raw(self, node):
        return self.source[node.start_byte : node.end_byte].decode()

    def rewritten(self):
        return self.text(self.root).encode()

    def text(self, node):
        """The text of a node, with the mutants in it and of it."""
        if own := self.at.get(node.id):
            marks = "".join(f"/*{{{n}*/" for n, _ in own), "".join(f"/*}}{n}*/" for n, _ in own)
            return marks[0] + REWRITES[node.type][1](self, node, own) + marks[1]
        return self.plain(node)

    def plain(self, node):
        """The text of a node, with the mutants in it."""
        if node.child_count == 0:
            return self.raw(node)
        text, place = "", node.start_byte
        for child in node.children:
            text += self.source[place : child.start_byte].decode() + self.text(child)
            place = child.end_byte
        return text + self.source[place : node.end_byte].decode()

    def part(self, node, field):
        return self.text(node.child_by_field_name(field))

    def binary(self, node, own):
        left, right, operator = self.part(node, "left"), self.part(node, "right"), node.child_by_field_name("operator").type
        number = own[0][0]
        if operator in ("&&", "||"):
            # If the left side is false, `a && b` is false, and `a || b` is `b`.
            ends_at = on(number) if operator == "&&" else f"!{on(number)}"
            return f"({{ let __l: bool = {left}; if __l == {ends_at} {{ __l }} else {{ {right} }} }})"
        if operator in ("==", "!="):
            return f"((({left}) {operator} ({right})) != {on(number)})"
        if operator in COMPARISONS:
            chosen = choose(own, f"*__l {operator} *__r", lambda other: f"*__l {other} *__r")
            return f"(match (&({left}), &({right})) {{ (__l, __r) => {chosen} }})"
        chosen = choose(own, f"__l {operator} __r", lambda other: f"__l {other} __r")
        return f"(match ({left}, {right}) {{ (__l, __r) => {chosen} }})"

    def assignment(self, node, own):
        left, operator = self.part(node, "left"), node.child_by_field_name("operator").type
        chosen = choose(own, f"{left} {operator} __r", lambda other: f"{left} {other} __r")
        return f"(match {self.part(node, 'right')} {{ __r => {chosen} }})"

    def unary(self, node, own):
        operator, operand = node.children
        return f"(match {self.text(operand)} {{ __v => {choose(own, operator.type + '__v', lambda _: '__v')} }})"

    def function(self, node, own):
        returned = node.parent.child_by_field_name("return_type")
        body = self.plain(node)[1:-1]
        if not returned or not self.raw(returned).startswith(("impl Iterator", "impl DoubleEndedIterator")):
            returns = (f"if {on(n)} {{ {alternative(n, 'return ' + mutant['replacement'])} }}" for n, mutant in own)
            return f"{{ {' '.join(returns)} {body} }}"
        # All branches have to be of one type.
        body = f"{{ {body} }}"
        for n, mutant in reversed(own):
            left = alternative(n, f"crate::switch::Either::Left({mutant['replacement']})")
            body = f"{{ if {on(n)} {{ {left} }} else {{ crate::switch::Either::Right({body}) }} }}"
        return body

    def arm(self, node, own):
        pattern = node.child_by_field_name("pattern")
        head, off = self.text(pattern), f"!{on(own[0][0])}"
        condition = pattern.child_by_field_name("condition")
        # The pattern ends with the `if` of its guard.
        before = self.source[pattern.start_byte : condition.start_byte].decode() if condition else f"{head} if "
        guard = f"{off} && ({self.guard_text(pattern)})" if condition else off
        return before + guard + self.plain(node)[len(head) :]

    def guard(self, node, _):
        condition = node.child_by_field_name("condition")
        return self.source[node.start_byte : condition.start_byte].decode() + self.guard_text(node)

    def guard_text(self, pattern):
        guard = f"({self.part(pattern, 'condition')})"
        for number, mutant in self.at.get(pattern.id, []):
            guard = f"({on(number)} || {guard})" if mutant["replacement"] == "true" else f"(!{on(number)} && {guard})"
        return guard

    def field(self, node, own):
        """A field that is left out has the value that it has in the base, after the `..`."""
        base = next(child for child in node.parent.children if child.type == "base_field_initializer")
        base = self.raw(base).removeprefix("..")
        if base == "Default::default()":
            base = f"<{self.raw(node.parent.parent.child_by_field_name('name'))} as Default>::default()"
        is_short = node.type == "shorthand_field_initializer"
        name = self.raw(node if is_short else node.child_by_field_name("field"))
        value = name if is_short else self.part(node, "value")
        number = own[0][0]
        return f"{name}: (if {on(number)} {{ {alternative(number, f'({base}).{name}')} }} else {{ {value} }})"


# By the type of a node: the genre of the mutants that change it, and how.
REWRITES = {
    "binary_expression": ("BinaryOperator", File.binary),
    "compound_assignment_expr": ("BinaryOperator", File.assignment),
    "unary_expression": ("UnaryOperator", File.unary),
    "block": ("FnValue", File.function),
    "match_arm": ("MatchArm", File.arm),
    "match_pattern": ("MatchArmGuard", File.guard),
    "field_initializer": ("StructField", File.field),
    "shorthand_field_initializer": ("StructField", File.field),
}


def on(number):
    return f"crate::switch::is_on({number})"


def alternative(number, text):
    return f"/*<{number}*/ {text} /*{number}>*/"


def choose(mutants, original, mutated):
    """An expression with another operator if a mutant is on."""
    branches = (f"if {on(n)} {{ {alternative(n, mutated(mutant['replacement']))} }} else " for n, mutant in mutants)
    return f"{''.join(branches)}{{ {original} }}"


def mutants_at(spans, rewritten):
    """The mutant that an error of the compiler is about: the innermost one at a primary span, or else at another one."""
    for opening, closing in ((rb"/\*<(\d+)\*/", b"/*%b>*/"), (rb"/\*\{(\d+)\*/", b"/*}%b*/")):
        for span in sorted(spans, key=lambda span: not span["is_primary"]):
            found = []
            text = rewritten.get(span["file_name"], b"")
            for mark in re.finditer(opening, text):
                end = text.find(closing % mark[1], mark.end())
                if mark.start() <= span["byte_start"] and span["byte_end"] <= end:
                    found.append((mark.start() - end, mark.start(), int(mark[1])))
            if found:
                return {max(found)[2]}
    return set()
