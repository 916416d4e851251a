// SPDX-License-Identifier: GPL-2.0-only
/*
 * What there is to read: of the region in /sys/class/misc/pmctl, of each raw
 * segment in /sys/class/pm/pm!NAME.
 */
#include <linux/device.h>
#include <linux/sysfs.h>

#include "pmcore.h"

static ssize_t source_show(struct device *device, struct device_attribute *attr,
			   char *buf)
{
	return sysfs_emit(buf, "%s\n", pmcore.source);
}

static DEVICE_ATTR_RO(source);

/* An attribute that is a number which the lock keeps together. */
#define REGION_NUMBER(name, value)                                           \
	static ssize_t name##_show(struct device *device,                    \
				   struct device_attribute *attr, char *buf) \
	{                                                                    \
		u64 number;                                                  \
									     \
		down_read(&pmcore.lock);                                     \
		number = (value);                                            \
		up_read(&pmcore.lock);                                       \
		return sysfs_emit(buf, "%llu\n", number);                    \
	}                                                                    \
	static DEVICE_ATTR_RO(name)

REGION_NUMBER(region_bytes, pmcore.region.super.region_bytes);
REGION_NUMBER(wish_bytes, pmcore.region.super.wish_bytes);
REGION_NUMBER(free_bytes, pmcore.region.extents.free_units * REM_PM_UNIT_BYTES);
REGION_NUMBER(segments, pmcore.region.used);
REGION_NUMBER(refused, pmcore.region.refused);
REGION_NUMBER(repaired, pmcore.region.repaired);
REGION_NUMBER(damaged, pmcore.region.damaged);
REGION_NUMBER(dax, pmcore.has_pages);
REGION_NUMBER(protected, pmcore.protected);
REGION_NUMBER(same_address, !!pmcore.limit_bytes);
REGION_NUMBER(flush_on_fail, pmcore_flush_on_fail());
REGION_NUMBER(windows, pmcore_windows_opened());
REGION_NUMBER(written_back_bytes, pmcore_dirty_written());

/* What media has lost, as block devices have it: sector and number of sectors. */
static ssize_t badblocks_show_all(struct device *device,
				  struct device_attribute *attr, char *buf)
{
	return pmcore_lost_show(buf);
}

static struct device_attribute dev_attr_badblocks =
	__ATTR(badblocks, 0444, badblocks_show_all, NULL);

static struct attribute *region_attrs[] = {
	&dev_attr_source.attr,	     &dev_attr_region_bytes.attr,
	&dev_attr_wish_bytes.attr,   &dev_attr_free_bytes.attr,
	&dev_attr_segments.attr,     &dev_attr_refused.attr,
	&dev_attr_repaired.attr,     &dev_attr_damaged.attr,
	&dev_attr_dax.attr,	     &dev_attr_protected.attr,
	&dev_attr_same_address.attr, &dev_attr_flush_on_fail.attr,
	&dev_attr_windows.attr,	     &dev_attr_written_back_bytes.attr,
	&dev_attr_badblocks.attr,    NULL,
};

static const struct attribute_group region_group = {
	.name = "region",
	.attrs = region_attrs,
};

const struct attribute_group *pmcore_region_groups[] = {
	&region_group,
	NULL,
};

/*
 * Without the lock, under which the device is removed, and the removal waits for
 * these. The record is there for as long as the device is.
 */
static struct rem_pm_segment *record_of(struct device *device)
{
	return &pmcore.region.entry[MINOR(device->devt)].record;
}

static ssize_t bytes_show(struct device *device, struct device_attribute *attr,
			  char *buf)
{
	return sysfs_emit(buf, "%llu\n", READ_ONCE(record_of(device)->bytes));
}

static DEVICE_ATTR_RO(bytes);

static ssize_t generation_show(struct device *device,
			       struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", record_of(device)->generation);
}

static DEVICE_ATTR_RO(generation);

static ssize_t persist_show(struct device *device,
			    struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n",
			  record_of(device)->persist == REM_PM_FOF ? "fof" :
								     "foc");
}

static DEVICE_ATTR_RO(persist);

static ssize_t uuid_show(struct device *device, struct device_attribute *attr,
			 char *buf)
{
	return sysfs_emit(buf, "%pU\n", record_of(device)->uuid);
}

static DEVICE_ATTR_RO(uuid);

static struct attribute *segment_attrs[] = {
	&dev_attr_bytes.attr, &dev_attr_generation.attr, &dev_attr_persist.attr,
	&dev_attr_uuid.attr,  NULL,
};

static const struct attribute_group segment_group = {
	.attrs = segment_attrs,
};

const struct attribute_group *pmcore_segment_groups[] = {
	&segment_group,
	NULL,
};
