//! The rows of the benchmark `growth`: every command has one.

#[expect(dead_code, reason = "the benchmark uses the rest")]
#[path = "../../benches/growth/rows.rs"]
mod rows;

const TEXT: &str = include_str!("../../benches/growth/rows.txt");

#[test]
fn every_command_is_measured_or_says_why_not() {
    let mut names = rows::commands();
    rows::Rows::parse(TEXT, &names).map(|_| ()).unwrap();
    names.push("newcommand");
    let missing = rows::Rows::parse(TEXT, &names).map(|_| ()).unwrap_err();
    assert!(missing.contains(r#"add rows for ["newcommand"]"#), "{missing}");
}
