//! `lockstep completions` and `lockstep man`: texts that follow from the definitions of the
//! options.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Command;
use clap_complete::Shell;

use crate::names::did_you_mean;
use crate::output::print_raw;

/// Print a script that lets a shell complete commands, options and names
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page of lockstep, or of a command
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct ManArgs {
    /// The command; by default, the page of lockstep itself
    command: Option<String>,
    /// Write all pages to files in this folder instead, and make it if it does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut program: Command) -> Result<ExitCode> {
    let (name, mut script) = (program.get_name().to_owned(), Vec::new());
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    print_raw(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs, mut program: Command) -> Result<ExitCode> {
    if let Some(folder) = &args.dir {
        let failed = || format!("cannot write to {}: name another folder", folder.display());
        std::fs::create_dir_all(folder).with_context(failed)?;
        clap_mangen::generate_to(program, folder).with_context(failed)?;
        return Ok(ExitCode::SUCCESS);
    }
    program.build();
    let of = match args.command.as_deref() {
        None => &program,
        Some(name) => program.find_subcommand(name).with_context(|| {
            let known = program.get_subcommands().map(Command::get_name);
            let hint = did_you_mean(name, known);
            format!("there is no command {name:?}: `lockstep --help` lists them{hint}")
        })?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(of.clone()).render(&mut page)?;
    print_raw(&page)?;
    Ok(ExitCode::SUCCESS)
}
