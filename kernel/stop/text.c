// SPDX-License-Identifier: GPL-2.0-only
/*
 * Invariant 14: the kernel's text and read-only data are, when the loader enters the
 * image, what they were in Stop. The MAC covers a sum of them (rem_text.h), which was
 * made when the kernel had made them read-only and is kept right since: all that
 * changes text afterwards (jump labels, static calls, ftrace, kprobes, kgdb) passes
 * __text_poke(). So Stop has nothing to sum up.
 *
 * What is covered: all pages from _text to _etext and from __start_rodata to
 * __end_rodata, the vDSO and what is read-only after init among them. What is not, and
 * is trusted as all other memory: modules, code of BPF, trampolines of ftrace and
 * kprobes, and data.
 *
 * A Stop comes before or after a change, never within one: it is made with interrupts
 * off, from before the first byte changes until the sum is right again. text_mutex
 * excludes others; kgdb, which does without, refuses to change text while it is taken.
 *
 * Key and sum must not get into main memory, also while the machine runs: nothing may
 * save registers there meanwhile. So interrupts are off, an NMI is put off, and
 * registers are cleared before they are on again.
 */
#include <linux/irqflags.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/pfn.h>
#include <linux/remanence/rem_judge.h>
#include <linux/remanence/rem_poke.h>
#include <linux/remanence/rem_text.h>
#include <linux/sizes.h>
#include <linux/string.h>
#include <asm/sections.h>
#include "stop.h"
#include "trust.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

#define REM_BLOCK_WORDS (REM_TEXT_BLOCK_BYTES / sizeof(u64))
#define REM_PAGE_CHUNKS (PAGE_SIZE / REM_TEXT_CHUNK_BYTES)

/* The policy: whether text is authenticated, too. */
static bool rem_text_asked = true;
/* The sum in the page of the key is right. */
static bool rem_text_kept;
/* Why it will never be again. */
static const char *rem_text_lost;
/* Of the loader that has handed the key over. */
static u64 rem_text_counter;

static int rem_text_param(const char *value, const struct kernel_param *kp)
{
	if (sysfs_streq(value, "text"))
		rem_text_asked = true;
	else if (sysfs_streq(value, "record") || sysfs_streq(value, "off"))
		rem_text_asked = false;
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops rem_text_ops = { .set = rem_text_param };
module_param_cb(trust, &rem_text_ops, NULL, 0);
MODULE_PARM_DESC(trust, "of an authenticated image: text (default), or the record only: record");

static const u8 *rem_text_begin(void)
{
	return (const u8 *)PAGE_ALIGN_DOWN((unsigned long)_text);
}

static unsigned long rem_text_pages(void)
{
	return PFN_UP((unsigned long)_etext) - PFN_DOWN((unsigned long)_text);
}

static const u8 *rem_rodata_begin(void)
{
	return (const u8 *)PAGE_ALIGN_DOWN((unsigned long)__start_rodata);
}

static unsigned long rem_rodata_pages(void)
{
	return PFN_UP((unsigned long)__end_rodata) -
	       PFN_DOWN((unsigned long)__start_rodata);
}

/** rem_text_kib - Return: how much of the kernel is authenticated. Context: any. */
unsigned int rem_text_kib(void)
{
	return READ_ONCE(rem_text_kept) ?
	       (rem_text_pages() + rem_rodata_pages()) * (PAGE_SIZE / SZ_1K) : 0;
}

/* No image of this kernel could be entered any more. Context: any but NMI. */
static void rem_text_give_up(const char *why)
{
	WRITE_ONCE(rem_text_kept, false);
	rem_text_lost = why;
	if (cmpxchg(&rem.state, REM_ARMED, REM_REFUSED) == REM_ARMED)
		rem.why = why;
	rem_promise_update();
}

/* Call @fn, which has the key in registers. Context: with text_mutex, or kgdb. */
static void rem_text_secretly(void (*fn)(void *arg), void *arg)
{
	struct rem_secret secret;
	unsigned long flags;
	bool kept;

	local_irq_save(flags);
	rem_secret_begin(&secret);
	rem_trust_on_page(fn, arg);
	kept = rem_secret_end(&secret);
	local_irq_restore(flags);
	if (!kept)
		rem_text_give_up("a machine check has seen the key of the kernel's text");
}

static void rem_text_page_fn(void *page)
{
	struct rem_key *key = &rem_trust_page->key;

	rem_text_add(key->text_sum, key->text_key, page, REM_PAGE_CHUNKS);
}

static void rem_text_add_pages(const u8 *at, unsigned long pages)
{
	for (; pages; pages--, at += PAGE_SIZE)
		rem_text_secretly(rem_text_page_fn, (void *)at);
}

/**
 * rem_text_sum_up - make the sum of this kernel's text and read-only data
 *
 * Context: process, once, not armed, when they are read-only.
 * Return: NULL, or why no image could be entered.
 */
const char *rem_text_sum_up(void)
{
	struct rem_key *key = &rem_trust_page->key;

	mutex_lock(&text_mutex);
	memset(key->text_sum, 0, sizeof(key->text_sum));
	rem_text_add_pages(rem_text_begin(), rem_text_pages());
	rem_text_add_pages(rem_rodata_begin(), rem_rodata_pages());
	WRITE_ONCE(rem_text_kept, !rem_text_lost);
	mutex_unlock(&text_mutex);
	return rem_text_lost;
}

/**
 * rem_text_waits - Return: whether the machine cannot be armed before rem_sealed()
 *
 * Context: process, when it is prepared.
 */
bool rem_text_waits(void)
{
	return rem_text_counter && !rem_text_kept;
}

/**
 * rem_text_prepare - say in the next image where text is
 * @body: of the image, with its key
 *
 * Context: process, not armed.
 * Return: NULL, or why the loader would refuse the image.
 */
const char *rem_text_prepare(struct rem_body *body)
{
	u64 counter = rem_trust_page->key.text_counter;

	if (!rem_text_asked)
		return NULL;
	if (rem_text_lost)
		return rem_text_lost;
	if (rem_text_counter && counter != rem_text_counter)
		return "the loader has handed over no sum of this kernel's text";
	rem_text_counter = counter;
	body->text_phys = __pa_symbol(rem_text_begin());
	body->text_pages = rem_text_pages();
	body->text_counter = counter;
	body->rodata_page = PHYS_PFN(__pa_symbol(rem_rodata_begin()) -
				     body->text_phys);
	body->rodata_pages = rem_rodata_pages();
	return rem_text_wrong(body, (void *)body + body->desc_offset);
}

/**
 * rem_poke_begin - text is going to change
 * @poke: set for rem_poke_end()
 * @addr: where
 * @bytes: how many
 *
 * Context: with text_mutex, or kgdb; interrupts off until rem_poke_end().
 */
void notrace rem_poke_begin(struct rem_poke *poke, const void *addr,
			    size_t bytes)
{
	const u8 *at = PTR_ALIGN_DOWN(addr, REM_TEXT_BLOCK_BYTES);
	const u8 *end = PTR_ALIGN(addr + bytes, REM_TEXT_BLOCK_BYTES);
	const u8 *text = rem_text_begin();

	poke->words = 0;
	if (!READ_ONCE(rem_text_kept) || at < text ||
	    at >= text + rem_text_pages() * PAGE_SIZE)
		return;
	if (end - at > sizeof(poke->before)) {
		rem_text_give_up("a change of the kernel's text was too large");
		return;
	}
	poke->at = (const u64 *)at;
	poke->words = (end - at) / sizeof(u64);
	memcpy(poke->before, at, end - at);
}

/* struct rem_text_change - a block of a change */
struct rem_text_change {
	unsigned long block;
	unsigned long chunks;
	const u64 *before;
	const u64 *after;
};

static void rem_text_change_fn(void *arg)
{
	const struct rem_text_change *change = arg;
	struct rem_key *key = &rem_trust_page->key;

	rem_text_replace(key->text_sum, key->text_key, change->block,
			 change->chunks, change->before, change->after);
}

/**
 * rem_poke_end - text has changed
 * @poke: as rem_poke_begin() has left it
 *
 * Context: the same.
 */
void notrace rem_poke_end(const struct rem_poke *poke)
{
	unsigned long chunks = (rem_text_pages() + rem_rodata_pages()) *
			       REM_PAGE_CHUNKS;
	unsigned int i;

	for (i = 0; i < poke->words; i += REM_BLOCK_WORDS) {
		unsigned long byte = (const u8 *)(poke->at + i) -
				     rem_text_begin();
		struct rem_text_change change = {
			.block = byte % REM_TEXT_CHUNK_BYTES /
				 REM_TEXT_BLOCK_BYTES,
			.chunks = chunks - byte / REM_TEXT_CHUNK_BYTES,
			.before = poke->before + i,
			.after = poke->at + i,
		};

		rem_text_secretly(rem_text_change_fn, &change);
	}
}
