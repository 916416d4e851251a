// SPDX-License-Identifier: GPL-2.0-or-later
//! A QEMU TCG plugin (API v4, QEMU 10.0) that counts the instructions of each
//! vCPU and can cut the machine's power at an exact one.
//!
//! ```text
//! qemu-system-x86_64 ... -plugin libremanence_plugin.so,ctl=FILE,count=on,cut=on,\
//!     pc=0x100000,out=0x2f8:0x7e,user=on
//! ```
//!
//! Everything is off by default:
//!
//! | argument | what it does |
//! |---|---|
//! | `ctl=FILE` | the control file (`format/rem_plugin_ctl.h`); required |
//! | `count=on` | one inline counter for each vCPU |
//! | `cut=on` | a fuse for each vCPU, for `ARM_CUT`, `ARM_CUT_AT` and `ARM_HOLD_UP`; implies `count` |
//! | `quantum=N` | under icount, a vCPU's turn ends after N instructions, and during a hold-up the kernel address at its end is logged; implies `cut` |
//! | `pc=ADDRESS` | a mark: about to execute there (may be repeated) |
//! | `out=PORT:BYTE` | x86: a mark: about to write that byte to that port (may be repeated) |
//! | `stopped=ADDRESS` | a mark: about to execute there, and to report that the machine has stopped |
//! | `user=on` | a mark: about to execute in a user program |
//! | `cache=PROFILE` | volatile caches before NVRAM, which is the file `memory=` at `base=`; lines that are written back go to the file `media=`; icount only |
//! | `record=DIR` | with caches: writes the recording there (`format/rem_recording.h`) |
//! | `trace=FILE` | with caches: where `TRACE` writes the memory requests (`format/rem_trace.h`); loads are traced, too |
//! | `writers=FILE` | with caches: the last store to each line (`format/rem_writers.h`) |
//! | `flushes=FILE` | with caches: in a hold-up, how many lines were left before and after each WBINVD; text |
//! | `disklog=FILE`, `console=FILE` | with `record=`: records the size of the write log of the next disk, and of the console's log |
//! | `controller=NAME` | with caches: the memory controller that serves them, whose times guest time follows; loads are modelled |
//! | `skip=BYTES` | with caches: both files begin so far before `base=`; what is there is firmware's, and is lost |
//! | `begin=HEX` | x86, icount only: nothing of the above before code with these bytes is executed, and again after a reset; until then firmware runs, in which PAUSE takes 10 us |
//! | `loads=on` | with caches: loads are modelled always, not only while something is armed |
//!
//! Invariants:
//! - Only translated code of its own vCPU adds to a counter.
//! - A fuse is set only while the VM is stopped or by a callback of its own vCPU,
//!   since translated code reads, changes and writes it without a lock.
//! - Only `controller=` moves guest time. Only INVD writes guest memory: it restores the content of media.
//!
//! Marks are numbered in the order of the arguments. `args`, `budget`, `decode`
//! and the layout in `control` are pure and tested natively; what calls QEMU is
//! tested by running a bare-metal guest (`tests/bare_metal.rs`).

mod args;
mod budget;
mod caching;
mod clock;
mod code;
mod command;
mod control;
mod controlled;
mod cut;
mod decode;
mod decode_cache;
mod decode_riscv;
mod firmware;
mod flush;
mod guest_time;
mod install;
mod instrument;
mod isa;
mod mapped;
mod memories;
mod parallel;
mod qemu;
mod recorder;
mod timing;
mod traced;
mod writers;
