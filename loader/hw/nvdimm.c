/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "nvdimm.h"

#include "../core/nvdimm.h"
#include "console.h"
#include "io.h"
#include "uart.h"
#include "wait.h"

/* A controller that sends nothing for so long is absent. */
#define SILENCE_MS 100u
/* A controller that is busy for so long is broken. */
#define BUSY_S 300u
#define TRIES_FIRST_MAX 20
/* A controller that has answered before may be busy with something else. */
#define TRIES_MAX 600

static bool receive(u16 timer_port, u8 *ret_status)
{
	struct wait wait = wait_begin(timer_port);
	u8 byte;

	do {
		if (uart_get(REM_NVDIMM_PORT, &byte) &&
		    nvdimm_is_status(byte)) {
			*ret_status = byte;
			return true;
		}
		relax();
	} while (!wait_over(&wait, SILENCE_MS));
	return false;
}

/* A command may be repeated: each one is idempotent. */
static u8 send(u16 timer_port, u8 command, u32 tries)
{
	u8 status;

	/* Bytes that are still there answer an older query. */
	while (uart_get(REM_NVDIMM_PORT, &status))
		;
	for (u32 i = 0; i < tries; i++)
		if (uart_put(REM_NVDIMM_PORT, command) &&
		    receive(timer_port, &status))
			return status;
	return 0;
}

/* After a command: wait until the controller is not busy; 0 = it stays busy. */
static u8 settle(u16 timer_port, u8 status)
{
	for (u32 i = 0; i < BUSY_S * 1000u / SILENCE_MS; i++) {
		struct wait wait = wait_begin(timer_port);

		if (!status || nvdimm_state(status) != REM_NVDIMM_BUSY)
			return status;
		while (!wait_over(&wait, SILENCE_MS / 2))
			relax();
		status = send(timer_port, REM_NVDIMM_QUERY, TRIES_MAX);
	}
	return 0;
}

u8 nvdimm_restore(u16 timer_port)
{
	u8 status;

	if (!uart_open(REM_NVDIMM_PORT))
		return 0;
	status = send(timer_port, REM_NVDIMM_QUERY, TRIES_FIRST_MAX);
	if (!status) {
		print("no NVDIMM controller: no answer at port %x",
		      REM_NVDIMM_PORT);
		return 0;
	}
	print("NVDIMM: status %x", status);
	/*
	 * A reset does not end the save of the last Stop. When that is over, flash
	 * has the image, also if DRAM has never been without power.
	 */
	status = settle(timer_port, status);
	/* An answer may be older than the command: then the state is still IMAGE. */
	for (u32 i = 0; i < TRIES_MAX; i++) {
		if (nvdimm_state(status) != REM_NVDIMM_IMAGE)
			break;
		status = settle(timer_port, send(timer_port, REM_NVDIMM_RESTORE,
						 TRIES_MAX));
	}
	/* It was present before: no answer now is a failure. */
	return status ? status :
			(u8)(REM_NVDIMM_FAILED << REM_NVDIMM_STATE_SHIFT |
			     REM_NVDIMM_ANSWER);
}

u8 nvdimm_erase(u16 timer_port)
{
	u8 status = settle(timer_port,
			   send(timer_port, REM_NVDIMM_ERASE, TRIES_MAX));

	/*
	 * A slow controller may still answer queries from before the command;
	 * such an answer says that the image is restored.
	 */
	for (u32 i = 0; i < TRIES_MAX; i++) {
		if (nvdimm_state(status) != REM_NVDIMM_RESTORED)
			break;
		status = settle(timer_port,
				send(timer_port, REM_NVDIMM_QUERY, TRIES_MAX));
	}
	return nvdimm_state(status) == REM_NVDIMM_EMPTY ? status : 0;
}
