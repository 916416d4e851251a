// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where the wire of PWR_OK is on a host: a socket to which the supply connects, or a serial line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::fs::OFlags;
use rustix::termios::{
    ControlModes, InputModes, OptionalActions, SpecialCodeIndex, Termios, speed, tcgetattr,
    tcsetattr,
};

use crate::supply::{Power, Wire};

/// Serves the wire at *path*: a socket there, or a serial line, whose bytes then come by the socket
/// *own*.
///
/// # Errors
/// Those of the file system; `NotFound` for a device that is not there, `ENOTTY` for one that is no
/// serial line.
pub fn open(path: &Path, own: &Path) -> io::Result<(Wire, Receiver<Power>)> {
    let is_line = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    if path.parent() == Some(Path::new("/dev")) && !is_line {
        let why = "no such device: name a serial line, or a socket elsewhere";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    let line = is_line.then(|| open_line(path)).transpose()?;
    let socket = if is_line { own } else { path };
    if fs::symlink_metadata(socket).is_ok_and(|found| found.file_type().is_socket()) {
        fs::remove_file(socket)?;
    }
    let (to, news) = channel();
    let wire = Wire::default();
    wire.listen(UnixListener::bind(socket)?, to)?;
    if let Some(line) = line {
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

fn open_line(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOCTTY | OFlags::CLOEXEC).bits();
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true);
    let options = options.custom_flags(i32::try_from(flags).unwrap_or_default());
    let line = options.open(path)?;
    let mut modes = tcgetattr(&line)?;
    set_raw(&mut modes)?;
    tcsetattr(&line, OptionalActions::Flush, &modes)?;
    Ok(line)
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

#[cfg(test)]
mod tests {
    use super::*;
    use remanence_format::REM_PWR_STOPPED;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    fn asked_and_answered(mut supply: impl Read + Write, end: &Wire, news: &Receiver<Power>) {
        supply.write_all(&[0x88]).unwrap();
        assert_eq!(news.recv().unwrap(), Power::Failing);
        end.stopped();
        let mut bytes = [0; 2];
        supply.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes[0] & 0x3f, 0x08);
        assert_eq!(u64::from(bytes[1]), REM_PWR_STOPPED);
    }

    /// Goal: a socket's path is taken over from an earlier process, and serves.
    #[test]
    fn a_socket_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.sock");
        drop(UnixListener::bind(&path).unwrap());
        let (end, news) = open(&path, &path).unwrap();
        asked_and_answered(UnixStream::connect(&path).unwrap(), &end, &news);
    }

    /// Goal: a serial line carries bytes as they are. Method: a terminal, in which 0x88 and the
    /// report would be changed or lost if it were not raw.
    #[test]
    fn a_line_is_served() {
        let folder = tempfile::tempdir().unwrap();
        let supply = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&supply).unwrap();
        unlockpt(&supply).unwrap();
        let name = ptsname(&supply, Vec::new()).unwrap();
        let own = folder.path().join("wire.sock");
        let (end, news) = open(Path::new(name.to_str().unwrap()), &own).unwrap();
        asked_and_answered(File::from(supply), &end, &news);
    }

    /// Goal: no drop is waited for where none can come.
    #[test]
    fn what_is_no_line_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("wire.sock");
        let missing = open(Path::new("/dev/no-such-line"), &own).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let no_line = open(Path::new("/dev/null"), &own).unwrap_err();
        assert_eq!(
            no_line.raw_os_error(),
            Some(rustix::io::Errno::NOTTY.raw_os_error())
        );
        assert!(!own.exists());
    }
}
