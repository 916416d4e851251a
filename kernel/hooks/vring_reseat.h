/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/virtio/virtio_ring.c: fits a ring to a device after reset.
 *
 * A virtio device starts with its ring indices at zero. Re-seating rewrites a
 * split ring, whose memory is kept, to match: requests that the device has
 * completed and the driver has not seen become the last entries of the used ring;
 * requests in flight become the first entries of the available ring. So no
 * completed request is repeated, no request in flight is lost, and drivers need
 * no change.
 */
#include "hooks.h"

#define REM_RING_ENTRIES_MAX 1024

static struct {
	DECLARE_BITMAP(skip, REM_RING_ENTRIES_MAX);
	struct vring_used_elem used[REM_RING_ENTRIES_MAX];
	u16 heads[REM_RING_ENTRIES_MAX];
} rem_reseat;

/**
 * rem_virtqueue_can_reseat - whether rem_virtqueue_reseat() can rewrite a ring
 * @_vq: the ring
 *
 * Context: any.
 * Return: true if it can.
 */
bool rem_virtqueue_can_reseat(struct virtqueue *_vq)
{
	struct vring_virtqueue *vq = to_vvq(_vq);

	return !vq->packed_ring &&
	       vq->split.vring.num <= REM_RING_ENTRIES_MAX;
}

/* Moves unseen completions to the end of the used ring; returns their number. */
static u16 rem_reseat_used(struct vring_virtqueue *vq)
{
	struct virtio_device *vdev = vq->vq.vdev;
	struct vring *ring = &vq->split.vring;
	u16 mask = ring->num - 1;
	u16 count = virtio16_to_cpu(vdev, ring->used->idx) - vq->last_used_idx;
	u16 i;

	/* The device wrote the index; ignore one that cannot be right. */
	if (count > ring->num)
		count = 0;
	for (i = 0; i < count; i++) {
		struct vring_used_elem elem =
			ring->used->ring[(vq->last_used_idx + i) & mask];
		u32 head = virtio32_to_cpu(vdev, elem.id);

		rem_reseat.used[i] = elem;
		if (head < ring->num)
			__set_bit(head, rem_reseat.skip);
	}
	for (i = 0; i < count; i++)
		ring->used->ring[ring->num - count + i] = rem_reseat.used[i];
	ring->used->idx = 0;
	vq->last_used_idx = -count;
	return count;
}

/*
 * Moves requests in flight to the start of the available ring, oldest first, and
 * returns their number. A request whose entry in the ring has been overwritten is
 * older than all that still have theirs.
 */
static u16 rem_reseat_available(struct vring_virtqueue *vq)
{
	struct virtio_device *vdev = vq->vq.vdev;
	struct vring *ring = &vq->split.vring;
	u16 mask = ring->num - 1;
	u16 next = ring->num;
	unsigned int i, head;

	for (i = 1; i <= ring->num; i++) {
		u16 at = (vq->split.avail_idx_shadow - i) & mask;

		head = virtio16_to_cpu(vdev, ring->avail->ring[at]);
		if (head >= ring->num || !vq->split.desc_state[head].data ||
		    __test_and_set_bit(head, rem_reseat.skip))
			continue;
		rem_reseat.heads[--next] = head;
	}
	for (head = 0; head < ring->num; head++)
		if (vq->split.desc_state[head].data &&
		    !__test_and_set_bit(head, rem_reseat.skip))
			rem_reseat.heads[--next] = head;
	for (i = next; i < ring->num; i++)
		ring->avail->ring[i - next] =
			cpu_to_virtio16(vdev, rem_reseat.heads[i]);
	return ring->num - next;
}

/**
 * rem_virtqueue_reseat - fit a ring to a device after reset
 * @_vq: a split ring, see rem_virtqueue_can_reseat()
 *
 * Context: Go, one CPU, interrupts off, device in reset.
 * Return: number of requests in flight, which the device will see again.
 */
unsigned int rem_virtqueue_reseat(struct virtqueue *_vq)
{
	struct vring_virtqueue *vq = to_vvq(_vq);
	struct virtio_device *vdev = _vq->vdev;
	struct vring *ring = &vq->split.vring;
	u16 in_flight;

	bitmap_zero(rem_reseat.skip, ring->num);
	rem_reseat_used(vq);
	in_flight = rem_reseat_available(vq);

	vq->split.avail_idx_shadow = in_flight;
	ring->avail->idx = cpu_to_virtio16(vdev, in_flight);
	vq->num_added = 0;
	/* Event indices and flags of the device refer to its old indices. */
	ring->used->flags = 0;
	if (vq->event) {
		vring_used_event(ring) =
			cpu_to_virtio16(vdev, vq->last_used_idx);
		vring_avail_event(ring) = cpu_to_virtio16(vdev, in_flight);
	}
	return in_flight;
}
