// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decisions of Stop as pure functions, which are tested on the host, too: no hardware,
 * no state of the kernel.
 */
#include "decide.h"

/**
 * rem_promise_decide - whether a power failure now saves what is in CPU caches
 * @facts: all that it depends on
 *
 * PWR_OK that is absent already cannot drop: a Stop that has not begun by then begins
 * late or never, and so much of the hold-up is over.
 *
 * Return: true if it does.
 */
bool rem_promise_decide(const struct rem_promise_facts *facts)
{
	if (facts->window)
		return false;
	if (facts->stopping)
		return facts->promised && !facts->exceeded;
	return facts->armed && facts->watched && facts->fast && facts->fits &&
	       facts->power_ok && facts->charged;
}

/**
 * rem_acpi_blocker - whether ACPI's state keeps the machine on the portable path
 * @facs: physical address of the FACS that the kernel uses; 0: there is none
 * @copies: where the loader's copies of tables begin, which are a part of the image
 * @copies_end: and end
 *
 * The FACS has the global lock, whose word the kernel may own at any moment. In a copy
 * it comes back with its owner, and firmware does not see it. In memory that firmware
 * shares the word is lost with the power, while its owner continues; the portable path
 * freezes tasks first, as hibernation does.
 *
 * Return: a name, or NULL.
 */
const char *rem_acpi_blocker(unsigned long long facs, unsigned long long copies,
			     unsigned long long copies_end)
{
	if (facs && (facs < copies || facs >= copies_end))
		return "a FACS that firmware shares";
	return NULL;
}
