/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/iommu/intel/iommu.c. Tables and queues of an IOMMU lie in
 * memory that keeps its content; its registers do not.
 */
#include "hooks.h"

/**
 * rem_iommu_prepare - copy the registers that have no other copy
 *
 * These are the registers of the fault interrupt, which are set once, at boot; so
 * Stop reads no register.
 *
 * Context: process.
 */
void rem_iommu_prepare(void)
{
	struct dmar_drhd_unit *drhd;
	struct intel_iommu *iommu;
	unsigned long flags;

	for_each_active_iommu(iommu, drhd) {
		raw_spin_lock_irqsave(&iommu->register_lock, flags);
		iommu->iommu_state[SR_DMAR_FECTL_REG] =
			readl(iommu->reg + DMAR_FECTL_REG);
		iommu->iommu_state[SR_DMAR_FEDATA_REG] =
			readl(iommu->reg + DMAR_FEDATA_REG);
		iommu->iommu_state[SR_DMAR_FEADDR_REG] =
			readl(iommu->reg + DMAR_FEADDR_REG);
		iommu->iommu_state[SR_DMAR_FEUADDR_REG] =
			readl(iommu->reg + DMAR_FEUADDR_REG);
		raw_spin_unlock_irqrestore(&iommu->register_lock, flags);
	}
}

/**
 * rem_iommu_go - restore every IOMMU
 *
 * Context: Go, one CPU, interrupts off, before any device masters the bus.
 */
void rem_iommu_go(void)
{
	struct dmar_drhd_unit *drhd;
	struct intel_iommu *iommu;

	/*
	 * The driver's copy of the command register has translation and
	 * remapping enabled. Its first command would enable them, before the
	 * root table is set.
	 */
	for_each_iommu(iommu, drhd)
		iommu->gcmd &= ~(DMA_GCMD_TE | DMA_GCMD_IRE);
	if (intel_iommu_enabled)
		iommu_resume(NULL);
}
