// SPDX-License-Identifier: Apache-2.0 OR MIT
//! OFF2F: an ELF program as two files, ABC (header, data, relocation) for a disk and XYZ (text) for
//! NVRAM, from which the kernel module `binfmt_off2f` runs it in place.
//!
//! The bytes are those of `format/off2f.h`. Nothing here trusts its input: ELFs, ABCs and XYZs of
//! any content end in an answer or in an [`Failure`], never in a panic.
//!
//! ```
//! # fn main() -> Result<(), off2f::Failure> {
//! # let elf = std::fs::read("/proc/self/exe").expect("the test's own program");
//! let pair = off2f::convert(&elf, "/nvm/program.xyz")?;
//! let back = off2f::restore(&pair.abc, &pair.xyz_bytes())?;
//! assert_eq!(back, elf);
//! # Ok(())
//! # }
//! ```

mod attributes;
mod bind;
mod check;
mod convert;
mod error;
pub mod format;
mod names;
mod plan;
mod restore;
pub mod scan;
mod sections;
pub mod store;

pub use check::{check_abc, check_xyz, is_abc};
pub use convert::{Pair, convert};
pub use error::{Failure, Refusal};
pub use names::Names;
pub use plan::Plan;
pub use restore::restore;
