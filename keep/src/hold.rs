// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a program frozen after its dump: a process that has CRIU's socket, and answers CRIU's last
//! report when it is told to.
//!
//! Before KEEP the saver's end lets the program go on: nothing is committed. After it nothing but
//! RELEASE does, as an image may be valid: by the saver, or by the socket that KEEP names.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::engine;
use crate::state::bind;

/// By which this program knows that it is to hold.
pub const HOLDS: &str = "REM_KEEP_HOLDS";
const KEEP: &str = "keep ";
const RELEASE: &str = "release";
const KEPT: &str = "kept";

/// What this process does if it is started for it: CRIU's socket is its input, the saver's its
/// output. None if it is not.
#[must_use]
pub fn given() -> Option<io::Result<()>> {
    std::env::var_os(HOLDS)?;
    Some(run())
}

fn run() -> io::Result<()> {
    let mut criu = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let saver = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    wait(saver)?;
    criu.write_all(&engine::go_on())?;
    // It reports its end: without a reader that would be a fault.
    let mut rest = [0; 512];
    while criu.read(&mut rest)? > 0 {}
    Ok(())
}

/// The socket that KEEP names; its file goes with it.
struct Kept {
    listener: UnixListener,
    path: PathBuf,
}

impl Kept {
    fn on(path: &Path) -> io::Result<Self> {
        let (listener, path) = (bind(path)?, path.to_owned());
        Ok(Self { listener, path })
    }

    /// What fails here is no reason to let a program go on that may be in a valid image.
    fn next(&self) -> UnixStream {
        loop {
            if let Ok((stream, _)) = self.listener.accept() {
                return stream;
            }
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns when the program may go on.
///
/// # Errors
/// If a socket cannot be made; then the saver is told nothing, and nothing becomes valid.
pub fn wait(saver: UnixStream) -> io::Result<()> {
    let mut kept = None;
    let mut stream = saver;
    while !listen(&stream, &mut kept)? {
        let Some(kept) = &kept else {
            break;
        };
        stream = kept.next();
    }
    Ok(())
}

/// Whether the program is released. The connection's end is no release.
fn listen(stream: &UnixStream, kept: &mut Option<Kept>) -> io::Result<bool> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(line)) = lines.next() {
        if line == RELEASE {
            return Ok(true);
        }
        if let Some(path) = line.strip_prefix(KEEP) {
            *kept = Some(Kept::on(Path::new(path))?);
            let mut writer = stream;
            let _ = writeln!(writer, "{KEPT}");
        }
    }
    Ok(false)
}

/// Whether a socket has something to read, or its other end has gone.
///
/// # Errors
/// Those of the kernel.
pub fn has_news(socket: &impl AsFd) -> io::Result<bool> {
    let mut files = [PollFd::new(socket, PollFlags::IN)];
    Ok(poll(&mut files, Some(&Timespec::default()))? > 0)
}

/// A program that is frozen. If it is dropped before KEEP, the program goes on.
#[derive(Debug)]
pub struct Hold(UnixStream);

impl Hold {
    /// By the saver's own connection.
    #[must_use]
    pub fn on(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// Connects to one that a saver has kept.
    ///
    /// # Errors
    /// If there is none.
    pub fn connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self)
    }

    /// Whether the process that holds it is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        matches!(has_news(&self.0), Ok(false))
    }

    /// From here on only a release lets the program go on: this one's, or by a socket here.
    ///
    /// # Errors
    /// If the process that holds it has gone; then the program may run.
    pub fn keep(&mut self, path: &Path) -> io::Result<()> {
        writeln!(self.0, "{KEEP}{}", path.display())?;
        let mut line = String::new();
        BufReader::new(&self.0).read_line(&mut line)?;
        if line.trim_end() == KEPT {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// The program goes on.
    ///
    /// # Errors
    /// If the process that holds it has gone.
    pub fn release(mut self) -> io::Result<()> {
        writeln!(self.0, "{RELEASE}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    fn held() -> (Hold, JoinHandle<io::Result<()>>) {
        let (own, theirs) = UnixStream::pair().unwrap();
        (Hold::on(own), thread::spawn(move || wait(theirs)))
    }

    /// Goal: a saver that ends before anything is valid lets the program go on, and so does its
    /// release.
    #[test]
    fn a_lost_saver_releases() {
        let (hold, holder) = held();
        drop(hold);
        holder.join().unwrap().unwrap();
        let (hold, holder) = held();
        hold.release().unwrap();
        holder.join().unwrap().unwrap();
    }

    /// Goal: after KEEP the saver's end does not, a release by the socket does.
    #[test]
    fn a_kept_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hold");
        let (mut hold, holder) = held();
        assert!(hold.is_there());
        hold.keep(&path).unwrap();
        drop(hold);
        drop(Hold::connect(&path).unwrap());
        thread::sleep(Duration::from_millis(20));
        assert!(!holder.is_finished());
        Hold::connect(&path).unwrap().release().unwrap();
        holder.join().unwrap().unwrap();
        assert!(!path.exists());
    }

    /// Goal: a saver that gives up after KEEP releases, and a socket that cannot be made is no
    /// KEEP.
    #[test]
    fn what_is_kept_is_released_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (mut hold, holder) = held();
        hold.keep(&folder.path().join("a.hold")).unwrap();
        hold.release().unwrap();
        holder.join().unwrap().unwrap();
        let (mut hold, holder) = held();
        hold.keep(&folder.path().join("none/a.hold")).unwrap_err();
        holder.join().unwrap().unwrap_err();
    }
}
