// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A region of plain memory after each end: closed, its process killed, power lost, the platform's
//! promise withdrawn. A region that may be half changed is refused by name.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use std::alloc::Layout;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use nvheap::fof::header::{MARK_OFFSET, SIZE_MIN_BYTES};
use nvheap::fof::{Hold, Mark, Memory, Options, PlainTx, Region, header_of};
use nvheap::testing::{Event, History, Limits, Recorder, Threads};
use nvheap::{Error, Mapping, PPtr, Pmem, Tx, TxError};

const REGION_BYTES: u64 = 1 << 20;
const TYPE: u64 = 7;

fn options() -> Options {
    Options::assume_all()
}

fn accept() -> Options {
    Options {
        accept_unclosed: true,
        ..options()
    }
}

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("nvheap-ends-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn create(&self) -> Region {
        Region::create(&self.0, REGION_BYTES, &options()).unwrap()
    }

    fn open(&self, options: &Options) -> Result<Region, Error> {
        // SAFETY: only this library writes to the file.
        unsafe { Region::open(&self.0, options) }
    }

    fn mark(&self) -> Option<Mark> {
        let bytes = std::fs::read(&self.0).unwrap();
        let word = bytes[MARK_OFFSET..MARK_OFFSET + 8].try_into().unwrap();
        Mark::of(u64::from_le_bytes(word))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A word of the region, by name.
fn word(region: &Region) -> *mut u64 {
    let found = region.root("word", TYPE).unwrap();
    if !found.is_null() {
        return found.cast();
    }
    let mut local = region.local().unwrap();
    let at = local.alloc(Layout::new::<u64>()).unwrap().as_ptr();
    // SAFETY: just allocated.
    unsafe { at.cast::<u64>().write(0) };
    region.set_root("word", TYPE, at, 8).unwrap();
    at.cast()
}

/// Runs `work` in a child; returns (signal, exit status).
fn child(work: impl FnOnce()) -> (i32, i32) {
    let pid = fork(work);
    end_of(pid)
}

fn fork(work: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child uses nothing that another thread of this process may have locked except the
    // allocator, which the C library keeps usable.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        work();
        // SAFETY: ends the child at once, without the test runner's exit handlers.
        unsafe { libc::_exit(0) };
    }
    pid
}

fn end_of(pid: libc::pid_t) -> (i32, i32) {
    let mut status = 0;
    // SAFETY: a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    if libc::WIFSIGNALED(status) {
        (libc::WTERMSIG(status), 0)
    } else {
        (0, libc::WEXITSTATUS(status))
    }
}

fn die() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    unreachable!("SIGKILL ends a process");
}

#[test]
fn region_whose_process_died_is_refused_by_name() {
    let file = File::new("died");
    drop(file.create());
    assert_eq!(file.mark(), Some(Mark::Closed));
    let end = child(|| {
        let region = file.open(&options()).unwrap();
        // SAFETY: the child's own word.
        unsafe { *word(&region) = 1 };
        die();
    });
    assert_eq!(end, (libc::SIGKILL, 0));
    assert_eq!(file.mark(), Some(Mark::Open));
    assert!(matches!(file.open(&options()), Err(Error::NotClosed)));
    // An option accepts its content unchanged; then it is like any other region.
    let region = file.open(&accept()).unwrap();
    // SAFETY: no other user has it.
    assert_eq!(unsafe { *word(&region) }, 1);
    assert_eq!(region.usage().objects, 1);
    drop(region);
    drop(file.open(&options()).unwrap());
}

#[test]
fn region_in_which_a_thread_panicked_is_not_closed() {
    let file = File::new("panic");
    let region = file.create();
    let thread = std::thread::scope(|scope| {
        let local = region.local().unwrap();
        let work = move || {
            let _local = local;
            panic!("in the middle of a change");
        };
        scope.spawn(work).join()
    });
    assert!(thread.is_err());
    drop(region);
    assert!(matches!(file.open(&options()), Err(Error::NotClosed)));
}

/// Plain memory has no log. A panic that is caught where the thread's allocator lives on undoes
/// nothing, and the region closes with what the program left in it: there the program must put it right.
#[test]
fn panic_that_is_caught_undoes_nothing() {
    let file = File::new("caught");
    let region = file.create();
    let mut local = region.local().unwrap();
    let at = local.alloc(Layout::new::<[u64; 2]>()).unwrap();
    region.set_root("pair", TYPE, at.as_ptr(), 16).unwrap();
    let pair = at.cast::<u64>().as_ptr();
    // SAFETY: just allocated.
    unsafe { pair.cast::<[u64; 2]>().write([1; 2]) };
    let word: PPtr<u64> = PPtr::from_offset(pair.expose_provenance() as u64);
    // SAFETY: the pointers are to what was just allocated.
    let mut tx = unsafe { PlainTx::new(&mut local) };
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        tx.nested(|tx| {
            tx.set(word, 2)?;
            std::panic::resume_unwind(Box::new("between two stores"))
        })
    }));
    let _: Box<dyn std::any::Any + Send> = caught.map(|done: Result<(), _>| done).unwrap_err();
    // Nor does a part that fails undo anything, and it says so.
    let failed = tx.nested(|_| Err::<(), _>(TxError::Abort));
    assert_eq!(failed, Err(TxError::NoRollback));
    drop(local);
    drop(region);
    let region = file.open(&options()).unwrap();
    let pair = region.root("pair", TYPE).unwrap().cast::<[u64; 2]>();
    // SAFETY: the root is the pair.
    assert_eq!(unsafe { pair.read() }, [2, 1]);
    assert_eq!(region.check(), []);
}

/// A process may die between any two instructions of the allocator. The region it leaves has no
/// object twice, or is refused: a program that accepts it does not get memory that is in use.
#[test]
fn allocator_of_a_killed_process_is_sound_or_refused() {
    const ROUNDS: u64 = 40;
    let file = File::new("at-work");
    drop(file.create());
    let mut accepted = 0;
    for round in 0..ROUNDS {
        let pid = fork(|| {
            let region = file.open(&accept()).unwrap();
            let mut local = region.local().unwrap();
            let mut held = Vec::with_capacity(4096);
            let mut random = round;
            loop {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let layout = Layout::from_size_align(8 << (random >> 61), 8).unwrap();
                if (random >> 32) & 1 == 0 && held.len() < 4096 {
                    held.extend(local.alloc(layout).map(|at| (at, layout)));
                } else if let Some((at, layout)) = held.pop() {
                    // SAFETY: the child's own object.
                    unsafe { local.free(at, layout) };
                }
            }
        });
        std::thread::sleep(Duration::from_millis(1 + round % 5));
        // SAFETY: the child created above.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGKILL) }, 0);
        assert_eq!(end_of(pid), (libc::SIGKILL, 0));
        match file.open(&accept()) {
            Ok(region) => {
                assert_eq!(region.check(), []);
                accepted += 1;
            }
            Err(Error::Corrupt(..)) => {
                std::fs::remove_file(&file.0).unwrap();
                drop(file.create());
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(accepted > ROUNDS / 2, "{accepted} of {ROUNDS}");
}

#[test]
fn taken_address_is_refused_by_name() {
    let file = File::new("taken");
    drop(file.create());
    let base = header_of(&file.0).unwrap().base as usize;
    // SAFETY: a new mapping where there is none.
    let other = unsafe {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        libc::mmap(base as *mut libc::c_void, 4096, rights, flags, -1, 0)
    };
    assert_eq!(other as usize, base);
    match file.open(&options()).unwrap_err() {
        Error::AddressTaken { path, address, by } => {
            assert_eq!((path, address as usize), (file.0.clone(), base));
            assert_eq!(by, "anonymous memory");
        }
        error => panic!("{error}"),
    }
    let options = Options {
        address: Some(base),
        ..options()
    };
    let second = File::new("taken-too");
    let made = Region::create(&second.0, REGION_BYTES, &options);
    assert!(matches!(made, Err(Error::AddressTaken { .. })));
    // SAFETY: the mapping created above.
    assert_eq!(unsafe { libc::munmap(other, 4096) }, 0);
    assert_eq!(file.open(&accept()).unwrap().base() as usize, base);
}

#[test]
fn two_regions_can_be_open_at_once() {
    let (one, two) = (File::new("one"), File::new("two"));
    let (first, second) = (one.create(), two.create());
    // SAFETY: this test's words.
    unsafe {
        *word(&first) = 1;
        *word(&second) = 2;
        assert_eq!((*word(&first), *word(&second)), (1, 2));
    }
    assert!(matches!(one.open(&options()), Err(Error::Busy(_))));
}

#[test]
fn content_of_a_file_is_not_overwritten() {
    for at in [0, 1024, REGION_BYTES as usize - 512] {
        let file = File::new("something");
        let mut bytes = vec![0; REGION_BYTES as usize];
        bytes[at] = 1;
        std::fs::write(&file.0, &bytes).unwrap();
        let made = Region::create(&file.0, REGION_BYTES, &options());
        assert!(matches!(made, Err(Error::NotEmpty(_))), "at {at}");
        assert_eq!(std::fs::read(&file.0).unwrap(), bytes);
        let overwrite = Options {
            overwrite: true,
            ..options()
        };
        drop(Region::create(&file.0, REGION_BYTES, &overwrite).unwrap());
        drop(file.open(&options()).unwrap());
    }
}

#[test]
fn platform_without_the_promise_is_refused() {
    let file = File::new("promise");
    let made = Region::create(&file.0, REGION_BYTES, &Options::default());
    assert!(matches!(made, Err(Error::NoFlushOnFail)));
    drop(file.create());
    let opened = file.open(&Options::default());
    assert!(matches!(opened, Err(Error::NoFlushOnFail)));
}

/// Two processes with one allocator would allocate memory twice: a child does not have it mapped.
#[test]
fn forked_child_has_no_region() {
    let file = File::new("fork");
    let region = file.create();
    let at = word(&region);
    // SAFETY: faults, as intended.
    let end = child(|| unsafe { at.write_volatile(1) });
    assert_eq!(end, (libc::SIGSEGV, 0));
}

/// After a power failure the region has its content at closing, or is marked as open: also if
/// caches are lost, since a region that no program has open has no promise about them.
mod cut {
    use super::*;

    const VALUE: u64 = 0x1234_5678;
    const LINES: usize = 4;

    /// The step that a planted bug omits.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Bug {
        None,
        /// Content is not written back.
        WriteBack,
        /// The mark does not wait for the content.
        Fence,
        /// The mark that says that the region is open is not written back.
        OpenMark,
    }

    #[derive(Clone)]
    struct Planted {
        to: Recorder,
        mark: usize,
        bug: Bug,
        fences: Arc<AtomicU64>,
    }

    // SAFETY: `Recorder` performs every store.
    unsafe impl Pmem for Planted {
        unsafe fn store(&self, at: *mut u64, value: u64) {
            // SAFETY: as the caller says.
            unsafe { self.to.store(at, value) }
        }
        unsafe fn store_byte(&self, at: *mut u8, value: u8) {
            // SAFETY: as the caller says.
            unsafe { self.to.store_byte(at, value) }
        }
        unsafe fn stream_line(&self, at: *mut u64, line: &[u64; nvheap::LINE_WORDS]) {
            // SAFETY: as the caller says.
            unsafe { self.to.stream_line(at, line) }
        }
        unsafe fn flush(&self, at: *const u8) {
            let is_mark = at as usize == self.mark;
            if self.bug == Bug::WriteBack && !is_mark || self.bug == Bug::OpenMark && is_mark {
                return;
            }
            // SAFETY: as the caller says.
            unsafe { self.to.flush(at) }
        }
        fn fence(&self) {
            if self.bug != Bug::Fence || self.fences.fetch_add(1, Ordering::Relaxed) != 0 {
                self.to.fence();
            }
        }
        fn pause(&self) {}
    }

    /// A region that is opened, changed and closed: its content before, the events, and the offsets
    /// of the words that change.
    fn history(bug: Bug) -> (Vec<u8>, Vec<Event>, Vec<usize>) {
        let map = Mapping::anonymous(SIZE_MIN_BYTES).unwrap();
        // SAFETY: of two regions over the mapping the first is closed before the second is opened,
        // and both before the mapping goes.
        let (first, second) = unsafe { (map.lend(), map.lend()) };
        let plain = Recorder::new(map.base(), Threads::ONE);
        // SAFETY: as above.
        let region = unsafe { Region::format(Box::new(plain), first, true, &options()) }.unwrap();
        let layout = Layout::from_size_align(64 * LINES, 64).unwrap();
        let object = region.local().unwrap().alloc(layout).unwrap();
        // SAFETY: just allocated.
        unsafe { object.as_ptr().write_bytes(0, layout.size()) };
        drop(region);
        // SAFETY: no writer of the mapping exists now.
        let before = unsafe { std::slice::from_raw_parts(map.base(), map.bytes()) }.to_vec();
        let to = Recorder::new(map.base(), Threads::ONE);
        let mark = map.base() as usize + MARK_OFFSET;
        let fences = Arc::default();
        let pm = Planted {
            to: to.clone(),
            mark,
            bug,
            fences: Arc::clone(&fences),
        };
        // SAFETY: as above.
        let region = unsafe { Region::attach(Box::new(pm), second, true, &options()) }.unwrap();
        let at = object.as_ptr() as usize - map.base() as usize;
        let words: Vec<usize> = (0..LINES).map(|line| at + line * 64).collect();
        for word in &words {
            // SAFETY: a word of the object.
            unsafe { to.store(map.base().add(*word).cast(), VALUE) };
        }
        // The omitted fence is the first one of the closing.
        fences.store(0, Ordering::Relaxed);
        drop(region);
        (before, to.take(), words)
    }

    fn word_of(image: &[u8], at: usize) -> u64 {
        u64::from_le_bytes(image[at..at + 8].try_into().unwrap())
    }

    /// Checks each state that a cut can leave if caches are lost.
    fn judge(bug: Bug) -> Result<(u64, u64), String> {
        let (before, events, words) = history(bug);
        let limits = Limits {
            all_max: 5000,
            drawn: 100,
            alone_max: 40,
        };
        let (mut changed, mut refused) = (0, 0);
        let mut states = History::new(before, limits, 1);
        let followed = states.follow(&events, &mut |visit| {
            let image = visit.image.bytes();
            let values: Vec<u64> = words.iter().map(|at| word_of(image, *at)).collect();
            let all_old = values.iter().all(|value| *value == 0);
            let all_new = values.iter().all(|value| *value == VALUE);
            if word_of(image, MARK_OFFSET) != Mark::Closed as u64 {
                refused += 1;
                return Ok(());
            }
            changed += u64::from(all_new);
            if all_old || all_new {
                Ok(())
            } else {
                Err(format!("closed, and half changed: {values:x?}"))
            }
        });
        followed.map_err(|refused| refused.what)?;
        Ok((changed, refused))
    }

    #[test]
    fn closed_region_is_whole_in_every_state_that_a_cut_leaves() {
        let (changed, refused) = judge(Bug::None).unwrap();
        // No image is checked twice: these are all subsets of the changed lines.
        assert!(changed > 0 && refused >= 1 << LINES, "{changed}, {refused}");
    }

    /// The negative proof: each bug leaves a region that is marked as complete, and is not.
    #[test]
    fn planted_bugs_are_found() {
        for bug in [Bug::WriteBack, Bug::Fence, Bug::OpenMark] {
            let found = judge(bug).unwrap_err();
            let own = found.contains("closed, and half changed");
            assert!(own, "{bug:?}: {found}");
        }
    }
}

mod held {
    use super::*;

    #[test]
    fn store_to_a_held_region_ends_the_process() {
        let file = File::new("fault");
        drop(file.create());
        let end = child(|| {
            let region = file.open(&options()).unwrap();
            let at = word(&region);
            // SAFETY: the child's own word.
            unsafe {
                at.write_volatile(1);
                region.hold(Hold::Fault).unwrap();
                assert_eq!(at.read_volatile(), 1);
                at.write_volatile(2);
            }
        });
        assert_eq!(end, (libc::SIGSEGV, 0));
        assert_eq!(file.mark(), Some(Mark::Held));
        // The process crashed, held or not: refused by name.
        assert!(matches!(file.open(&options()), Err(Error::NotClosed)));
        let region = file.open(&accept()).unwrap();
        // SAFETY: no other user has it.
        assert_eq!(unsafe { *word(&region) }, 1);
    }

    /// Goal: no store reaches a held region, and none is lost. Method: a thread counts in it
    /// continuously, and the count does not change between hold and release.
    #[test]
    fn stores_wait_while_a_region_is_held() {
        let file = File::new("wait");
        let region = file.create();
        let at = word(&region) as usize;
        let ends = AtomicBool::new(false);
        // SAFETY: a word that one thread changes, by stores of whole words.
        let count = unsafe { AtomicU64::from_ptr(at as *mut u64) };
        let stored = std::thread::scope(|scope| {
            let counter = scope.spawn(|| {
                let mut stored = 0;
                while !ends.load(Ordering::Relaxed) {
                    stored += 1;
                    count.store(stored, Ordering::Relaxed);
                }
                stored
            });
            for _ in 0..20 {
                let before = count.load(Ordering::Relaxed);
                while count.load(Ordering::Relaxed) == before {
                    std::thread::yield_now();
                }
                region.hold(Hold::Wait).unwrap();
                assert_eq!(file.mark(), Some(Mark::Held));
                let held = count.load(Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
                assert_eq!(count.load(Ordering::Relaxed), held);
                region.release().unwrap();
                assert_eq!(file.mark(), Some(Mark::Open));
            }
            ends.store(true, Ordering::Relaxed);
            counter.join().unwrap()
        });
        assert_eq!(count.load(Ordering::Relaxed), stored);
        drop(region);
        assert_eq!(file.mark(), Some(Mark::Closed));
    }

    #[test]
    fn held_region_can_be_closed() {
        let file = File::new("held-closed");
        let region = file.create();
        region.hold(Hold::Wait).unwrap();
        drop(region);
        assert_eq!(file.mark(), Some(Mark::Closed));
        drop(file.open(&options()).unwrap());
    }

    /// The negative proof of forwarding: a fault elsewhere has its usual effect.
    #[test]
    fn other_faults_end_the_process() {
        let file = File::new("other");
        drop(file.create());
        let end = child(|| {
            let region = file.open(&options()).unwrap();
            region.hold(Hold::Wait).unwrap();
            // SAFETY: none, this is the fault.
            unsafe { std::ptr::without_provenance_mut::<u64>(4096).write_volatile(1) };
        });
        assert_eq!(end, (libc::SIGSEGV, 0));
    }
}
