// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * rem-poweroff: sync, make the root file system read-only, switch off.
 *
 * The guest has no init system whose poweroff(8) could be used.
 */
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <unistd.h>

int main(void)
{
	sync();
	/* EBUSY with open writers is no reason to stay on: all is synced. */
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL))
		perror("rem-poweroff: remount read-only");
	reboot(RB_POWER_OFF);
	perror("rem-poweroff: reboot");
	return 1;
}
