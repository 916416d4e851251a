/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/iommu/intel/iommu.c, whose units it needs. Tables, queues
 * and everything else of an IOMMU lie in memory; its registers do not.
 */

/**
 * rem_iommu_prepare - copy what only the registers know
 *
 * The fault interrupt's vector is set once, at boot; nothing is left to be read
 * at Stop.
 *
 * Context: process. Return: nothing.
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
 * rem_iommu_go - let every unit translate again
 *
 * Context: Go, one CPU, interrupts off, before any device masters the bus.
 * Return: nothing.
 */
void rem_iommu_go(void)
{
	struct dmar_drhd_unit *drhd;
	struct intel_iommu *iommu;

	/*
	 * The copy of the command register says what ran before the cut. The
	 * first command would switch that on, before there is a root table.
	 */
	for_each_iommu(iommu, drhd)
		iommu->gcmd &= ~(DMA_GCMD_TE | DMA_GCMD_IRE);
	if (intel_iommu_enabled)
		iommu_resume(NULL);
}
