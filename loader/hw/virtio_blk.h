/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#ifndef LOADER_VIRTIO_BLK_H
#define LOADER_VIRTIO_BLK_H

#include "pci.h"

#define VIRTIO_BLK_SERIAL_BYTES 20u

struct virtio_blk_identity {
	u64 sectors;   /* of 512 bytes */
	u8 serial[24]; /* zero-padded */
};

bool virtio_blk_is(const struct pci_function *function);

/*
 * Read size and serial number of a virtio 1.0 disk. The device is reset before
 * and after. False if it is no such disk, is not mapped or does not answer.
 */
bool virtio_blk_identify(const struct pci_function *function,
			 struct virtio_blk_identity *ret_identity);

#endif /* LOADER_VIRTIO_BLK_H */
