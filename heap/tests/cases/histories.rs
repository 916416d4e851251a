// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Drawn histories of the world of words and objects (`nvheap::testing::Op`): bodies that abort, panic
//! or have parts, that run transactions of another session, or ask their own for one; objects of
//! mebibytes; closings, after which the allocator has not looked at all chunks.

use std::ops::Range;

use nvheap::Policy;
use nvheap::testing::{Broken, Op, Scenario, Trial};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

const REGION_BYTES: u64 = 8 << 20;
const CHUNK_WORDS: u64 = 0x10000 / 8;
/// Chunks that the allocator looks at in one go.
const LOOK_CHUNKS: u64 = 64;

/// Where a session works.
#[derive(Clone, Debug)]
struct Own {
    words: Range<usize>,
    places: Range<usize>,
}

/// Objects in the record, past the log, and of some chunks; few enough that all fit.
fn step(own: &Own) -> impl Strategy<Value = Op> + use<> {
    let word = own.words.clone();
    let place = own.places.clone();
    let words = prop_oneof![3 => 2_u64..60, 1 => 520_u64..600];
    prop_oneof![
        2 => (word.clone(), 0_u64..1000).prop_map(|(word, value)| Op::Set(word, value)),
        2 => (word.clone(), 1_u64..9).prop_map(|(word, value)| Op::Add(word, value)),
        1 => (word.clone(), word).prop_map(|(a, b)| Op::Swap(a, b)),
        3 => (place.clone(), words, 0_u64..1000).prop_map(|(place, words, value)| {
            Op::Put(place, words, value)
        }),
        3 => (place.clone(), 1..=6 * CHUNK_WORDS, 0_u64..1000).prop_map(|(place, words, value)| {
            // Less than a chunk is an object of a slab, or has a content.
            Op::Room(place, words.max(CHUNK_WORDS), value)
        }),
        2 => (place.clone(), 0_u64..1000).prop_map(|(place, value)| Op::Touch(place, value)),
        3 => place.prop_map(Op::Drop),
    ]
}

fn steps(own: &Own, most: usize) -> impl Strategy<Value = Vec<Op>> + use<> {
    prop::collection::vec(step(own), 1..=most)
}

/// What one session does alone.
fn alone(own: &Own) -> impl Strategy<Value = Op> + use<> {
    let part = (steps(own, 1), steps(own, 2), any::<bool>()).prop_map(|(mut ops, part, panics)| {
        ops.push(if panics {
            Op::PanicInPart(part)
        } else {
            Op::Undone(part)
        });
        Op::All(ops)
    });
    prop_oneof![
        6 => steps(own, 4).prop_map(Op::All),
        1 => steps(own, 4).prop_map(Op::Abort),
        1 => steps(own, 4).prop_map(Op::Panic),
        2 => part,
        1 => Just(Op::Reopen),
    ]
}

/// What a session does while another one does something: before that it locks nothing.
fn beside(own: &Own, other: &Own) -> impl Strategy<Value = Op> + use<> {
    let first = step(own).prop_filter("it locks nothing", |op| {
        matches!(op, Op::Set(..) | Op::Add(..) | Op::Swap(..))
    });
    (first, steps(other, 2), steps(own, 2)).prop_map(|(first, other, rest)| {
        let mut ops = vec![first, Op::Beside(other)];
        ops.extend(rest);
        Op::All(ops)
    })
}

/// Of two sessions; they share words and objects where transactions are isolated.
fn of_two(isolated: bool) -> impl Strategy<Value = Vec<Op>> {
    let all = Own {
        words: 0..4,
        places: 1..4,
    };
    let (own, other) = if isolated {
        (all.clone(), all.clone())
    } else {
        let other = Own {
            words: 2..4,
            places: 3..4,
        };
        let own = Own {
            words: 0..2,
            places: 1..3,
        };
        (own, other)
    };
    let look = steps(&all, 2).prop_map(Op::Look);
    let op = prop_oneof![4 => alone(&all), 3 => beside(&own, &other), 1 => look];
    prop::collection::vec(op, 1..8)
}

/// Of a session that is used as by C, which has no parts, and whose panics end the process.
fn of_one_by_pointer() -> impl Strategy<Value = Vec<Op>> {
    let all = Own {
        words: 0..4,
        places: 1..4,
    };
    let again =
        (steps(&all, 2), steps(&all, 2), steps(&all, 2)).prop_map(|(mut ops, within, rest)| {
            ops.push(Op::Again(within));
            ops.extend(rest);
            Op::All(ops)
        });
    let op = prop_oneof![
        3 => steps(&all, 4).prop_map(Op::All),
        1 => steps(&all, 4).prop_map(Op::Abort),
        2 => again,
        1 => Just(Op::Reopen),
    ];
    prop::collection::vec(op, 1..8)
}

/// Objects before the history, so that it works where the first look of the allocator ends.
fn before() -> impl Strategy<Value = Vec<Op>> {
    let room = |place, chunks: u64| Op::Room(place, chunks * CHUNK_WORDS, 7);
    (0..LOOK_CHUNKS, 1_u64..5, 1_u64..5, any::<bool>()).prop_map(
        move |(first, second, third, drop)| {
            let mut ops = vec![Op::Set(0, 1)];
            if first > LOOK_CHUNKS / 2 {
                ops.extend([room(0, first), room(1, second), room(2, third)]);
            }
            if drop {
                ops.push(Op::Drop(1));
            }
            ops
        },
    )
}

/// A history for a policy.
pub fn history<P: Policy>() -> impl Strategy<Value = Scenario> {
    let isolated = P::KIND.is_isolated();
    let scenario = |(before, ops)| Scenario::new("drawn", REGION_BYTES, before, ops);
    prop_oneof![
        3 => (before(), of_two(isolated)).prop_map(scenario),
        1 => (before(), of_one_by_pointer()).prop_map(move |it| scenario(it).by_pointer()),
    ]
}

/// What is wrong with some of its states.
pub fn broken<P: Policy>(history: &Scenario) -> Option<Broken> {
    let trial = Trial {
        redo_lines: 64,
        undo_lines: 64,
        limits: Trial::limits(16, 2),
        ..Trial::default()
    };
    history.run::<P>(&trial).failure
}

/// The first that is wrong of so many, which are always the same.
#[allow(dead_code, reason = "only planted bugs are expected to be found")]
pub fn drawn<P: Policy>(count: usize) -> impl Iterator<Item = Option<Broken>> {
    let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), same);
    let strategy = history::<P>();
    (0..count).map(move |_| match strategy.new_tree(&mut runner) {
        Ok(tree) => broken::<P>(&tree.current()),
        Err(reason) => panic!("{reason}"),
    })
}
