// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest that was away may have been replaced: its peers have another leader, and it does not
//! know yet. Until a program of the administrator says that it is up to date, no frame of its
//! clients reaches it, and no answer leaves it.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::config::Fence;
use crate::qmp::{Monitor, Qmp, QmpError, Ticket};

const AGAIN: Duration = Duration::from_millis(100);

/// Takes the clients' link down or up; the guest's peers have a link of their own.
///
/// # Errors
/// As in [`QmpError`]: QEMU has no network of that name.
pub fn set_link(qmp: &mut Qmp, fence: &Fence, up: bool) -> Result<(), QmpError> {
    qmp.execute("set_link", &link(fence, up))?;
    Ok(())
}

/// The same, of a QEMU that cannot answer yet.
///
/// # Errors
/// As in [`QmpError`].
pub fn begin_set_link(qmp: &mut Qmp, fence: &Fence, up: bool) -> Result<Ticket, QmpError> {
    qmp.begin("set_link", &link(fence, up))
}

fn link(fence: &Fence, up: bool) -> Value {
    json!({"name": fence.netdev, "up": up})
}

/// Runs the program until it succeeds, or *goes_on* is false.
///
/// Its environment has the guest's name and for how long it was away.
pub fn wait(fence: &Fence, guest: &str, away: Duration, goes_on: impl Fn() -> bool) -> bool {
    while goes_on() {
        let Some((program, arguments)) = fence.open.split_first() else {
            return false;
        };
        let ended = Command::new(program)
            .args(arguments)
            .env("REM_GUEST", guest)
            .env("REM_AWAY_S", format!("{:.3}", away.as_secs_f64()))
            .stdin(Stdio::null())
            .status();
        if ended.is_ok_and(|status| status.success()) {
            return true;
        }
        thread::sleep(AGAIN);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn fence(script: &str) -> Fence {
        Fence {
            netdev: "clients".to_owned(),
            open: ["sh", "-c", script].map(str::to_owned).to_vec(),
        }
    }

    /// Goal: it opens when the program succeeds, and the program knows guest and time.
    #[test]
    fn program_opens_it() {
        let is_right = "test \"$REM_GUEST $REM_AWAY_S\" = 'db 2.500'";
        let away = Duration::from_millis(2500);
        assert!(wait(&fence(is_right), "db", away, || true));
    }

    /// Goal: a program that fails, and one that is not there, leave it shut.
    #[test]
    fn failing_program_leaves_it_shut() {
        let missing = Fence {
            open: vec!["/nonexistent/rem".to_owned()],
            ..fence("")
        };
        for shut in [fence("exit 1"), missing] {
            let asked = Cell::new(0);
            let thrice = || {
                asked.set(asked.get() + 1);
                asked.get() <= 3
            };
            assert!(!wait(&shut, "db", Duration::ZERO, thrice));
            assert_eq!(asked.get(), 4);
        }
    }
}
