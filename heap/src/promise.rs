// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The platform's promise to save caches when the power fails, and who builds on it. It may end at any
//! moment: a Stop outlasted its bound, or a device appeared that is not stopped in time. One thread of
//! the process waits for that, and tells the regions that are open.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, Once, PoisonError, Weak};

/// What the kernel says (see remanence(7)): 1 where a Stop is armed and ends within the supply's known
/// hold-up, else 0. A reader that waits by poll() is woken when it changes.
const FILE: &str = "/sys/kernel/remanence/flush_on_fail";
/// It is read again after this time, also where nothing wakes.
const AGAIN_MS: libc::c_int = 1000;

/// An open region.
pub trait Holder: Send + Sync {
    /// Told what the promise is: at least whenever it has changed.
    fn promise_is(&self, kept: bool);
}

static INSTEAD: Mutex<Option<PathBuf>> = Mutex::new(None);
static HOLDERS: Mutex<Vec<(usize, Weak<dyn Holder>)>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic within changes nothing.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn path() -> PathBuf {
    lock(&INSTEAD).clone().unwrap_or_else(|| FILE.into())
}

/// Takes another file for the kernel's, in tests.
#[cfg(feature = "testing")]
pub fn take_for_the_platform(path: PathBuf) {
    *lock(&INSTEAD) = Some(path);
}

/// Tells all open regions, in this thread, what the platform says now.
#[cfg(feature = "testing")]
pub fn platform_has_changed() {
    tell(kept);
}

fn read(file: &File) -> bool {
    let mut text = [0; 2];
    file.read_at(&mut text, 0).is_ok_and(|count| count > 0) && text[0] == b'1'
}

/// Whether caches are saved now.
pub fn kept() -> bool {
    File::open(path()).is_ok_and(|file| read(&file))
}

/// Tells a region from now on; `key` is for [`unwatch`].
pub fn watch(key: usize, holder: Weak<dyn Holder>) {
    static THREAD: Once = Once::new();
    let mut holders = lock(&HOLDERS);
    if let Some(region) = holder.upgrade() {
        region.promise_is(kept());
    }
    holders.push((key, holder));
    THREAD.call_once(|| {
        // Without a thread the region is one that nobody tells: no worse than before it began.
        let name = "nvheap-promise".to_owned();
        let _ = std::thread::Builder::new().name(name).spawn(follow);
    });
}

/// Tells a region no more. When it returns nobody is telling it.
pub fn unwatch(key: usize) {
    lock(&HOLDERS).retain(|(other, _)| *other != key);
}

/// What is told last was also read last.
fn tell(read: impl Fn() -> bool) {
    let holders = lock(&HOLDERS);
    let kept = read();
    for region in holders.iter().filter_map(|(_, holder)| holder.upgrade()) {
        region.promise_is(kept);
    }
}

fn follow() {
    loop {
        let file = File::open(path()).ok();
        // Read before the wait: what changes from here on ends it.
        tell(|| file.as_ref().is_some_and(read));
        wait(file.as_ref());
    }
}

fn wait(file: Option<&File>) {
    let mut change = libc::pollfd {
        fd: file.map_or(-1, AsRawFd::as_raw_fd),
        events: libc::POLLPRI,
        revents: 0,
    };
    // SAFETY: one valid structure. An error ends the wait, as a change does.
    unsafe { libc::poll(&raw mut change, 1, AGAIN_MS) };
}
