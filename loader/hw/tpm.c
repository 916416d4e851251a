/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The two register interfaces of a TPM (PC Client Platform TPM Profile 1.05, 6): a
 * command response buffer, and a FIFO. Firmware has ended when the loader uses it, so
 * that locality 0 has one user.
 */
#include "tpm.h"

#include "console.h"
#include "io.h"
#include "wait.h"

/* TCG ACPI Specification 1.3, 8: start methods of the table "TPM2". */
#define SIG_TPM2 ACPI_SIGNATURE('T', 'P', 'M', '2')
#define TPM2_CONTROL 40u
#define TPM2_METHOD 48u
#define TPM2_END 52u
#define METHOD_FIFO 6u
#define METHOD_BUFFER 7u

#define BASE 0xfed40000u
/* From the start of the registers to what ACPI calls the control area. */
#define CONTROL 0x40u
#define HEADER_BYTES 10u /* of an answer */

/* FIFO. */
#define ACCESS 0x00u
#define ACCESS_VALID 0x80u
#define ACCESS_ACTIVE 0x20u
#define ACCESS_REQUEST 0x02u
#define STATUS 0x18u
#define STATUS_VALID 0x80u
#define STATUS_READY 0x40u
#define STATUS_GO 0x20u
#define STATUS_DATA 0x10u
#define STATUS_EXPECT 0x08u
#define BURST 0x19u
#define DATA 0x24u

/* Command response buffer; the second half is relative to the control area. */
#define LOCALITY_CONTROL 0x08u
#define LOCALITY_STATUS 0x0cu
#define LOCALITY_GRANTED 1u
#define LOCALITY_REQUEST 1u
#define LOCALITY_RELINQUISH 2u
#define REQUEST 0x00u
#define REQUEST_READY 1u
#define REQUEST_IDLE 2u
#define CANCEL 0x08u
#define START 0x0cu
#define COMMAND_BYTES 0x18u
#define COMMAND_ADDRESS 0x1cu
#define ANSWER_BYTES 0x24u
#define ANSWER_ADDRESS 0x28u

/* From the start of a locality's registers to the end of all that a TPM has. */
#define REGISTERS_BYTES 0x5000u

/* Longer than any command here may take: TIMEOUT_A to D, and making a key. */
#define STEP_MS 2000u
#define COMMAND_TURNS 30u

static u64 base;
static bool
	has_localities; /* a buffer's registers begin with those of its locality */
static const struct map *memory;
static u16 timer_port;
static u64 waited_ticks;

u64 tpm_waited_ticks(void)
{
	return waited_ticks;
}

static u32 read8(u32 at)
{
	return *(volatile u8 *)at_phys(base + at);
}

static void write8(u32 at, u8 value)
{
	*(volatile u8 *)at_phys(base + at) = value;
}

static u32 read32(u32 at)
{
	return *(volatile u32 *)at_phys(base + at);
}

static void write32(u32 at, u32 value)
{
	*(volatile u32 *)at_phys(base + at) = value;
}

/* Until (register & mask) == value, for @turns of STEP_MS. */
static bool settles(u32 (*read)(u32 at), u32 at, u32 mask, u32 value, u32 turns)
{
	for (; turns; turns--) {
		struct wait wait = wait_begin(timer_port);

		do {
			if ((read(at) & mask) == value)
				return true;
			relax();
		} while (!wait_over(&wait, STEP_MS));
	}
	return false;
}

/* The two bytes at once, so that they are of the same number. */
static u32 fifo_burst(void)
{
	struct wait wait = wait_begin(timer_port);
	u32 burst;

	do
		burst = read32(STATUS) >> 8 & 0xffff;
	while (!burst && !wait_over(&wait, STEP_MS));
	return burst;
}

/* The first time it may only end what firmware has left. */
static bool fifo_ready(void)
{
	for (u32 i = 0; i < 2; i++) {
		write8(STATUS, STATUS_READY);
		if (settles(read8, STATUS, STATUS_READY, STATUS_READY, 1))
			return true;
	}
	return false;
}

static bool fifo_send(const u8 *command, u32 bytes)
{
	u32 at = 0;

	write8(ACCESS, ACCESS_REQUEST);
	if (!settles(read8, ACCESS, ACCESS_VALID | ACCESS_ACTIVE,
		     ACCESS_VALID | ACCESS_ACTIVE, 1))
		return false;
	if (!fifo_ready())
		return false;
	while (at < bytes) {
		u32 burst = fifo_burst();

		if (!burst)
			return false;
		while (burst-- && at < bytes)
			write8(DATA, command[at++]);
	}
	if (!settles(read8, STATUS, STATUS_VALID | STATUS_EXPECT, STATUS_VALID,
		     1))
		return false;
	write8(STATUS, STATUS_GO);
	return settles(read8, STATUS, STATUS_VALID | STATUS_DATA,
		       STATUS_VALID | STATUS_DATA, COMMAND_TURNS);
}

static bool fifo_receive(u8 *answer, u32 bytes)
{
	u32 at = 0;

	while (at < bytes) {
		u32 burst;

		if (!settles(read8, STATUS, STATUS_VALID | STATUS_DATA,
			     STATUS_VALID | STATUS_DATA, 1))
			return false;
		burst = fifo_burst();
		if (!burst)
			return false;
		while (burst-- && at < bytes)
			answer[at++] = (u8)read8(DATA);
	}
	return true;
}

/* An answer's own size, big-endian, after the tag. */
static u32 size_of(const u8 *answer)
{
	return (u32)answer[2] << 24 | (u32)answer[3] << 16 |
	       (u32)answer[4] << 8 | answer[5];
}

/* The header says how much there is. */
static u32 fifo_answer(u8 *answer)
{
	u32 bytes;

	if (!fifo_receive(answer, HEADER_BYTES))
		return 0;
	bytes = size_of(answer);
	if (bytes < HEADER_BYTES || bytes > TPM_BUFFER_BYTES ||
	    !fifo_receive(answer + HEADER_BYTES, bytes - HEADER_BYTES))
		return 0;
	return bytes;
}

static u32 fifo_talk(void *unused, u8 *buffer, u32 bytes)
{
	u64 begin = read_ticks();
	u32 answer = 0;

	(void)unused;
	if (fifo_send(buffer, bytes))
		answer = fifo_answer(buffer);
	write8(STATUS, STATUS_READY);
	write8(ACCESS, ACCESS_ACTIVE);
	waited_ticks += read_ticks() - begin;
	return answer;
}

#define PAUSE_MS 20u

static void pause(void *unused)
{
	struct wait wait = wait_begin(timer_port);
	u64 begin = read_ticks();

	(void)unused;
	while (!wait_over(&wait, PAUSE_MS))
		relax();
	waited_ticks += read_ticks() - begin;
}

/* Of a buffer with that room, or 0: its address is the TPM's word. */
static u64 buffer_at(u64 at, u32 room, u32 bytes)
{
	u64 end = at + room;

	if (room < bytes || !range_valid(at, room) || end > 1ull << 32)
		return 0;
	if (range_inside(at, room, base, REGISTERS_BYTES))
		return at;
	/* Firmware has kept memory for it: nothing else is in any page of it. */
	for (u64 page = at & ~(u64)(GO_PAGE_BYTES - 1); page < end;
	     page += GO_PAGE_BYTES) {
		u32 type = map_type_at(memory, page);

		if (type != MAP_RESERVED && type != MAP_NVS)
			return 0;
	}
	return at;
}

static u64 read64(u32 at)
{
	return read32(at) | (u64)read32(at + 4) << 32;
}

static bool buffer_open(void)
{
	if (has_localities) {
		write32(LOCALITY_CONTROL, LOCALITY_REQUEST);
		if (!settles(read32, LOCALITY_STATUS, LOCALITY_GRANTED,
			     LOCALITY_GRANTED, 1))
			return false;
	}
	write32(CONTROL + REQUEST, REQUEST_READY);
	return settles(read32, CONTROL + REQUEST, REQUEST_READY, 0, 1);
}

/* What has begun must have ended before the next one begins. */
static void buffer_close(void)
{
	write32(CONTROL + REQUEST, REQUEST_IDLE);
	(void)settles(read32, CONTROL + REQUEST, REQUEST_IDLE, 0, 1);
	if (!has_localities)
		return;
	write32(LOCALITY_CONTROL, LOCALITY_RELINQUISH);
	(void)settles(read32, LOCALITY_STATUS, LOCALITY_GRANTED, 0, 1);
}

static bool buffer_send(const u8 *command, u32 bytes)
{
	u64 at = buffer_at(read64(CONTROL + COMMAND_ADDRESS),
			   read32(CONTROL + COMMAND_BYTES), bytes);

	if (!at)
		return false;
	for (u32 i = 0; i < bytes; i++)
		*(volatile u8 *)at_phys(at + i) = command[i];
	fence();
	write32(CONTROL + START, 1);
	if (settles(read32, CONTROL + START, 1, 0, COMMAND_TURNS))
		return true;
	write32(CONTROL + CANCEL, 1);
	(void)settles(read32, CONTROL + START, 1, 0, 1);
	write32(CONTROL + CANCEL, 0);
	return false;
}

static u32 buffer_receive(u8 *answer)
{
	u32 room = read32(CONTROL + ANSWER_BYTES);
	u64 at =
		buffer_at(read64(CONTROL + ANSWER_ADDRESS), room, HEADER_BYTES);
	u32 bytes;

	if (!at)
		return 0;
	if (room > TPM_BUFFER_BYTES)
		room = TPM_BUFFER_BYTES;
	for (u32 i = 0; i < room; i++)
		answer[i] = *(volatile u8 *)at_phys(at + i);
	bytes = size_of(answer);
	return bytes > room ? 0 : bytes;
}

static u32 buffer_talk(void *unused, u8 *buffer, u32 bytes)
{
	u64 begin = read_ticks();
	u32 answer = 0;

	(void)unused;
	if (buffer_open() && buffer_send(buffer, bytes))
		answer = buffer_receive(buffer);
	buffer_close();
	waited_ticks += read_ticks() - begin;
	return answer;
}

enum tpm_place tpm_find(const struct acpi_tables *acpi, const struct map *map,
			struct tpm *ret_tpm)
{
	const struct acpi_table *table = acpi_find(acpi, SIG_TPM2);
	u64 control;
	u32 method;

	*ret_tpm = (struct tpm){ .pause = pause };
	if (!table || table->bytes < TPM2_END)
		return TPM_ABSENT;
	timer_port = acpi_timer_port(acpi);
	memory = map;
	control = get_u64(table->data + TPM2_CONTROL);
	method = get_u32(table->data + TPM2_METHOD);
	base = BASE;
	if (method == METHOD_FIFO) {
		ret_tpm->talk = fifo_talk;
		return TPM_FOUND;
	}
	if (method != METHOD_BUFFER || control <= CONTROL ||
	    control >= (1ull << 32) - REGISTERS_BYTES) {
		print("the TPM starts commands in a way that this loader does not know: %u",
		      method);
		return TPM_UNKNOWN;
	}
	base = control - CONTROL;
	/* Firmware's own TPMs may have the control area only, and no locality. */
	has_localities = !(base % GO_PAGE_BYTES);
	ret_tpm->talk = buffer_talk;
	return TPM_FOUND;
}
