// SPDX-License-Identifier: GPL-2.0-only
/*
 * The image record: what is prepared while there is time, and the commit.
 *
 * Invariants kept here:
 *  1. Commit is last: the slot's commit word is zero on media before its body
 *     is written, and stored only after every line is on media: by WBINVD of all
 *     CPUs, and what is stored after it line by line.
 *  2. The sequence of a Stop is greater than those in both slots and in the
 *     consumed word.
 *  3. No Stop is promised whose image the loader would refuse on this machine.
 */
#include <linux/build-salt.h>
#include <linux/buildid.h>
#include <linux/cpumask.h>
#include <linux/crc32.h>
#include <linux/io.h>
#include <linux/remanence/rem_judge.h>
#include <linux/timekeeping.h>
#include "stop.h"

static struct rem_word *rem_commit_word(unsigned int slot)
{
	return (void *)rem.block + REM_COMMIT_OFFSET +
	       slot * REM_COMMIT_STRIDE_BYTES;
}

static struct rem_word *rem_consumed_word(void)
{
	return (void *)rem.block + REM_CONSUMED_OFFSET;
}

static struct rem_body *rem_body(unsigned int slot)
{
	return (void *)rem.block + REM_BODY_OFFSET +
	       slot * REM_BODY_STRIDE_BYTES;
}

static u32 rem_crc(const void *data, size_t bytes)
{
	return ~__crc32c_le(~0, data, bytes);
}

/** rem_flush - write the lines of a range back to media, and wait for that. */
void rem_flush(const void *addr, size_t bytes)
{
	rem_lines_write_back(addr, bytes);
}

/* The one way to store a word: a single aligned store, flushed. */
static void rem_word_store(struct rem_word *word, struct rem_word value)
{
	u64 raw;

	memcpy(&raw, &value, sizeof(raw));
	WRITE_ONCE(*(u64 *)word, raw);
	rem_flush(word, sizeof(*word));
}

static struct rem_word rem_consumed_value(u32 sequence)
{
	u32 seed[2] = { REM_WORD_CONSUMED, sequence };

	return (struct rem_word){ sequence, rem_crc(seed, sizeof(seed)) };
}

static struct rem_word rem_commit_value(u32 sequence, u32 body_crc)
{
	u32 seed[3] = { REM_WORD_COMMIT, sequence, body_crc };

	return (struct rem_word){ sequence, rem_crc(seed, sizeof(seed)) };
}

static bool rem_consumed_valid(struct rem_word word)
{
	struct rem_word right = rem_consumed_value(word.sequence);

	return word.sequence && word.check == right.check;
}

static bool rem_block_valid(const struct rem_block *block)
{
	return block->magic == REM_BLOCK_MAGIC &&
	       block->version == REM_VERSION &&
	       block->block_bytes == REM_BLOCK_BYTES &&
	       block->region_bytes == rem.region_bytes &&
	       block->crc == rem_crc(block, offsetof(typeof(*block), crc));
}

/*
 * Clears a damaged commit word: because of it the loader would refuse the next
 * good image. Context: at boot, when every good image has been consumed.
 */
static void rem_commit_check(unsigned int slot)
{
	struct rem_word *word = rem_commit_word(slot);
	struct rem_body *body = rem_body(slot);
	u32 bytes = READ_ONCE(body->body_bytes);
	struct rem_word right;

	if (bytes >= REM_BODY_HEADER_BYTES && bytes <= REM_BODY_STRIDE_BYTES) {
		right = rem_commit_value(word->sequence, rem_crc(body, bytes));
		if (word->sequence && (word->sequence & 1) == slot &&
		    body->sequence == word->sequence &&
		    word->check == right.check)
			return;
	}
	rem_word_store(word, (struct rem_word){});
}

/*
 * A cold boot found no block, or a consumed word with a wrong checksum: nothing
 * can be entered, and this kernel formats the block. The header comes last, so
 * that a cut in between leaves "no block".
 */
static void rem_block_format(struct rem_block *block)
{
	static const struct rem_block none;
	static const struct rem_word zero;
	struct rem_block header = {
		.magic = REM_BLOCK_MAGIC,
		.version = REM_VERSION,
		.block_bytes = REM_BLOCK_BYTES,
		.region_bytes = rem.region_bytes,
	};
	struct rem_word consumed = *rem_consumed_word();
	u32 newest = max3(rem_commit_word(0)->sequence,
			  rem_commit_word(1)->sequence, 1u);

	/* Sequences grow, also if the loader has cleared both commit words. */
	if (rem_consumed_valid(consumed))
		newest = max(newest, consumed.sequence);
	*block = none;
	rem_flush(block, sizeof(*block));
	rem_word_store(rem_commit_word(0), zero);
	rem_word_store(rem_commit_word(1), zero);
	rem_word_store(rem_consumed_word(), rem_consumed_value(newest));
	header.crc = rem_crc(&header, offsetof(typeof(header), crc));
	*block = header;
	rem_flush(block, sizeof(*block));
}

/**
 * rem_record_open - map the record block and make it valid
 * @region_phys: start of the NVRAM region
 * @region_bytes: its size
 *
 * Context: process, once, late in boot.
 * Return: 0 or a negative errno.
 */
int rem_record_open(phys_addr_t region_phys, u64 region_bytes)
{
	struct rem_block *block;

	/* The loader's tables come after it; others map them. */
	rem.block = memremap(region_phys, REM_ACPI_OFFSET, MEMREMAP_WB);
	if (!rem.block)
		return -ENOMEM;
	rem.region_phys = region_phys;
	rem.region_bytes = region_bytes;
	block = (struct rem_block *)rem.block;
	rem_trust_read();
	rem_commit_check(0);
	rem_commit_check(1);
	if (!rem_block_valid(block) ||
	    !rem_consumed_valid(*rem_consumed_word()))
		rem_block_format(block);
	return 0;
}

/** rem_record_note - Return: the loader's note on why it booted as it did. */
const struct rem_boot_note *rem_record_note(void)
{
	return (void *)rem.block + REM_NOTE_OFFSET;
}

/* Chooses the sequence of the next Stop; 0: none is left. */
static void rem_record_next(void)
{
	u32 newest = max3(rem_commit_word(0)->sequence,
			  rem_commit_word(1)->sequence,
			  rem_consumed_word()->sequence);

	rem.sequence = newest == REM_SEQUENCE_LAST ? 0 : newest + 1;
}

static const struct rem_desc *rem_desc(void)
{
	return (void *)rem.block + REM_DESC_OFFSET;
}

static size_t rem_desc_bytes(void)
{
	return rem_desc()->count * sizeof(struct rem_desc_entry);
}

/** rem_record_described - Return: whether the loader has described the machine. */
bool rem_record_described(void)
{
	const struct rem_desc *desc = rem_desc();

	return desc->magic == REM_DESC_MAGIC &&
	       desc->count <= REM_DESC_ENTRIES_MAX &&
	       desc->crc == rem_crc(desc + 1, rem_desc_bytes());
}

/**
 * rem_record_table - the loader's machine description
 * @ret_count: set to the number of entries
 *
 * Context: any, after rem_record_open().
 * Return: the first entry.
 */
const struct rem_desc_entry *rem_record_table(unsigned int *ret_count)
{
	const struct rem_desc *desc = rem_desc();

	*ret_count = min_t(u32, READ_ONCE(desc->count), REM_DESC_ENTRIES_MAX);
	return (const void *)(desc + 1);
}

/** rem_record_nvram - Return: whether the loader has described memory as NVRAM. */
bool rem_record_nvram(u64 start, u64 bytes)
{
	const struct rem_desc *desc = rem_desc();

	return rem_nvram_contains((void *)(desc + 1), desc->count, start,
				  bytes);
}

static int rem_body_prepare(struct rem_body *body)
{
	const struct rem_desc *desc = rem_desc();
	size_t bytes = rem_desc_bytes();

	if (!rem_record_described()) {
		rem.why = "no valid machine description";
		return -EBADMSG;
	}

	*body = (struct rem_body){
		.magic = REM_BODY_MAGIC,
		.version = REM_VERSION,
		.body_bytes = REM_BODY_HEADER_BYTES + bytes,
		.stop_reason = REM_STOP_POWER,
		.stop_mode = rem.stop_mode,
		.region_phys = rem.region_phys,
		.region_bytes = rem.region_bytes,
		.entry_phys = __pa_symbol(rem_go_entry),
		.entry_cr3 = rem_pagetable_cr3(),
		.context_phys = __pa_symbol(rem_contexts),
		.context_bytes = sizeof(struct rem_context),
		.cpu_count = cpumask_last(cpu_present_mask) + 1,
		.desc_offset = REM_BODY_HEADER_BYTES,
		.desc_count = desc->count,
		.tsc_khz = rem_ticks_khz(),
	};
#ifdef CONFIG_STACKTRACE_BUILD_ID
	memcpy(body->build_id, vmlinux_build_id, sizeof(body->build_id));
#endif
	memcpy((void *)body + body->desc_offset, desc + 1, bytes);
	rem_hold_write(body);
	rem.why = rem_body_wrong(body, (void *)body + body->desc_offset);
	if (!rem.why)
		rem.why = rem_trust_prepare(body);
	return rem.why ? -EINVAL : 0;
}

/**
 * rem_record_prepare - open the next slot and fill in what does not change
 *
 * Every image has been consumed by now. The commit word of the next slot is
 * cleared before its body is written. The other slot is left alone: because of
 * its sequence the next one is greater.
 *
 * The body is judged by the loader's own checks, with what a Stop will change
 * filled in by possible values.
 *
 * Context: process.
 * Return: 0 or a negative errno, with the reason in rem.why: -EBADMSG if the
 * checksum of the loader's machine description is wrong, -EINVAL if the loader
 * would refuse the image, -EOPNOTSUPP if a CPU is in a mode that Go cannot restore,
 * or -ENOSPC if no sequence number is left.
 */
int rem_record_prepare(void)
{
	rem.why = rem_cpus_refused();
	if (rem.why)
		return -EOPNOTSUPP;
	rem_record_next();
	if (!rem.sequence) {
		rem.why = "no sequence number is left";
		return -ENOSPC;
	}
	rem_word_store(rem_commit_word(rem.sequence & 1), (struct rem_word){});
	return rem_body_prepare(rem_body(rem.sequence & 1));
}

/*
 * After the write-back of all CPUs, so that its time is the end of it. Flushes what
 * it stores to; the rest of the body is as it was when the machine was armed.
 * Returns the checksum of the body.
 */
static u32 rem_body_finish(struct rem_body *body)
{
	body->sequence = rem.sequence;
	body->stop_reason = rem.stop_reason;
	body->stop_mode = rem.running_mode;
	rem_hold_write(body);
	rem_trust_contexts(body);
	body->realtime_ns = ktime_get_real_fast_ns();
	body->boottime_ns = ktime_get_boot_fast_ns();
	body->monotonic_ns = ktime_get_mono_fast_ns();
	body->stop_begin_tsc = rem.stop_begin_tsc;
	body->tsc = rem_ticks();
	body->header_crc = rem_crc(body, REM_BODY_HEADER_CRC_BYTES);
	rem_trust_header(body);
	rem_flush(body, REM_BODY_HEADER_BYTES);
	return rem_crc(body, body->body_bytes);
}

static void rem_commit_store(unsigned int slot, u32 body_crc)
{
	struct rem_word word = rem_commit_value(rem.sequence, body_crc);

	rem_word_store(rem_commit_word(slot), word);
}

/**
 * rem_record_commit - make the image valid and wait for the end of power
 *
 * Called below rem_save_and_call() when every CPU has written back its caches.
 * What is stored after that is flushed line by line: the counter of CPUs (fast.c),
 * the header of the body, the timeline, the commit word. The stack below the saved
 * context is dead.
 *
 * After Go, rem_save_and_call() returns instead of this function.
 *
 * Context: one CPU, all others parked or off, interrupts off.
 * Return: does not return if it commits; -ENOSPC if no sequence number is
 * left.
 */
int rem_record_commit(void)
{
	unsigned int slot = rem.sequence & 1;
	u32 body_crc;

	if (!rem.sequence)
		return -ENOSPC;
	body_crc = rem_body_finish(rem_body(slot));
	rem_event(REM_EVENT_STOP_BODY, 0);
	rem_timeline_flush();
	/* Everything before this line is on media after it. */
	mb();

	rem_commit_store(slot, body_crc);
	rem_trust_forget();
	rem_nvdimm_save();
	rem_power_report_stopped();
	rem_power_wait();
}

/** rem_record_account - after Go: account how long its Stop took. */
void rem_record_account(void)
{
	const struct rem_body *body = rem_body(rem.sequence & 1);

	rem_budget_account(body->stop_begin_tsc, body->tsc);
}

/** rem_record_entries - Return: number of entries of the machine description. */
unsigned int rem_record_entries(void)
{
	return READ_ONCE(rem_desc()->count);
}

/**
 * rem_record_report - after Go: one line in the log
 *
 * Context: process, armed again: the next sequence is chosen, and the body of the
 * last one is as its Stop left it.
 */
void rem_record_report(void)
{
	const struct rem_body *body = rem_body((rem.sequence - 1) & 1);
	u64 took = body->tsc - body->stop_begin_tsc;
	/* A clock that was set back, or that no battery kept, may be behind the Stop. */
	s64 since_ns = max_t(s64, ktime_get_real_ns() - body->realtime_ns, 0);

	pr_info("remanence: resume %u: Stop took %llu us, %llu s ago\n",
		rem.resumes, div_u64(took * USEC_PER_MSEC, rem_ticks_khz()),
		div_u64(since_ns, NSEC_PER_SEC));
}
