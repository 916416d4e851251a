// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-histories FILE`: prints what it finds as one line of JSON.

use std::process::ExitCode;

use remanence_histories::{check, parse};

fn run(path: &str) -> Result<String, String> {
    let failed = |why: String| format!("{path}: {why}");
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let operations = parse(&text).map_err(|error| failed(error.to_string()))?;
    serde_json::to_string(&check(&operations)).map_err(|error| failed(error.to_string()))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let found = match words.as_slice() {
        [path] => run(path),
        _ => Err("give one file: a history, as JSON lines".to_owned()),
    };
    match found {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("rem-histories: {why}");
            ExitCode::from(2)
        }
    }
}
