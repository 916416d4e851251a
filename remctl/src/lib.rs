// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an administrator of an installed server does: sees how Remanence is, writes the image that
//! firmware starts, installs it on the EFI system partition, removes it, stops the machine, watches its supply.

pub mod boot_entry;
pub mod bytes;
pub mod bzimage;
pub mod cmdline;
pub mod efi;
pub mod esp;
pub mod fault;
pub mod firmware;
pub mod health;
pub mod install;
pub mod metrics;
pub mod pe;
pub mod remove;
pub mod sign;
pub mod status;
pub mod step;
pub mod stop;
pub mod system;
pub mod text;
pub mod unified;
pub mod version;
pub mod wake;
pub mod whole;
