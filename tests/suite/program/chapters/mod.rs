//! The chapters about queues, limiters, caches and elections. Each file below is a program of a
//! chapter, and the chapter shows the report that it prints.

use std::cell::RefCell;

use crate::program::readme::check_page;

thread_local! {
    /// The last thing that a program has printed.
    static PRINTED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stands for that of the standard library in the programs.
macro_rules! println {
    ($($text:tt)*) => {
        crate::program::chapters::PRINTED.set(format!($($text)*))
    };
}

macro_rules! chapters {
    ($($chapter:ident: $($program:ident)*;)*) => {
        $(
            #[test]
            fn $chapter() {
                $({
                    mod program {
                        include!(concat!(stringify!($chapter), "/", stringify!($program), ".rs"));
                        pub(super) const MAIN: fn() = main;
                    }
                    let text = include_str!(concat!(stringify!($chapter), "/", stringify!($program), ".rs"));
                    check_program(stringify!($chapter), stringify!($program), text, program::MAIN);
                })*
            }
        )*
    };
}

chapters! {
    queues: reads_first pops slow_worker sorted_by_time;
    limiters: get_first two_commands edge member_is_time;
    caches_and_elections: stale_fill herd placeholder two_leaders;
}

/// The page has the program, and the report that it prints without the schedule to save.
#[track_caller]
fn check_program(chapter: &str, program: &str, text: &str, main: fn()) {
    let page = format!("tests/guide/{chapter}.md");
    check_page(&page, &format!("program: {program}"), &format!("```rust\n{text}```\n"));
    main();
    let printed = PRINTED.take();
    let (report, _) = printed.split_once("\nSave this schedule").expect("it prints a report");
    let report = report.trim_start_matches('\n');
    check_page(&page, &format!("report: {program}"), &format!("```text\n{report}```\n"));
}
