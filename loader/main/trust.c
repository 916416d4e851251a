/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Secrets are in this file's variables and on the stack, which are in DRAM; where they
 * are not, there is no key. They are wiped when the kernel has its own.
 */
#include "trust.h"

#include "../core/cmdline.h"
#include "../core/crc32c.h"
#include "../core/tpm.h"
#include "../core/trust.h"
#include "../hw/console.h"
#include "../hw/flush.h"
#include "../hw/io.h"
#include "../hw/tpm.h"

#define LOW_BEGIN 0x100000ull
#define LOW_END (1ull << 32)
#define LABEL_IMAGE 0x52454d49u /* "REMI" */
#define LABEL_NAME 0x52454d4eu	/* "REMN" */
#define OFF_WORD "remanence.trust=off"
/* More than what judges an image takes of the stack. */
#define STACK_USED_BYTES 12288u
/* A hold looks each second; a TPM that is dead takes longer than that to say so. */
#define LOOKS_PER_TRY 30u

static struct tpm tpm;
static enum tpm_place place;
static struct trust trust = { .state = REM_TRUST_OFF };
static u8 next_key[TPM_DIGEST_BYTES];
static struct trust_text text;

/* No trace of what is there survives the power. */
static bool in_dram(const struct machine *machine, const void *secret)
{
	const struct ranges *ranges = &machine->non_volatile;

	for (u32 i = 0; i < ranges->count; i++)
		if (range_overlaps((uintptr_t)secret, GO_PAGE_BYTES,
				   ranges->range[i].base,
				   ranges->range[i].bytes))
			return false;
	return true;
}

/* A TPM that cannot be used now may be usable at the next boot, and then refuse. */
static void give_up(void)
{
	static const char *printed;

	if (tpm.failed && tpm.failed != printed)
		print("the TPM cannot be used: %s answers %x", tpm.failed,
		      tpm.code);
	if (!printed)
		print("no TPM gives a key: no image can be entered");
	printed = tpm.failed ? tpm.failed : "";
	trust = (struct trust){
		.state = REM_TRUST_NO_KEY,
		.counter = trust.counter,
	};
	memset(next_key, 0, sizeof(next_key));
	memset(&text, 0, sizeof(text));
}

/* A name of what must not be known whole. */
static u64 name_of(const u8 digest[TPM_DIGEST_BYTES])
{
	u64 name = get_u64(digest);

	return name ? name : 1;
}

static bool open_tpm(const struct machine *machine)
{
	u8 policy[TPM_DIGEST_BYTES];

	tpm.failed = NULL;
	if (!in_dram(machine, &trust) || !in_dram(machine, policy)) {
		print("the loader is in non-volatile memory");
		return false;
	}
	if (!tpm_start(&tpm) || !tpm_counter(&tpm, &trust.counter) ||
	    !tpm_open(&tpm, machine->front->measured, policy) ||
	    !tpm_key(&tpm, LABEL_NAME, 0, trust.name) ||
	    !tpm_key(&tpm, LABEL_IMAGE, trust.counter, trust.key))
		return false;
	trust.measured = name_of(policy);
	trust.key_id = name_of(trust.name);
	trust.state = REM_TRUST_ON;
	return true;
}

/* Under Secure Boot no file that nobody has checked can switch it off. */
static bool is_off(const struct front *front)
{
	static u8 cmdline[LINUX_CMDLINE_BYTES_MAX + 1];
	const u8 *value;
	u32 bytes;

	if (front->secure || !front->size(FRONT_CMDLINE, &bytes) ||
	    bytes > LINUX_CMDLINE_BYTES_MAX ||
	    !front->read(FRONT_CMDLINE, 0, cmdline, bytes))
		return false;
	cmdline[bytes] = 0;
	value = cmdline_value(cmdline, OFF_WORD);
	return value && cmdline_ends(*value);
}

void trust_open(const struct machine *machine)
{
	const struct front *front = machine->front;

	place = tpm_find(&machine->acpi, &front->map, &tpm);
	if (is_off(front)) {
		/* This boot counts, too: what is older is not entered after it. */
		if (place == TPM_FOUND && tpm_start(&tpm))
			(void)tpm_counter(&tpm, &trust.counter);
		return;
	}
	if (place == TPM_ABSENT && !front->secure)
		return;
	if (place != TPM_FOUND || !open_tpm(machine))
		give_up();
}

/* Neither what survives, nor what firmware or this loader still uses. */
static bool key_page_free(const struct machine *machine, u64 phys)
{
	const struct map *map = &machine->front->free;

	if (!in_dram(machine, at_phys(phys)))
		return false;
	for (u32 i = 0; i < map->count; i++)
		if (map->entry[i].type == MAP_RAM &&
		    range_inside(phys, GO_PAGE_BYTES, map->entry[i].base,
				 map->entry[i].bytes))
			return !(phys % GO_PAGE_BYTES) && phys < LOW_END;
	return false;
}

static u32 judge(const struct machine *machine, const struct decision *decision)
{
	const struct rem_body *body = &decision->body;
	const struct trust_views views = {
		.contexts = at_phys(body->context_phys),
		.text = at_phys(body->text_phys),
		.rodata = at_phys(body->text_phys +
				  (u64)body->rodata_page * GO_PAGE_BYTES),
	};
	u32 reason = rem_trust_judge(&trust, block_at(machine, 0), decision,
				     &views, &text);

	if (reason == REM_BOOT_RESUME && body->key_counter &&
	    !key_page_free(machine, body->key_phys)) {
		print("the page of the key, at %lx, is firmware's now",
		      body->key_phys);
		return REM_COLD_MEMORY_DIFFERS;
	}
	return reason;
}

void trust_judge(const struct machine *machine, struct decision *decision)
{
	static u32 looks;

	if (decision->reason != REM_BOOT_RESUME)
		return;
	if (place == TPM_FOUND && trust.state == REM_TRUST_NO_KEY &&
	    decision->body.key_counter && !(looks++ % LOOKS_PER_TRY)) {
		tpm_forget(&tpm);
		if (!open_tpm(machine))
			give_up();
	}
	decision->reason = judge(machine, decision);
}

/*
 * A page of the largest range of DRAM that is nobody's: not at its ends, where another
 * version of the loader or firmware may be, and so that most of it stays in one piece.
 */
static u64 choose_page(const struct machine *machine)
{
	const struct map *map = &machine->front->free;
	u64 most = 0, page = 0;

	for (u32 i = 0; i < map->count; i++) {
		const struct map_entry *entry = &map->entry[i];
		u64 at = (entry->base + entry->bytes / 8) &
			 ~(u64)(GO_PAGE_BYTES - 1);

		if (entry->type == MAP_RAM && at >= LOW_BEGIN &&
		    entry->bytes > most && key_page_free(machine, at)) {
			most = entry->bytes;
			page = at;
		}
	}
	return page;
}

/* What the TPM has measured of this boot is then no longer what gives a key. */
static void close_tpm(const struct machine *machine)
{
	if (place != TPM_FOUND || tpm_close(&tpm))
		return;
	if (machine->front->secure)
		die("the TPM cannot be closed: %s answers %x", tpm.failed,
		    tpm.code);
	if (trust.state == REM_TRUST_OFF)
		print("the TPM cannot be closed: %s answers %x", tpm.failed,
		      tpm.code);
	else
		give_up();
}

void trust_leave(struct machine *machine, u64 key_phys)
{
	if (!key_phys && trust.state == REM_TRUST_ON)
		rem_trust_new_life(&trust, trust.counter + 1, &text);
	if (machine->key_phys) /* for a resume that has failed since */
		return;
	if (trust.state == REM_TRUST_ON &&
	    !tpm_key(&tpm, LABEL_IMAGE, trust.counter + 1, next_key))
		give_up();
	close_tpm(machine);
	if (trust.state != REM_TRUST_ON)
		return;
	machine->key_phys = key_phys ? key_phys : choose_page(machine);
	if (!machine->key_phys) {
		print("no page of DRAM for the key of images");
		give_up();
	}
}

static void write_key(u64 phys, u64 count)
{
	struct rem_key *page = at_phys(phys);

	memset(page, 0, GO_PAGE_BYTES);
	page->magic = REM_KEY_MAGIC;
	page->key_counter = count;
	memcpy(page->key, next_key, REM_KEY_BYTES);
	page->text_counter = text.counter;
	memcpy(page->text_key, text.key, sizeof(page->text_key));
	memcpy(page->text_sum, text.sum, sizeof(page->text_sum));
}

static void write_trust(const struct machine *machine)
{
	bool on = trust.state == REM_TRUST_ON;
	struct rem_trust note = {
		.magic = REM_TRUST_MAGIC,
		.version = REM_VERSION,
		.state = trust.state,
		.key_counter = on ? trust.counter : 0,
		.key_phys = on ? machine->key_phys : 0,
		.key_id = trust.key_id,
		.measured = trust.measured,
		.tpm_ticks = tpm_waited_ticks(),
	};
	u8 *at = block_at(machine, REM_TRUST_OFFSET);

	note.crc = crc32c(&note, offsetof(struct rem_trust, crc));
	memcpy(at, &note, sizeof(note));
	flush(at, sizeof(note));
}

/* What functions that have returned had there. */
__attribute__((noinline)) static void wipe_stack(void)
{
	u8 dead[STACK_USED_BYTES];

	memset(dead, 0, sizeof(dead));
}

bool trust_count(const struct machine *machine)
{
	bool counted = trust.counter && tpm_count(&tpm, trust.counter);

	/* Counted in any case: what is in memory is of an earlier boot now. */
	if (trust.state == REM_TRUST_ON && !counted)
		give_up();
	if (trust.state == REM_TRUST_ON) {
		trust.counter++;
		write_key(machine->key_phys, trust.counter);
	}
	write_trust(machine);
	memset(next_key, 0, sizeof(next_key));
	memset(trust.key, 0, sizeof(trust.key));
	memset(trust.name, 0, sizeof(trust.name));
	memset(&text, 0, sizeof(text));
	wipe_stack();
	return counted || !trust.counter;
}
