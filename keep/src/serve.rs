// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire of PWR_OK: a drop saves all programs; when the power is back before it went, they go
//! on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use remanence_vm::supply::{Power, Wire};
use rustix::termios::{
    ControlModes, InputModes, OptionalActions, SpecialCodeIndex, Termios, speed, tcgetattr,
    tcsetattr,
};

use crate::abort::abort;
use crate::fault::{Fault, at};
use crate::save::{Caller, Kind, save};

/// Without checkpoints only the wire ends a wait.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Serves until it is ended.
///
/// # Errors
/// If there is no wire.
pub fn serve(caller: &Caller, print: impl Fn(&str)) -> Result<(), Fault> {
    let path = caller.config.wire.as_deref();
    let path = path.ok_or_else(|| Fault::new("the configuration has no wire"))?;
    let own = caller.state.path("wire.sock");
    let (end, news) = open(path, &own).map_err(at(path.display()))?;
    print(&format!("serving {}", path.display()));
    let period = caller.config.checkpoint_every_s;
    let period = period.map_or(FOREVER, Duration::from_secs);
    loop {
        let done = match news.recv_timeout(period) {
            Ok(Power::Failing) => power_fails(caller, &end, &print),
            Ok(Power::Present) => power_is_there(caller, &print),
            Err(RecvTimeoutError::Timeout) => checkpoint(caller, &print),
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Err(fault) = done {
            print(&format!("{fault}"));
        }
    }
    Err(Fault::new(format!(
        "{}: the wire has ended",
        path.display()
    )))
}

fn checkpoint(caller: &Caller, print: &impl Fn(&str)) -> Result<(), Fault> {
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::Checkpoint)?;
        print(&format!("checkpoint in {} us", report.total_us));
    }
    Ok(())
}

fn power_fails(caller: &Caller, end: &Wire, print: &impl Fn(&str)) -> Result<(), Fault> {
    // Somebody may have saved them before the power failed.
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::ByWire)?;
        end.stopped();
        print(&format!("saved in {} us", report.total_us));
        return Ok(());
    }
    end.stopped();
    Ok(())
}

fn power_is_there(caller: &Caller, print: &impl Fn(&str)) -> Result<(), Fault> {
    // What was saved for a new kernel waits for it.
    if caller.saved()?.is_some_and(|saved| saved.by_wire) {
        abort(caller)?;
        print("the power is back: programs go on");
    }
    Ok(())
}

/// A socket where the supply connects, or a serial line, whose bytes then come by a socket of ours.
fn open(path: &Path, own: &Path) -> io::Result<(Wire, Receiver<Power>)> {
    let line = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    let socket = if line { own } else { path };
    if fs::metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    let (to, news) = channel();
    let wire = Wire::default();
    wire.listen(UnixListener::bind(socket)?, to)?;
    if line {
        let flags = libc::O_NOCTTY | libc::O_CLOEXEC;
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).custom_flags(flags);
        let line = options.open(path)?;
        make_raw(&line)?;
        let near = UnixStream::connect(own)?;
        carry(line.try_clone()?, near.try_clone()?)?;
        carry(near, line)?;
    }
    Ok((wire, news))
}

/// Carries bytes one way, until an end is closed.
fn carry(from: impl Read + Send + 'static, to: impl Write + Send + 'static) -> io::Result<()> {
    let (mut from, mut to) = (from, to);
    let thread = thread::Builder::new().name("line".into());
    thread.spawn(move || io::copy(&mut from, &mut to))?;
    Ok(())
}

/// Bytes as they are. A break reads as zeros, which would be a status: it is ignored, as are bytes
/// with a framing error.
fn set_raw(modes: &mut Termios) -> io::Result<()> {
    modes.make_raw();
    modes.input_modes |= InputModes::IGNBRK | InputModes::IGNPAR | InputModes::INPCK;
    modes.control_modes |= ControlModes::CLOCAL | ControlModes::CREAD;
    modes.control_modes -= ControlModes::CRTSCTS;
    modes.special_codes[SpecialCodeIndex::VMIN] = 1;
    modes.special_codes[SpecialCodeIndex::VTIME] = 0;
    modes.set_speed(speed::B115200)?;
    Ok(())
}

fn make_raw(line: &File) -> io::Result<()> {
    let mut modes = tcgetattr(line)?;
    set_raw(&mut modes)?;
    tcsetattr(line, OptionalActions::Flush, &modes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Goal: a socket's path is taken over from an earlier process, and serves.
    #[test]
    fn a_socket_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (end, news) = open(&path, &path).unwrap();
        let mut supply = UnixStream::connect(&path).unwrap();
        supply.write_all(&[0x88]).unwrap();
        assert_eq!(news.recv().unwrap(), Power::Failing);
        end.stopped();
        let mut bytes = [0; 2];
        supply.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[0] & 0x3f, 0x08);
        assert_eq!(u64::from(bytes[1]), remanence_format::REM_PWR_STOPPED);
    }
}
