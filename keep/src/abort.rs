// SPDX-License-Identifier: Apache-2.0 OR MIT
//! After a save the power is back, or no new kernel came: the image is closed, programs go on.

use remanence_vm::image;
use remanence_vm::record::Record;

use crate::device::Device;
use crate::dump::{give_back, thaw};
use crate::fault::{Fault, at};
use crate::hold::Hold;
use crate::images;
use crate::save::Caller;
use crate::state::Saved;

/// Lets all programs go on.
///
/// # Errors
/// If the image cannot be closed; then none goes on. If one does not go on; then others do.
pub fn abort(caller: &Caller) -> Result<(), Fault> {
    let _lock = caller.state.lock("lock")?;
    let Some(saved) = caller.saved()? else {
        return Err(Fault::new("nothing is saved: all programs run"));
    };
    let device = Device::open()?;
    let record = Record::on(&device);
    let closed = image::give_up(&record, saved.sequence);
    closed.map_err(at("closing the image; programs stay frozen"))?;
    let mut stuck = Saved {
        programs: Vec::new(),
        taken: Vec::new(),
        ..saved
    };
    let mut first = Ok(());
    for program in saved.programs {
        let hold = caller.state.path(&format!("{}.hold", program.name));
        if let Err(fault) = thaw(&program.name, program.process, Hold::connect(&hold)) {
            stuck.programs.push(program);
            first = first.and(Err(fault));
        }
    }
    give_back(&device, &saved.taken)?;
    if stuck.programs.is_empty() {
        device.unpin()?;
        caller.state.remove("saved.json")?;
        images::remove_all(&caller.config.folder)?;
    } else {
        caller.state.write("saved.json", &stuck)?;
    }
    first
}
