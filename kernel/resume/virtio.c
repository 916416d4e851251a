// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts a virtio PCI device again, after its rings were re-seated
 * (hooks/vring_reseat.h): with the features that the driver negotiated at probe,
 * and with its queues at the same addresses.
 */
#include <linux/netdevice.h>
#include <linux/pci.h>
#include <linux/rtnetlink.h>
#include <linux/virtio.h>
#include <linux/virtio_config.h>
#include <linux/virtio_ids.h>
#include <linux/virtio_net.h>
#include <linux/virtio_pci.h>
#include <linux/virtio_pci_modern.h>
#include <net/net_namespace.h>
/* This header is included for its structures. */
#pragma GCC diagnostic ignored "-Wunused-function"
#include "virtio_pci_common.h"
#include "../hooks/hooks.h"
#include "decide.h"
#include "resume.h"

/* A device that is in reset after this many reads is broken. */
#define REM_VIRTIO_RESET_POLLS_MAX 100000

/* A queue was used (virtio 1.2, 4.1.4.5.1), and the configuration has changed. */
#define REM_VIRTIO_ISR_ALL (BIT(0) | VIRTIO_PCI_ISR_CONFIG)

/**
 * rem_virtio_is - whether virtio-pci drives a PCI function
 * @pdev: the function
 *
 * Context: any.
 * Return: true if it does.
 */
bool rem_virtio_is(struct pci_dev *pdev)
{
	return pdev->driver && !strcmp(pdev->driver->name, "virtio-pci");
}

/**
 * rem_virtio_device - Return: the device on the virtio bus, or NULL.
 * @pdev: a function for which rem_virtio_is() is true, locked
 */
struct device *rem_virtio_device(struct pci_dev *pdev)
{
	struct virtio_pci_device *vp_dev = pci_get_drvdata(pdev);

	return vp_dev ? &vp_dev->vdev.dev : NULL;
}

/**
 * rem_virtio_supported - whether rem_virtio_go() can start a device
 * @pdev: a function for which rem_virtio_is() is true
 *
 * Context: process.
 * Return: true if it can.
 */
bool rem_virtio_supported(struct pci_dev *pdev)
{
	struct virtio_pci_device *vp_dev = pci_get_drvdata(pdev);
	struct virtqueue *vq;

	if (!vp_dev)
		return false;
	/* Nobody uses it; a driver that is bound later is noticed. */
	if (!vp_dev->vdev.dev.driver)
		return true;
	if (vp_dev->is_legacy)
		return false;
	if (!rem_virtio_kept(vp_dev->vdev.id.device, vp_dev->vdev.features))
		return false;
	/*
	 * More than one pair of queues is in use only after a command, and Go
	 * does not repeat commands.
	 */
	if (vp_dev->vdev.id.device == VIRTIO_ID_NET &&
	    virtio_has_feature(&vp_dev->vdev, VIRTIO_NET_F_MQ))
		return false;
	list_for_each_entry(vq, &vp_dev->vdev.vqs, list)
		if (!rem_virtqueue_can_reseat(vq))
			return false;
	return true;
}

/**
 * rem_virtio_watch - be notified of changes on the virtio bus
 * @pdev: a function for which rem_virtio_is() is true
 * @notifier: registered with the first call that finds the bus
 *
 * Context: process, one at a time.
 */
void rem_virtio_watch(struct pci_dev *pdev, struct notifier_block *notifier)
{
	struct device *inner = rem_virtio_device(pdev);
	static bool watched;

	if (!watched && inner)
		watched = !bus_register_notifier(inner->bus, notifier);
}

/**
 * rem_virtio_lost_by - the driver that cannot set its device up again
 * @pdev: a function for which rem_virtio_is() is true, locked, with its inner device
 *
 * Without the callback the bus resets the device, and nobody makes its queues again.
 *
 * Context: process.
 * Return: its name, or NULL.
 */
const char *rem_virtio_lost_by(struct pci_dev *pdev)
{
	struct device *inner = rem_virtio_device(pdev);

	if (!inner || !inner->driver || drv_to_virtio(inner->driver)->restore)
		return NULL;
	return inner->driver->name;
}

static bool rem_virtio_reset(struct virtio_pci_modern_device *mdev)
{
	unsigned int polls;

	vp_modern_set_status(mdev, 0);
	for (polls = 0; polls < REM_VIRTIO_RESET_POLLS_MAX; polls++) {
		if (!vp_modern_get_status(mdev))
			return true;
		cpu_relax();
	}
	return false;
}

static void rem_virtio_queue_start(struct virtio_pci_device *vp_dev,
				   struct virtqueue *vq)
{
	struct virtio_pci_modern_device *mdev = &vp_dev->mdev;
	u16 vector = vp_dev->vqs[vq->index]->msix_vector;

	vp_modern_set_queue_size(mdev, vq->index, virtqueue_get_vring_size(vq));
	vp_modern_queue_address(mdev, vq->index, virtqueue_get_desc_addr(vq),
				virtqueue_get_avail_addr(vq),
				virtqueue_get_used_addr(vq));
	if (vector != VIRTIO_MSI_NO_VECTOR)
		vp_modern_queue_vector(mdev, vq->index, vector);
	vp_modern_set_queue_enable(mdev, vq->index, true);
}

/**
 * rem_virtio_go - start a device with its features, queues and vectors
 * @pdev: a function for which rem_virtio_supported() was true; its configuration
 *	space and interrupt vectors are restored
 *
 * Context: Go, one CPU, interrupts off.
 * Return: 0, or -EIO if the device refuses features that it had accepted
 * before.
 */
int rem_virtio_go(struct pci_dev *pdev)
{
	struct virtio_pci_device *vp_dev = pci_get_drvdata(pdev);
	struct virtio_pci_modern_device *mdev = &vp_dev->mdev;
	struct virtio_device *vdev = &vp_dev->vdev;
	u8 status = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;
	struct virtqueue *vq;

	if (!vdev->dev.driver)
		return 0;
	if (!rem_virtio_reset(mdev))
		return -EIO;
	/* If a driver is replacing a queue, the driver will start it. */
	list_for_each_entry(vq, &vdev->vqs, list)
		if (!vq->reset)
			rem_virtqueue_reseat(vq);

	vp_modern_set_status(mdev, status);
	vp_modern_set_features(mdev, vdev->features);
	status |= VIRTIO_CONFIG_S_FEATURES_OK;
	vp_modern_set_status(mdev, status);
	if (!(vp_modern_get_status(mdev) & VIRTIO_CONFIG_S_FEATURES_OK))
		return -EIO;

	/* Before the device sees requests that were in flight. */
	if (vdev->id.device == VIRTIO_ID_BLOCK)
		rem_virtblk_cache_go(vdev);
	if (vp_dev->msix_enabled)
		vp_modern_config_vector(mdev, VP_MSIX_CONFIG_VECTOR);
	else /* it does not say again what it had said */
		WRITE_ONCE(vp_dev->isr_lost, REM_VIRTIO_ISR_ALL);
	list_for_each_entry(vq, &vdev->vqs, list)
		if (!vq->reset)
			rem_virtio_queue_start(vp_dev, vq);
	vp_modern_set_status(mdev, status | VIRTIO_CONFIG_S_DRIVER_OK);
	list_for_each_entry(vq, &vdev->vqs, list)
		if (!vq->reset)
			virtqueue_notify(vq);
	return 0;
}

static void rem_virtio_net_finish(struct net_device *dev)
{
	struct sockaddr_storage address = { .ss_family = dev->type };

	memcpy(((struct sockaddr *)&address)->sa_data, dev->dev_addr,
	       dev->addr_len);
	dev_set_mac_address(dev, (struct sockaddr *)&address, NULL);
	dev_set_rx_mode(dev);
}

/* Context: device locked, driven by virtio-pci. */
static void rem_virtio_finish_locked(struct pci_dev *pdev)
{
	struct virtio_pci_device *vp_dev = pci_get_drvdata(pdev);
	struct net_device *dev;
	struct net *net;

	if (!vp_dev || vp_dev->vdev.id.device != VIRTIO_ID_NET)
		return;
	rtnl_lock();
	down_read(&net_rwsem);
	for_each_net(net)
		for_each_netdev(net, dev)
			if (dev->dev.parent == &vp_dev->vdev.dev)
				rem_virtio_net_finish(dev);
	up_read(&net_rwsem);
	rtnl_unlock();
}

/**
 * rem_virtio_finish - restore the receive filters of a network device
 * @pdev: a function for which rem_virtio_is() was true when armed
 *
 * That is its address and its receive mode. VLAN filters, RSS and offloads that
 * were set by commands are not restored.
 *
 * Context: process, after Go.
 */
void rem_virtio_finish(struct pci_dev *pdev)
{
	/* Its driver may be unbound meanwhile, and frees what describes it. */
	device_lock(&pdev->dev);
	if (rem_virtio_is(pdev))
		rem_virtio_finish_locked(pdev);
	device_unlock(&pdev->dev);
}
