/* SPDX-License-Identifier: GPL-2.0-only */
/* What trust.c and text.c share: the page of DRAM with the key, and its stack. */
#ifndef REM_TRUST_H
#define REM_TRUST_H

#include <linux/remanence/rem_mac.h>
#include <linux/types.h>

/*
 * struct rem_trust_page - the page of DRAM; the stack comes down from its end
 * @key: from the loader; the sum in it is kept right
 * @mac: of the Stop in progress
 */
struct rem_trust_page {
	struct rem_key key;
	struct rem_mac mac;
};

/* trust.c; NULL: there is no key */
extern struct rem_trust_page *rem_trust_page;
void rem_trust_on_page(void (*fn)(void *arg), void *arg);

/* text.c */
#ifdef CONFIG_X86_64
const char *rem_text_prepare(struct rem_body *body);
unsigned int rem_text_kib(void);
#else
/* There is no TPM whose key could authenticate anything. */
static inline const char *rem_text_prepare(struct rem_body *body)
{
	return NULL;
}

static inline unsigned int rem_text_kib(void)
{
	return 0;
}
#endif

#endif /* REM_TRUST_H */
