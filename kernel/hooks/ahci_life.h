/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/ata/ahci.h: whether the registers of a port are those that its
 * commands in flight were written to. Go calls each interrupt handler once, before any
 * controller works (x86/apic.c).
 */
#ifndef REM_AHCI_LIFE_H
#define REM_AHCI_LIFE_H

#include "../machine.h"

/** rem_ahci_found - no command is in flight. Context: port locked, or not in use yet. */
static inline void rem_ahci_found(struct ahci_port_priv *pp)
{
	pp->rem_life = rem_devices_life();
}

/** rem_ahci_is_lost - Return: whether they have been lost with the power since then. */
static inline bool rem_ahci_is_lost(const struct ahci_port_priv *pp)
{
	return pp->rem_life != rem_devices_life();
}

#endif /* REM_AHCI_LIFE_H */
