// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-keep`: programs that outlive the system they run on.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use remanence_keep::criu::HookWords;
use remanence_keep::fault::Fault;
use remanence_keep::save::{Caller, Kind};
use remanence_keep::{abort, check, hold, hook, run, save, serve, status, up};
use serde::Serialize;

/// Programs that outlive the system they run on.
#[derive(Debug, Parser)]
#[command(name = "rem-keep", disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// At boot: decide about the image, free the pages that no program has, restore programs.
    Up {
        /// The configuration.
        config: PathBuf,
    },
    /// Start a program that is kept, or wait for the one that was restored.
    Run {
        /// The configuration.
        config: PathBuf,
        /// Letters, digits and dashes.
        name: String,
        /// Do not wait for its end.
        #[arg(long)]
        detach: bool,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        words: Vec<OsString>,
    },
    /// Save all programs when the power fails.
    Serve {
        /// The configuration.
        config: PathBuf,
    },
    /// Stop all programs and save them; print what it took, as JSON.
    Save {
        /// The configuration.
        config: PathBuf,
    },
    /// After a save: close the image, and let the programs go on.
    Abort {
        /// The configuration.
        config: PathBuf,
    },
    /// Save all programs, and let them go on; print what it took, as JSON.
    Checkpoint {
        /// The configuration.
        config: PathBuf,
    },
    /// Print whether a program can be kept, and why not, as JSON.
    Check {
        /// The configuration.
        config: PathBuf,
        /// Its name.
        name: String,
    },
    /// Print the range, the decision of `up`, and all programs, as JSON.
    Status {
        /// The configuration.
        config: PathBuf,
    },
}

fn print(value: &impl Serialize) -> Result<ExitCode, Fault> {
    let text = serde_json::to_string(value).map_err(|error| Fault::new(error.to_string()))?;
    println!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn print_save(config: &Path, kind: Kind) -> Result<ExitCode, Fault> {
    print(&save::save(&Caller::new(config)?, kind, Vec::new())?)
}

fn code_of(status: i32) -> ExitCode {
    u8::try_from(status).map_or(ExitCode::FAILURE, ExitCode::from)
}

fn execute(command: Command) -> Result<ExitCode, Fault> {
    match command {
        Command::Up { config } => print(&up::up(&Caller::new(&config)?)?),
        Command::Run {
            config,
            name,
            detach,
            words,
        } => run::run(&Caller::new(&config)?, &name, &words, detach).map(code_of),
        Command::Serve { config } => {
            let print = |line: &str| println!("{line}");
            serve::serve(&Caller::new(&config)?, print).map(|()| ExitCode::SUCCESS)
        }
        Command::Save { config } => print_save(&config, Kind::Planned),
        Command::Checkpoint { config } => print_save(&config, Kind::Checkpoint),
        Command::Abort { config } => {
            abort::abort(&Caller::new(&config)?).map(|()| ExitCode::SUCCESS)
        }
        Command::Check { config, name } => print(&check::check(&Caller::new(&config)?, &name)?),
        Command::Status { config } => print(&status::status(&Caller::new(&config)?)?),
    }
}

fn main() -> ExitCode {
    // A save starts this program to hold what is frozen, CRIU calls it as its script.
    let done = match (hold::given(), HookWords::given()) {
        (Some(held), _) => held.map(|()| ExitCode::SUCCESS).map_err(Fault::from),
        (_, Some((action, words))) => hook::run(&action, &words).map(|()| ExitCode::SUCCESS),
        _ => execute(Words::parse().command),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            let line = error.to_string();
            eprintln!("rem-keep: {}", line.lines().next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use remanence_keep::config::Config;
    use remanence_keep::table::Damage;
    use remanence_vm::record::Verdict;

    const PAGE: &str = include_str!("../../man/rem-keep.8");

    /// Goal: the manual page has every command, every key, and every reason.
    #[test]
    fn manual_page_is_complete() {
        for command in Words::command().get_subcommands() {
            let line = format!("rem-keep {} CONFIG", command.get_name());
            assert!(PAGE.contains(&line), "{line}");
        }
        let why = Config::parse("nothing = 1").unwrap_err();
        let names = why.split("expected").nth(1).unwrap_or_default();
        let keys: Vec<&str> = names.split('`').skip(1).step_by(2).collect();
        assert!(keys.len() >= 8, "{keys:?}");
        for key in keys {
            let named = |line: &str| line.split([' ', ',']).any(|word| word == key);
            let mut lines = PAGE.lines().filter(|line| line.starts_with(".B "));
            assert!(lines.any(named), "{key}");
        }
        let verdicts = [
            Verdict::Enter(1),
            Verdict::Empty,
            Verdict::NoRecord,
            Verdict::Consumed,
            Verdict::ConsumedDamaged,
            Verdict::CommitDamaged,
        ];
        let reasons = verdicts.map(|verdict| verdict.name().to_owned());
        let damages = [Damage::Range, Damage::Table].map(|damage| damage.to_string());
        let others = ["images-damaged", "restore-failed"].map(str::to_owned);
        for reason in reasons.iter().chain(&damages).chain(&others) {
            assert!(PAGE.contains(reason.as_str()), "{reason}");
        }
    }

    /// Goal: words stand where the manual page has them.
    #[test]
    fn words_of_run_are_read() {
        for line in [
            "rem-keep run /c --detach db -- redis-server --port 7",
            "rem-keep run /c db --detach -- redis-server --port 7",
        ] {
            let words = Words::try_parse_from(line.split(' ')).unwrap();
            let Command::Run {
                name,
                detach,
                words,
                ..
            } = words.command
            else {
                panic!("another command");
            };
            assert_eq!((name.as_str(), detach, words.len()), ("db", true, 3));
        }
        Words::try_parse_from("rem-keep run /c db".split(' ')).unwrap_err();
    }
}
