// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes a library of the crate's sources and the patches in this folder.

fn main() {
    remanence_planted::series::build("../..");
}
