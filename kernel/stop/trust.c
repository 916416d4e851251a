// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 14: the loader enters only what this kernel authenticates in its Stop,
 * where there is a TPM that gives the loader a key for it.
 *
 * The key is in a page of DRAM. Main memory keeps its content without power and is
 * what the image is stored in, so neither the key nor anything that depends on it may
 * ever be there: the function runs with its stack in the same page, interrupts off,
 * and in Stop, when NMIs are ignored and no other CPU runs. text.c, which follows the
 * kernel's text while the machine runs, has to take more care.
 */
#include <linux/crc32.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/math64.h>
#include <linux/remanence/rem_text.h>
#include <linux/sysfs.h>
#include <linux/time64.h>
#include "stop.h"
#include "trust.h"

struct rem_trust_page *rem_trust_page;
static struct rem_trust rem_trust = { .state = REM_TRUST_OFF };
/* How long a Stop is busy with it at most. */
static u64 rem_trust_ns;
static u32 rem_trust_cpus;
#define REM_TRUST_TIMES 4
/* Digest of the machine description of the image, which depends on no key. */
static u8 rem_trust_table[REM_MAC_BYTES];

static bool rem_trust_valid(const struct rem_trust *trust)
{
	return trust->magic == REM_TRUST_MAGIC &&
	       trust->version == REM_VERSION &&
	       trust->crc == ~__crc32c_le(~0, (void *)trust,
					  offsetof(typeof(*trust), crc));
}

/**
 * rem_trust_read - what the loader of this boot or Go has said
 *
 * A loader that knows no TPM writes nothing.
 *
 * Context: process.
 */
void rem_trust_read(void)
{
	const struct rem_trust *trust = (void *)rem.block + REM_TRUST_OFFSET;

	if (rem_trust_valid(trust))
		rem_trust = *trust;
	else
		rem_trust = (struct rem_trust){ .state = REM_TRUST_OFF };
}

/* The page stays where it is for as long as this kernel lives. */
static const char *rem_trust_map(void)
{
	const struct rem_key *key;

	if (!rem_trust_page) {
		/* From now on no program can map it, if /dev/mem is strict. */
		request_mem_region_exclusive(rem_trust.key_phys,
					     REM_KEY_PAGE_BYTES,
					     "key of images");
		rem_trust_page = memremap(rem_trust.key_phys,
					  REM_KEY_PAGE_BYTES, MEMREMAP_WB);
	}
	if (!rem_trust_page)
		return "the page with the key of images cannot be mapped";
	key = &rem_trust_page->key;
	if (key->magic != REM_KEY_MAGIC ||
	    key->key_counter != rem_trust.key_counter)
		return "the key of images is not where the loader has put it";
	return NULL;
}

/* Without a key, so anywhere: a digest takes as long as the real thing. */
static u64 rem_trust_once(const struct rem_body *body)
{
	static const u64 none[3];
	u8 digest[REM_MAC_BYTES];
	u64 begin = rem_ticks();
	struct rem_mac mac;

	rem_mac_begin(&mac, NULL);
	rem_mac_contexts(&mac, rem_trust_table, body, rem_contexts);
	rem_mac_text(&mac, body, none);
	rem_mac_header(&mac, body, digest);
	return rem_ticks() - begin;
}

/*
 * What it takes on this machine: the least of some times, doubled as in budget.c. In
 * Stop it comes after the write-back of all caches, which leaves them empty.
 */
static u64 rem_trust_measure(const struct rem_body *body)
{
	size_t bytes = (size_t)body->context_bytes * body->cpu_count;
	u64 least = U64_MAX;
	unsigned int i;

	for (i = 0; i < REM_TRUST_TIMES; i++) {
		rem_flush(rem_contexts, bytes);
		rem_flush(body, REM_BODY_HEADER_BYTES);
		least = min(least, rem_trust_once(body));
	}
	return mul_u64_u32_div(2 * least, NSEC_PER_MSEC, rem_ticks_khz());
}

/**
 * rem_trust_prepare - take what the next image is authenticated by
 * @body: of the image; all but what a Stop fills in is there
 *
 * Context: process, not armed.
 * Return: NULL, or why the loader would refuse the image.
 */
const char *rem_trust_prepare(struct rem_body *body)
{
	const char *why;

	rem_trust_read();
	if (rem_trust.state == REM_TRUST_OFF)
		return NULL;
	if (rem_trust.state != REM_TRUST_ON)
		return "no TPM gives a key for images, and no other would be entered";
	why = rem_trust_map();
	if (why)
		return why;
	body->key_counter = rem_trust.key_counter;
	body->key_phys = rem_trust.key_phys;
	body->key_id = rem_trust.key_id;
	body->measured = rem_trust.measured;
	why = rem_text_prepare(body);
	if (why)
		return why;
	rem_mac_table(body, body, rem_trust_table);
	if (rem_trust_cpus != body->cpu_count)
		rem_trust_ns = rem_trust_measure(body);
	rem_trust_cpus = body->cpu_count;
	return NULL;
}

/**
 * rem_trust_on_page - call a function with its stack in the page of the key
 * @fn: of this file or of text.c, so that no checker looks at its stack
 * @arg: its argument
 *
 * Context: interrupts off, one CPU at a time: in Stop, or with
 * text_mutex, or in kgdb (text.c).
 */
void rem_trust_on_page(void (*fn)(void *arg), void *arg)
{
	rem_call_on_stack((u8 *)rem_trust_page + REM_KEY_PAGE_BYTES, fn, arg);
}

static void rem_trust_contexts_fn(void *arg)
{
	struct rem_key *key = &rem_trust_page->key;
	struct rem_mac *mac = &rem_trust_page->mac;

	rem_mac_begin(mac, key->key);
	rem_mac_contexts(mac, rem_trust_table, arg, rem_contexts);
	rem_text_reduce(key->text_sum);
	rem_mac_text(mac, arg, key->text_sum);
}

static void rem_trust_header_fn(void *arg)
{
	struct rem_body *body = arg;

	rem_mac_header(&rem_trust_page->mac, body, body->mac);
	memzero_explicit(&rem_trust_page->mac, sizeof(rem_trust_page->mac));
}

/**
 * rem_trust_contexts - authenticate the contexts of all CPUs and the kernel's text
 * @body: of the image
 *
 * Context: Stop, one CPU, when all contexts are saved.
 */
void rem_trust_contexts(struct rem_body *body)
{
	if (body->key_counter)
		rem_trust_on_page(rem_trust_contexts_fn, body);
}

/**
 * rem_trust_forget - the key is not needed any more
 *
 * DRAM may keep its content for a moment. With the key somebody could forge this image,
 * as the TPM counts only when it is entered.
 *
 * Context: Stop, after the commit.
 */
void rem_trust_forget(void)
{
	if (!rem_trust_page)
		return;
	memzero_explicit(rem_trust_page, REM_KEY_PAGE_BYTES);
	rem_flush(rem_trust_page, REM_KEY_PAGE_BYTES);
}

/**
 * rem_trust_header - authenticate the header, and finish it by that
 * @body: of the image, after rem_trust_contexts()
 *
 * Context: the same, when nothing else of the header changes any more.
 */
void rem_trust_header(struct rem_body *body)
{
	if (body->key_counter)
		rem_trust_on_page(rem_trust_header_fn, body);
}

/** rem_trust_show - whether images are authenticated. Context: process. */
ssize_t rem_trust_show(char *buf)
{
	u64 tpm_us = div_u64(rem_trust.tpm_ticks * USEC_PER_MSEC,
			     rem_ticks_khz());

	switch (READ_ONCE(rem_trust.state)) {
	case REM_TRUST_ON:
		return sysfs_emit(buf, "on counter %llu tpm_us %llu text_kib %u%s\n",
				  rem_trust.key_counter, tpm_us, rem_text_kib(),
				  " modules trusted data trusted");
	case REM_TRUST_NO_KEY:
		return sysfs_emit(buf, "no-key tpm_us %llu\n", tpm_us);
	default:
		return sysfs_emit(buf, "off\n");
	}
}

/** rem_trust_bound_ns - Return: what that adds to a Stop at most. Context: any. */
u64 rem_trust_bound_ns(void)
{
	return READ_ONCE(rem_trust.state) == REM_TRUST_ON ? rem_trust_ns : 0;
}
