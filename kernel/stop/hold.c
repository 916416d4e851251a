// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the loader does with the image if the machine differs when power returns: it
 * boots cold at once, or it holds the image for what is missing and for somebody who
 * decides. The choice is a part of the record, so that the loader knows it before it
 * gives anything up.
 */
#include <linux/build_bug.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include "stop.h"

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "remanence."

#define REM_HOLD_OFF "off"
/* Of "3600,cold", with the end of a line. */
#define REM_HOLD_TEXT_BYTES 16

/**
 * union rem_hold - the policy, in one word, as a Stop may read it at any time
 * @policy: enum rem_policy
 * @hold_s: for how long the loader looks again before it asks
 * @word: both
 */
union rem_hold {
	struct {
		u16 policy;
		u16 hold_s;
	};
	u32 word;
};

static_assert(REM_HOLD_MAX_S <= U16_MAX);

static union rem_hold rem_hold = { .policy = REM_POLICY_COLD };

/* Seconds, and what follows from silence: "30", "30,keep", "30,cold", or "off". */
static int rem_hold_parse(const char *text, union rem_hold *ret_hold)
{
	union rem_hold hold = { .policy = REM_POLICY_HOLD };
	char copy[REM_HOLD_TEXT_BYTES];
	char *answer = copy;
	char *seconds;

	if (sysfs_streq(text, REM_HOLD_OFF)) {
		hold.policy = REM_POLICY_COLD;
		*ret_hold = hold;
		return 0;
	}
	if (strscpy(copy, text, sizeof(copy)) < 0)
		return -EINVAL;
	seconds = strsep(&answer, ",");
	if (answer && sysfs_streq(answer, "cold"))
		hold.policy = REM_POLICY_HOLD_COLD;
	else if (answer && !sysfs_streq(answer, "keep"))
		return -EINVAL;
	if (kstrtou16(seconds, 10, &hold.hold_s) || !hold.hold_s ||
	    hold.hold_s > REM_HOLD_MAX_S)
		return -EINVAL;
	*ret_hold = hold;
	return 0;
}

/**
 * rem_hold_store - choose the policy
 * @text: as for remanence.hold=
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int rem_hold_store(const char *text)
{
	union rem_hold hold;
	int err = rem_hold_parse(text, &hold);

	if (!err)
		WRITE_ONCE(rem_hold.word, hold.word);
	return err;
}

/** rem_hold_show - write the policy as a line. Return: its length. */
ssize_t rem_hold_show(char *buf)
{
	union rem_hold hold = { .word = READ_ONCE(rem_hold.word) };

	if (hold.policy == REM_POLICY_COLD)
		return sysfs_emit(buf, REM_HOLD_OFF "\n");
	return sysfs_emit(buf, "%u,%s\n", hold.hold_s,
			  hold.policy == REM_POLICY_HOLD ? "keep" : "cold");
}

/** rem_hold_write - put the policy into a body. Context: any, also Stop. */
void rem_hold_write(struct rem_body *body)
{
	union rem_hold hold = { .word = READ_ONCE(rem_hold.word) };

	body->policy = hold.policy;
	body->hold_s = hold.hold_s;
}

static int rem_hold_param(const char *value, const struct kernel_param *kp)
{
	return rem_hold_store(value);
}

static const struct kernel_param_ops rem_hold_ops = { .set = rem_hold_param };
module_param_cb(hold, &rem_hold_ops, NULL, 0);
MODULE_PARM_DESC(hold, "if the machine differs at power-on: off (boot cold), or SECONDS[,keep|,cold] to look again, then ask");
