// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire of PWR_OK: a drop saves all programs; when the power is back before it went, they go
//! on.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use remanence_format::{REM_PWR_STOPPED, u8_of, u32_of};
use remanence_vm::supply::{Power, Wire, echo, power_of};
use rustix::termios::{
    ControlModes, InputModes, OptionalActions, SpecialCodeIndex, Termios, speed, tcgetattr,
    tcsetattr,
};

use crate::abort::abort;
use crate::fault::{Fault, at};
use crate::save::{Caller, Kind, save};

/// Without checkpoints only the wire ends a wait.
const FOREVER: Duration = Duration::from_secs(1 << 30);
const STOPPED: u8 = u8_of(u32_of(REM_PWR_STOPPED));

/// The machine's end of a wire.
enum End {
    Socket(Wire),
    Serial(File),
}

impl End {
    fn stopped(&self) -> io::Result<()> {
        match self {
            Self::Socket(wire) => {
                wire.stopped();
                Ok(())
            }
            Self::Serial(line) => {
                let mut line = line;
                line.write_all(&[STOPPED])
            }
        }
    }
}

/// Serves until it is ended.
///
/// # Errors
/// If there is no wire.
pub fn serve(caller: &Caller, print: impl Fn(&str)) -> Result<(), Fault> {
    let path = caller.config.wire.as_deref();
    let path = path.ok_or_else(|| Fault::new("the configuration has no wire"))?;
    let (end, news) = open(path).map_err(at(path.display()))?;
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

fn power_fails(caller: &Caller, end: &End, print: &impl Fn(&str)) -> Result<(), Fault> {
    // Somebody may have saved them before the power failed.
    if caller.saved()?.is_none() {
        let report = save(caller, Kind::ByWire)?;
        end.stopped()?;
        print(&format!("saved in {} us", report.total_us));
        return Ok(());
    }
    Ok(end.stopped()?)
}

fn power_is_there(caller: &Caller, print: &impl Fn(&str)) -> Result<(), Fault> {
    // What was saved for a new kernel waits for it.
    if caller.saved()?.is_some_and(|saved| saved.by_wire) {
        abort(caller)?;
        print("the power is back: programs go on");
    }
    Ok(())
}

fn open(path: &Path) -> io::Result<(End, Receiver<Power>)> {
    let (to, news) = channel();
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device()) {
        let mut options = OpenOptions::new();
        let flags = libc::O_NOCTTY | libc::O_CLOEXEC;
        let line = options
            .read(true)
            .write(true)
            .custom_flags(flags)
            .open(path)?;
        make_raw(&line)?;
        let end = End::Serial(line.try_clone()?);
        thread::Builder::new()
            .name("wire".into())
            .spawn(move || follow(line, &to))?;
        return Ok((end, news));
    }
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(path)?;
    }
    let wire = Wire::default();
    wire.listen(UnixListener::bind(path)?, to)?;
    Ok((End::Socket(wire), news))
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

/// Echoes each status, and passes changes on.
fn follow(mut line: impl Read + Write, to: &Sender<Power>) {
    let mut last = None;
    let mut byte = [0];
    loop {
        match line.read(&mut byte) {
            Ok(1) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            _ => return,
        }
        let Some(power) = power_of(byte[0]) else {
            continue;
        };
        if line.write_all(&[echo(byte[0])]).is_err() {
            return;
        }
        if last.replace(power) != Some(power) && to.send(power).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// Goal: on a line, each change arrives once and is echoed, as on a socket.
    #[test]
    fn changes_on_a_line_arrive_once() {
        let (mut supply, line) = UnixStream::pair().unwrap();
        let (to, news) = channel();
        let thread = thread::spawn(move || follow(line, &to));
        supply.write_all(&[0x81, 0xff, 0x88, 0x88]).unwrap();
        let mut echoes = [0; 3];
        supply.read_exact(&mut echoes).unwrap();
        assert_eq!(echoes, [0x81, 0x88, 0x88].map(echo));
        drop(supply);
        thread.join().unwrap();
        let found: Vec<Power> = news.iter().collect();
        assert_eq!(found, [Power::Present, Power::Failing]);
    }

    /// Goal: a socket's path is taken over from an earlier process, and serves.
    #[test]
    fn a_socket_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (end, news) = open(&path).unwrap();
        let mut supply = UnixStream::connect(&path).unwrap();
        supply.write_all(&[0x88]).unwrap();
        assert_eq!(news.recv().unwrap(), Power::Failing);
        end.stopped().unwrap();
        let mut bytes = [0; 2];
        supply.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [echo(0x88), STOPPED]);
    }
}
