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
