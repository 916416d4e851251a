/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_PCI_ASSIGN_H
#define LOADER_PCI_ASSIGN_H

/*
 * Number the buses and give functions addresses, as firmware of this kind does not: the
 * loader describes all of them, and talks to some. A kernel chooses its own.
 */
void pci_assign(void);

#endif /* LOADER_PCI_ASSIGN_H */
