// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plain memory as an allocator: objects do not overlap, keep their place from one opening to the
//! next, and can be allocated again once they are free.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::mpsc;

use nvheap::fof::{Local, Memory, Options, PlainTx, Region, header};
use nvheap::structures::{AvlMap, BPlusTree, HashMap, Queue};
use nvheap::{Error, TxResult};
use proptest::prelude::*;

const REGION_BYTES: u64 = 1 << 21;
const TYPE: u64 = 7;
const CASES: u32 = 64;
const STEPS: usize = 600;

struct File(PathBuf);

impl File {
    fn new(name: &str) -> Self {
        let name = format!("nvheap-fof-{}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn create(&self, bytes: u64) -> Region {
        Region::create(&self.0, bytes, &Options::assume_all()).unwrap()
    }

    fn open(&self) -> Result<Region, Error> {
        // SAFETY: only this library writes to the file.
        unsafe { Region::open(&self.0, &Options::assume_all()) }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An object of a test, and the value of its bytes.
struct Object {
    at: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

impl Object {
    fn new(local: &mut Local, layout: Layout, fill: u8) -> Option<Self> {
        let at = local.alloc(layout)?;
        assert_eq!(at.as_ptr() as usize % layout.align(), 0, "{layout:?}");
        // SAFETY: the object is that large.
        unsafe { at.as_ptr().write_bytes(fill, layout.size()) };
        Some(Self { at, layout, fill })
    }

    /// Fails if its bytes have changed.
    fn check(&self) {
        // SAFETY: the object is this test's.
        let bytes = unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.layout.size()) };
        assert!(
            bytes.iter().all(|byte| *byte == self.fill),
            "an object was given out twice: {:?}",
            self.layout
        );
    }

    fn free(self, local: &mut Local, sized: bool) {
        self.check();
        // SAFETY: an object of this region, not used again.
        unsafe {
            if sized {
                local.free(self.at, self.layout);
            } else {
                assert!(local.free_unsized(self.at));
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Bytes, power of two of the alignment, thread.
    Alloc(usize, u32, usize),
    /// Object, thread, whether the size is given.
    Free(usize, usize, bool),
    /// The thread ends, another begins.
    Thread(usize),
}

const THREADS: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    let bytes = prop_oneof![12 => 1..200_usize, 3 => 1..5000_usize, 1 => 1..200_000_usize];
    prop_oneof![
        10 => (bytes, 0..8_u32, 0..THREADS).prop_map(|(b, a, t)| Step::Alloc(b, a, t)),
        9 => (any::<usize>(), 0..THREADS, any::<bool>()).prop_map(|(o, t, s)| Step::Free(o, t, s)),
        1 => (0..THREADS).prop_map(Step::Thread),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    /// Objects do not overlap, and the region's usage is correct: after each history, and when
    /// all are free again.
    #[test]
    fn no_memory_is_given_out_twice_and_none_is_lost(
        steps in prop::collection::vec(step(), 0..STEPS),
    ) {
        let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
        let mut locals: Vec<Local> = (0..THREADS).map(|_| region.local().unwrap()).collect();
        let mut objects: Vec<Object> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Alloc(bytes, power, thread) => {
                    let layout = Layout::from_size_align(bytes, 1 << power).unwrap();
                    objects.extend(Object::new(&mut locals[thread], layout, number as u8));
                }
                Step::Free(which, thread, sized) if !objects.is_empty() => {
                    let object = objects.swap_remove(which % objects.len());
                    object.free(&mut locals[thread], sized);
                }
                Step::Free(..) => {}
                Step::Thread(thread) => {
                    locals.swap_remove(thread);
                    locals.push(region.local().unwrap());
                }
            }
        }
        objects.iter().for_each(Object::check);
        prop_assert_eq!(region.check(), []);
        prop_assert_eq!(region.usage().objects, objects.len() as u64);
        for object in objects {
            object.free(&mut locals[0], true);
        }
        prop_assert_eq!(region.check(), []);
        prop_assert_eq!(region.usage().objects, 0);
    }
}

/// Freed memory is allocated again, without end.
#[test]
fn freed_memory_is_allocated_again() {
    let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
    let mut local = region.local().unwrap();
    for bytes in [24, 1000, 32768, 70_000, 1_000_000] {
        let layout = Layout::from_size_align(bytes, 8).unwrap();
        for _ in 0..(200_000_000 / bytes).min(20_000) {
            let at = local
                .alloc(layout)
                .expect("the region has room for one object");
            // SAFETY: just allocated.
            unsafe { local.free(at, layout) };
        }
    }
    assert_eq!(region.usage().objects, 0);
}

/// Memory of one size class can be used for another once its slabs have no object. A remaining
/// object keeps its slab, and nothing else.
#[test]
fn slabs_without_objects_serve_other_sizes() {
    let mut region = Region::anonymous(1 << 20, &Options::assume_all()).unwrap();
    let small = Layout::from_size_align(48, 8).unwrap();
    let large = Layout::from_size_align(5 << 16, 8).unwrap();
    let mut local = region.local().unwrap();
    let mut objects = Vec::new();
    while let Some(object) = Object::new(&mut local, small, objects.len() as u8) {
        objects.push(object);
    }
    let left = objects.swap_remove(objects.len() / 2);
    for object in objects {
        object.free(&mut local, true);
    }
    assert!(local.alloc(large).is_none());
    assert!(matches!(region.reclaim(), Err(Error::InUse)));
    drop(local);
    // One chunk has the thread's part, one the remaining object.
    let chunks = region.header().chunks;
    assert_eq!(region.reclaim().unwrap(), chunks - 2);
    assert_eq!(region.check(), []);
    assert_eq!(region.usage().objects, 1);
    let mut local = region.local().unwrap();
    assert!(local.alloc(large).is_some());
    let mut more = Vec::new();
    while let Some(object) = Object::new(&mut local, small, more.len() as u8) {
        more.push(object);
    }
    assert!(more.len() > 3000, "{}", more.len());
    left.check();
    more.iter().for_each(Object::check);
}

/// A full region refuses allocations; its objects do not overlap, and can be freed.
#[test]
fn full_region_refuses_allocations_and_accepts_frees() {
    let region = Region::anonymous(1 << 18, &Options::assume_all()).unwrap();
    let mut local = region.local().unwrap();
    let layout = Layout::from_size_align(1500, 8).unwrap();
    for _ in 0..2 {
        let mut objects = Vec::new();
        let mut other = region.local().unwrap();
        while let Some(object) = Object::new(&mut local, layout, objects.len() as u8) {
            objects.push(object);
        }
        assert!(objects.len() > 60, "{}", objects.len());
        for object in objects {
            object.free(&mut other, true);
        }
        assert_eq!(region.check(), []);
        local = other;
    }
    let huge = Layout::from_size_align(64, 1 << 17).unwrap();
    assert!(local.alloc(huge).is_none(), "an alignment above a chunk's");
}

/// One thread allocates, another frees: memory is not lost.
#[test]
fn threads_free_objects_of_others() {
    let region = Region::anonymous(1 << 20, &Options::assume_all()).unwrap();
    let rounds: usize = 300_000;
    let (to, from) = mpsc::sync_channel::<usize>(64);
    let layout = Layout::new::<[u64; 8]>();
    std::thread::scope(|scope| {
        let (mut maker, mut taker) = (region.local().unwrap(), region.local().unwrap());
        scope.spawn(move || {
            for number in 0..rounds {
                let at = loop {
                    match maker.alloc(layout) {
                        Some(at) => break at.cast::<usize>(),
                        // The other thread has all of it, and is about to free it.
                        None => std::thread::yield_now(),
                    }
                };
                // SAFETY: just allocated.
                unsafe { at.write(number) };
                to.send(at.as_ptr().expose_provenance()).unwrap();
            }
        });
        for number in 0..rounds {
            let at = std::ptr::with_exposed_provenance_mut::<usize>(from.recv().unwrap());
            // SAFETY: the other thread has passed it on.
            unsafe {
                assert_eq!(*at, number);
                taker.free(NonNull::new_unchecked(at.cast()), layout);
            }
        }
    });
    assert_eq!(region.check(), []);
    assert_eq!(region.usage().objects, 0);
}

/// Damage by a program's bug is detected. Each case has its own region.
#[test]
fn damage_to_the_allocator_is_found() {
    type Damage = fn(&Region, &mut Local, NonNull<u64>);
    const LAYOUT: Layout = Layout::new::<[u64; 4]>();
    let damages: [(&str, Damage); 6] = [
        ("free twice", |_, local, at| {
            // SAFETY: none, this is the bug.
            unsafe {
                local.free(at.cast(), LAYOUT);
                local.free(at.cast(), LAYOUT);
            }
        }),
        ("is no object of it", |_, local, at| {
            // SAFETY: none, this is the bug: a store after the object is free.
            unsafe {
                local.free(at.cast(), LAYOUT);
                at.write(8);
            }
        }),
        ("is no object of it", |_, local, at| {
            // SAFETY: none, this is the bug: a size that is not the object's.
            unsafe { local.free(at.cast(), Layout::new::<[u64; 5]>()) };
        }),
        ("leads to no object", |region, local, at| {
            let root = at.as_ptr().cast();
            region.set_root("root", TYPE, root, 32).unwrap();
            // SAFETY: the object is used through the root only.
            unsafe { local.free(at.cast(), LAYOUT) };
        }),
        ("is impossible", |region, _, _| {
            let table = region.base().wrapping_add(header::TABLE_OFFSET);
            // SAFETY: none, this is the bug.
            unsafe { table.cast::<u64>().write(u64::MAX) };
        }),
        ("runs of free chunks, ", |region, _, _| {
            let lists = region.base().wrapping_add(header::LISTS_OFFSET);
            // SAFETY: none, this is the bug.
            unsafe { lists.write_bytes(0, 128) };
        }),
    ];
    for (wanted, damage) in damages {
        let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
        let mut local = region.local().unwrap();
        let at = local.alloc(LAYOUT).unwrap().cast();
        assert_eq!(region.check(), []);
        damage(&region, &mut local, at);
        let found = region.check();
        let first = &found.first().expect(wanted).what;
        assert!(first.contains(wanted), "{wanted}: {first}");
    }
}

struct Node {
    next: *mut Node,
    number: u64,
}

fn push(region: &Region, local: &mut Local, number: u64) {
    let at = local.alloc(Layout::new::<Node>()).unwrap().cast::<Node>();
    let next = region.root("list", TYPE).unwrap().cast();
    // SAFETY: just allocated.
    unsafe { at.write(Node { next, number }) };
    let bytes = size_of::<Node>() as u64;
    region
        .set_root("list", TYPE, at.as_ptr().cast(), bytes)
        .unwrap();
}

fn numbers(region: &Region) -> Vec<u64> {
    let mut at = region.root("list", TYPE).unwrap().cast::<Node>();
    let mut found = Vec::new();
    while !at.is_null() {
        // SAFETY: the list is of live nodes.
        unsafe {
            found.push((*at).number);
            at = (*at).next;
        }
    }
    found
}

/// Pointers are addresses, and lead to the same objects in each opening. The allocator continues
/// with its old state.
#[test]
fn pointers_lead_to_the_same_objects_in_the_next_opening() {
    let file = File::new("list");
    let mut region = file.create(REGION_BYTES);
    let (base, mut wanted) = (region.base(), Vec::new());
    for number in 0..500 {
        push(&region, &mut region.local().unwrap(), number);
        wanted.insert(0, number);
        if number % 100 == 99 {
            drop(region);
            region = file.open().unwrap();
            assert_eq!(region.base(), base);
            assert_eq!(numbers(&region), wanted);
            assert_eq!(region.check(), []);
            assert_eq!(region.usage().objects, number + 1);
        }
    }
    // One slab and the threads' parts: each opening continued in the same memory.
    assert!(
        region.usage().chunk_bytes <= 2 << 16,
        "{:?}",
        region.usage()
    );
}

#[test]
fn roots_are_found_by_name_and_type() {
    let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
    let at = region.local().unwrap().alloc(Layout::new::<u64>()).unwrap();
    let at = at.as_ptr();
    assert!(region.root("a", TYPE).unwrap().is_null());
    region.set_root("a", TYPE, at, 8).unwrap();
    assert_eq!(region.root("a", TYPE).unwrap(), at);
    assert!(matches!(region.root("a", 8), Err(Error::RootType)));
    assert!(matches!(
        region.set_root("a", 8, at, 8),
        Err(Error::RootType)
    ));
    assert!(matches!(region.root("", TYPE), Err(Error::RootName)));
    for number in 1..64 {
        region.set_root(&number.to_string(), TYPE, at, 8).unwrap();
    }
    assert!(region.set_root("one too many", TYPE, at, 8).is_err());
    region.set_root("a", TYPE, std::ptr::null_mut(), 0).unwrap();
    region.set_root("the last", TYPE, at, 8).unwrap();
    assert!(region.root("a", TYPE).unwrap().is_null());
}

/// A map of the library in plain memory, by the operations of a transaction.
trait Map {
    fn insert<M: Memory>(&self, tx: &mut PlainTx<'_, M>, key: u64, value: u64) -> TxResult<()>;
    fn remove<M: Memory>(&self, tx: &mut PlainTx<'_, M>, key: u64) -> TxResult<Option<u64>>;
    fn get<M: Memory>(&self, tx: &mut PlainTx<'_, M>, key: u64) -> TxResult<Option<u64>>;
}

macro_rules! map {
    ($($name:ident)*) => {
        $(impl Map for $name<u64, u64> {
            fn insert<M: Memory>(&self, tx: &mut PlainTx<'_, M>, k: u64, v: u64) -> TxResult<()> {
                $name::insert(*self, tx, k, v).map(|_| ())
            }
            fn remove<M: Memory>(&self, tx: &mut PlainTx<'_, M>, k: u64) -> TxResult<Option<u64>> {
                $name::remove(*self, tx, &k)
            }
            fn get<M: Memory>(&self, tx: &mut PlainTx<'_, M>, k: u64) -> TxResult<Option<u64>> {
                $name::get(*self, tx, &k)
            }
        })*
    };
}
map!(HashMap AvlMap BPlusTree);

fn follow(region: &Region, map: &impl Map, steps: &[(bool, u64)]) {
    let mut local = region.local().unwrap();
    // SAFETY: only this test uses the region, and the map's pointers belong to it.
    let mut tx = unsafe { PlainTx::new(&mut local) };
    let mut model = BTreeMap::new();
    for (number, (insert, key)) in steps.iter().enumerate() {
        if *insert {
            map.insert(&mut tx, *key, number as u64).unwrap();
            model.insert(*key, number as u64);
        } else {
            assert_eq!(map.remove(&mut tx, *key).unwrap(), model.remove(key));
        }
    }
    for key in 0..100 {
        assert_eq!(map.get(&mut tx, key).unwrap(), model.get(&key).copied());
        map.remove(&mut tx, key).unwrap();
    }
    assert_eq!(region.check(), []);
    // A hash table keeps its segments: at most one for each doubling.
    assert!(region.usage().objects <= 12, "{:?}", region.usage());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn structures_of_the_library_work_in_plain_memory(
        steps in prop::collection::vec((any::<bool>(), 0..100_u64), 0..400),
    ) {
        for kind in 0..3 {
            let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
            let mut local = region.local().unwrap();
            // SAFETY: only this test uses the region.
            let mut tx = unsafe { PlainTx::new(&mut local) };
            match kind {
                0 => {
                    let map = HashMap::at(HashMap::create(&mut tx, 2).unwrap());
                    follow(&region, &map, &steps);
                }
                1 => {
                    let map = AvlMap::at(AvlMap::create(&mut tx).unwrap());
                    follow(&region, &map, &steps);
                }
                _ => {
                    let map = BPlusTree::at(BPlusTree::create(&mut tx, 0, 0).unwrap());
                    follow(&region, &map, &steps);
                }
            }
        }
    }
}

#[test]
fn queue_works_in_plain_memory() {
    let region = Region::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
    let mut local = region.local().unwrap();
    // SAFETY: only this test uses the region.
    let mut tx = unsafe { PlainTx::new(&mut local) };
    let queue = Queue::at(Queue::<u64>::create(&mut tx).unwrap());
    for number in 0..50 {
        queue.push(&mut tx, number).unwrap();
    }
    for number in 0..50 {
        assert_eq!(queue.pop(&mut tx).unwrap(), Some(number));
    }
    assert_eq!(queue.pop(&mut tx).unwrap(), None);
    assert_eq!(region.usage().objects, 1);
}
