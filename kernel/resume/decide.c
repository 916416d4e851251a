// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the fast path can restart, as pure functions, which are tested on the host, too:
 * no hardware, no state of the kernel.
 *
 * All lists are of what is allowed. What is not known may hold state that is lost with
 * the power, so the machine uses the generic path, which asks the drivers.
 */
#include <linux/string.h>
#include <linux/virtio_ids.h>
#include "decide.h"

#define REM_COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define REM_WORD_BITS (8 * sizeof(unsigned long))

/* Bits of CR4, by Intel's manual. */
#define REM_CR4_LA57 0x1000ull
#define REM_CR4_VMXE 0x2000ull
#define REM_CR4_CET 0x800000ull

/* Registers of machine checks, by Intel's and AMD's manuals; MCG_CAP says which. */
#define REM_MCG_BANKS 0xffull
#define REM_MCG_CTL_P 0x100ull
#define REM_MCG_CMCI_P 0x400ull
#define REM_MCG_LMCE_P 0x8000000ull
#define REM_MCG_CTL 0x17bu
#define REM_MCG_EXT_CTL 0x4d0u
#define REM_MC_CTL(bank) (0x400u + 4 * (bank))
#define REM_MC_CTL2(bank) (0x280u + (bank))
#define REM_SMCA_CTL(bank) (0xc0002000u + 0x10 * (bank))
#define REM_SMCA_CONFIG(bank) (0xc0002004u + 0x10 * (bank))

/* By Intel's manual: TR and BTS, which store branch records. */
#define REM_DEBUGCTL 0x1d9u
#define REM_DEBUGCTL_TRACES 0xc0ull

/*
 * Registers whose value the kernel chose for this CPU, and those of which it remembers
 * the value: XFD, TSC_RATIO, the counters of frequency invariance. Not these: those that
 * firmware sets to the same value at each start (MTRRs), those that their own
 * subsystem restores (APIC, TSC deadline, performance counters), and
 * the TSC. Registers of machine checks are added to these. Why TSC_ADJUST is
 * here, although firmware sets it: tsc.c.
 */
static const unsigned int rem_msrs[REM_MSRS_KEPT_MAX] = {
	0x277, /* PAT */
	0xc0000103, /* TSC_AUX */
	0xc0000081, /* STAR */
	0xc0000082, /* LSTAR */
	0xc0000083, /* CSTAR */
	0xc0000084, /* SYSCALL_MASK */
	0x174, /* SYSENTER_CS */
	0x175, /* SYSENTER_ESP */
	0x176, /* SYSENTER_EIP */
	0x1a0, /* MISC_ENABLE */
	0x48, /* SPEC_CTRL */
	0x122, /* TSX_CTRL */
	0x10f, /* TSX_FORCE_ABORT */
	0x123, /* MCU_OPT_CTRL */
	0x140, /* MISC_FEATURES_ENABLES */
	REM_DEBUGCTL,
	0xc0011020, /* LS_CFG, AMD's */
	0xc0011029, /* DE_CFG, AMD's: whether LFENCE serialises */
	0xc001102e, /* BP_CFG, AMD's: of what speculation is off */
	0xc0010015, /* HWCR, AMD's */
	0xda0, /* XSS */
	0x1c4, /* XFD */
	0x3b, /* TSC_ADJUST */
	0xe8, /* APERF */
	0xe7, /* MPERF */
	0x1b0, /* ENERGY_PERF_BIAS */
	0x199, /* PERF_CTL */
	0x770, /* PM_ENABLE: only then is there the next one */
	0x774, /* HWP_REQUEST */
	0xc0010062, /* PERF_CTL, AMD's */
	0xc00102b1, /* CPPC_ENABLE, AMD's: only then is there the next one */
	0xc00102b3, /* CPPC_REQ, AMD's */
	0xe1, /* UMWAIT_CONTROL */
	0xc0010117, /* VM_HSAVE_PA, AMD's */
	0xc0000104, /* TSC_RATIO, AMD's */
};

/* The kernel's step for the FPU writes XFD, and microcode may bring registers. */
static const enum rem_cpu_step rem_cpu_steps[REM_CPU_STEPS] = {
	REM_CPU_FPU,	   REM_CPU_SELECTORS, REM_CPU_BASES,
	REM_CPU_MICROCODE, REM_CPU_MSRS,
};

/* With it a console asks its driver by messages, and forgets the answers. */
#define REM_CONSOLE_MULTIPORT 0x2ull

/*
 * Drivers of devices that are not PCI functions:
 *
 *   alarmtimer         a part of the kernel; its timers are in memory
 *   e820_pmem          finds memory
 *   goldfish_rtc       alarms.c sets the next alarm again
 *   ipmi               stands for the BMC, and has no registers
 *   ipmi_si            expects the BMC to be reset at any time: it repeats or gives up the
 *                      request that was under way, and polls where there is no interrupt
 *   of_serial          serial.c sets the ports up again
 *   pci-host-generic   has a window in memory, and no registers
 *   pcspkr             beeps; a tone that sounded at the cut has ended
 *   reg-dummy          has no hardware: a regulator for whom none is described
 *   riscv-aplic        riscv/interrupts.c
 *   riscv-imsic        riscv/interrupts.c
 *   riscv-plic         riscv/interrupts.c
 *   rtc_cmos           alarms.c sets the next alarm again
 *   serial8250         serial.c sets the ports up again
 *   simple-pm-bus      only has devices behind it
 *   syscon-poweroff    writes a register when the machine is switched off
 *   syscon-reboot      the same
 *   system             only reserves resources
 *   vmgenid            reads a number in memory
 */
struct rem_driver {
	const char *bus;
	const char *driver;
};

static const struct rem_driver rem_drivers[] = {
	{ "platform", "alarmtimer" },
	{ "platform", "e820_pmem" },
	{ "platform", "goldfish_rtc" },
	{ "platform", "ipmi" },
	{ "platform", "ipmi_si" },
	{ "platform", "of_serial" },
	{ "platform", "pci-host-generic" },
	{ "platform", "pcspkr" },
	{ "platform", "reg-dummy" },
	{ "platform", "riscv-aplic" },
	{ "platform", "riscv-imsic" },
	{ "platform", "riscv-plic" },
	{ "platform", "serial8250" },
	{ "platform", "simple-pm-bus" },
	{ "platform", "syscon-poweroff" },
	{ "platform", "syscon-reboot" },
	{ "platform", "vmgenid" },
	{ "pnp", "rtc_cmos" },
	{ "pnp", "serial" },
	{ "pnp", "system" },
};

/*
 * Drivers of PCI functions that bear to suspend a device after it has lost its state, while
 * programs run:
 *
 *   bochs-drm    sets the mode of the screen once more; memory has the picture
 *   i801_smbus   each transfer sets the controller up; one that waits has a limit
 *   lpc_ich      keeps nothing in registers beyond configuration space
 *   xhci_hcd     is told that the controller has halted (patch 0032)
 */
static const char *const rem_pci_drivers[] = {
	"bochs-drm",
	"i801_smbus",
	"lpc_ich",
	"xhci_hcd",
};

/*
 * Drivers of what may be below these: hubs and input devices, and the chip set's watchdog
 * (patch 0034). Requests that were under way end with an error; of a storage device that
 * would be an error of a program.
 */
static const struct rem_driver rem_below_drivers[] = {
	{ "platform", "iTCO_wdt" },
	{ "usb", "usb" },
	{ "usb", "hub" },
	{ "usb", "usbhid" },
	{ "hid", "hid-generic" },
};

static bool rem_has(const struct rem_driver *list, unsigned int count,
		    const char *bus, const char *driver)
{
	unsigned int i;

	for (i = 0; i < count; i++)
		if (!strcmp(bus, list[i].bus) && !strcmp(driver, list[i].driver))
			return true;
	return false;
}

/**
 * rem_pci_returned - whether a driver may suspend and resume its device after Go
 * @driver: its name
 *
 * Return: true if it may.
 */
bool rem_pci_returned(const char *driver)
{
	unsigned int i;

	for (i = 0; i < REM_COUNT(rem_pci_drivers); i++)
		if (!strcmp(driver, rem_pci_drivers[i]))
			return true;
	return false;
}

/**
 * rem_below_returned - whether a device with this driver may be below such a device
 * @bus: its bus
 * @driver: its name
 *
 * Return: true if it may.
 */
bool rem_below_returned(const char *bus, const char *driver)
{
	return rem_has(rem_below_drivers, REM_COUNT(rem_below_drivers), bus,
		       driver);
}

/**
 * rem_driver_kept - whether the fast path restores the devices of a driver
 * @bus: its bus
 * @driver: its name
 *
 * Return: true if it does, or if there is nothing to restore.
 */
bool rem_driver_kept(const char *bus, const char *driver)
{
	return rem_has(rem_drivers, REM_COUNT(rem_drivers), bus, driver);
}

/**
 * rem_virtio_kept - whether all state of a virtio device is in its rings and features
 * @id: kind of the device
 * @features: negotiated features
 *
 * Others keep something that only their driver can repeat: resources (gpu),
 * connections (vsock), open files (fs, 9p), pages (balloon, mem).
 *
 * Return: true if it is.
 */
bool rem_virtio_kept(unsigned int id, unsigned long long features)
{
	switch (id) {
	case VIRTIO_ID_NET:
	case VIRTIO_ID_BLOCK:
	case VIRTIO_ID_RNG:
	case VIRTIO_ID_PMEM:
		return true;
	case VIRTIO_ID_CONSOLE:
		return !(features & REM_CONSOLE_MULTIPORT);
	default:
		return false;
	}
}

/**
 * rem_cpu_step - the order in which a CPU is restored
 * @number: from 0 to REM_CPU_STEPS - 1
 *
 * Return: the step with that number.
 */
enum rem_cpu_step rem_cpu_step(unsigned int number)
{
	return rem_cpu_steps[number];
}

/**
 * rem_msrs_kept - registers that are saved at Stop and restored in Go
 * @list: filled with REM_MSRS_KEPT_MAX numbers at most, in the order of writing
 *
 * Not every CPU has each of them.
 *
 * Return: how many.
 */
unsigned int rem_msrs_kept(unsigned int *list)
{
	memcpy(list, rem_msrs, sizeof(rem_msrs));
	return REM_COUNT(rem_msrs);
}

/**
 * rem_mce_msrs - registers that control machine checks
 * @cap: MSR_IA32_MCG_CAP
 * @scalable: a CPU of AMD's with scalable MCA, whose banks are elsewhere
 * @list: filled with at most REM_MCE_MSRS_MAX numbers, in the order of writing
 *
 * Not what banks have reported: that is still there if power was not gone, and the
 * kernel's poll will find it.
 *
 * Return: how many.
 */
unsigned int rem_mce_msrs(unsigned long long cap, bool scalable,
			  unsigned int *list)
{
	unsigned int banks = cap & REM_MCG_BANKS;
	unsigned int count = 0;
	unsigned int i;

	if (banks > REM_MCE_BANKS_MAX)
		banks = REM_MCE_BANKS_MAX;
	if (cap & REM_MCG_CTL_P)
		list[count++] = REM_MCG_CTL;
	if (cap & REM_MCG_LMCE_P)
		list[count++] = REM_MCG_EXT_CTL;
	for (i = 0; i < banks; i++) {
		if (scalable)
			list[count++] = REM_SMCA_CONFIG(i);
		list[count++] = scalable ? REM_SMCA_CTL(i) : REM_MC_CTL(i);
		if (!scalable && cap & REM_MCG_CMCI_P)
			list[count++] = REM_MC_CTL2(i);
	}
	return count;
}

static bool rem_bit(const unsigned long *bits, unsigned int number)
{
	return bits[number / REM_WORD_BITS] >> number % REM_WORD_BITS & 1;
}

/**
 * rem_cpu_may_start - whether it is a CPU's turn to be started in Go
 * @cpu: its number
 * @core: the threads of its core, as a bitmap
 * @online: CPUs that take part in Go
 * @back: those of them that have loaded their microcode, with the boot CPU
 *
 * Threads of a core share what an update changes: while one of them loads it, the
 * others must not execute anything. So the first one starts alone, as at boot
 * (cpuhp_bringup_cpus_parallel()), and each of the others after those before it. A CPU
 * that is not online still waits for its first SIPI, and disturbs nobody.
 *
 * Return: true if every thread of its core before it is back.
 */
bool rem_cpu_may_start(unsigned int cpu, const unsigned long *core,
		       const unsigned long *online, const unsigned long *back)
{
	unsigned int other;

	for (other = 0; other < cpu; other++)
		if (rem_bit(core, other) && rem_bit(online, other) &&
		    !rem_bit(back, other))
			return false;
	return true;
}

/**
 * rem_microcode_lost - whether a CPU's microcode is older than before the cut
 * @before: its revision when the machine was stopped
 * @now: its revision in Go, after the kernel has loaded the update that it keeps
 *
 * Registers and instructions that came with an update may be missing then. A later
 * revision, of new firmware, has them; what it takes away is in the description of
 * the machine (CPUID).
 *
 * Return: whether the image cannot continue.
 */
bool rem_microcode_lost(unsigned int before, unsigned int now)
{
	return now < before;
}

/**
 * rem_tsc_differs - whether the time stamp counters of two CPUs are known to differ
 * @before: the first CPU's, when it asked the second one
 * @there: the second CPU's, after the question and before the answer
 * @after: the first CPU's, when it had the answer
 *
 * One happened after the other, so clocks that were read would go backwards. What no such
 * reading shows, no program can see.
 *
 * Return: true if the three do not ascend.
 */
bool rem_tsc_differs(unsigned long long before, unsigned long long there,
		     unsigned long long after)
{
	return there < before || after < there;
}

/**
 * rem_msr_go - the value that a register gets in Go
 * @index: number of the register
 * @value: what it had before the Stop
 *
 * Tracing of branches ends with a Stop: the register that points to its buffer is
 * lost with the power, and records would be stored wherever it points then.
 *
 * Return: the value.
 */
unsigned long long rem_msr_go(unsigned int index, unsigned long long value)
{
	return index == REM_DEBUGCTL ? value & ~REM_DEBUGCTL_TRACES : value;
}

/**
 * rem_cr4_refused - a mode of the CPU from which Go could not return
 * @cr4: the control register
 *
 * The loader enters with four levels of page tables, which cannot change in long
 * mode. VMX operation has to be entered again by who entered it. CET has state of its
 * own.
 *
 * Return: its name, or NULL.
 */
const char *rem_cr4_refused(unsigned long long cr4)
{
	if (cr4 & REM_CR4_LA57)
		return "5-level page tables are in use";
	if (cr4 & REM_CR4_CET)
		return "control-flow enforcement is in use";
	if (cr4 & REM_CR4_VMXE)
		return "VMX operation is in use";
	return NULL;
}
