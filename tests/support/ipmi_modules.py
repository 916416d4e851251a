# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Linux's driver of IPMI as modules of the kernel of this checkout, which has none: the server's
has it built in, and takes half an hour to build.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from lab.machine import Machine
from lab.paths import cache_dir
from lab.run import stream
from lab.setup.kernel import base_dir, kernel_source_version, make_env
from lab.setup.kernel_headers import KernelHeaders
from lab.setup.need import need

SOURCE = "drivers/char/ipmi"
MODULES = ("ipmi_msghandler", "ipmi_devintf", "ipmi_si")
OF_SI = (
    *("intf", "platform", "hotmod", "hardcode", "mem_io", "port_io", "pci"),
    *("kcs_sm", "smic_sm", "bt_sm"),
)


def put_ipmi(machine: Machine) -> None:
    """Build the modules, and load them in the guest."""
    headers = need(KernelHeaders(None))
    source = base_dir(kernel_source_version()) / SOURCE
    parts = [f"ipmi_{name}.o" if name.endswith("_sm") else f"ipmi_si_{name}.o" for name in OF_SI]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "ipmi"
        shutil.copytree(source, folder)
        objects = " ".join(f"{module}.o" for module in MODULES)
        (folder / "Makefile").write_text(
            f"obj-m := {objects}\nipmi_si-y := {' '.join(parts)} ipmi_plat_data.o\n", "utf-8"
        )
        stream(
            ["nice", "make", "-C", str(headers), f"M={folder}", "CC=gcc", "modules"],
            log=cache_dir() / "logs" / "ipmi.log",
            env=make_env(),
            what="building the driver of IPMI",
        )
        for module in MODULES:
            machine.guest.put(folder / f"{module}.ko", f"/root/{module}.ko")
    loaded = "; ".join(f"insmod /root/{module}.ko" for module in MODULES)
    machine.run_in_guest(f"set -e; {loaded}; until test -e /dev/ipmi0; do sleep 0.1; done")
