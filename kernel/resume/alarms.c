// SPDX-License-Identifier: GPL-2.0-only
/* The alarms of real-time clocks. */
#include <linux/kernel.h>
#include <linux/rtc.h>
#include <linux/workqueue.h>
#include "resume.h"

/**
 * rem_alarms_finish - set the next alarm of each real-time clock again
 *
 * Its alarms are in memory. An alarm whose time has come meanwhile fires.
 *
 * Context: process, after Go.
 */
void rem_alarms_finish(void)
{
#ifdef CONFIG_RTC_CLASS
	struct rtc_device *rtc;
	char name[16];
	unsigned int i;

	for (i = 0;; i++) {
		snprintf(name, sizeof(name), "rtc%u", i);
		rtc = rtc_class_open(name);
		if (!rtc)
			return;
		schedule_work(&rtc->irqwork);
		rtc_class_close(rtc);
	}
#endif
}
