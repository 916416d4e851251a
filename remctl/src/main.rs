// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `remctl`: what an administrator of an installed server types.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use remanence_remctl::efi::Inputs;
use remanence_remctl::esp::Esp;
use remanence_remctl::fault::{Fault, at};
use remanence_remctl::health::{self, health};
use remanence_remctl::install::{Report, Wishes, install};
use remanence_remctl::metrics::metrics;
use remanence_remctl::remove::remove;
use remanence_remctl::sign::Keys;
use remanence_remctl::status::{has_remanence, status};
use remanence_remctl::step::mib;
use remanence_remctl::stop::{stop, stop_and_wake};
use remanence_remctl::system::System;
use remanence_remctl::text;
use remanence_remctl::wake::Wake;
use remanence_remctl::whole;
use serde::Serialize;

/// Of `health`: something is bad.
const UNHEALTHY: u8 = 3;

/// Sees, installs and stops a server that resumes after a power failure.
#[derive(Debug, Parser)]
#[command(name = "remctl", disable_help_subcommand = true)]
struct Words {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what the running kernel says, and what is installed.
    Status {
        /// As one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write loader, kernel, initrd and command line as one UEFI application.
    Efi(EfiWords),
    /// Install that on the EFI system partition, and make firmware start it.
    Install(InstallWords),
    /// Print the version of the kernel that is installed there.
    Installed {
        /// Where the EFI system partition is.
        #[arg(long, value_name = "DIR")]
        esp: Option<PathBuf>,
    },
    /// Take the boot entry and the files away again.
    Remove {
        /// Show what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Where the EFI system partition is.
        #[arg(long, value_name = "DIR")]
        esp: Option<PathBuf>,
    },
    /// Print the state as metrics, in the text format of Prometheus.
    Metrics {
        /// Write it to this file, which appears whole.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Look whether supplies, batteries and modules are well, and tell the kernel.
    Health(HealthWords),
    /// Stop the machine; when it has power again it goes on where it was.
    Stop(StopWords),
}

#[derive(Debug, Args)]
struct StopWords {
    /// Start it again after this time, by the machine's clock: 90s, 30m, 8h, 2d.
    #[arg(long, value_name = "TIME", conflicts_with = "wake_at")]
    wake_in: Option<String>,
    /// The same, at a time as date(1) reads it: "tomorrow 6:00".
    #[arg(long, value_name = "DATE")]
    wake_at: Option<String>,
}

#[derive(Debug, Args)]
struct EfiWords {
    /// The loader.
    #[arg(long, value_name = "FILE")]
    loader: PathBuf,
    /// The kernel, a bzImage.
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// Its initial RAM disk.
    #[arg(long, value_name = "FILE")]
    initrd: Option<PathBuf>,
    /// Its command line.
    #[arg(long, value_name = "WORDS", default_value = "memtype=nvram")]
    cmdline: String,
    /// Where to write it.
    out: PathBuf,
}

#[derive(Debug, Args)]
struct InstallWords {
    /// The kernel, instead of the newest.
    #[arg(long)]
    version: Option<String>,
    /// Where the EFI system partition is.
    #[arg(long, value_name = "DIR")]
    esp: Option<PathBuf>,
    /// Show what would be done.
    #[arg(long)]
    dry_run: bool,
    /// Print the report as one JSON object.
    #[arg(long)]
    json: bool,
    /// Sign it for Secure Boot with this key.
    #[arg(long, value_name = "PEM", requires = "certificate")]
    key: Option<PathBuf>,
    /// The certificate of that key.
    #[arg(long, value_name = "PEM", requires = "key")]
    certificate: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct HealthWords {
    /// Print all that was found as one JSON object.
    #[arg(long)]
    json: bool,
    /// Only print what was found.
    #[arg(long, conflicts_with = "forget")]
    dry_run: bool,
    /// Within which this is called again; 0: it need not be.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=86_400))]
    period: u32,
    /// The charge of a battery that is nearly empty; 0: none is.
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u8).range(..=100))]
    low: u8,
    /// Take back all that was reported.
    #[arg(long)]
    forget: bool,
}

fn print_json(value: &impl Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string(value).map_err(at("JSON"))?;
    println!("{text}");
    Ok(())
}

fn absolute(path: Option<PathBuf>) -> Result<Option<PathBuf>, Fault> {
    let absolute = |path: PathBuf| std::path::absolute(&path).map_err(at(path.display()));
    path.map(absolute).transpose()
}

fn print_report(report: &Report, dry_run: bool) {
    let name = report.file.display();
    if dry_run {
        print_steps(&report.steps, true);
    } else if report.steps.is_empty() {
        println!("{name}: {} is installed already", report.version);
    } else {
        let signed = if report.signed { ", signed" } else { "" };
        println!("{name}: {}, {}{signed}", report.version, mib(report.bytes));
    }
    print_lines(&report.notes);
}

fn print_steps(steps: &[String], dry_run: bool) {
    let would = if dry_run { "would " } else { "" };
    for step in steps {
        println!("{would}{step}");
    }
    if steps.is_empty() {
        println!("nothing to do");
    }
}

fn print_lines(lines: &[String]) {
    for line in lines {
        println!("{line}");
    }
}

fn installed(system: &System, esp: Option<&Path>) -> Result<(), Fault> {
    let found = Esp::find(system, esp)?.installed()?;
    let found = found.ok_or_else(|| Fault::new("nothing is installed"))?;
    println!("{}", found.kernel.release());
    Ok(())
}

fn print_metrics(system: &System, out: Option<&Path>) -> Result<(), Fault> {
    let status = has_remanence(system).then(|| status(system)).transpose()?;
    let text = metrics(status.as_ref());
    match out {
        Some(file) => whole::write(file, text.as_bytes()),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// Whether all is well.
fn watch(system: &System, words: &HealthWords) -> Result<bool, Fault> {
    if words.forget {
        health::forget(system)?;
        return Ok(true);
    }
    let wishes = health::Wishes {
        period_s: words.period,
        low_percent: words.low,
        dry_run: words.dry_run,
    };
    let report = health(system, wishes)?;
    if words.json {
        print_json(&report)?;
    } else if words.dry_run {
        print_lines(&report.lines());
    } else {
        print_lines(&report.changes);
    }
    if report.low && !words.json {
        println!("batteries are nearly empty");
    }
    if report.low && !words.dry_run {
        health::battery_low(system)?;
    }
    Ok(!report.is_bad())
}

fn stop_by(system: &System, words: &StopWords) -> Result<(), Fault> {
    let wake = match (&words.wake_in, &words.wake_at) {
        (Some(text), _) => Wake::after_words(text)?,
        (None, Some(text)) => Wake::at_words(system, text)?,
        (None, None) => return stop(system),
    };
    stop_and_wake(system, wake)
}

/// Its exit code.
fn execute(command: Command) -> Result<u8, Fault> {
    let system = System::running();
    match command {
        Command::Health(words) => {
            if !watch(&system, &words)? {
                return Ok(UNHEALTHY);
            }
        }
        Command::Status { json } => {
            let status = status(&system)?;
            if json {
                print_json(&status)?;
                return Ok(0);
            }
            print_lines(&text::lines(&status));
        }
        Command::Efi(words) => {
            let inputs = Inputs {
                loader: words.loader,
                kernel: words.kernel,
                initrd: words.initrd,
                cmdline: words.cmdline,
            };
            inputs.write(&words.out)?;
        }
        Command::Install(words) => {
            let pair = words.key.zip(words.certificate);
            let [key, certificate] = match pair {
                Some((key, certificate)) => [absolute(Some(key))?, absolute(Some(certificate))?],
                None => [None, None],
            };
            let wishes = Wishes {
                version: words.version,
                esp: absolute(words.esp)?,
                keys: key
                    .zip(certificate)
                    .map(|(key, certificate)| Keys { key, certificate }),
            };
            let report = install(&system, &wishes, words.dry_run)?;
            if words.json {
                print_json(&report)?;
                return Ok(0);
            }
            print_report(&report, words.dry_run);
        }
        Command::Installed { esp } => installed(&system, absolute(esp)?.as_deref())?,
        Command::Remove { dry_run, esp } => {
            let (steps, notes) = remove(&system, absolute(esp)?.as_deref(), dry_run)?;
            print_steps(&steps, dry_run);
            print_lines(&notes);
        }
        Command::Metrics { out } => print_metrics(&system, out.as_deref())?,
        Command::Stop(words) => stop_by(&system, &words)?,
    }
    Ok(0)
}

fn main() -> ExitCode {
    match execute(Words::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let line = error.to_string();
            eprintln!("remctl: {}", line.lines().next().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    const PAGE: &str = include_str!("../../man/remctl.8");

    /// Goal: the manual page has every command and every option, and no other.
    #[test]
    fn manual_page_is_complete() {
        let page = PAGE.replace("\\-", "-");
        let mut known = Vec::new();
        for command in Words::command().get_subcommands() {
            let heading = format!(".SS {}\n", command.get_name());
            let section = page.split(&heading).nth(1).unwrap_or_default();
            let section = section.split("\n.S").next().unwrap_or_default();
            assert!(!section.is_empty(), "{heading}");
            let start = format!("remctl {}", command.get_name());
            let is_of_it = |line: &&str| *line == start || line.starts_with(&format!("{start} "));
            let synopsis = page.lines().find(is_of_it).unwrap_or_default();
            assert!(!synopsis.is_empty(), "{start}");
            for argument in command.get_arguments() {
                let name = argument.get_long();
                let name = name.map_or_else(|| "OUT".to_owned(), |long| format!("--{long}"));
                assert!(section.contains(&name), "{heading} {name}");
                assert!(synopsis.contains(&name), "{synopsis:?} {name}");
                known.push(name);
            }
        }
        let words = page.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        for word in words.filter(|word| word.starts_with("--")) {
            assert!(known.iter().any(|name| name == word), "{word}");
        }
    }

    fn words(text: &str) -> Result<Command, clap::Error> {
        Words::try_parse_from(text.split(' ')).map(|words| words.command)
    }

    #[test]
    fn a_key_has_a_certificate() {
        words("remctl install --key k --certificate c").unwrap();
        words("remctl install --key k").unwrap_err();
        words("remctl install --certificate c").unwrap_err();
    }
}
