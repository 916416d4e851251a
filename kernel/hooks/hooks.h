/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of the headers in this directory. Each of these headers is
 * included by one existing kernel file whose private data it needs, and is
 * compiled there.
 */
#ifndef REM_HOOKS_H
#define REM_HOOKS_H

#ifdef MODULE
#error "Stop and Go call this driver: build it into the kernel, not as a module"
#endif

#include <linux/errno.h>
#include <linux/kconfig.h>
#include <linux/types.h>

struct gendisk;
struct pci_dev;
struct virtio_device;
struct virtqueue;

/* park_queue.h in kernel/stop_machine.c */
unsigned int rem_park_queue(int (*fn)(void *));

/* Read by net_batch.h in net/: CPUs gather for a Stop */
extern bool rem_cpus_gather;

/* timekeeping.h in kernel/time/timekeeping.c */
void rem_timekeeping_prepare(void);
void rem_timekeeping_stop(void);
void rem_timekeeping_go(bool resumed);

/* random.h in drivers/char/random.c */
void rem_random_reseed(const void *seed, size_t bytes);

/* vring_reseat.h in drivers/virtio/virtio_ring.c */
bool rem_virtqueue_can_reseat(struct virtqueue *vq);
unsigned int rem_virtqueue_reseat(struct virtqueue *vq);

/* virtio_blk_cache.h in drivers/block/virtio_blk.c */
bool rem_virtblk_cache_can(struct virtio_device *vdev);
int rem_virtblk_cache_set(struct virtio_device *vdev, bool on);
void rem_virtblk_cache_go(struct virtio_device *vdev);
int rem_virtblk_serial(struct virtio_device *vdev, char *ret_text,
		       size_t bytes);

/* nvme_cache.h in drivers/nvme/host/core.c */
#if IS_BUILTIN(CONFIG_NVME_CORE)
bool rem_nvme_cache_is_off(struct gendisk *disk);
bool rem_nvme_cache_can(struct gendisk *disk);
int rem_nvme_cache_set(struct gendisk *disk, bool on);
#else
static inline bool rem_nvme_cache_is_off(struct gendisk *disk)
{
	return false;
}

static inline bool rem_nvme_cache_can(struct gendisk *disk)
{
	return false;
}

static inline int rem_nvme_cache_set(struct gendisk *disk, bool on)
{
	return -EOPNOTSUPP;
}
#endif

/* ata_cache.h in drivers/ata/libata-core.c */
#if IS_BUILTIN(CONFIG_ATA)
bool rem_ata_cache_is_off(struct gendisk *disk);
#else
static inline bool rem_ata_cache_is_off(struct gendisk *disk)
{
	return false;
}
#endif

/* nvme_restart.h in drivers/nvme/host/pci.c */
int rem_nvme_restart(struct pci_dev *pdev);

/* imsic.h in drivers/irqchip/irq-riscv-imsic-early.c */
void rem_imsic_go(void);
void rem_imsic_repeat(void);

/* aplic.h in drivers/irqchip/irq-riscv-aplic-main.c */
const char *rem_aplic_refused(void);
unsigned int rem_aplic_registers(void);
void rem_aplic_save(void);
void rem_aplic_go(void);

/* plic.h in drivers/irqchip/irq-sifive-plic.c */
const char *rem_plic_refused(void);
unsigned int rem_plic_registers(void);
void rem_plic_save(void);
void rem_plic_go(void);
void rem_plic_go_cpu(void);
void rem_plic_repeat(void);

/* intel_iommu.h in drivers/iommu/intel/iommu.c */
#ifdef CONFIG_INTEL_IOMMU
void rem_iommu_prepare(void);
void rem_iommu_go(void);
#else
static inline void rem_iommu_prepare(void) { }
static inline void rem_iommu_go(void) { }
#endif

#endif /* REM_HOOKS_H */
