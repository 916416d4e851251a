// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rem-media JOB` (or `-` to read it): does one job of `ocpmem::jobs`, prints JSON.
//! Exit: 0 done, 1 a promise of the model is broken, 2 the job cannot be meant.

use std::process::ExitCode;

fn main() -> ExitCode {
    let text = ocpmem::jobs::given();
    match text.and_then(|text| ocpmem::jobs::run_text(&text).map_err(|error| error.to_string())) {
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
