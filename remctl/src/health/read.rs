// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What devices and programs say, read in bounded memory and time. It is not trusted.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fault::{Fault, at};
use crate::system::System;

/// Files of sysfs have one value, or a few words.
const FILE_BYTES: u64 = 4096;
/// Far more sensors than a server has.
const OUTPUT_BYTES: u64 = 1 << 16;
/// Far more devices of a kind than a server has.
const DEVICES_MAX: usize = 256;

fn bounded(from: impl Read, bytes: u64) -> std::io::Result<String> {
    let mut text = Vec::new();
    from.take(bytes).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// A file's text without blanks around it; none if there is none, or it cannot be read.
#[must_use]
pub fn text(path: &Path) -> Option<String> {
    let text = bounded(File::open(path).ok()?, FILE_BYTES).ok()?;
    Some(text.trim().to_owned())
}

/// A file's number.
#[must_use]
pub fn number(path: &Path) -> Option<i64> {
    text(path)?.parse().ok()
}

/// The devices of a folder, by name, in the order of these.
#[must_use]
pub fn devices(system: &System, folder: &str) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(system.path(folder)).into_iter().flatten();
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    let mut found: Vec<_> = entries
        .filter_map(|entry| named(entry.ok()?))
        .take(DEVICES_MAX)
        .collect();
    found.sort();
    found
}

/// What a program prints, which is ended after some seconds.
///
/// # Errors
/// One line, if it cannot be run, fails, or was ended.
pub fn output(
    system: &System,
    program: (&str, &str),
    words: &[&str],
    limit_s: u32,
) -> Result<String, Fault> {
    const ENDED: i32 = 124; // by timeout(1)
    let (name, package) = program;
    let path = system.program(name, package)?;
    let timeout = system.program("timeout", "coreutils")?;
    let mut command = Command::new(timeout);
    command.args(["--kill-after=1", &limit_s.to_string()]);
    command.arg(path).args(words).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().map_err(at(name))?;
    let said = child.stdout.take().map(|said| bounded(said, OUTPUT_BYTES));
    let status = child.wait().map_err(at(name))?;
    match status.code() {
        Some(0) => said.unwrap_or_else(|| Ok(String::new())).map_err(at(name)),
        Some(ENDED) => Err(Fault::new(format!("{name} was silent for {limit_s} s"))),
        _ => Err(Fault::new(format!("{name}: {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::tests::Fake;

    fn fake_with(script: &str) -> Fake {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let fake = Fake::new();
        fake.write("bin/tool", format!("#!/bin/sh\n{script}\n"));
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(fake.path("bin/tool"), executable).unwrap();
        symlink("/usr/bin/timeout", fake.path("bin/timeout")).unwrap();
        fake
    }

    fn said(script: &str) -> Result<String, Fault> {
        output(&fake_with(script).system(), ("tool", "tools"), &["a"], 1)
    }

    #[test]
    fn a_program_has_its_time_and_its_room() {
        assert_eq!(said("echo $1; echo x >&2").unwrap(), "a\n");
        let why = |script| said(script).unwrap_err().to_string();
        assert_eq!(why("exit 3"), "tool: exit status: 3");
        assert_eq!(why("exec sleep 60"), "tool was silent for 1 s");
        // It is ended by the signal of a pipe that nobody reads.
        assert!(why("exec /usr/bin/yes").starts_with("tool: "));
        let most = "head -c 65536 /dev/zero";
        assert_eq!(said(most).unwrap().len(), 1 << 16);
        let none = output(&Fake::new().system(), ("tool", "tools"), &[], 1);
        let why = none.unwrap_err().to_string();
        assert_eq!(why, "the program tool is not there: apt install tools");
    }

    #[test]
    fn a_file_has_its_room() {
        let fake = Fake::new();
        fake.write("long", "7".repeat(10_000));
        fake.write("bytes", b"\xff 5 \n");
        assert_eq!(text(&fake.path("long")).unwrap().len(), 4096);
        assert_eq!(number(&fake.path("long")), None);
        assert_eq!(text(&fake.path("bytes")).as_deref(), Some("\u{fffd} 5"));
        assert_eq!(text(&fake.path("none")), None);
        assert!(devices(&fake.system(), "none").is_empty());
    }
}
