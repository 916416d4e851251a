/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef REM_RESUME_H
#define REM_RESUME_H

#include <linux/kconfig.h>
#include <linux/types.h>

struct gendisk;
struct pci_dev;
struct rem_context;
struct virtio_device;
struct virtqueue;

/* entry_64.S: where the loader enters; runs at its physical address. */
void rem_go_entry(void);
void rem_go_secondary(void);

/* pagetable.c */
int rem_pagetable_prepare(void);
phys_addr_t rem_pagetable_cr3(void);

/* cpu.c */
void rem_cpu_restore(struct rem_context *ctx);

/* smp.c */
void rem_cpus_start(void);

/* apic.c */
void rem_apic_prepare(void);
void rem_apic_restore(void);
void rem_interrupts_save(void);
void rem_interrupts_restore(void);
void rem_interrupts_repeat(void);
void rem_tick_resume(void);

/* pci.c */
int rem_devices_prepare(const char **ret_blocker);
unsigned int rem_devices_stop(void);
unsigned int rem_devices_go(void);
void rem_devices_finish(void);
unsigned int rem_devices_count(void);
void rem_devices_watch(void);

/* recover.c */
bool rem_recover_supported(struct pci_dev *pdev);
int rem_recover(struct pci_dev *pdev);

/* virtio.c; vring_reseat.h, built into drivers/virtio/virtio_ring.c */
bool rem_virtio_is(struct pci_dev *pdev);
bool rem_virtio_supported(struct pci_dev *pdev);
int rem_virtio_go(struct pci_dev *pdev);
void rem_virtio_finish(struct pci_dev *pdev);
bool rem_virtqueue_can_reseat(struct virtqueue *vq);
unsigned int rem_virtqueue_reseat(struct virtqueue *vq);

/* virtio_blk_cache.h, built into drivers/block/virtio_blk.c */
bool rem_virtblk_cache_can(struct virtio_device *vdev);
int rem_virtblk_cache_set(struct virtio_device *vdev, bool on);
void rem_virtblk_cache_go(struct virtio_device *vdev);

/* nvme_cache.h, built into drivers/nvme/host/core.c */
#if IS_BUILTIN(CONFIG_NVME_CORE)
bool rem_nvme_cache_is_off(struct gendisk *disk);
#else
static inline bool rem_nvme_cache_is_off(struct gendisk *disk)
{
	return false;
}
#endif

/* serial.c */
void rem_serial_finish(void);

/* intel_iommu.h, built into drivers/iommu/intel/iommu.c */
#ifdef CONFIG_INTEL_IOMMU
void rem_iommu_prepare(void);
void rem_iommu_go(void);
#else
static inline void rem_iommu_prepare(void) { }
static inline void rem_iommu_go(void) { }
#endif

/* timekeeping.h, built into kernel/time/timekeeping.c */
void rem_timekeeping_stop(void);
void rem_timekeeping_prepare(void);
void rem_timekeeping_go(bool resumed);

/* random.h, built into drivers/char/random.c */
void rem_random_reseed(const void *seed, size_t bytes);

/* trampoline.c */
int rem_trampoline_prepare(void);
void rem_trampoline_restore(void);
unsigned int rem_trampoline_pages(void);

/* entropy.c */
void rem_entropy_reseed(void);

#endif /* REM_RESUME_H */
