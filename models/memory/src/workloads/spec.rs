// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels in place of those of SPEC CPU2006.

use super::Thread;

const MIB: u64 = 1 << 20;

/// A text is read byte by byte; each word is looked up in a chained hash.
pub(super) fn words(thread: &mut Thread<'_>) {
    let (text, buckets, nodes, stack) = (0, 32 * MIB, 40 * MIB, 1 << 27);
    let mut at = 0;
    for _ in 0..thread.accesses / 24 {
        for letter in 0..8 {
            thread.load(text + (at + letter) % (16 * MIB));
            thread.load(stack + letter * 8);
            thread.store(stack + letter * 8);
            thread.work(4);
        }
        at += 8;
        let word = thread.below(1 << 15);
        thread.load(buckets + word * 8);
        for link in 0..1 + thread.below(3) {
            thread.load(nodes + (word * 7 + link * 9973) % (1 << 17) * 64);
            thread.work(6);
        }
        if thread.below(4) == 0 {
            thread.store(nodes + word * 7 % (1 << 17) * 64 + 32);
        }
    }
}

/// Counting sort of a block by its bytes, then one list that moves to front.
pub(super) fn block_sort(thread: &mut Thread<'_>) {
    let (block, pointers, counts, list) = (0, 16 * MIB, 32 * MIB, 33 * MIB);
    let bytes = 900 * 1024;
    for index in 0..thread.accesses / 12 {
        let at = index % bytes;
        thread.load(block + at);
        let symbol = thread.below(256);
        thread.load(counts + symbol * 4);
        thread.store(counts + symbol * 4);
        let to = (symbol * 3600 + thread.below(3600)) % bytes;
        thread.store(pointers + to * 4);
        thread.work(6);
        for step in 0..thread.below(8) {
            thread.load(list + step);
            thread.store(list + step);
        }
        let from = thread.below(bytes);
        thread.load(block + from);
    }
}

/// Nodes of 64 bytes are taken from a heap, linked, walked, changed.
pub(super) fn trees(thread: &mut Thread<'_>) {
    let (nodes, count, stack) = (0, 1 << 17, 1 << 27);
    for index in 0..thread.accesses / 40 {
        let node = index * 5 % count;
        thread.store(nodes + node * 64);
        thread.store(nodes + node * 64 + 16);
        let mut at = thread.below(count);
        for depth in 0..10 {
            thread.load(nodes + at * 64);
            thread.store(stack + depth * 16);
            thread.load(stack + depth * 16);
            thread.work(10);
            at = (at * 2 + thread.below(2)) % count;
        }
        if thread.below(3) == 0 {
            thread.store(nodes + at * 64 + 24);
        }
    }
}

/// Each arc is read with both of its nodes; few arcs enter the basis.
pub(super) fn network(thread: &mut Thread<'_>) {
    let (arcs, nodes, stack) = (0, 64 * MIB, 1 << 27);
    for index in 0..thread.accesses / 5 {
        thread.load(arcs + index * 64 % (64 * MIB));
        let (tail, head) = (thread.below(1 << 16), thread.below(1 << 16));
        thread.load(nodes + tail * 128);
        thread.load(nodes + head * 128);
        thread.work(8);
        thread.store(stack + index % 64 * 8);
        if thread.below(256) == 0 {
            thread.store(nodes + tail * 128 + 8);
        }
    }
}

/// A front of cells: neighbours are marked and priced, the list is a heap.
pub(super) fn grid_paths(thread: &mut Thread<'_>) {
    let (cells, heap, side) = (0, 64 * MIB, 1024);
    let mut at = 512 * side + 512;
    for _ in 0..thread.accesses / 26 {
        for step in [1, side, side * side - 1, side * side - side] {
            let near = (at + step) % (side * side);
            thread.load(cells + near * 16);
            thread.store(cells + near * 16 + 8);
            thread.work(4);
        }
        let mut slot = 1 + thread.below(1 << 15);
        while slot > 1 {
            thread.load(heap + slot * 16);
            thread.store(heap + slot * 16);
            slot /= 2;
            if thread.below(3) == 0 {
                break;
            }
        }
        at = if thread.below(8) == 0 {
            thread.below(side * side)
        } else {
            (at + thread.below(3) * side + 1) % (side * side)
        };
    }
}

fn stencil(thread: &mut Thread<'_>, side: u64, fields: u64, outputs: u64, work: u64) {
    let cells = side * side * side;
    let bytes = (cells * 8).next_multiple_of(4096) + 832; // fields do not share sets
    let mut left = thread.accesses / (fields * 3 + outputs);
    loop {
        for cell in 0..cells {
            for field in 0..fields {
                for near in [0, side, side * side] {
                    thread.load(field * bytes + (cell + near) % cells * 8);
                }
            }
            thread.work(work);
            for field in 0..outputs {
                thread.store((fields + field) * bytes + cell * 8);
            }
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
        }
    }
}

/// Nine fields are read for two that are written.
pub(super) fn fields(thread: &mut Thread<'_>) {
    stencil(thread, 48, 9, 2, 60);
}

/// What a step writes, the next one reads first: levels of the atmosphere.
pub(super) fn weather(thread: &mut Thread<'_>) {
    let (cells, levels) = (1 << 12, 4);
    let mut left = thread.accesses / 8;
    let mut step = 0;
    while left > 0 {
        for level in 0..levels {
            let (from, to) = ((step % 2) * 16 * MIB, (1 - step % 2) * 16 * MIB);
            for cell in 0..cells {
                let at = (level * cells + cell) * 8;
                for near in [0, 8, 512, 520] {
                    thread.load(from + at + near);
                }
                thread.load(to + at);
                thread.store(to + at);
                thread.store(32 * MIB + at);
                thread.work(16);
                left = left.saturating_sub(1);
                if left == 0 {
                    return;
                }
            }
        }
        step += 1;
    }
}

/// Local matrices of elements are added to a sparse one, which is then multiplied.
pub(super) fn assembly(thread: &mut Thread<'_>) {
    let (matrix, columns, x, y) = (0, 48 * MIB, 80 * MIB, 96 * MIB);
    let rows = 1 << 16;
    for element in 0..thread.accesses / 200 {
        for i in 0..8 {
            let row = (element * 3 + i * 257) % rows;
            for j in 0..8 {
                thread.load(columns + (row * 27 + j * 3) * 4);
                thread.work(6);
            }
            let j = thread.below(27);
            thread.load(matrix + (row * 27 + j) * 8);
            thread.store(matrix + (row * 27 + j) * 8);
        }
        for j in 0..108 {
            thread.load(matrix + (element * 108 + j) % (rows * 27) * 8);
            let column = thread.below(rows);
            if j % 9 == 0 {
                thread.load(x + column * 8);
            }
        }
        thread.store(y + element % rows * 8);
    }
}
