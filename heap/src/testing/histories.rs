// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The histories that every policy must survive.

use crate::layout::CHUNK_BYTES;
use crate::testing::{Op, Scenario};

const CHUNK_WORDS: u64 = CHUNK_BYTES / 8;

/// The histories.
#[must_use]
#[allow(clippy::too_many_lines)] // one table
pub fn scenarios() -> Vec<Scenario> {
    use Op::{
        Abort, Add, Again, All, Beside, Drop, Look, Panic, PanicInPart, Put, Reopen, Room, Set,
        Swap, Touch, Undone,
    };
    let small = |name, before, ops| Scenario {
        exhaustive: true,
        ..Scenario::new(name, 0, before, ops)
    };
    let long = |name, before, ops| Scenario::new(name, 1 << 19, before, ops);
    let large = |name, before, ops| Scenario::new(name, 6 << 20, before, ops);
    vec![
        small(
            "swap",
            vec![Set(0, 1), Set(1, 2)],
            vec![Swap(0, 1), Set(2, 3)],
        ),
        small(
            "abort",
            vec![Set(0, 1)],
            vec![Abort(vec![Set(0, 5)]), Set(0, 7)],
        ),
        // The session goes on after a panic, and what it had changed must not come with the next commit.
        small(
            "panic",
            vec![Set(0, 1)],
            vec![Panic(vec![Set(0, 5), Set(1, 5)]), Set(2, 7)],
        ),
        long(
            "panic with objects",
            vec![Put(0, 2, 50), Put(1, 70, 500)],
            vec![
                Panic(vec![Drop(0), Put(2, 2, 60), Put(3, 70, 900), Touch(3, 9)]),
                Set(0, 1),
                Put(2, 2, 20),
                Put(3, 70, 100),
                All(vec![
                    Set(1, 4),
                    PanicInPart(vec![Set(1, 9), Drop(1), Put(0, 2, 90)]),
                    Put(0, 2, 30),
                ]),
            ],
        ),
        small("free", vec![Put(0, 2, 50)], vec![Drop(0)]),
        long("allocate", vec![Put(3, 2, 9)], vec![Put(0, 2, 50)]),
        long(
            "exchange",
            vec![Put(0, 2, 50)],
            vec![Put(0, 2, 60), Put(1, 4, 70), Drop(0), Put(2, 2, 80)],
        ),
        long(
            "several at once",
            vec![Put(0, 2, 50), Set(3, 4)],
            vec![
                All(vec![
                    Set(0, 1),
                    Set(1, 2),
                    Set(0, 3),
                    Put(1, 3, 30),
                    Drop(0),
                    Swap(0, 3)
                ]);
                2
            ],
        ),
        long(
            "nested",
            vec![Put(0, 2, 50)],
            vec![All(vec![
                Set(0, 1),
                Undone(vec![Set(0, 9), Set(1, 9), Drop(0), Put(1, 2, 90)]),
                Put(2, 2, 20),
            ])],
        ),
        // A part that fails has changed objects that the transaction made before it: in the record, past
        // the log, and past it under transactional memory.
        long(
            "nested over new objects",
            vec![Put(0, 2, 50)],
            vec![All(vec![
                Put(0, 2, 60),
                Put(1, 70, 500),
                Put(2, 520, 3000),
                Touch(1, 7),
                Undone(vec![
                    Touch(0, 9),
                    Touch(1, 9),
                    Touch(2, 9),
                    Undone(vec![Touch(1, 10)]),
                    Touch(1, 11),
                    Drop(0),
                ]),
                PanicInPart(vec![Touch(2, 8), Put(3, 70, 7), Touch(3, 1)]),
                Set(0, 6),
            ])],
        ),
        long(
            "past the log",
            vec![Put(0, 2, 50)],
            vec![
                Put(1, 70, 500),
                Drop(1),
                Put(2, 70, 900),
                Drop(2),
                Put(1, 70, 100),
                Set(0, 1),
            ],
        ),
        // The record of the last word is older than the object that comes to lie there.
        long(
            "written past the log where records point",
            vec![Put(3, 70, 1)],
            vec![
                Put(0, 70, 500),
                Touch(0, 9),
                Drop(0),
                Put(1, 70, 900),
                Set(0, 1),
            ],
        ),
        // A large object's chunks after a slab's and the reverse; old records meet new maps.
        long(
            "slabs where objects were",
            vec![],
            vec![
                Put(0, 8300, 7),
                Set(1, 1),
                Drop(0),
                Put(1, 30, 11),
                Put(2, 60, 22),
                Drop(1),
                Set(0, 4),
            ],
        ),
        long(
            "many",
            vec![],
            (0..40)
                .map(|n| All(vec![Set(n % 4, n as u64), Swap(0, 1)]))
                .collect(),
        ),
        long(
            "many objects",
            vec![],
            (0..40)
                .map(|n| {
                    if n % 3 == 2 {
                        Drop(n % 4)
                    } else {
                        Put(n % 4, 2 + n as u64 % 3, n as u64 * 10)
                    }
                })
                .collect(),
        ),
        Scenario {
            recover_again: true,
            ..Scenario::new(
                "again",
                0,
                vec![Set(0, 1), Put(0, 2, 50)],
                vec![
                    All(vec![
                        Set(0, 5),
                        Set(1, 6),
                        Set(2, 7),
                        Put(0, 2, 60),
                        Set(3, 8),
                    ]),
                    Set(0, 2),
                ],
            )
        },
        // A body that asks its session for a transaction does not commit what it has done so far.
        Scenario {
            by_pointer: true,
            ..long(
                "a transaction in a transaction",
                vec![Set(0, 1), Put(0, 2, 50)],
                vec![
                    All(vec![
                        Set(0, 5),
                        Put(1, 2, 60),
                        Again(vec![Set(1, 6)]),
                        Set(2, 7),
                    ]),
                    Set(3, 8),
                    All(vec![Again(vec![Put(2, 2, 70)]), Drop(0)]),
                    Add(3, 1),
                ],
            )
        },
        long(
            "a transaction of another session in a body",
            vec![Set(0, 1), Put(0, 2, 50)],
            vec![
                All(vec![
                    Add(0, 5),
                    Beside(vec![Set(2, 3), Put(2, 2, 60)]),
                    Put(1, 2, 90),
                    Drop(0),
                ]),
                Abort(vec![
                    Set(1, 5),
                    Beside(vec![Set(3, 4), Drop(2)]),
                    Put(0, 2, 30),
                ]),
                Panic(vec![Set(1, 5), Beside(vec![Add(3, 4)]), Put(0, 2, 30)]),
                Set(0, 2),
            ],
        ),
        // The allocator looks at 64 chunks at a time: the root's, 60, 3 that are free, and the freed
        // object is behind them.
        large(
            "free behind what was looked at",
            vec![
                Room(0, 60 * CHUNK_WORDS, 7),
                Room(1, 3 * CHUNK_WORDS, 17),
                Room(2, 4 * CHUNK_WORDS, 27),
                Drop(1),
            ],
            vec![
                Put(3, 12, 9),
                Drop(2),
                Room(1, 7 * CHUNK_WORDS, 37),
                Room(2, 16 * CHUNK_WORDS, 47),
            ],
        ),
        large(
            "closed and opened",
            vec![Room(0, 60 * CHUNK_WORDS, 7), Put(1, 12, 17)],
            vec![
                Room(2, 4 * CHUNK_WORDS, 27),
                Reopen,
                Drop(2),
                Put(3, 12, 9),
                Reopen,
                Drop(0),
                Room(2, 70 * CHUNK_WORDS, 37),
                Put(0, 30, 47),
            ],
        ),
        // The object's lines have all locks of transactional memory, also those of the words. Its place is
        // in another line than the word, so that only the lock can show that the word has changed.
        Scenario {
            isolated: true,
            ..large(
                "addition beside an object of all locks",
                vec![Set(0, 100)],
                vec![All(vec![
                    Add(0, 1),
                    Beside(vec![Add(0, 10)]),
                    Room(3, 64 * CHUNK_WORDS, 5),
                    Add(1, 1),
                ])],
            )
        },
        Scenario {
            isolated: true,
            ..large(
                "look beside objects of many locks",
                vec![Room(0, 16 * CHUNK_WORDS, 7), Put(1, 600, 17)],
                vec![
                    Look(vec![
                        Room(2, 40 * CHUNK_WORDS, 27),
                        Touch(0, 9),
                        Touch(1, 9),
                        Drop(0),
                    ]),
                    Look(vec![Drop(1), Put(3, 600, 37), Room(0, 4 * CHUNK_WORDS, 47)]),
                ],
            )
        },
    ]
}
