// SPDX-License-Identifier: GPL-2.0-or-later
//! A QEMU TCG plugin (API v4, QEMU 10.0) that counts the instructions of each
//! vCPU and can cut the machine's power at an exact one.
//!
//! ```text
//! qemu-system-x86_64 ... -plugin libremanence_plugin.so,ctl=FILE,count=on,cut=on,\
//!     pc=0x100000,out=0x2f8:0x7e,user=on
//! ```
//!
//! All of it is off unless asked for:
//!
//! | argument | what it does |
//! |---|---|
//! | `ctl=FILE` | the control file (`format/rem_plugin_ctl.h`); needed by all others |
//! | `count=on` | one inline counter for each vCPU |
//! | `cut=on` | a fuse for each vCPU, for `ARM_CUT`, `ARM_CUT_AT` and `ARM_HOLD_UP`; implies `count` |
//! | `quantum=N` | under icount, a vCPU's turn ends after N instructions, and during a hold-up it is noted where in the kernel; implies `cut` |
//! | `pc=ADDRESS` | a mark: about to execute there (may be repeated) |
//! | `out=PORT:BYTE` | a mark: about to write that byte to that port (may be repeated) |
//! | `user=on` | a mark: about to execute at CPL 3 |
//! | `cache=PROFILE` | volatile caches before NVRAM, which is the file `memory=` at `base=`; lines that are written back go to the file `media=`; icount only |
//! | `record=DIR` | with caches: writes the recording there (`format/rem_recording.h`) |
//! | `trace=FILE` | with caches: where `TRACE` writes what memory was asked for (`format/rem_trace.h`); it looks at loads, too |
//! | `writers=FILE` | with caches: who stored to each line last (`format/rem_writers.h`) |
//! | `flushes=FILE` | with caches: in a hold-up, how many lines were left before and after each WBINVD; text |
//! | `disklog=FILE`, `said=FILE` | with `record=`: how far the write log of the next disk is, and the console's log, gets into it |
//! | `loads=on` | with caches: loads are looked at always, not only while something is armed |
//!
//! Invariants:
//! - Counters are only ever added to by translated code of their own vCPU.
//! - A fuse is set only while the VM is stopped or by a callback of its own vCPU,
//!   since translated code reads, changes and writes it without a lock.
//! - Nothing here moves guest time. Guest memory is not written, but by INVD, which makes it what media has.
//!
//! Marks are numbered in the order of the arguments. `args`, `budget`, `decode`
//! and the layout in `control` are pure and tested natively; what calls QEMU is
//! tested by running a bare-metal guest (`tests/bare_metal.rs`).

mod args;
mod budget;
mod caching;
mod clock;
mod command;
mod control;
mod cut;
mod decode;
mod decode_cache;
mod flush;
mod install;
mod instrument;
mod mapped;
mod memories;
mod parallel;
mod qemu;
mod recorder;
mod traced;
mod writers;
