// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-vm`: runs guests that outlive the power of their host.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use remanence_vm::config::Config;
use remanence_vm::host::{Host, ask};

/// Virtual machines that outlive the power of their host.
#[derive(Debug, Parser)]
#[command(name = "rem-vm", disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Power all guests on, resume those that have an image, and save them when power fails.
    Run {
        /// The configuration.
        config: PathBuf,
    },
    /// Print what is known of the guests, as JSON.
    Status {
        /// The configuration of a host that runs.
        config: PathBuf,
    },
    /// Save all guests and end the host; the next `run` goes on with them.
    Stop {
        /// The configuration of a host that runs.
        config: PathBuf,
    },
    /// Check a configuration.
    Check {
        /// The configuration.
        config: PathBuf,
    },
}

fn print(line: &str) {
    println!("{line}");
}

fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Run { config } => Host::power_on(Config::load(&config)?, print)?.serve(),
        Command::Check { config } => Config::load(&config).map(|_| ()),
        Command::Status { config } => {
            println!("{}", ask(&Config::load(&config)?.folder, "status")?);
            Ok(())
        }
        Command::Stop { config } => ask(&Config::load(&config)?.folder, "stop").map(|_| ()),
    }
}

fn main() -> ExitCode {
    match run(Words::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rem-vm: {}", error.lines().next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use remanence_vm::record::Verdict;

    const PAGE: &str = include_str!("../../man/rem-vm.8");

    /// What the parser would have taken, by its own words.
    fn expected(text: &str) -> Vec<String> {
        let why = Config::parse(text).unwrap_err();
        let names = why.split("expected").nth(1).unwrap_or_default();
        let quoted = names.split('`').skip(1).step_by(2);
        quoted.map(str::to_owned).collect()
    }

    /// Goal: the manual page has every command, every key, and every reason.
    #[test]
    fn manual_page_is_complete() {
        for command in Words::command().get_subcommands() {
            let line = format!("rem-vm {} CONFIG", command.get_name());
            assert!(PAGE.contains(&line), "{line}");
        }
        let top = expected("nothing = 1");
        let guest = expected("folder = \"/\"\nhold_up_us = 1\n[[guest]]\nnothing = 1");
        assert!(top.len() >= 4 && guest.len() >= 11, "{top:?} {guest:?}");
        for key in top.iter().chain(&guest).filter(|key| *key != "guest") {
            let named = |line: &str| line.split([' ', ',']).any(|word| word == key);
            let is_there = PAGE
                .lines()
                .any(|line| line.starts_with(".B ") && named(line));
            assert!(is_there, "{key}");
        }
        let verdicts = [
            Verdict::Enter(1),
            Verdict::Empty,
            Verdict::NoRecord,
            Verdict::Consumed,
            Verdict::ConsumedDamaged,
            Verdict::CommitDamaged,
        ];
        for verdict in verdicts {
            assert!(PAGE.contains(verdict.name()), "{}", verdict.name());
        }
    }
}
