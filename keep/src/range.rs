// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The range becomes memory: its driver lets it go, the module takes it, its blocks go online.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::blocks;
use crate::config::{Config, Place};
use crate::device::Device;
use crate::fault::{Fault, at};

const NAMESPACES: &str = "/sys/bus/nd/devices";

/// The device, with all pages of the configured range online; those of a fresh system are held.
///
/// # Errors
/// If the range cannot be had, or the module has another one.
pub fn open(config: &Config) -> Result<Device, Fault> {
    let (start, bytes) = match config.place()? {
        Place::Span { start, bytes } => (start, bytes),
        Place::Namespace(name) => namespace(&Path::new(NAMESPACES).join(name))?,
    };
    if !Device::is_there() {
        if let Some(name) = &config.namespace {
            unbind(&Path::new(NAMESPACES).join(name), name)?;
        }
        load(config.module.as_deref(), start, bytes)?;
    }
    let device = Device::open()?;
    let range = device.range()?;
    if (range.start, range.layout().range_bytes()) != (start, bytes) {
        return Err(Fault::new(format!(
            "the module has the range {:#x}, {} bytes, not {start:#x}, {bytes} bytes: \
             boot again, or change the configuration back",
            range.start,
            range.layout().range_bytes()
        )));
    }
    if range.layout().reserved() >= range.pages {
        return Err(Fault::new("the range is too small for its tables"));
    }
    blocks::online(start, bytes)?;
    Ok(device)
}

fn number(path: &Path) -> Result<u64, Fault> {
    let text = fs::read_to_string(path).map_err(at(path.display()))?;
    let text = text.trim();
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(at(path.display()))
}

/// Start and size of a namespace.
fn namespace(folder: &Path) -> Result<(u64, u64), Fault> {
    Ok((
        number(&folder.join("resource"))?,
        number(&folder.join("size"))?,
    ))
}

/// Its driver, which makes a disk of it, lets it go.
fn unbind(folder: &Path, name: &str) -> Result<(), Fault> {
    let driver = folder.join("driver");
    if driver.exists() {
        let path = driver.join("unbind");
        fs::write(&path, name).map_err(at(path.display()))?;
    }
    Ok(())
}

fn load(module: Option<&Path>, start: u64, bytes: u64) -> Result<(), Fault> {
    let (mut command, what) = match module {
        Some(path) => {
            let mut command = Command::new("insmod");
            command.arg(path);
            (command, format!("insmod {}", path.display()))
        }
        None => {
            let mut command = Command::new("modprobe");
            command.arg("rem_keep");
            (command, "modprobe rem_keep".to_owned())
        }
    };
    command.args([format!("start={start:#x}"), format!("bytes={bytes}")]);
    let found = command.output().map_err(at(&what))?;
    if !found.status.success() {
        let said = String::from_utf8_lossy(&found.stderr);
        let said = said.lines().next().unwrap_or_default();
        return Err(Fault::new(format!(
            "{what}: {said} (the kernel's log has why)"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: start and size of a namespace are the kernel's, and its driver is told. Method: a
    /// folder.
    #[test]
    fn a_namespace_is_read_and_freed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("resource"), "0x120000000\n").unwrap();
        fs::write(folder.path().join("size"), "536870912\n").unwrap();
        let found = namespace(folder.path()).unwrap();
        assert_eq!(found, (0x1_2000_0000, 536_870_912));
        unbind(folder.path(), "namespace1.0").unwrap();
        fs::create_dir(folder.path().join("driver")).unwrap();
        unbind(folder.path(), "namespace1.0").unwrap();
        let told = fs::read_to_string(folder.path().join("driver/unbind")).unwrap();
        assert_eq!(told, "namespace1.0");
    }
}
