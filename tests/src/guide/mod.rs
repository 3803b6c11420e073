//! How to test Redis code with lockstep, chapter by chapter.
//!
//! The chapters are the files of `tests/guide`, which can be read there, too.
//!
#![doc = include_str!("links.md")]
#![doc = include_str!("../../guide/README.md")]

/// Documents a module for each chapter. Where a chapter links to another file, `links.md` links to
/// the module in its place: it comes first, and the first definition of a link counts.
macro_rules! chapters {
    ($($chapter:ident: $text:expr;)*) => {
        $(
            #[doc = include_str!("links.md")]
            #[doc = $text]
            pub mod $chapter {}
        )*
    };
}

chapters! {
    bug: include_str!("../../guide/bug.md");
    first_test: include_str!("../../guide/first_test.md");
    marks: include_str!("../../guide/marks.md");
    queues: include_str!("../../guide/queues.md");
    limiters: include_str!("../../guide/limiters.md");
    caches_and_elections: include_str!("../../guide/caches_and_elections.md");
    faults: include_str!("../../guide/faults.md");
    oracles: include_str!("../../guide/oracles.md");
    properties: include_str!("../../guide/properties.md");
    lints: include_str!("../../guide/lints.md");
    sampling: include_str!("../../guide/sampling.md");
    replay: include_str!("../../guide/replay.md");
    ci: include_str!("../../guide/ci.md");
    program: include_str!("../../guide/program.md");
    languages: include_str!("../../guide/languages.md");
    test_double: include_str!("../../guide/test_double.md");
    compare: include_str!("../../guide/compare.md");
    faq: include_str!("../../guide/faq.md");
    glossary: include_str!("../../guide/glossary.md");
    architecture: include_str!("../../guide/architecture.md");
}
