// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Open regions with flush on fail, whose platform withdraws its promise and makes it again. A file
//! stands for the kernel's.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nvheap::fof::header::MARK_OFFSET;
use nvheap::fof::{Mark, Options, Region};
use nvheap::testing::{Broken, platform_has_changed, take_for_the_platform, verdict};
use nvheap::{Error, FofStm, FofUndo, Heap, Policy, Tx};

use crate::found::must;

const REGION_BYTES: u64 = 1 << 20;
const HEAP_BYTES: u64 = 8 << 20;
const TYPE: u64 = 7;
/// So long a store is watched that must not happen.
const WATCHED: Duration = Duration::from_millis(20);

/// The platform of this process, for one test at a time.
pub struct Platform {
    folder: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl Platform {
    pub fn new(name: &str) -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = format!("nvheap-promise-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        let made = Self {
            folder,
            _turn: turn,
        };
        made.says("1\n");
        take_for_the_platform(made.path("platform"));
        made
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// As in the kernel's file; nobody is told.
    pub fn says(&self, text: &str) {
        std::fs::write(self.path("platform"), text).unwrap();
    }

    /// Says it, and returns when all open regions know.
    pub fn promises(&self, kept: bool) {
        self.says(if kept { "1\n" } else { "0\n" });
        platform_has_changed();
    }
}

impl Drop for Platform {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

pub fn mark(file: &Path) -> Option<Mark> {
    let bytes = std::fs::read(file).unwrap();
    let word = bytes[MARK_OFFSET..MARK_OFFSET + 8].try_into().unwrap();
    Mark::of(u64::from_le_bytes(word))
}

/// A word of the region, by name.
pub fn word(region: &Region) -> &AtomicU64 {
    let mut found = region.root("word", TYPE).unwrap();
    if found.is_null() {
        use nvheap::fof::Memory;
        let mut local = region.local().unwrap();
        let layout = std::alloc::Layout::new::<u64>();
        found = local.alloc(layout).unwrap().as_ptr();
        // SAFETY: just allocated.
        unsafe { found.cast::<u64>().write(0) };
        region.set_root("word", TYPE, found, 8).unwrap();
    }
    // SAFETY: an object of the region, used as an atomic word only.
    unsafe { AtomicU64::from_ptr(found.cast()) }
}

/// Whether anything stores to a word that is watched for a while.
fn changes(count: impl Fn() -> u64) -> bool {
    let before = count();
    std::thread::sleep(WATCHED);
    count() != before
}

fn wait_for_a_change(count: impl Fn() -> u64) {
    let before = count();
    while count() == before {
        std::thread::yield_now();
    }
}

/// Runs `body` beside a thread that does `step` until it ends.
fn beside(step: impl Fn() + Send + Sync, body: impl FnOnce() -> Result<(), Broken>) {
    let ends = AtomicU64::new(0);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| {
            while ends.load(Ordering::Relaxed) == 0 {
                step();
            }
        });
        let found = body();
        ends.store(1, Ordering::Relaxed);
        // It may be waiting.
        platform_has_changed();
        found
    });
    must(found);
}

fn not_held(what: &str) -> Broken {
    Broken::new(verdict::NOT_HELD, what)
}

/// Plain memory is held while the promise is withdrawn, and goes on when it returns.
pub fn plain_memory_is_held() {
    let platform = Platform::new("plain");
    let file = platform.path("region");
    let region = Region::create(&file, REGION_BYTES, &Options::default()).unwrap();
    let count = word(&region);
    let body = || {
        for _ in 0..3 {
            wait_for_a_change(|| count.load(Ordering::Relaxed));
            platform.promises(false);
            let held = mark(&file) == Some(Mark::Held);
            let stores = changes(|| count.load(Ordering::Relaxed));
            platform.promises(true);
            if !held || stores {
                return Err(not_held(&format!("marked: {held}, stores go on: {stores}")));
            }
        }
        assert_eq!(mark(&file), Some(Mark::Open));
        Ok(())
    };
    let step = || {
        count.fetch_add(1, Ordering::Relaxed);
    };
    beside(step, body);
    let stored = count.load(Ordering::Relaxed);
    drop(region);
    assert_eq!(mark(&file), Some(Mark::Closed));
    // SAFETY: only this library writes to the file.
    let region = unsafe { Region::open(&file, &Options::default()) }.unwrap();
    assert_eq!(word(&region).load(Ordering::Relaxed), stored);
}

/// So are regions of transactions; one that waits in the middle ends afterwards.
pub fn transactions_are_held<P: Policy>() {
    let platform = Platform::new(P::KIND.name());
    let file = platform.path("heap");
    let options = nvheap::Options {
        assume_persistent: true,
        ..nvheap::Options::default()
    };
    let heap = Heap::<P>::create(&file, HEAP_BYTES, &options).unwrap();
    let session = Mutex::new(heap.session().unwrap());
    let number = session
        .lock()
        .unwrap()
        .root_or("number", |tx| tx.alloc(0_u64));
    let number = number.unwrap();
    let now = || heap.word(number.offset());
    let step = || {
        let mut session = session.lock().unwrap();
        session
            .run(|tx| {
                let old = tx.get(number)?;
                tx.set(number, old + 1)
            })
            .unwrap();
    };
    beside(step, || {
        for _ in 0..3 {
            wait_for_a_change(now);
            platform.promises(false);
            let stores = changes(now);
            platform.promises(true);
            if stores {
                return Err(not_held("transactions go on"));
            }
        }
        Ok(())
    });
    let stored = now();
    // Closing writes back, so it does not wait.
    platform.promises(false);
    drop((session, heap));
    platform.promises(true);
    let heap = Heap::<P>::open(&file, &options).unwrap();
    assert_eq!(heap.word(number.offset()), stored);
}

/// Without the promise nothing is opened, and that a Stop is armed is no promise: only the kernel's
/// own word counts.
pub fn nothing_opens_without_the_promise() {
    let platform = Platform::new("refused");
    let file = platform.path("region");
    for text in ["0\n", "armed\n", ""] {
        platform.says(text);
        let made = Region::create(&file, REGION_BYTES, &Options::default());
        assert!(matches!(made, Err(Error::NoFlushOnFail)), "{text:?}");
        let heap = platform.path("heap");
        let options = nvheap::Options::default();
        let made = Heap::<FofUndo>::create(&heap, HEAP_BYTES, &options);
        assert!(matches!(made, Err(Error::NoFlushOnFail)), "{text:?}");
        let made = Heap::<FofStm>::anonymous(HEAP_BYTES, &options);
        assert!(matches!(made, Err(Error::NoFlushOnFail)), "{text:?}");
    }
    std::fs::remove_file(platform.path("platform")).unwrap();
    let made = Region::anonymous(REGION_BYTES, &Options::default());
    assert!(matches!(made, Err(Error::NoFlushOnFail)));
}
