// SPDX-License-Identifier: GPL-2.0-only
/*
 * Main memory that is the DRAM of an NVDIMM-N
 * (include/linux/remanence/rem_nvdimm.h): the last command of a Stop tells its
 * controller to save. The loader, which had to restore the memory, reports
 * whether there is a controller; without one this port is not ours.
 */
#include <linux/bitops.h>
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/mutex.h>
#include <linux/remanence/rem_nvdimm.h>
#include <linux/serial_reg.h>
#include <linux/sysfs.h>
#include "../stop/stop.h"

/* A transmitter that is not ready after this many reads is absent. */
#define REM_NVDIMM_POLLS_MAX 1000

/* The controller answers within milliseconds; after that the query is repeated. */
#define REM_NVDIMM_QUERIES_MAX 20
#define REM_NVDIMM_WAIT_US_MAX 10000

static const char *const rem_nvdimm_states[8] = {
	[REM_NVDIMM_BUSY] = "busy",
	[REM_NVDIMM_EMPTY] = "armed",
	[REM_NVDIMM_IMAGE] = "image",
	[REM_NVDIMM_PARTIAL] = "partial",
	[REM_NVDIMM_RESTORED] = "restored",
	[REM_NVDIMM_FAILED] = "failed",
};

static const char *const rem_nvdimm_healths[4] = {
	[REM_NVDIMM_WORN] = "worn",
	[REM_NVDIMM_CHARGING] = "charging",
	[REM_NVDIMM_READY] = "ready",
};

static DEFINE_MUTEX(rem_nvdimm_lock);
static bool rem_nvdimm_present;

static u8 rem_nvdimm_in(unsigned int reg)
{
	return inb(REM_NVDIMM_PORT + reg);
}

static void rem_nvdimm_out(unsigned int reg, u8 value)
{
	outb(value, REM_NVDIMM_PORT + reg);
}

static void rem_nvdimm_send(u8 command)
{
	unsigned int polls;

	for (polls = 0; polls < REM_NVDIMM_POLLS_MAX; polls++)
		if (rem_nvdimm_in(UART_LSR) & UART_LSR_THRE)
			break;
	rem_nvdimm_out(UART_TX, command);
}

static void rem_nvdimm_setup(void)
{
	rem_nvdimm_out(UART_IER, 0);
	rem_nvdimm_out(UART_LCR, UART_LCR_DLAB | UART_LCR_WLEN8);
	rem_nvdimm_out(UART_DLL, 1);
	rem_nvdimm_out(UART_DLM, 0);
	rem_nvdimm_out(UART_LCR, UART_LCR_WLEN8);
	rem_nvdimm_out(UART_FCR, UART_FCR_ENABLE_FIFO);
	rem_nvdimm_out(UART_MCR, UART_MCR_DTR | UART_MCR_RTS);
}

/**
 * rem_nvdimm_save - start the save: after the commit, before the last report
 *
 * The next power-on shows whether the save was completed.
 *
 * Context: Stop, one CPU, interrupts off, everything flushed.
 */
void rem_nvdimm_save(void)
{
	if (rem_nvdimm_present)
		rem_nvdimm_send(REM_NVDIMM_SAVE);
}

/** rem_nvdimm_go - set the wire up again. Context: Go, one CPU. */
void rem_nvdimm_go(void)
{
	if (rem_nvdimm_present)
		rem_nvdimm_setup();
}

/* Returns whether a status came in time. */
static bool rem_nvdimm_receive(u8 *ret_status)
{
	unsigned int waited_us;
	u8 byte;

	for (waited_us = 0; waited_us < REM_NVDIMM_WAIT_US_MAX;
	     waited_us += 100) {
		if (rem_nvdimm_in(UART_LSR) & UART_LSR_DR) {
			byte = rem_nvdimm_in(UART_RX);
			if (!(hweight8(byte) & 1) &&
			    !(byte & REM_NVDIMM_FROM_MACHINE) &&
			    byte & REM_NVDIMM_ANSWER) {
				*ret_status = byte;
				return true;
			}
		}
		usleep_range(100, 200);
	}
	return false;
}

/* Context: process. Returns the newest status, or -EIO. */
static int rem_nvdimm_query(void)
{
	unsigned int queries;
	u8 status = 0;
	int err = -EIO;

	mutex_lock(&rem_nvdimm_lock);
	for (queries = 0; err && queries < REM_NVDIMM_QUERIES_MAX; queries++) {
		/* Bytes that are still there answer an older query. */
		while (rem_nvdimm_in(UART_LSR) & UART_LSR_DR)
			rem_nvdimm_in(UART_RX);
		rem_nvdimm_send(REM_NVDIMM_QUERY);
		if (rem_nvdimm_receive(&status))
			err = 0;
	}
	mutex_unlock(&rem_nvdimm_lock);
	return err ?: status;
}

/**
 * rem_nvdimm_show - print the controller's status: "STATE HEALTH", or "none"
 * @buf: a page of sysfs
 *
 * Context: process.
 * Return: bytes written, or -EIO if it does not answer.
 */
ssize_t rem_nvdimm_show(char *buf)
{
	const char *state, *health;
	int status;

	if (!rem_nvdimm_present)
		return sysfs_emit(buf, "none\n");
	status = rem_nvdimm_query();
	if (status < 0)
		return status;
	state = rem_nvdimm_states[(status & REM_NVDIMM_STATE_MASK) >>
				  REM_NVDIMM_STATE_SHIFT];
	health = rem_nvdimm_healths[(status & REM_NVDIMM_HEALTH_MASK) >>
				    REM_NVDIMM_HEALTH_SHIFT];
	return sysfs_emit(buf, "%s %s\n", state ?: "unknown",
			  health ?: "unknown");
}

/* Before the serial driver probes its ports. */
static int __init rem_nvdimm_claim(void)
{
	struct rem_boot_note *note;

	if (!rem.region_bytes)
		return 0;
	note = memremap(rem.region_phys + REM_NOTE_OFFSET, sizeof(*note),
			MEMREMAP_WB);
	if (!note)
		return -ENOMEM;
	if (note->magic == REM_NOTE_MAGIC && note->nvdimm &&
	    request_region(REM_NVDIMM_PORT, 8, "remanence-nvdimm")) {
		rem_nvdimm_setup();
		rem_nvdimm_present = true;
	}
	memunmap(note);
	return 0;
}
subsys_initcall(rem_nvdimm_claim);
