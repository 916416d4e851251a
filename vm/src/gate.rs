// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Power may flap. An image is consumed when there is power, and charge for the rest of the entry
//! and a save: a drop before that leaves it as it is, and one after it is followed by a save.

use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use crate::supply::{Power, Wire, is_enough, power_of};

const POLL: Duration = Duration::from_millis(1);

/// What every guest of a host waits at before its image is consumed.
pub struct Gate {
    wire: Wire,
    began: Instant,
    silence: Duration,
    print: fn(&str),
    printed: Once,
}

impl Gate {
    /// A supply that has not spoken within *silence* from now is none.
    #[must_use]
    pub fn new(wire: Wire, silence: Duration, print: fn(&str)) -> Self {
        Self {
            wire,
            began: Instant::now(),
            silence,
            print,
            printed: Once::new(),
        }
    }

    /// Returns when an image may be consumed.
    pub fn wait(&self) {
        loop {
            match self.wire.status() {
                Some(status) if is_enough(status) => return,
                Some(status) if power_of(status) == Some(Power::Present) => self.say("for charge"),
                Some(_) => self.say("for power"),
                None if self.began.elapsed() >= self.silence => {
                    self.say("no longer: no supply has connected");
                    return;
                }
                None => {}
            }
            thread::sleep(POLL);
        }
    }

    fn say(&self, what: &str) {
        self.printed
            .call_once(|| (self.print)(&format!("images wait {what}")));
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gate of {:?}", self.wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::sync::mpsc::{RecvTimeoutError, channel};

    const LIMIT: Duration = Duration::from_secs(20);
    const SHUT: Duration = Duration::from_millis(100);
    // Sequence 0, right parity: charge none to full without power, and with it.
    const OFF_FULL: u8 = 0x06;
    const ON_NONE: u8 = 0x81;
    const ON_STOP: u8 = 0x03;
    const ON_FLAP: u8 = 0x05;

    /// Goal: it opens with power and charge for a flap, and not before. Method: a supply that says
    /// the one after the other.
    #[test]
    fn it_opens_with_power_and_charge() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.sock");
        let (wire, (to, _powers)) = (Wire::default(), channel());
        wire.listen(UnixListener::bind(&path).unwrap(), to).unwrap();
        let mut supply = UnixStream::connect(&path).unwrap();
        supply.write_all(&[OFF_FULL]).unwrap();
        while wire.status().is_none() {
            thread::sleep(POLL);
        }
        let (opened, opens) = channel();
        let gate = Gate::new(wire, Duration::ZERO, |_| {});
        thread::spawn(move || {
            gate.wait();
            opened.send(()).unwrap();
        });
        for shut in [OFF_FULL, ON_NONE, ON_STOP] {
            supply.write_all(&[shut]).unwrap();
            let waited = opens.recv_timeout(SHUT);
            assert_eq!(waited, Err(RecvTimeoutError::Timeout), "{shut:#x}");
        }
        supply.write_all(&[ON_FLAP]).unwrap();
        assert_eq!(opens.recv_timeout(LIMIT), Ok(()));
    }

    /// Goal: without a supply it opens after the silence.
    #[test]
    fn it_opens_where_there_is_no_supply() {
        Gate::new(Wire::default(), SHUT, |_| {}).wait();
    }
}
