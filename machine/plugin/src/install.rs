// SPDX-License-Identifier: GPL-2.0-or-later
//! Loading of the plugin: arguments, control file, callbacks.

use crate::args::{self, Mark};
use crate::caching::{self, Job};
use crate::clock::Clock;
use crate::code;
use crate::command;
use crate::control::{
    self, CPUS_MAX, CTL_BYTES, Ctl, JOB_CACHE, JOB_COUNT, JOB_CUT, MAGIC, VERSION,
};
use crate::cut::{PLUGIN, Plugin};
use crate::guest_time::Bias;
use crate::instrument;
use crate::isa::{Isa, isa};
use crate::mapped::map_shared;
use crate::parallel::Parallel;
use crate::qemu;
use libc::{c_char, c_int, c_uint};
use std::ffi::CStr;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU32, Ordering};

static CPUS_READY: AtomicU32 = AtomicU32::new(0);

/// QEMU's entry point. On error it prints a line on stderr and returns non-zero: QEMU exits.
///
/// # Safety
/// QEMU passes its own description and `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as for this function.
    match unsafe { install(id, info, argc, argv) } {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("remanence-plugin: {message}");
            -1
        }
    }
}

unsafe fn install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> Result<(), String> {
    let mut words = Vec::new();
    for index in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: argv holds argc C strings.
        let word = unsafe { CStr::from_ptr(*argv.add(index)) };
        words.push(word.to_string_lossy());
    }
    let plan = args::parse(words.iter().map(AsRef::as_ref)).map_err(|error| error.to_string())?;
    // SAFETY: QEMU passes a valid description.
    let (is_system, max_vcpus) = unsafe { ((*info).system_emulation, (*info).max_vcpus) };
    if !is_system {
        return Err("needs a whole system, not user emulation".to_owned());
    }
    // SAFETY: as above; the name is a C string.
    Isa::choose(unsafe { CStr::from_ptr((*info).target_name) }.to_bytes())?;
    let cpu_count = usize::try_from(max_vcpus).unwrap_or(0);
    if cpu_count == 0 || cpu_count > CPUS_MAX {
        return Err(format!(
            "{cpu_count} vCPUs: from 1 to {CPUS_MAX} can be counted"
        ));
    }

    let needs_parallel = cpu_count > 1 || plan.cache.is_some();
    if plan.count && needs_parallel && Parallel::find().is_none() {
        return Err(
            "this QEMU can neither count more than one vCPU nor have caches: \
            it does not export tcg_cpu_init_cflags and others"
                .to_owned(),
        );
    }
    if let Some(cache) = &plan.cache {
        Job::begin(cache, cpu_count)?;
    }
    let ctl = map(&plan.ctl_path)?;
    describe(ctl, &plan, cpu_count);
    let instruments = plan.count;
    let plugin = PLUGIN.get_or_init(|| Plugin::new(plan, ctl, cpu_count));
    spawn_server(plugin)?;
    // SAFETY: callbacks may be registered during installation.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, vcpu_ready);
        if instruments {
            qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, instrument::translate);
            qemu::qemu_plugin_register_flush_cb(id, flushed);
        }
    }
    Ok(())
}

/// Maps the control file, created if it is missing, and empties it.
fn map(path: &str) -> Result<&'static Ctl, String> {
    let refused = |error: std::io::Error| format!("control file {path}: {error}");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false) // the lab may have it mapped
        .mode(0o600)
        .open(path)
        .map_err(refused)?;
    file.set_len(CTL_BYTES as u64).map_err(refused)?;
    let page = map_shared(&file, 0, CTL_BYTES).map_err(refused)?;
    // SAFETY: the page is CTL_BYTES long, aligned, is never unmapped, and
    // every bit pattern is a valid Ctl, whose fields are all atomics.
    unsafe {
        page.write_bytes(0, CTL_BYTES);
        Ok(&*page.cast::<Ctl>())
    }
}

fn describe(ctl: &Ctl, plan: &args::Plan, cpu_count: usize) {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let mut jobs = 0;
    if plan.count {
        jobs |= JOB_COUNT;
    }
    if plan.cut {
        jobs |= JOB_CUT;
    }
    if plan.cache.is_some() {
        jobs |= JOB_CACHE;
    }
    ctl.version.store(VERSION, Ordering::Relaxed);
    ctl.cpu_count.store(number(cpu_count), Ordering::Relaxed);
    ctl.jobs.store(jobs, Ordering::Relaxed);
    ctl.mark_count
        .store(number(plan.marks.len()), Ordering::Relaxed);
    ctl.pid.store(std::process::id(), Ordering::Relaxed);
    for (record, mark) in ctl.marks.iter().zip(&plan.marks) {
        control::describe(record, *mark);
    }
}

/// Starts the thread that serves commands, with all signals blocked: they are
/// QEMU's, and must reach the threads that expect them.
fn spawn_server(plugin: &'static Plugin) -> Result<(), String> {
    // SAFETY: both sets are plain data, filled in before they are read.
    let spawned = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let spawned = std::thread::Builder::new()
            .name("remanence".to_owned())
            .spawn(move || command::serve(plugin));
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        spawned
    };
    spawned
        .map(drop)
        .map_err(|error| format!("command thread: {error}"))
}

/// QEMU has dropped all translated code.
unsafe extern "C" fn flushed(_id: u64) {
    code::forget_all();
}

/// A vCPU has been created: disarm its fuse. After the last, the lab may begin.
unsafe extern "C" fn vcpu_ready(_id: u64, cpu: c_uint) {
    let Some(plugin) = PLUGIN.get() else {
        return;
    };
    let index = cpu as usize;
    if index >= plugin.cpu_count {
        return;
    }
    let counts_all = plugin.cpu_count > 1 || plugin.plan.cache.is_some();
    if plugin.plan.count && counts_all && plugin.plan.begin.is_none() {
        if let Some(parallel) = Parallel::find() {
            parallel.set(cpu);
        }
    }
    plugin.set(plugin.fuse, index, plugin.idle_fuse());
    let wants_user = plugin.plan.marks.contains(&Mark::User);
    plugin.set(plugin.user_wanted, index, wants_user.into());
    find_registers(plugin, index);
    let clock = plugin.clock.get_or_init(Clock::find);
    if plugin.plan.cache.is_some() && clock.is_none() {
        // Without icount vCPUs have threads of their own, which would share the model.
        eprintln!("remanence-plugin: cache= needs -icount shift=0");
        // SAFETY: ends the process before its first guest instruction.
        unsafe { libc::_exit(1) };
    }
    if let Err(message) = find_bias(*clock).and_then(|()| begin_firmware(plugin, *clock)) {
        eprintln!("remanence-plugin: {message}");
        // SAFETY: as above.
        unsafe { libc::_exit(1) };
    }
    let ready = CPUS_READY.fetch_add(1, Ordering::AcqRel) + 1;
    if ready == plugin.ctl.cpu_count.load(Ordering::Relaxed) {
        plugin
            .ctl
            .icount
            .store(clock.is_some().into(), Ordering::Relaxed);
        plugin.ctl.magic.store(MAGIC, Ordering::Release);
    }
}

/// Where guest time follows a controller: finds what moves QEMU's clock. No vCPU runs yet.
fn find_bias(clock: Option<Clock>) -> Result<(), String> {
    // SAFETY: the callback of a vCPU that has been created; none runs, and QEMU creates one at a time.
    let Some(job) = (unsafe { caching::job() }) else {
        return Ok(());
    };
    if job.time.is_none() || job.bias.is_some() {
        return Ok(());
    }
    job.bias = clock.and_then(Bias::find);
    if job.bias.is_none() {
        return Err(
            "controller=: the clock of this QEMU cannot be set: its timers_state is not as \
            in QEMU 5.2 to 10"
                .to_owned(),
        );
    }
    Ok(())
}

/// Where firmware comes first: finds what moves QEMU's clock. No vCPU runs yet.
fn begin_firmware(plugin: &Plugin, clock: Option<Clock>) -> Result<(), String> {
    if plugin.plan.begin.is_none() {
        return Ok(());
    }
    if isa() != Isa::X86_64 {
        return Err("begin=: only for x86-64".to_owned());
    }
    let Some(clock) = clock else {
        return Err("begin= needs -icount shift=0".to_owned());
    };
    let Some(bias) = Bias::find(clock) else {
        return Err("begin=: the clock of this QEMU cannot be set".to_owned());
    };
    plugin.firmware.power_on(bias);
    Ok(())
}

fn find_registers(plugin: &Plugin, cpu: usize) {
    // SAFETY: this is a vCPU's init callback, where registers may be listed; QEMU returns an
    // array of descriptors with C strings, which is freed here.
    unsafe {
        let array = qemu::qemu_plugin_get_registers();
        let len = usize::try_from((*array).len).unwrap_or(0);
        for index in 0..len {
            let found = &*(*array).data.add(index);
            let name = CStr::from_ptr(found.name).to_bytes();
            let to = match name {
                b"fs_base" => &plugin.registers[cpu].fs_base,
                b"gs_base" => &plugin.registers[cpu].gs_base,
                name if name == isa().privilege() => &plugin.registers[cpu].privilege,
                name => match isa().general(name) {
                    Some(number) => &plugin.registers[cpu].general[number],
                    None => continue,
                },
            };
            to.store(found.handle, Ordering::Relaxed);
        }
        qemu::g_array_free(array, 1);
    }
}
