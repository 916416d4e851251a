// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The structures behave as the standard library's collections, under every policy, across closing
//! and opening, with aborts in between; and they neither lose nor leak an object.

#![allow(
    clippy::tests_outside_test_module, // the file is an integration test
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    missing_docs
)]

use std::collections::{BTreeMap, VecDeque};

use nvheap::structures::{
    AvlHead, AvlMap, BPlusTree, BTreeHead, HashHead, HashMap, Queue, QueueHead,
};
use nvheap::{
    FofStm, Heap, Mapping, Native, Options, PPtr, Policy, PolicyKind, Session, Tx, TxError,
    with_policy,
};
use proptest::prelude::*;

const REGION_BYTES: u64 = 1 << 23;

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64),
    Remove(u64),
    Get(u64),
    /// Runs the next steps in a transaction that is aborted.
    Abort(Vec<(bool, u64)>),
    /// Closes and opens the region.
    Reopen,
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..keys, any::<u64>()).prop_map(|(key, value)| Step::Insert(key, value)),
        5 => (0..keys).prop_map(Step::Remove),
        3 => (0..keys).prop_map(Step::Get),
        1 => prop::collection::vec((any::<bool>(), 0..keys), 0..6).prop_map(Step::Abort),
        1 => Just(Step::Reopen),
    ]
}

/// Few and short logs: they wrap often.
fn small() -> Options {
    Options {
        sessions: 2,
        redo_lines: 512,
        undo_lines: 512,
        ..Options::assume_all()
    }
}

/// A region in a file of its own, so that it can be opened again.
struct Place {
    file: std::path::PathBuf,
}

impl Place {
    fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("nvheap-{}-{number}", std::process::id());
        Self {
            file: std::env::temp_dir().join(name),
        }
    }

    fn create<P: Policy>(&self) -> Heap<P> {
        Heap::create(&self.file, REGION_BYTES, &small()).unwrap()
    }

    fn open<P: Policy>(&self) -> Heap<P> {
        Heap::open(&self.file, &Options::assume_all()).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_file(&self.file).unwrap();
    }
}

/// Common operations of the three maps.
trait Map: Copy {
    fn root<P: Policy>(session: &mut Session<P>) -> Self;
    fn insert<T: Tx>(self, tx: &mut T, key: u64, value: u64) -> Result<Option<u64>, TxError>;
    fn remove<T: Tx>(self, tx: &mut T, key: u64) -> Result<Option<u64>, TxError>;
    fn get<T: Tx>(self, tx: &mut T, key: u64) -> Result<Option<u64>, TxError>;
    fn all<T: Tx>(self, tx: &mut T) -> Result<Vec<(u64, u64)>, TxError>;
    fn len<T: Tx>(self, tx: &mut T) -> Result<u64, TxError>;
}

macro_rules! map {
    ($name:ident, $head:ident, $create:expr, |$it:ident, $tx:ident| $cursor:expr) => {
        impl Map for $name<u64, u64> {
            fn root<P: Policy>(session: &mut Session<P>) -> Self {
                let head: PPtr<$head<u64, u64>> = session.root_or("map", $create).unwrap();
                $name::at(head)
            }
            fn insert<T: Tx>(self, tx: &mut T, k: u64, v: u64) -> Result<Option<u64>, TxError> {
                $name::insert(self, tx, k, v)
            }
            fn remove<T: Tx>(self, tx: &mut T, key: u64) -> Result<Option<u64>, TxError> {
                $name::remove(self, tx, &key)
            }
            fn get<T: Tx>(self, tx: &mut T, key: u64) -> Result<Option<u64>, TxError> {
                $name::get(self, tx, &key)
            }
            fn all<T: Tx>(self, tx: &mut T) -> Result<Vec<(u64, u64)>, TxError> {
                let ($it, $tx) = (self, tx);
                let mut cursor = $cursor;
                let mut found = Vec::new();
                while let Some(entry) = cursor.next($tx)? {
                    found.push(entry);
                }
                Ok(found)
            }
            fn len<T: Tx>(self, tx: &mut T) -> Result<u64, TxError> {
                $name::len(self, tx)
            }
        }
    };
}
map!(HashMap, HashHead, |tx| HashMap::create(tx, 2), |it, tx| it
    .iter());
map!(AvlMap, AvlHead, AvlMap::create, |it, tx| it
    .range(tx, None)?);
map!(
    BPlusTree,
    BTreeHead,
    |tx| BPlusTree::create(tx, 0, 0),
    |it, tx| it.range(tx, None)?
);

fn follow<P: Policy, M: Map>(steps: &[Step]) {
    let place = Place::new();
    let mut heap = place.create::<P>();
    let mut session = heap.session().unwrap();
    let mut map = M::root(&mut session);
    let mut model = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(key, value) => {
                let old = session.run(|tx| map.insert(tx, *key, *value)).unwrap();
                assert_eq!(old, model.insert(*key, *value));
            }
            Step::Remove(key) => {
                assert_eq!(
                    session.run(|tx| map.remove(tx, *key)).unwrap(),
                    model.remove(key)
                );
            }
            Step::Get(key) => {
                let found = session.view(|tx| map.get(tx, *key)).unwrap();
                assert_eq!(found, model.get(key).copied());
            }
            Step::Abort(changes) => {
                let done = session.run(|tx| {
                    for (insert, key) in changes {
                        if *insert {
                            map.insert(tx, *key, 7)?;
                        } else {
                            map.remove(tx, *key)?;
                        }
                    }
                    Err::<(), _>(TxError::Abort)
                });
                assert_eq!(done, Err(TxError::Abort));
            }
            Step::Reopen => {
                drop(session);
                drop(heap);
                heap = place.open();
                session = heap.session().unwrap();
                map = M::root(&mut session);
            }
        }
    }
    let mut found = session.view(|tx| map.all(tx)).unwrap();
    assert_eq!(session.view(|tx| map.len(tx)).unwrap(), found.len() as u64);
    found.sort_unstable();
    assert_eq!(found, model.into_iter().collect::<Vec<_>>());
    empties::<P, M>(&heap, session, map, &found);
}

/// After the removal of all entries a map has as many objects as a new one.
fn empties<P: Policy, M: Map>(heap: &Heap<P>, mut session: Session<P>, map: M, all: &[(u64, u64)]) {
    for (key, _) in all {
        session.run(|tx| map.remove(tx, *key)).unwrap();
    }
    assert_eq!(session.view(|tx| map.all(tx)).unwrap(), []);
    // A hash table keeps its segments: at most one for each doubling.
    assert!(heap.usage().objects <= 12, "{:?}", heap.usage());
}

macro_rules! maps {
    ($($test:ident: $map:ident, $keys:expr;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 24 }))]
            $(#[test]
            fn $test(
                steps in prop::collection::vec(step($keys), 0..300),
                kind in prop::sample::select(PolicyKind::ALL.to_vec()),
            ) {
                with_policy!(kind, P => follow::<P, $map<u64, u64>>(&steps));
            })*
        }
    };
}
maps! {
    hash_table_is_a_map: HashMap, 200;
    avl_tree_is_a_map: AvlMap, 100;
    b_plus_tree_is_a_map: BPlusTree, 400;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn queue_is_a_queue(
        steps in prop::collection::vec(prop::option::of(any::<u64>()), 0..200),
        kind in prop::sample::select(PolicyKind::ALL.to_vec()),
    ) {
        with_policy!(kind, P => follow_queue::<P>(&steps));
    }

    #[test]
    fn ranges_begin_at_their_start_key(
        keys in prop::collection::btree_set(0..500_u64, 0..200),
        from in 0..500_u64,
    ) {
        let heap = Heap::<FofStm>::anonymous(REGION_BYTES, &Options::assume_all()).unwrap();
        let mut session = heap.session().unwrap();
        let (avl, tree) = session.run(|tx| {
            let (avl, tree) = (AvlMap::at(AvlMap::create(tx)?), BPlusTree::create(tx, 0, 0)?);
            let tree = BPlusTree::at(tree);
            for key in &keys {
                avl.insert(tx, *key, *key)?;
                tree.insert(tx, *key, *key)?;
            }
            Ok((avl, tree))
        }).unwrap();
        let wanted: Vec<u64> = keys.range(from..).copied().collect();
        let (mut by_avl, mut by_tree) = (Vec::new(), Vec::new());
        session.view(|tx| {
            let mut cursor = avl.range(tx, Some(&from))?;
            while let Some((key, _)) = cursor.next(tx)? {
                by_avl.push(key);
            }
            let mut cursor = tree.range(tx, Some(&from))?;
            while let Some((key, _)) = cursor.next(tx)? {
                by_tree.push(key);
            }
            Ok(())
        }).unwrap();
        prop_assert_eq!(&by_avl, &wanted);
        prop_assert_eq!(&by_tree, &wanted);
    }
}

fn follow_queue<P: Policy>(steps: &[Option<u64>]) {
    let heap: Heap<P> = Heap::format(
        Native::new(),
        Mapping::anonymous(REGION_BYTES).unwrap(),
        &Options::assume_all(),
    )
    .unwrap();
    let mut session = heap.session().unwrap();
    let head: PPtr<QueueHead<u64>> = session.root_or("queue", Queue::create).unwrap();
    let queue = Queue::at(head);
    let mut model = VecDeque::new();
    for step in steps {
        if let Some(value) = step {
            session.run(|tx| queue.push(tx, *value)).unwrap();
            model.push_back(*value);
        } else {
            assert_eq!(session.run(|tx| queue.pop(tx)).unwrap(), model.pop_front());
        }
        assert_eq!(
            session.view(|tx| queue.len(tx)).unwrap(),
            model.len() as u64
        );
    }
    let mut found = Vec::new();
    session
        .view(|tx| {
            let mut cursor = queue.iter();
            while let Some(value) = cursor.next(tx)? {
                found.push(value);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(found, Vec::from(model));
    assert_eq!(heap.usage().objects, 1 + found.len() as u64);
}
