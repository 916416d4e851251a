// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claim: an open region with flush on fail follows the platform's promise. When it ends the region is
//! written back once, marked, and takes no store until the promise returns, or a store ends the process,
//! by choice; and a region whose process died then is refused by name.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

#[path = "cases/found.rs"]
mod found;
#[path = "cases/promise.rs"]
mod promise;

use std::alloc::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use nvheap::fof::{Hold, Mark, Memory, Options, Region};
use nvheap::{Error, FofStm, FofUndo, Heap, Tx};
use promise::{Platform, mark, word};

/// Only for hangs.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn plain_memory_is_held() {
    promise::plain_memory_is_held();
}

#[test]
fn transactions_are_held() {
    promise::transactions_are_held::<FofUndo>();
    promise::transactions_are_held::<FofStm>();
}

#[test]
fn nothing_opens_without_the_promise() {
    promise::nothing_opens_without_the_promise();
}

/// The thread of the library notices by itself, and where nothing wakes it, too.
#[test]
fn regions_are_told_without_being_asked() {
    let platform = Platform::new("told");
    let file = platform.path("region");
    let region = Region::create(&file, 1 << 20, &Options::default()).unwrap();
    for (text, expected) in [
        ("0\n", Mark::Held),
        ("1\n", Mark::Open),
        ("0\n", Mark::Held),
    ] {
        platform.says(text);
        while mark(&file) != Some(expected) {
            std::thread::yield_now();
        }
    }
    drop(region);
    assert_eq!(mark(&file), Some(Mark::Closed));
}

/// The program's own hold and the platform's do not end each other.
#[test]
fn held_as_long_as_anybody_wants_it() {
    let platform = Platform::new("both");
    let file = platform.path("region");
    let region = Region::create(&file, 1 << 20, &Options::default()).unwrap();
    region.hold(Hold::Wait).unwrap();
    platform.promises(false);
    platform.promises(true);
    assert_eq!(mark(&file), Some(Mark::Held));
    platform.promises(false);
    region.release().unwrap();
    assert_eq!(mark(&file), Some(Mark::Held));
    platform.promises(true);
    assert_eq!(mark(&file), Some(Mark::Open));
    word(&region).store(1, Ordering::Relaxed);
}

/// Runs `work` in a child; returns the signal that ended it.
fn signal_of(work: impl FnOnce()) -> i32 {
    // SAFETY: the child uses nothing that another thread of this process may have locked except the
    // allocator, which the C library keeps usable.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        work();
        // SAFETY: ends the child at once, without the test runner's exit handlers.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    libc::WTERMSIG(status)
}

#[test]
fn store_ends_the_process_by_choice_and_the_region_is_refused() {
    let platform = Platform::new("fault");
    let file = platform.path("region");
    let options = Options {
        when_withdrawn: Hold::Fault,
        ..Options::default()
    };
    let signal = signal_of(|| {
        let region = Region::create(&file, 1 << 20, &options).unwrap();
        word(&region).store(1, Ordering::Relaxed);
        platform.promises(false);
        word(&region).store(2, Ordering::Relaxed);
    });
    assert_eq!(signal, libc::SIGSEGV);
    assert_eq!(mark(&file), Some(Mark::Held));
    platform.promises(true);
    // SAFETY: only this library writes to the file.
    let opened = unsafe { Region::open(&file, &options) };
    assert!(matches!(opened, Err(Error::NotClosed)));
    let accept = Options {
        accept_unclosed: true,
        ..options
    };
    // SAFETY: as above.
    let region = unsafe { Region::open(&file, &accept) }.unwrap();
    assert_eq!(word(&region).load(Ordering::Relaxed), 1);
}

/// A transaction that a hold stopped in the middle is undone by the next opening.
#[test]
fn half_of_a_transaction_is_undone() {
    let platform = Platform::new("half");
    let file = platform.path("heap");
    let options = nvheap::Options {
        assume_persistent: true,
        when_withdrawn: Hold::Fault,
        ..nvheap::Options::default()
    };
    let signal = signal_of(|| {
        let heap = Heap::<FofUndo>::create(&file, 8 << 20, &options).unwrap();
        let mut session = heap.session().unwrap();
        let pair = session.root_or("pair", |tx| tx.alloc([1_u64; 2])).unwrap();
        let _ = session.run(|tx| {
            tx.set(pair.cast::<u64>(), 2)?;
            platform.promises(false);
            tx.set(pair.cast::<u64>().element(1), 2)
        });
    });
    assert_eq!(signal, libc::SIGSEGV);
    platform.promises(true);
    let heap = Heap::<FofUndo>::open(&file, &options).unwrap();
    let mut session = heap.session().unwrap();
    let pair = session.root_or("pair", |tx| tx.alloc([0_u64; 2])).unwrap();
    assert_eq!(session.view(|tx| tx.get(pair)).unwrap(), [1, 1]);
}

/// A thread that a hold stops may be in the middle of the allocator, with its lock.
#[test]
fn allocating_thread_can_be_held_at_any_moment() {
    let platform = Platform::new("allocating");
    let file = platform.path("region");
    let region = Region::create(&file, 8 << 20, &Options::default()).unwrap();
    let ends = AtomicBool::new(false);
    let (done, all) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut local = region.local().unwrap();
            let layout = Layout::from_size_align(70_000, 16).unwrap();
            while !ends.load(Ordering::Relaxed) {
                let at = local.alloc(layout).unwrap();
                // SAFETY: allocated just now, with this layout.
                unsafe { local.free(at, layout) };
            }
        });
        scope.spawn(|| {
            for _ in 0..200 {
                region.hold(Hold::Wait).unwrap();
                std::thread::yield_now();
                region.release().unwrap();
            }
            done.send(()).unwrap();
        });
        let hangs = all.recv_timeout(HANG).is_err();
        if hangs {
            // The threads would be waited for.
            eprintln!("a hold waits for the thread that it holds");
            std::process::abort();
        }
        ends.store(true, Ordering::Relaxed);
    });
}
