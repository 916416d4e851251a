// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single operations against the peer and against the floors of the machine: what one line costs
//! that is written past the cache and awaited, and what one costs that is written back.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nvheap::structures::{HashHead, HashMap};
use nvheap::{
    FocRedo, FocStm, FocUndo, Heap, Mapping, Native, Options, PPtr, Pmem, Policy, Session, Tx,
    policy_of,
};

use crate::fof;
use crate::measure::{Contender, Figures, run};
use crate::peer::Peer;
use crate::target::{Library, Target};

/// Large enough for a table of 100,000 entries in any of the heaps.
pub const REGION_BYTES: u64 = 256 << 20;
pub const BUCKETS: u64 = 1 << 17;
const OBJECT_BYTES: u64 = 64;
/// As long as a session's log.
const FLOOR_BYTES: u64 = 4096 * 64;

/// Operations of a contender in a round.
const BATCH: u64 = 200;
/// Entries of a table that stays in the cache.
const SMALL_ENTRIES: u64 = 2000;

type Words = [u64; 16];

/// A region with sixteen words and a table, made and opened again: the policy is the region's.
pub struct Place<P: Policy> {
    pub session: Session<P>,
    words: PPtr<Words>,
    pub table: HashMap<u64, u64>,
    _heap: Heap<P>,
}

pub fn place<P: Policy>(folder: &Path) -> Place<P> {
    place_of(folder, BUCKETS)
}

/// With a table of so many buckets.
fn place_of<P: Policy>(folder: &Path, buckets: u64) -> Place<P> {
    let file: PathBuf = folder.join(format!("region-{}", P::KIND));
    let _ = std::fs::remove_file(&file);
    let options = Options::assume_all();
    drop(Heap::<P>::create(&file, REGION_BYTES, &options).expect("a region"));
    assert_eq!(policy_of(&file).expect("a header"), P::KIND);
    place_in(
        Heap::<P>::open(&file, &options).expect("the region again"),
        buckets,
    )
}

fn place_in<P: Policy>(heap: Heap<P>, buckets: u64) -> Place<P> {
    let mut session = heap.session().expect("a session");
    let words = session
        .root_or("words", |tx| tx.alloc([0; 16]))
        .expect("words");
    let head: PPtr<HashHead<u64, u64>> = session
        .root_or("table", |tx| HashMap::create(tx, buckets))
        .expect("a table");
    Place {
        session,
        words,
        table: HashMap::at(head),
        _heap: heap,
    }
}

impl<P: Policy> Place<P> {
    /// Session, table, and the heap, to be kept.
    pub fn parts(self) -> (Session<P>, HashMap<u64, u64>, Box<dyn std::any::Any>) {
        (self.session, self.table, Box::new(self._heap))
    }

    fn set(&mut self, count: u64) {
        let word = self.words.cast::<u64>();
        for value in 0..count {
            self.session.run(|tx| tx.set(word, value)).expect("set");
        }
    }

    /// Words in two lines.
    fn swap(&mut self, count: u64) {
        let (a, b) = (
            self.words.cast::<u64>(),
            self.words.cast::<u64>().element(8),
        );
        for _ in 0..count {
            self.session
                .run(|tx| {
                    tx.will_set(&[a.range(), b.range()])?;
                    let (x, y) = (tx.get(a)?, tx.get(b)?);
                    tx.set(a, y)?;
                    tx.set(b, x)
                })
                .expect("swap");
        }
    }

    /// Two transactions, as the peer's two atomic calls: a pointer is set and cleared.
    fn alloc_free(&mut self, count: u64) {
        let at = self.words.cast::<u64>().element(4);
        for _ in 0..count {
            let offset = self
                .session
                .run(|tx| {
                    let offset = tx.reserve(OBJECT_BYTES)?;
                    tx.set(at, offset)?;
                    Ok(offset)
                })
                .expect("alloc");
            self.session
                .run(|tx| {
                    tx.set(at, 0)?;
                    tx.release(offset)
                })
                .expect("free");
        }
    }

    fn insert(&mut self, from: u64, count: u64) {
        let table = self.table;
        for key in from..from + count {
            self.session
                .run(|tx| table.insert(tx, key, key))
                .expect("insert");
        }
    }

    fn remove(&mut self, from: u64, count: u64) {
        let table = self.table;
        for key in from..from + count {
            self.session
                .run(|tx| table.remove(tx, &key))
                .expect("remove");
        }
    }
}

/// Lines of memory of the same kind as the regions.
fn floors(folder: &Path) -> (Native, Mapping) {
    let options = nvheap::MapOptions {
        assume_persistent: true,
        ..Default::default()
    };
    let file = folder.join("floor");
    let _ = std::fs::remove_file(&file);
    (
        Native::new(),
        Mapping::create(&file, FLOOR_BYTES, &options).expect("memory"),
    )
}

#[allow(clippy::too_many_lines)] // one table
pub fn measure(folder: &Path, peer: Peer, rounds: u64, figures: &mut Figures) {
    let (pm, map) = floors(folder);
    let lines = map.bytes() / 64;
    let mut next = 0;
    let mut line = move || {
        next = (next + 1) % lines;
        map.base().wrapping_add(next * 64).cast::<u64>()
    };
    let mut line_again = {
        let (_, map) = floors(&folder.join("third"));
        let mut next = 0;
        move || {
            next = (next + 1) % (map.bytes() / 64);
            map.base().wrapping_add(next * 64).cast::<u64>()
        }
    };
    let mut redo = place::<FocRedo>(folder);
    let mut undo = place::<FocUndo>(folder);
    let mut other = place::<FocRedo>(&folder.join("second"));
    // In the cache, as the floors' lines are: what the code takes, without the misses of a large table.
    let mut table = place_of::<FocRedo>(&folder.join("fourth"), SMALL_ENTRIES);
    table.insert(0, SMALL_ENTRIES);
    let (mut swaps, mut pairs) = (
        place::<FocUndo>(&folder.join("second")),
        place::<FocRedo>(&folder.join("third")),
    );
    let mut line_too = {
        let (_, map) = floors(&folder.join("second"));
        let mut next = 0;
        move || {
            next = (next + 1) % (map.bytes() / 64);
            map.base().wrapping_add(next * 64).cast::<u64>()
        }
    };
    // SAFETY (of the blocks below): lines of mappings that the closures own; the peer's functions
    // are as bench/peer.h has them.
    let mut contenders = [
        Contender {
            name: "floor_nt",
            batch: Box::new(|count| {
                for value in 0..count {
                    // SAFETY: see above.
                    unsafe { pm.stream_line(line(), &[value; 8]) };
                    pm.fence();
                }
            }),
        },
        Contender {
            name: "floor_nt_two",
            batch: Box::new(|count| {
                for value in 0..count {
                    for _ in 0..2 {
                        // SAFETY: see above.
                        unsafe { pm.stream_line(line_again(), &[value; 8]) };
                    }
                    pm.fence();
                }
            }),
        },
        Contender {
            name: "floor_clwb",
            batch: Box::new(|count| {
                for value in 0..count {
                    let at = line_too();
                    // SAFETY: see above.
                    unsafe {
                        pm.store(at, value);
                        pm.flush(at.cast());
                    }
                    pm.fence();
                }
            }),
        },
        Contender {
            name: "set_redo",
            batch: Box::new(|count| redo.set(count)),
        },
        Contender {
            name: "set_undo",
            batch: Box::new(|count| undo.set(count)),
        },
        Contender {
            name: "set_pmdk",
            batch: Box::new(|count| {
                for value in 0..count {
                    // SAFETY: see above.
                    assert_eq!(unsafe { (peer.set)(value) }, 0);
                }
            }),
        },
        Contender {
            name: "swap_undo",
            batch: Box::new(|count| swaps.swap(count)),
        },
        Contender {
            name: "swap_redo",
            batch: Box::new(|count| other.swap(count)),
        },
        Contender {
            name: "swap_pmdk",
            batch: Box::new(|count| {
                for _ in 0..count {
                    // SAFETY: see above.
                    assert_eq!(unsafe { (peer.swap)() }, 0);
                }
            }),
        },
        Contender {
            name: "alloc_free",
            batch: Box::new(|count| pairs.alloc_free(count)),
        },
        Contender {
            name: "alloc_free_pmdk",
            batch: Box::new(|count| {
                for _ in 0..count {
                    // SAFETY: see above.
                    assert_eq!(unsafe { (peer.alloc_free)(OBJECT_BYTES as usize) }, 0);
                }
            }),
        },
        Contender {
            name: "update_small",
            batch: Box::new(|count| {
                let map = table.table;
                for key in 0..count / 2 {
                    table
                        .session
                        .run(|tx| map.remove(tx, &key))
                        .expect("remove");
                    table
                        .session
                        .run(|tx| map.insert(tx, key, key))
                        .expect("insert");
                }
            }),
        },
    ];
    let times = run(&mut contenders, rounds, BATCH);
    for (contender, times) in contenders.iter().zip(&times) {
        figures.add(&format!("{}_ns", contender.name), "ns", times);
    }
    let of = |name: &str| {
        let place = contenders.iter().position(|one| one.name == name);
        &times[place.expect("a contender")]
    };
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a + b).collect::<Vec<_>>();
    let (one, two) = (of("floor_nt"), of("floor_nt_two"));
    figures.ratio("redo_vs_pmdk", of("set_pmdk"), of("set_redo"));
    figures.ratio("undo_vs_pmdk", of("set_pmdk"), of("set_undo"));
    figures.ratio("swap_vs_pmdk", of("swap_pmdk"), of("swap_undo"));
    figures.ratio(
        "alloc_free_vs_pmdk",
        of("alloc_free_pmdk"),
        of("alloc_free"),
    );
    figures.ratio("redo_vs_floor", of("set_redo"), one);
    figures.ratio("undo_vs_floor", of("set_undo"), &sum(one, one));
    figures.ratio("swap_vs_floor", of("swap_undo"), &sum(one, one));
    figures.ratio("alloc_free_vs_floor", of("alloc_free"), &sum(one, one));
    figures.ratio("update_small_vs_floor", of("update_small"), one);
    // Two operations: a removal has a record of one line, an insertion one of two.
    let pairs: Vec<f64> = of("update_small").iter().map(|ns| ns * 2.0).collect();
    figures.ratio("update_small_vs_floors", &pairs, &sum(one, two));
}

/// Write so many records of so many lines past the cache, and await each.
fn awaited(pm: &Native, map: &Mapping, first: u64, records: u64, lines: u64) {
    for record in first..first + records {
        for line in record * lines..(record + 1) * lines {
            let at = map.base().wrapping_add(line as usize * 64 % map.bytes());
            // SAFETY: a line of the mapping.
            unsafe { pm.stream_line(at.cast(), &[record; 8]) };
        }
        pm.fence();
    }
}

/// Insertions of new keys and their removal, in a table of 100,000 entries.
#[allow(clippy::too_many_lines)] // one table
pub fn measure_table(folder: &Path, peer: Peer, rounds: u64, figures: &mut Figures) {
    const BATCH: u64 = 100;
    const ENTRIES: u64 = 100_000;
    let (pm, map) = floors(folder);
    let mut redo = place::<FocRedo>(folder);
    let mut undo = place::<FocUndo>(folder);
    let mut stm = place::<FocStm>(folder);
    // The same table without any persistence.
    let mut fof = Library::new(BUCKETS, fof::local(folder));
    let mut least = Library::new(BUCKETS, fof::local(&folder.join("second")));
    for key in 0..ENTRIES {
        fof.insert(key);
        least.insert(key);
    }
    redo.insert(0, ENTRIES);
    undo.insert(0, ENTRIES);
    stm.insert(0, ENTRIES);
    for key in 0..ENTRIES {
        // SAFETY: as bench/peer.h has it.
        assert_eq!(unsafe { (peer.insert)(key, key) }, 0);
    }
    let mut times = vec![Vec::new(); 14];
    for round in 0..rounds {
        let from = ENTRIES + round * BATCH;
        let mut time = |place: usize, work: &mut dyn FnMut()| {
            let begin = Instant::now();
            work();
            times[place].push(begin.elapsed().as_nanos() as f64 / BATCH as f64);
        };
        time(8, &mut || awaited(&pm, &map, round * BATCH, BATCH, 1));
        time(11, &mut || awaited(&pm, &map, round * BATCH, BATCH, 2));
        time(9, &mut || {
            (from..from + BATCH).for_each(|key| fof.insert(key))
        });
        time(0, &mut || redo.insert(from, BATCH));
        time(12, &mut || {
            for key in from..from + BATCH {
                least.insert(key);
                awaited(&pm, &map, key, 1, 2);
            }
        });
        time(1, &mut || undo.insert(from, BATCH));
        time(2, &mut || stm.insert(from, BATCH));
        time(3, &mut || {
            for key in from..from + BATCH {
                // SAFETY: as bench/peer.h has it.
                assert_eq!(unsafe { (peer.insert)(key, key) }, 0);
            }
        });
        time(10, &mut || {
            (from..from + BATCH).for_each(|key| fof.remove(key))
        });
        time(4, &mut || redo.remove(from, BATCH));
        time(13, &mut || {
            for key in from..from + BATCH {
                least.remove(key);
                awaited(&pm, &map, key, 1, 1);
            }
        });
        time(5, &mut || undo.remove(from, BATCH));
        time(6, &mut || stm.remove(from, BATCH));
        time(7, &mut || {
            for key in from..from + BATCH {
                // SAFETY: as bench/peer.h has it.
                assert_eq!(unsafe { (peer.remove)(key) }, 0);
            }
        });
    }
    for (name, times) in [
        "insert_redo_ns",
        "insert_undo_ns",
        "insert_stm_ns",
        "insert_pmdk_ns",
        "remove_redo_ns",
        "remove_undo_ns",
        "remove_stm_ns",
        "remove_pmdk_ns",
        "cold_floor_nt_ns",
        "insert_fof_ns",
        "remove_fof_ns",
        "cold_floor_nt_two_ns",
        "insert_least_ns",
        "remove_least_ns",
    ]
    .into_iter()
    .zip(&times)
    {
        figures.add(name, "ns", times);
    }
    figures.ratio("insert_vs_pmdk", &times[3], &times[0]);
    figures.ratio("insert_undo_vs_pmdk", &times[3], &times[1]);
    figures.ratio("insert_stm_vs_pmdk", &times[3], &times[2]);
    figures.ratio("remove_vs_pmdk", &times[7], &times[4]);
    figures.ratio("insert_vs_floor", &times[0], &times[8]);
    figures.ratio("remove_vs_floor", &times[4], &times[8]);
    // The same operation without persistence, and a record as long as it needs, awaited: nothing that
    // outlives a cut can do with less, whatever misses the table costs.
    figures.ratio("insert_vs_least", &times[0], &times[12]);
    figures.ratio("remove_vs_least", &times[4], &times[13]);
    // What persistence adds to the same operation on the same structure without any.
    let over = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    figures.ratio(
        "insert_added_vs_floor",
        &over(&times[0], &times[9]),
        &times[11],
    );
    figures.ratio(
        "remove_added_vs_floor",
        &over(&times[4], &times[10]),
        &times[8],
    );
}

/// What a transaction costs that only reads.
pub fn measure_reads(folder: &Path, rounds: u64, figures: &mut Figures) {
    const KEYS: u64 = 2000;
    let mut redo = place::<FocRedo>(folder);
    let mut stm = place::<FocStm>(folder);
    let mut bare = place::<FocRedo>(&folder.join("second"));
    for table in [&mut redo, &mut bare] {
        table.insert(0, KEYS);
    }
    stm.insert(0, KEYS);
    let word = redo.words.cast::<u64>();
    let word_stm = stm.words.cast::<u64>();
    let word_bare = bare.words.cast::<u64>();
    let mut contenders = [
        Contender {
            name: "read_redo",
            batch: Box::new(|count| {
                for _ in 0..count {
                    black_box(
                        redo.session
                            .view(|tx| tx.get(black_box(word)))
                            .expect("get"),
                    );
                }
            }),
        },
        Contender {
            name: "read_stm",
            batch: Box::new(|count| {
                for _ in 0..count {
                    black_box(
                        stm.session
                            .view(|tx| tx.get(black_box(word_stm)))
                            .expect("get"),
                    );
                }
            }),
        },
        // The same reads, all in one transaction: none of its own for each.
        Contender {
            name: "read_none",
            batch: Box::new(|count| {
                bare.session
                    .view(|tx| {
                        for _ in 0..count {
                            black_box(tx.get(black_box(word_bare))?);
                        }
                        Ok(())
                    })
                    .expect("get");
            }),
        },
    ];
    let times = run(&mut contenders, rounds, 4000);
    for (contender, times) in contenders.iter().zip(&times) {
        figures.add(&format!("{}_ns", contender.name), "ns", times);
    }
    let over = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    figures.add("read_tx_over_none_ns", "ns", &over(&times[0], &times[2]));
    figures.add("read_stm_over_none_ns", "ns", &over(&times[1], &times[2]));
}
