// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-media JOB` (or `-` to read it): does one job of `ocpmem::jobs`, prints JSON.
//! Exit: 0 done, 1 a promise of the model is broken, 2 the job cannot be meant.

use std::io::Read;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(word), None) = (words.next(), words.next()) else {
        eprintln!("rem-media: give one job as JSON, or - to read it from standard input");
        return ExitCode::from(2);
    };
    let mut text = word;
    if text == "-" {
        text.clear();
        if let Err(error) = std::io::stdin().read_to_string(&mut text) {
            eprintln!("rem-media: standard input: {error}");
            return ExitCode::from(2);
        }
    }
    match ocpmem::jobs::run_text(&text) {
        Ok(answer) => {
            println!("{answer}");
            let ok = answer.get("ok").is_none_or(|ok| ok == true);
            if ok {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            eprintln!("rem-media: {error}");
            ExitCode::from(2)
        }
    }
}
