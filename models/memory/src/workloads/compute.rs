// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels that compute: cryptography, solvers, STREAM.

use super::Thread;

const MIB: u64 = 1 << 20;

/// Message in, message out, four tables of 1 KiB.
pub(super) fn aes(thread: &mut Thread<'_>) {
    let (tables, input, output) = (0, 16 * MIB, 32 * MIB);
    for block in 0..thread.accesses / 164 {
        let at = block * 16 % (8 * MIB);
        thread.load(input + at);
        thread.load(input + at + 8);
        for _ in 0..160 {
            let entry = thread.below(1024) * 4;
            thread.load(tables + entry);
            thread.work(2);
        }
        thread.store(output + at);
        thread.store(output + at + 8);
    }
}

/// 128 bytes a block, 80 rounds over a schedule on the stack.
pub(super) fn sha512(thread: &mut Thread<'_>) {
    let (stack, constants, input) = (0, 4096, 16 * MIB);
    for block in 0..thread.accesses / 340 {
        for word in 0..16 {
            thread.load(input + (block * 128 + word * 8) % (16 * MIB));
            thread.store(stack + word * 8);
        }
        for round in 0..80 {
            thread.load(constants + round * 8);
            thread.load(stack + round % 16 * 8);
            thread.store(stack + round % 16 * 8);
            thread.work(20);
        }
        for word in 0..8 {
            thread.store(stack + 1024 + word * 8);
        }
    }
}

/// y = A x by rows, dot products, and three vector updates.
pub(super) fn conjugate_gradients(thread: &mut Thread<'_>) {
    let side = 40_u64;
    let rows = side * side * side;
    let (values, columns, x, y, r) = (0, 32 * MIB, 64 * MIB, 72 * MIB, 80 * MIB);
    let each = 27 * 3 + 8;
    let mut left = thread.accesses / each;
    while left > 0 {
        for row in thread.share(rows) {
            for near in 0..27 {
                let column = row + near % 3 + near / 3 % 3 * side + near / 9 * side * side;
                thread.load(values + (row * 27 + near) * 8);
                thread.load(columns + (row * 27 + near) * 4);
                thread.load(x + column % rows * 8);
                thread.work(2);
            }
            thread.store(y + row * 8);
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
        }
        for row in thread.share(rows) {
            for array in [x, y, r] {
                thread.load(array + row * 8);
            }
            thread.store(x + row * 8);
            thread.store(r + row * 8);
            thread.work(6);
        }
    }
}

/// Smooth, restrict, and back; levels halve.
pub(super) fn multigrid(thread: &mut Thread<'_>) {
    let sides = [64_u64, 32, 16, 8];
    let mut left = thread.accesses;
    while left > 0 {
        for (level, side) in sides.iter().chain(sides.iter().rev()).enumerate() {
            let cells = side * side * side;
            let base = (level % 4) as u64 * 16 * MIB;
            for cell in thread.share(cells) {
                for near in [0, 1, *side, side * side] {
                    thread.load(base + (cell + near) % cells * 8);
                    thread.load(base + 8 * MIB + (cell + cells - near) % cells * 8);
                }
                thread.store(base + cell * 8);
                thread.work(8);
                left = left.saturating_sub(9);
            }
            if left == 0 {
                return;
            }
        }
    }
}

/// Angular flux of the upstream faces, written for the next cell.
pub(super) fn sweep(thread: &mut Thread<'_>) {
    let (cells, angles) = (32_768, 8);
    let (psi, flux, source) = (0, 64 * MIB, 96 * MIB);
    let mut left = thread.accesses / 40;
    while left > 0 {
        for cell in thread.share(cells) {
            thread.load(source + cell * 8);
            for angle in 0..angles {
                for upstream in [1, 32, 1024] {
                    let from = (cell + cells - upstream) % cells;
                    thread.load(psi + (from * angles + angle) * 8);
                }
                thread.store(psi + (cell * angles + angle) * 8);
                thread.work(12);
            }
            thread.load(flux + cell * 8);
            thread.store(flux + cell * 8);
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
        }
    }
}

fn stream(thread: &mut Thread<'_>, from: &[u64], to: u64) {
    let elements = MIB; // 8 MiB an array
    let mut left = thread.accesses / (from.len() as u64 + 1);
    while left > 0 {
        for index in thread.share(elements) {
            for array in from {
                thread.load(array * 16 * MIB + index * 8);
            }
            thread.work(from.len() as u64 + 1);
            thread.store(to * 16 * MIB + index * 8);
            left = left.saturating_sub(1);
            if left == 0 {
                return;
            }
        }
    }
}

pub(super) fn stream_copy(thread: &mut Thread<'_>) {
    stream(thread, &[0], 2);
}
pub(super) fn stream_scale(thread: &mut Thread<'_>) {
    stream(thread, &[2], 1);
}
pub(super) fn stream_add(thread: &mut Thread<'_>) {
    stream(thread, &[0, 1], 2);
}
pub(super) fn stream_triad(thread: &mut Thread<'_>) {
    stream(thread, &[1, 2], 0);
}
