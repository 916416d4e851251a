// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a program frozen after its dump. CRIU waits for its action script; that is the hook,
//! which waits here until it is told.
//!
//! The socket is there when all images are written. Before KEEP the saver's end lets the program
//! go on: nothing is committed. After it nothing but RELEASE does, as an image may be valid.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

const KEEP: u8 = b'k';
const RELEASE: u8 = b'r';

/// The hook's part: returns when the program may go on.
///
/// # Errors
/// If the socket cannot be made; then nobody waits for the hook, and the program may go on, too.
pub fn wait(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    let mut is_kept = false;
    loop {
        // What fails here is no reason to let a program go on that may be in a valid image.
        let Ok((mut stream, _)) = listener.accept() else {
            continue;
        };
        if listen(&mut stream, &mut is_kept) || !is_kept {
            let _ = std::fs::remove_file(path);
            return Ok(());
        }
    }
}

/// Whether the program is released. The connection's end is none.
fn listen(stream: &mut UnixStream, is_kept: &mut bool) -> bool {
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(1) if byte[0] == RELEASE => return true,
            Ok(1) if byte[0] == KEEP => {
                *is_kept = true;
                if stream.write_all(&byte).is_err() {
                    return false;
                }
            }
            _ => return false,
        }
    }
}

/// A program that is frozen. If it is dropped before KEEP, the program goes on.
#[derive(Debug)]
pub struct Hold(UnixStream);

impl Hold {
    /// Connects to the hook, if it waits already.
    ///
    /// # Errors
    /// If it does not.
    pub fn connect(path: &Path) -> io::Result<Self> {
        UnixStream::connect(path).map(Self)
    }

    /// From here on only a release lets the program go on.
    ///
    /// # Errors
    /// If the hook has gone; then the program may run.
    pub fn keep(&mut self) -> io::Result<()> {
        self.0.write_all(&[KEEP])?;
        let mut byte = [0];
        self.0.read_exact(&mut byte)
    }

    /// The program goes on.
    ///
    /// # Errors
    /// If the hook has gone.
    pub fn release(mut self) -> io::Result<()> {
        self.0.write_all(&[RELEASE])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{self, JoinHandle};
    use std::time::Duration;

    fn hook(path: &Path) -> JoinHandle<io::Result<()>> {
        let path = path.to_owned();
        thread::spawn(move || wait(&path))
    }

    fn connected(path: &Path) -> Hold {
        loop {
            match Hold::connect(path) {
                Ok(hold) => return hold,
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Goal: a saver that ends before anything is valid lets the program go on.
    #[test]
    fn a_lost_saver_releases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hold");
        let hook = hook(&path);
        drop(connected(&path));
        hook.join().unwrap().unwrap();
        assert!(!path.exists());
    }

    /// Goal: after KEEP the saver's end does not, a release does.
    #[test]
    fn a_kept_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hold");
        let hook = hook(&path);
        let mut hold = connected(&path);
        hold.keep().unwrap();
        drop(hold);
        drop(connected(&path));
        thread::sleep(Duration::from_millis(20));
        assert!(!hook.is_finished());
        connected(&path).release().unwrap();
        hook.join().unwrap().unwrap();
    }
}
