// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What devices and programs say, read in bounded memory and time. It is not trusted.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use crate::fault::{Fault, at};
use crate::system::System;

/// Files of sysfs have one value, or a few words.
const FILE_BYTES: u64 = 4096;
/// Far more sensors than a server has.
const OUTPUT_BYTES: u64 = 1 << 16;
/// Far more devices of a kind than a server has.
const DEVICES_MAX: usize = 256;
/// Of programs that are asked.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Text of at most so many bytes.
///
/// # Errors
/// Those of the file.
pub fn bounded(from: impl Read, bytes: u64) -> std::io::Result<String> {
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

/// A question to a program, which gets nothing of this process's environment.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// Its name, and the package that has it.
    pub program: (&'a str, &'a str),
    /// Its words, which everybody may see.
    pub words: &'a [&'a str],
    /// What it reads, which nobody else sees.
    pub input: &'a str,
    /// After which it is ended.
    pub limit_s: u32,
    /// What is taken of its answer.
    pub bytes: u64,
}

/// The answer: how the program has ended, and what it has printed.
///
/// # Errors
/// One line, if it cannot be run, or was ended.
pub fn ask(system: &System, question: &Question<'_>) -> Result<(ExitStatus, String), Fault> {
    const ENDED: i32 = 124; // by timeout(1)
    let ((name, package), limit_s) = (question.program, question.limit_s);
    let path = system.program(name, package)?;
    let timeout = system.program("timeout", "coreutils")?;
    let mut command = Command::new(timeout);
    command.args(["--kill-after=1", &limit_s.to_string()]);
    command.arg(path).args(question.words);
    command.env_clear().env("LC_ALL", "C").env("PATH", PATH);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().map_err(at(name))?;
    let (input, said) = (child.stdin.take(), child.stdout.take());
    let said = thread::scope(|scope| {
        // A program that does not read all of it has an end of its own, which says more.
        scope.spawn(|| input.map(|mut input| input.write_all(question.input.as_bytes())));
        said.map(|said| bounded(said, question.bytes))
    });
    let status = child.wait().map_err(at(name))?;
    if status.code() == Some(ENDED) {
        return Err(Fault::new(format!("{name} was silent for {limit_s} s")));
    }
    let said = said.unwrap_or_else(|| Ok(String::new()));
    Ok((status, said.map_err(at(name))?))
}

/// What a program prints that needs no input.
///
/// # Errors
/// One line, if it cannot be run, fails, or was ended.
pub fn output(
    system: &System,
    program: (&str, &str),
    words: &[&str],
    limit_s: u32,
) -> Result<String, Fault> {
    let question = Question {
        program,
        words,
        input: "",
        limit_s,
        bytes: OUTPUT_BYTES,
    };
    let (status, said) = ask(system, &question)?;
    if !status.success() {
        return Err(Fault::new(format!("{}: {status}", program.0)));
    }
    Ok(said)
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
        assert_eq!(said("read line || echo none").unwrap(), "none\n");
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
    fn input_and_answer_have_their_room() {
        let asked = |script, bytes| {
            let question = Question {
                program: ("tool", "tools"),
                words: &[],
                input: &"x".repeat(1 << 20),
                limit_s: 5,
                bytes,
            };
            ask(&fake_with(script).system(), &question).unwrap()
        };
        let (status, said) = asked("exec wc -c", 99);
        assert_eq!((status.code(), said.trim()), (Some(0), "1048576"));
        let (status, said) = asked("exec cat", 5);
        assert_eq!((status.success(), said.as_str()), (false, "xxxxx"));
        let (status, _) = asked("exit 7", 99);
        assert_eq!(status.code(), Some(7));
        let (_, said) = asked("env", 9999);
        assert!(!said.contains("HOME="), "{said}");
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
