// SPDX-License-Identifier: GPL-2.0-only
/*
 * For tests: a device of the platform, or with pnp=1 of PnP, whose driver the fast path does
 * not know.
 */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/pnp.h>

static bool pnp;
module_param(pnp, bool, 0444);
MODULE_PARM_DESC(pnp, "bind a driver to the keyboard and the mouse of PnP");

static struct platform_device *rem_holder;

static struct platform_driver rem_holder_driver = {
	.driver.name = "rem-holder",
};

static const struct pnp_device_id rem_holder_ids[] = {
	{ .id = "PNP0303" }, /* a keyboard */
	{ .id = "PNP0f13" }, /* a mouse */
	{}
};

static int rem_holder_probe(struct pnp_dev *dev, const struct pnp_device_id *id)
{
	return 0;
}

static struct pnp_driver rem_holder_pnp = {
	.name = "rem-holder-pnp",
	.id_table = rem_holder_ids,
	.probe = rem_holder_probe,
};

static int __init rem_holder_init(void)
{
	if (pnp)
		return pnp_register_driver(&rem_holder_pnp);
	rem_holder = platform_create_bundle(&rem_holder_driver, NULL, NULL, 0,
					    NULL, 0);
	return PTR_ERR_OR_ZERO(rem_holder);
}

static void __exit rem_holder_exit(void)
{
	if (pnp) {
		pnp_unregister_driver(&rem_holder_pnp);
		return;
	}
	platform_device_unregister(rem_holder);
	platform_driver_unregister(&rem_holder_driver);
}

module_init(rem_holder_init);
module_exit(rem_holder_exit);
MODULE_DESCRIPTION("A device that holds state, for tests of Remanence");
MODULE_LICENSE("GPL");
