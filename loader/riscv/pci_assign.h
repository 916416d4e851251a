/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_PCI_ASSIGN_H
#define LOADER_PCI_ASSIGN_H

/*
 * Give the functions of bus 0 addresses, as firmware of this kind does not: those that
 * the loader talks to. A kernel chooses its own.
 */
void pci_assign(void);

#endif /* LOADER_PCI_ASSIGN_H */
