// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How CRIU is called for a restore (for a dump: `engine`), and what it says of a failure.
//!
//! Its action scripts are this program, which knows by two variables what it is called for: some
//! versions run a script by a shell, others do not, and so it has no arguments.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Its name.
pub const PROGRAM: &str = "criu";
/// The configuration's path, for the hook.
pub const HOOK_CONFIG: &str = "REM_KEEP_HOOK_CONFIG";
/// The program's name, for the hook.
pub const HOOK_NAME: &str = "REM_KEEP_HOOK_NAME";
/// The folder of its images, for the hook.
pub const HOOK_IMAGES: &str = "REM_KEEP_HOOK_IMAGES";
/// By which CRIU says what it calls a script for.
pub const ACTION: &str = "CRTOOLS_SCRIPT_ACTION";
/// What a dump says is in this file, beside its images.
pub const DUMP_LOG: &str = "dump.log";
const RESTORE_LOG: &str = "restore.log";

/// What the hook gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookWords {
    /// The configuration.
    pub config: PathBuf,
    /// The program.
    pub name: String,
    /// Its images.
    pub images: PathBuf,
}

impl HookWords {
    /// From the hook's own environment; none if this is no hook.
    #[must_use]
    pub fn given() -> Option<(String, Self)> {
        let action = std::env::var(ACTION).ok()?;
        let words = Self {
            config: std::env::var_os(HOOK_CONFIG)?.into(),
            name: std::env::var(HOOK_NAME).ok()?,
            images: std::env::var_os(HOOK_IMAGES)?.into(),
        };
        Some((action, words))
    }
}

/// This program's path. The kernel marks that of a file which an upgrade has replaced.
///
/// # Errors
/// If it is not known.
pub fn own_path() -> io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    let replaced = path
        .to_str()
        .and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(replaced.map_or_else(|| path.clone(), PathBuf::from))
}

/// Restores a program. The hook hands it its pages before it runs. After a checkpoint peers have
/// gone on: then its connections are closed.
///
/// # Errors
/// If this program's own path is not known.
pub fn restore(words: &HookWords, is_checkpoint: bool) -> io::Result<Command> {
    let mut command = Command::new(PROGRAM);
    command.arg("restore").arg("-D").arg(&words.images);
    command.args(["-v2", "-o", RESTORE_LOG, "--file-locks"]);
    // Units of the fresh system have their own groups.
    command.arg("--manage-cgroups=ignore");
    command.arg("--action-script").arg(own_path()?);
    command.env(HOOK_CONFIG, &words.config);
    command.env(HOOK_NAME, &words.name);
    command.env(HOOK_IMAGES, &words.images);
    // CRIU's own words are in its log. It is not ended by what ends us.
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null()).process_group(0);
    command.arg("-d").arg(if is_checkpoint {
        "--tcp-close"
    } else {
        "--tcp-established"
    });
    Ok(command)
}

/// Has CRIU find out what the kernel can do, which it notes for this boot: a first save must not
/// wait for that. Nobody waits for its end.
pub fn warm_up() {
    let mut command = Command::new(PROGRAM);
    command.arg("check").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    // Without CRIU each save fails, and says so.
    let _ = command.spawn();
}

/// Why a dump failed.
#[must_use]
pub fn why_no_dump(images: &Path) -> String {
    last_error(&images.join(DUMP_LOG))
}

/// Why a restore failed.
#[must_use]
pub fn why_no_restore(images: &Path) -> String {
    last_error(&images.join(RESTORE_LOG))
}

/// Errors that follow from one that was reported before.
const FOLLOWS: [&str; 2] = ["Dumping FAILED.", "Restoring FAILED."];

fn last_error(log: &Path) -> String {
    let bytes = match std::fs::read(log) {
        Ok(bytes) => bytes,
        Err(error) => return format!("criu wrote no log: {}: {error}", log.display()),
    };
    let text = String::from_utf8_lossy(&bytes);
    let mut errors = text.lines().rev().filter(|line| line.contains("Error"));
    let first = errors.find(|line| !FOLLOWS.iter().any(|words| line.contains(words)));
    match first {
        Some(line) => line.trim().to_owned(),
        None => format!("criu failed: see {}", log.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the reason is the one that CRIU gave, not that there was one.
    #[test]
    fn the_reason_is_found() {
        let folder = tempfile::tempdir().unwrap();
        assert!(why_no_dump(folder.path()).contains("no log"));
        let log = "(00.1) Warn  (a.c:1): w\n(00.2) Error (b.c:2): first\n\
                   (00.3) Error (c.c:3): unknown file (anon_inode:[io_uring])\n\
                   (00.4) Error (criu/cr-dump.c:1781): Dumping FAILED.\n";
        std::fs::write(folder.path().join(DUMP_LOG), log).unwrap();
        assert!(why_no_dump(folder.path()).contains("io_uring"));
        std::fs::write(folder.path().join(RESTORE_LOG), "nothing\n").unwrap();
        assert!(why_no_restore(folder.path()).contains(RESTORE_LOG));
    }

    /// Goal: the hook has no arguments.
    #[test]
    fn a_script_is_a_path() {
        let words = HookWords {
            config: "/c".into(),
            name: "a".to_owned(),
            images: "/i".into(),
        };
        let restore = restore(&words, false).unwrap();
        let args: Vec<_> = restore.get_args().filter_map(|arg| arg.to_str()).collect();
        let at = args.iter().position(|arg| *arg == "--action-script");
        assert!(!args[at.unwrap() + 1].contains(' '));
        assert!(args.contains(&"--tcp-established"));
    }
}
