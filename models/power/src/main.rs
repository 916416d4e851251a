// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `remanence-power [PROFILES.toml]`: answers each line of stdin with one of stdout, `{"ok": ...}` or
//! `{"error": "..."}` (`query.rs`).

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use remanence_power::{PowerError, Profiles, query};
use serde_json::json;

fn profiles() -> Result<Profiles, String> {
    match std::env::args().nth(1) {
        None => Profiles::built_in().map_err(|error| error.to_string()),
        Some(path) => std::fs::read_to_string(&path)
            .map_err(|error| format!("{path}: {error}"))
            .and_then(|text| {
                Profiles::parse(&text).map_err(|error: PowerError| format!("{path}: {error}"))
            }),
    }
}

fn serve(profiles: &Profiles) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let output = match query::answer(profiles, &line?) {
            Ok(value) => json!({"ok": value}),
            Err(error) => json!({"error": error.to_string()}),
        };
        writeln!(out, "{output}")?;
        out.flush()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let ended = profiles().and_then(|profiles| serve(&profiles).map_err(|error| error.to_string()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!(
                "remanence-power: {}",
                error.lines().next().unwrap_or_default()
            );
            ExitCode::from(2)
        }
    }
}
