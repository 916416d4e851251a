// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes recordings of the model for `rem campaign --model`.

use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::prelude::{Long, Value, ValueExt};
use remanence_model::mutants::{MUTANTS, named};
use remanence_model::protocol::{Protocol, Right, RightUncovered};

const USAGE: &str = "usage: remanence-model write DIR [--seed N] [--uncovered | --mutant NAME]
       remanence-model mutants";
const EXIT_USAGE: u8 = 2;
const EXIT_INFRASTRUCTURE: u8 = 4;

struct Arguments {
    words: Vec<String>,
    seed: u64,
    mutant: Option<String>,
    uncovered: bool,
}

fn parse() -> Result<Arguments, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut arguments = Arguments {
        words: Vec::new(),
        seed: 1,
        mutant: None,
        uncovered: false,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("seed") => arguments.seed = parser.value()?.parse()?,
            Long("mutant") => arguments.mutant = Some(parser.value()?.string()?),
            Long("uncovered") => arguments.uncovered = true,
            Value(word) => arguments.words.push(word.string()?),
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(arguments)
}

/// The protocol with this bug; or what to print, if there is none. A bug knows its domain.
fn chosen(arguments: &Arguments) -> Result<&'static dyn Protocol, String> {
    let Some(name) = arguments.mutant.as_deref() else {
        return Ok(match arguments.uncovered {
            true => &RightUncovered,
            false => &Right,
        });
    };
    match named(name) {
        Some(mutant) => Ok(mutant.protocol),
        None => {
            let names: Vec<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
            Err(format!("no mutant {name}; there are {}", names.join(", ")))
        }
    }
}

fn main() -> ExitCode {
    let fail = |code: u8, what: &str| {
        eprintln!("remanence-model: {what}");
        ExitCode::from(code)
    };
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => return fail(EXIT_USAGE, &error.to_string()),
    };
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    match words[..] {
        ["mutants"] => {
            for mutant in &MUTANTS {
                println!("{} {}", mutant.name, mutant.violates.join(" "));
            }
            ExitCode::SUCCESS
        }
        ["write", dir] => match chosen(&arguments) {
            Err(what) => fail(EXIT_USAGE, &what),
            Ok(protocol) => {
                let dir = PathBuf::from(dir);
                match remanence_model::write(&dir, arguments.seed, protocol) {
                    Ok(()) => ExitCode::SUCCESS,
                    Err(error) => fail(EXIT_INFRASTRUCTURE, &format!("{}: {error}", dir.display())),
                }
            }
        },
        _ => fail(EXIT_USAGE, USAGE),
    }
}
