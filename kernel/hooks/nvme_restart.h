/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included by drivers/nvme/host/pci.c: restarts an NVMe controller after Go, also if
 * the power failed while it was being reset.
 *
 * A reset takes long: it waits for the controller, and for a dozen of commands. A
 * Stop does not wait for it, so Go may find the driver anywhere in it. What the reset
 * had written to the controller is lost then, a command that it waits for is never
 * completed, and the driver would give the disk up as dead. So each attempt at a reset
 * remembers in which life of the devices it began. One that outlives that life touches
 * the controller no more, its waits are ended, and it begins again.
 */
#include <linux/mutex.h>
#include <linux/preempt.h>
#include <linux/wait.h>
#include "../machine.h"
#include "hooks.h"

/* How often a restart looks for waits that it has to end. */
#define REM_NVME_POLL (HZ / 100 ?: 1)

/**
 * rem_nvme_interrupted - whether the power was off since a reset has begun
 * @dev: the controller; at boot it is started without a reset
 *
 * Context: any.
 * Return: true if what was written to the controller is lost.
 */
static bool rem_nvme_interrupted(const struct nvme_dev *dev)
{
	return dev->rem_life && dev->rem_life != rem_devices_life();
}

/* Held while waits of an earlier life are ended: no new one begins meanwhile. */
static DEFINE_MUTEX(rem_nvme_life_lock);

/* An attempt at a reset begins, before it touches the controller. */
static void rem_nvme_begin(struct nvme_dev *dev)
{
	mutex_lock(&rem_nvme_life_lock);
	WRITE_ONCE(dev->rem_life, rem_devices_life());
	mutex_unlock(&rem_nvme_life_lock);
}

/*
 * Writes a register. A controller must not be enabled with the queues of an earlier
 * life: their addresses are zero now. A Stop parks no CPU between the check and the
 * write, because preemption is off.
 */
static int rem_nvme_write32(struct nvme_dev *dev, u32 off, u32 val)
{
	int err = -ENODEV;

	preempt_disable();
	if (!rem_nvme_interrupted(dev)) {
		writel(val, dev->bar + off);
		err = 0;
	}
	preempt_enable();
	return err;
}

/*
 * A cut is no fault of a request: it does not count as one of its retries, and a request
 * that is to fail fast, like one for read-ahead, is issued again, too.
 */
static bool rem_nvme_retry(struct request *req, void *unused)
{
	nvme_req(req)->retries = 0;
	req->cmd_flags &= ~REQ_FAILFAST_MASK;
	return true;
}

/*
 * Takes the controller for lost, as after a PCI error. New requests wait; those in
 * flight are issued again after the reset, which needs frozen queues.
 */
static void rem_nvme_disable(struct nvme_dev *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev->dev);

	if (dev->ctrl.tagset)
		blk_mq_tagset_busy_iter(dev->ctrl.tagset, rem_nvme_retry, NULL);
	pdev->error_state = pci_channel_io_frozen;
	nvme_dev_disable(dev, false);
	pdev->error_state = pci_channel_io_normal;
	if (!test_bit(NVME_CTRL_FROZEN, &dev->ctrl.flags))
		nvme_start_freeze(&dev->ctrl);
}

/**
 * rem_nvme_again - whether a reset that did not succeed begins again
 * @dev: the controller; its reset touches it no more
 *
 * Context: the work of the reset.
 * Return: true if the power failed meanwhile; the state is that at the beginning of a
 * reset.
 */
static bool rem_nvme_again(struct nvme_dev *dev)
{
	struct nvme_ctrl *ctrl = &dev->ctrl;
	bool again;

	if (!rem_nvme_interrupted(dev))
		return false;
	rem_nvme_disable(dev);
	spin_lock_irq(&ctrl->lock);
	/* Not if somebody removes the device. */
	if (ctrl->state == NVME_CTRL_CONNECTING)
		WRITE_ONCE(ctrl->state, NVME_CTRL_RESETTING);
	again = ctrl->state == NVME_CTRL_RESETTING;
	spin_unlock_irq(&ctrl->lock);
	return again;
}

/* Like nvme_wait_freeze(). Returns -ENODEV if the requests will not be completed. */
static int rem_nvme_wait_freeze(struct nvme_dev *dev)
{
	while (nvme_wait_freeze_timeout(&dev->ctrl, REM_NVME_POLL) <= 0)
		if (rem_nvme_interrupted(dev))
			return -ENODEV;
	return 0;
}

/*
 * Ends what a reset of an earlier life waits for: its admin commands, those in flight
 * and those that follow, fail. I/O queues are left to the reset itself.
 *
 * Not if the reset has begun again meanwhile: then they are of this life. The lock of
 * the driver is not even taken, since nvme_setup_io_queues() gives up where it is held.
 */
static void rem_nvme_end_waits(struct nvme_dev *dev)
{
	mutex_lock(&rem_nvme_life_lock);
	if (READ_ONCE(dev->rem_life) != rem_devices_life()) {
		mutex_lock(&dev->shutdown_lock);
		nvme_suspend_queue(dev, 0);
		nvme_cancel_admin_tagset(&dev->ctrl);
		nvme_unquiesce_admin_queue(&dev->ctrl);
		mutex_unlock(&dev->shutdown_lock);
	}
	mutex_unlock(&rem_nvme_life_lock);
}

/*
 * One step towards a controller that was reset in this life. Returns 0 if it is, a
 * negative errno if it never will be, -EAGAIN otherwise.
 */
static int rem_nvme_step(struct nvme_dev *dev, u32 life)
{
	struct pci_dev *pdev = to_pci_dev(dev->dev);
	struct nvme_ctrl *ctrl = &dev->ctrl;

	if (nvme_state_terminal(ctrl))
		return -EIO;
	if (READ_ONCE(dev->rem_life) == life)
		return nvme_ctrl_state(ctrl) == NVME_CTRL_LIVE ? 0 : -EAGAIN;
	/* A reset that has not ended, or that another part of the driver begins. */
	if (work_busy(&ctrl->reset_work) ||
	    nvme_ctrl_state(ctrl) != NVME_CTRL_LIVE) {
		rem_nvme_end_waits(dev);
		return -EAGAIN;
	}
	if (!nvme_change_ctrl_state(ctrl, NVME_CTRL_RESETTING))
		return -EAGAIN;
	dev_info(ctrl->device, "remanence: restart after Go\n");
	rem_nvme_disable(dev);
	pci_restore_state(pdev);
	nvme_try_sched_reset(ctrl);
	return -EAGAIN;
}

/**
 * rem_nvme_restart - reset a controller after Go
 * @pdev: its function, with a driver bound
 *
 * It does not outlast a cut: then it has to be called again, and finds the driver
 * wherever it was.
 *
 * Context: process, device locked.
 * Return: 0, -EAGAIN if the power failed meanwhile, or another negative errno if the
 * controller cannot be used any more.
 */
int rem_nvme_restart(struct pci_dev *pdev)
{
	struct nvme_dev *dev = pci_get_drvdata(pdev);
	struct nvme_ctrl *ctrl = &dev->ctrl;
	u32 life = rem_devices_life();
	enum nvme_ctrl_state state;
	int err;

	for (;;) {
		state = nvme_ctrl_state(ctrl);
		err = rem_nvme_step(dev, life);
		if (err != -EAGAIN || life != rem_devices_life())
			return err;
		wait_event_timeout(ctrl->state_wq,
				   nvme_ctrl_state(ctrl) != state,
				   REM_NVME_POLL);
	}
}
