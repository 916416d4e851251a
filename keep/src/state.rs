// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is known of this boot, in a folder that the next boot has not got.
//!
//!   up.json         what `up` decided
//!   entering.json   the image that it enters; `consumed` when that is done
//!   checkpoint.json the last checkpoint of this boot, and its copies
//!   saved.json      programs that are saved and frozen
//!   NAME.json       a program that is kept
//!   permit.sock     by which hooks ask whether the image may be consumed
//!   NAME.hold       the socket of what keeps it frozen
//!   NAME.put        what came of handing its pages to it

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config::check_name;
use crate::fault::{Fault, at};
use crate::processes::ProcessId;

const PATH: &str = "/run/rem-keep";

/// A program that is kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// The first of its processes.
    pub process: ProcessId,
}

/// The image that `up` enters.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Entering {
    /// Of the image.
    pub sequence: u32,
    /// Whether hooks ask before they consume it.
    pub asks: bool,
}

/// Programs that are saved and frozen.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Saved {
    /// Of the image.
    pub sequence: u32,
    /// Each by the CRIU that keeps it frozen.
    pub programs: Vec<Registered>,
    /// Pages of the range with copies.
    pub taken: Vec<u32>,
    /// Whether a drop of PWR_OK was the cause. Otherwise its return is none to let them go on.
    pub by_wire: bool,
}

/// The folder.
#[derive(Clone, Debug)]
pub struct RunFolder(PathBuf);

/// One command at a time.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl RunFolder {
    /// Opens it; it is made if it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open() -> Result<Self, Fault> {
        Self::on(PATH.into())
    }

    /// The same in another place.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn on(path: PathBuf) -> Result<Self, Fault> {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o700).create(&path);
        made.map_err(at(path.display()))?;
        Ok(Self(path))
    }

    /// A file of it.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Waits until no other command has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lock(&self, name: &str) -> Result<Lock, Fault> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(at(path.display()))?;
        flock(&file, FlockOperation::LockExclusive).map_err(at(path.display()))?;
        Ok(Lock { _file: file })
    }

    /// Writes a file, or leaves the old one.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Fault> {
        let path = self.path(name);
        write_json(&path, value).map_err(at(path.display()))
    }

    /// Reads a file; none if it is not there.
    ///
    /// # Errors
    /// Those of the file system, and if it is not what it should be.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Fault> {
        let path = self.path(name);
        read_json(&path).map_err(at(path.display()))
    }

    /// Removes a file, if it is there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, name: &str) -> Result<(), Fault> {
        let path = self.path(name);
        remove_file(&path).map_err(at(path.display()))
    }

    /// Forgets all but the lock.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn clear(&self) -> Result<(), Fault> {
        for entry in fs::read_dir(&self.0).map_err(at(self.0.display()))? {
            let name = entry?.file_name();
            if let Some(name) = name.to_str().filter(|name| *name != "lock") {
                self.remove(name)?;
            }
        }
        Ok(())
    }

    /// Notes a program.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn register(&self, program: &Registered) -> Result<(), Fault> {
        self.write(&format!("{}.json", program.name), program)
    }

    /// A program of this name that runs.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn program(&self, name: &str) -> Result<Option<Registered>, Fault> {
        let found: Option<Registered> = self.read(&format!("{name}.json"))?;
        Ok(found.filter(|program| program.process.is_alive()))
    }

    /// All programs that run, by name.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn programs(&self) -> Result<Vec<Registered>, Fault> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(at(self.0.display()))? {
            let file = entry?.file_name();
            let name = file.to_str().and_then(|name| name.strip_suffix(".json"));
            if let Some(name) = name.filter(|name| check_name(name).is_ok()) {
                found.extend(self.program(name)?);
            }
        }
        found.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(found)
    }
}

/// Removes a file, if it is there.
///
/// # Errors
/// Those of the file system.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A socket, in place of what an earlier process may have left there.
///
/// # Errors
/// Those of the file system.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    remove_file(path)?;
    UnixListener::bind(path)
}

/// Writes a file as a whole.
///
/// # Errors
/// Those of the file system.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    fs::rename(&new, path)
}

/// Reads a file; none if it is not there.
///
/// # Errors
/// Those of the file system, and if it is not what it should be.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Which boot this is.
#[must_use]
pub fn boot_id() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    text.unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: only programs that run are kept programs, and states are none.
    #[test]
    fn programs_that_run_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let state = RunFolder::on(folder.path().join("run")).unwrap();
        let _lock = state.lock("lock").unwrap();
        let process = ProcessId::of(std::process::id()).unwrap();
        let program = |name: &str, process| Registered {
            name: name.to_owned(),
            process,
        };
        state.register(&program("b", process)).unwrap();
        state.register(&program("a", process)).unwrap();
        let gone = ProcessId {
            start_ticks: 0,
            ..process
        };
        state.register(&program("c", gone)).unwrap();
        state.write("saved.json", &Saved::default()).unwrap();
        let found = state.programs().unwrap();
        let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        state.clear().unwrap();
        assert_eq!(state.programs().unwrap(), []);
        assert_eq!(state.read::<Saved>("saved.json").unwrap(), None);
    }
}
