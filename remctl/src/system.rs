// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system that a command works on: its files and its programs. Tests have one of their own.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fault::{Fault, at};

/// Writes to a file that is there, at once, as the kernel takes words.
///
/// # Errors
/// That of the file.
pub fn put(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).open(path)?.write_all(bytes)
}

/// Where files and programs are.
#[derive(Clone, Debug)]
pub struct System {
    root: PathBuf,
    programs: Vec<PathBuf>,
    free: fn(&Path) -> Result<u64, Fault>,
}

fn free_bytes(folder: &Path) -> Result<u64, Fault> {
    let found = rustix::fs::statvfs(folder).map_err(at(folder.display()))?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

impl System {
    /// Files below *root*, programs in the folders of *programs*.
    pub fn new(root: impl Into<PathBuf>, programs: Vec<PathBuf>) -> Self {
        Self {
            root: root.into(),
            programs,
            free: free_bytes,
        }
    }

    /// The running one. Root's programs are looked for in any case.
    #[must_use]
    pub fn running() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut programs: Vec<PathBuf> = std::env::split_paths(&path).collect();
        programs.extend(["/usr/sbin", "/usr/bin"].map(PathBuf::from));
        Self::new("/", programs)
    }

    /// A file of it; *path* may be absolute.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// What can still be written to the file system of a folder.
    ///
    /// # Errors
    /// That of the file system.
    pub fn free_bytes(&self, folder: &Path) -> Result<u64, Fault> {
        (self.free)(folder)
    }

    /// The place of a program.
    ///
    /// # Errors
    /// One line that names the package, if it is not there.
    pub fn program(&self, name: &str, package: &str) -> Result<PathBuf, Fault> {
        let is_program = |path: &PathBuf| {
            let found = path.metadata();
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let mut places = self.programs.iter().map(|folder| folder.join(name));
        places.find(is_program).ok_or_else(|| {
            Fault::new(format!(
                "the program {name} is not there: apt install {package}"
            ))
        })
    }
}

/// Runs a program, and returns what it printed.
///
/// # Errors
/// The first line of its own, if it fails.
pub fn run<S: AsRef<OsStr>>(program: &Path, words: &[S]) -> Result<String, Fault> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let mut command = Command::new(program);
    let done = command.args(words).env("LC_ALL", "C").output();
    let done = done.map_err(at(program.display()))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&done.stderr).into_owned();
    let line = text.lines().find(|line| !line.trim().is_empty());
    let line = line.map_or_else(|| done.status.to_string(), |line| line.trim().to_owned());
    Err(Fault::new(format!("{name}: {line}")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;

    /// A system in a folder; programs are those of tests/fake.
    pub(crate) struct Fake(tempfile::TempDir);

    impl Fake {
        pub(crate) fn new() -> Self {
            let fake = Self(tempfile::tempdir().unwrap());
            fs::create_dir(fake.path("bin")).unwrap();
            fake
        }

        pub(crate) fn system(&self) -> System {
            System::new(self.0.path(), vec![self.path("none"), self.path("bin")])
        }

        /// With a partition that has so much room.
        pub(crate) fn system_with_room(&self, free: fn(&Path) -> Result<u64, Fault>) -> System {
            System {
                free,
                ..self.system()
            }
        }

        pub(crate) fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        pub(crate) fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        pub(crate) fn read(&self, path: &str) -> String {
            fs::read_to_string(self.path(path)).unwrap_or_default()
        }

        /// A program that only logs its words, in bin/log.
        pub(crate) fn add_any(&self, name: &str) {
            let any = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake/any");
            std::os::unix::fs::symlink(any, self.path("bin").join(name)).unwrap();
        }

        /// A program that keeps its state, and the words that it got, beside it.
        pub(crate) fn add_program(&self, name: &str) {
            let script = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("tests/fake")
                .join(name);
            std::os::unix::fs::symlink(script, self.path("bin").join(name)).unwrap();
        }
    }

    #[test]
    fn missing_programs_name_their_package() {
        let fake = Fake::new();
        fake.write("bin/sbsign", "not executable");
        let why = fake.system().program("sbsign", "sbsigntool").unwrap_err();
        assert_eq!(
            why.to_string(),
            "the program sbsign is not there: apt install sbsigntool"
        );
        assert!(
            System::running()
                .program("sh", "dash")
                .unwrap()
                .ends_with("sh")
        );
    }

    #[test]
    fn failures_are_one_line() {
        let sh = System::running().program("sh", "dash").unwrap();
        let why = |text| run(&sh, &["-c", text]).unwrap_err().to_string();
        assert_eq!(
            why("echo; echo first >&2; echo second >&2; exit 3"),
            "sh: first"
        );
        assert_eq!(why("exit 3"), "sh: exit status: 3");
        assert_eq!(
            run(&sh, &["-c", "echo out; echo err >&2"]).unwrap(),
            "out\n"
        );
        run(Path::new("/none"), &["x"]).unwrap_err();
    }
}
