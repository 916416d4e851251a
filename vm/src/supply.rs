// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire of PWR_OK (`format/rem_pwr.h`), the machine's end: a socket instead of a UART.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use remanence_format::{
    REM_CHARGE_FLAP, REM_PWR_CHARGE_MASK, REM_PWR_CHARGE_SHIFT, REM_PWR_FROM_MACHINE, REM_PWR_OK,
    REM_PWR_PARITY, REM_PWR_STOPPED, u32_of,
};

/// What the host learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// PWR_OK dropped: the hold-up runs.
    Failing,
    /// Power is there, or is there again.
    Present,
}

/// The other end, if one is connected, and the last status that came.
#[derive(Clone, Debug, Default)]
pub struct Wire(Arc<Mutex<End>>);

#[derive(Debug, Default)]
struct End {
    stream: Option<UnixStream>,
    status: Option<u8>,
}

fn is_status(byte: u8) -> bool {
    byte.count_ones() % 2 == 0 && u32::from(byte) & u32_of(REM_PWR_FROM_MACHINE) == 0
}

fn echo(status: u8) -> u8 {
    // One more bit is set, so parity changes.
    (status | low(REM_PWR_FROM_MACHINE)) ^ low(REM_PWR_PARITY)
}

const fn low(value: u64) -> u8 {
    value.to_le_bytes()[0]
}

/// What a byte says.
#[must_use]
pub fn power_of(byte: u8) -> Option<Power> {
    is_status(byte).then(|| {
        if byte & low(REM_PWR_OK) == 0 {
            Power::Failing
        } else {
            Power::Present
        }
    })
}

/// Whether an image may be consumed: there is power, and charge for the rest of the entry and a save.
#[must_use]
pub fn is_enough(status: u8) -> bool {
    let charge = (status & low(REM_PWR_CHARGE_MASK)) >> REM_PWR_CHARGE_SHIFT;
    power_of(status) == Some(Power::Present) && u32::from(charge) >= REM_CHARGE_FLAP
}

impl Wire {
    fn end(&self) -> MutexGuard<'_, End> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, byte: u8) {
        let mut end = self.end();
        if let Some(stream) = end.stream.as_mut() {
            if stream.write_all(&[byte]).is_err() {
                end.stream = None;
            }
        }
    }

    /// The last status that came; none if no supply has spoken.
    #[must_use]
    pub fn status(&self) -> Option<u8> {
        self.end().status
    }

    /// Whether PWR_OK has dropped, by the last status.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.status().and_then(power_of) == Some(Power::Failing)
    }

    /// All that is to be saved is committed: the supply may go.
    pub fn stopped(&self) {
        self.send(low(REM_PWR_STOPPED));
    }

    /// Serves the supply that connects, one after another, in a thread. Each status is echoed
    /// before it is passed on.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn listen(&self, listener: UnixListener, to: Sender<Power>) -> io::Result<()> {
        let wire = self.clone();
        thread::Builder::new().name("wire".into()).spawn(move || {
            for mut stream in listener.incoming().flatten() {
                if let Ok(own) = stream.try_clone() {
                    wire.end().stream = Some(own);
                    let mut last = None;
                    let mut byte = [0];
                    while matches!(stream.read(&mut byte), Ok(1)) {
                        if let Some(power) = power_of(byte[0]) {
                            wire.end().status = Some(byte[0]);
                            wire.send(echo(byte[0]));
                            if last.replace(power) != Some(power) && to.send(power).is_err() {
                                return;
                            }
                        }
                    }
                }
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: noise is no drop of power. Method: all bytes.
    #[test]
    fn only_a_status_counts() {
        let failing = (0..=255u8).filter(|&byte| power_of(byte) == Some(Power::Failing));
        for byte in failing {
            assert_eq!(byte & 0x41, 0);
            assert_eq!(byte.count_ones() % 2, 0);
        }
        assert_eq!(power_of(0x40), None);
        assert_eq!(power_of(low(REM_PWR_STOPPED)), None);
        assert_eq!(power_of(0x81), Some(Power::Present));
    }

    /// Goal: an echo has the machine's bit and right parity.
    #[test]
    fn echoes_have_parity() {
        for byte in (0..=255u8).filter(|&byte| is_status(byte)) {
            let echo = echo(byte);
            assert_eq!(echo.count_ones() % 2, 0);
            assert_eq!(echo & 0x40, 0x40);
            assert_eq!(echo & 0x3f, byte & 0x3f);
        }
    }

    /// Goal: a drop arrives once, is echoed, and the report goes back.
    #[test]
    fn a_drop_is_echoed_and_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("power.sock");
        let (to, from) = std::sync::mpsc::channel();
        let wire = Wire::default();
        wire.listen(UnixListener::bind(&path).unwrap(), to).unwrap();
        let mut supply = UnixStream::connect(&path).unwrap();
        supply.write_all(&[0x81, 0xff, 0x88, 0x88]).unwrap();
        assert_eq!(from.recv().unwrap(), Power::Present);
        assert_eq!(from.recv().unwrap(), Power::Failing);
        assert!(wire.is_failing());
        let mut echoes = [0; 3];
        supply.read_exact(&mut echoes).unwrap();
        wire.stopped();
        let mut last = [0];
        supply.read_exact(&mut last).unwrap();
        assert_eq!(u64::from(last[0]), REM_PWR_STOPPED);
        assert_eq!(from.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty));
    }
}
