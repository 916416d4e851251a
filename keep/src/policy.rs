// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of a program, and of all that descend from it, comes from the range's node.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

const MASK_WORDS: usize = 16; // the kernel's MAX_NUMNODES is 1024
const MASK_BITS: u32 = usize::BITS * 16;
const MPOL_BIND: libc::c_int = 2;

/// The command's process has no memory of other nodes. A kernel without nodes has no such policy.
pub fn bind(command: &mut Command, node: u32) {
    let bind = move || {
        let mut mask = [0usize; MASK_WORDS];
        let Some(word) = mask.get_mut((node / usize::BITS) as usize) else {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        };
        *word = 1 << (node % usize::BITS);
        // The kernel takes one bit less than it is told.
        let bits = libc::c_ulong::from(MASK_BITS) + 1;
        // SAFETY: the kernel reads MASK_BITS bits of the mask, which has as many.
        let done =
            unsafe { libc::syscall(libc::SYS_set_mempolicy, MPOL_BIND, mask.as_ptr(), bits) };
        match (done, io::Error::last_os_error()) {
            (0, _) => Ok(()),
            (_, error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
            (_, error) => Err(error),
        }
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(bind) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a program's memory is bound, and a node that is not there is an error.
    #[test]
    fn a_program_is_bound() {
        let mut show = Command::new("cat");
        bind(show.arg("/proc/self/numa_maps"), 0);
        let Ok(found) = show.output() else {
            panic!("node 0 is always there");
        };
        let text = String::from_utf8_lossy(&found.stdout);
        assert!(text.is_empty() || text.contains("bind:0"), "{text}");
        if !text.is_empty() {
            let mut show = Command::new("true");
            bind(&mut show, 1023);
            show.output().unwrap_err();
        }
    }
}
