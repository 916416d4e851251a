// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power may flap: `up` has the wire, and CRIU's hooks ask it before they consume the image.
//!
//! An image that is not consumed is there after a drop of power. One that is must be saved again:
//! so there must be charge for that (`remanence_vm::gate`). A drop after it is seen by `serve`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;

use remanence_vm::gate::Gate;
use remanence_vm::line;
use remanence_vm::supply::Power;

use crate::config::Config;
use crate::fault::{Fault, at};
use crate::state::{RunFolder, bind};

const MAY: u8 = b'y';

fn socket(state: &RunFolder) -> PathBuf {
    state.path("permit.sock")
}

/// Serves hooks from now on, if there is a wire. Whether there is one.
///
/// # Errors
/// If the wire is none, and those of sockets.
pub fn serve(config: &Config, state: &RunFolder, print: fn(&str)) -> Result<bool, Fault> {
    let Some(path) = &config.wire else {
        return Ok(false);
    };
    let own = state.path("wire.sock");
    let (wire, news) = line::open(path, &own).map_err(at(path.display()))?;
    let silence = Duration::from_millis(config.supply_wait_ms);
    answer(state, Gate::new(wire, silence, print), news)?;
    Ok(true)
}

fn answer(state: &RunFolder, gate: Gate, news: Receiver<Power>) -> Result<(), Fault> {
    let place = socket(state);
    let listener = bind(&place).map_err(at(place.display()))?;
    let name = thread::Builder::new().name("permit".into());
    name.spawn(move || {
        // The wire ends with who listens to it.
        let _news = news;
        for mut stream in listener.incoming().flatten() {
            gate.wait();
            let _ = stream.write_all(&[MAY]);
        }
    })?;
    Ok(())
}

/// Returns when the image may be consumed.
///
/// # Errors
/// If `up` has gone.
pub fn ask(state: &RunFolder) -> Result<(), Fault> {
    let place = socket(state);
    let mut byte = [0];
    let answer = UnixStream::connect(&place).and_then(|mut stream| stream.read_exact(&mut byte));
    answer.map_err(at(place.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    const LIMIT: Duration = Duration::from_secs(20);
    const SHUT: Duration = Duration::from_millis(100);
    // Sequence 0, right parity: power without charge, and with some.
    const NONE: u8 = 0x81;
    const FLAP: u8 = 0x05;

    /// Goal: a hook goes on when there is charge, and not before. Method: a supply that says the
    /// one after the other.
    #[test]
    fn a_hook_waits_for_charge() {
        let folder = tempfile::tempdir().unwrap();
        let state = RunFolder::on(folder.path().join("run")).unwrap();
        let wire = folder.path().join("wire");
        let text = format!(
            "folder = \"/f\"\nstart = 4096\nbytes = 1048576\nhold_up_us = 1\nwire = {wire:?}\n\
             supply_wait_ms = 3600000"
        );
        let config = Config::parse(&text).unwrap();
        assert!(serve(&config, &state, |_| {}).unwrap());
        let mut supply = UnixStream::connect(&wire).unwrap();
        supply.write_all(&[NONE]).unwrap();
        let (to, from) = channel();
        thread::spawn(move || to.send(ask(&state).is_ok()));
        assert_eq!(from.recv_timeout(SHUT), Err(RecvTimeoutError::Timeout));
        supply.write_all(&[FLAP]).unwrap();
        assert_eq!(from.recv_timeout(LIMIT), Ok(true));
    }

    /// Goal: nothing is consumed for an `up` that has gone.
    #[test]
    fn without_an_up_there_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let state = RunFolder::on(folder.path().join("run")).unwrap();
        ask(&state).unwrap_err();
    }
}
