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
 * @facs: there is a FACS, so the lock exists
 * @uses: how often the global lock was acquired since boot, with the one to find that
 *	out; 0: somebody holds it now
 *
 * The fast path may stop a CPU in the middle of what the lock protects, and firmware has
 * lost its half of that with the power. The portable path freezes tasks and suspends
 * devices first, as hibernation does.
 *
 * Return: its name, or NULL.
 */
const char *rem_acpi_blocker(bool facs, unsigned int uses)
{
	return facs && uses != 1 ? "ACPI's global lock" : NULL;
}
