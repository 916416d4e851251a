# SPDX-License-Identifier: Apache-2.0 OR MIT
"""`rem bench drivers`: how each driver comes through a power failure, and how long that takes.

One machine for each device: its only disk, under fsync load, or its only network device, under
traffic both ways. Times are those of `rem bench stop-go`. The load's programs and connections must
go on after each cut; what they were told is not compared here (tests/test_claims_drivers.py does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab.bench.stop_go import STOP_MAX_NS, Parts, Plan, Sample, measure
from lab.machine.config import StopModeName
from lab.messages import info
from lab.result import Result
from lab.setup.products import Kernel, need_all


@dataclass(frozen=True)
class Device:
    """A device with a driver, and the way that the kernel takes with it."""

    changes: Mapping[str, Any]  # of the machine's configuration
    load: str
    # Runs for a request that the device has completed, and for no other interrupt; of NVMe also
    # for those by which the driver starts it.
    first_io: str
    kernel: str | None = None  # the variant that has the driver
    way: StopModeName = "fast"
    restarted_by: str = "the driver's PCI error recovery"


DEVICES = {
    "virtio-blk": Device({}, "fsync", "virtblk_done", restarted_by="Go, before programs run"),
    "nvme": Device({"disk": "nvme"}, "fsync", "nvme_end_req"),
    "ahci": Device(
        {"disk": "ahci"}, "fsync", "sd_done", kernel="devices",
        restarted_by="PCI error recovery, by our patch",
    ),
    "virtio-net": Device({}, "net", "napi_gro_receive", restarted_by="Go, before programs run"),
    "e1000e": Device({"nic": "e1000e"}, "net", "napi_gro_receive"),
    "e1000": Device({"nic": "e1000"}, "net", "napi_gro_receive"),
    "igb": Device({"nic": "igb"}, "net", "napi_gro_receive", kernel="devices"),
    # Of those below, the first request is the one by which the driver sets its device up.
    "usb_keyboard": Device(
        {"devices": ("qemu-xhci,id=usb", "usb-kbd,bus=usb.0")}, "fsync", "hid_reset_resume",
        kernel="devices", restarted_by="the driver's suspend and resume, both after Go",
    ),
    "bochs_drm": Device(
        {"devices": ("bochs-display",)}, "fsync", "drm_mode_config_helper_resume",
        kernel="devices", restarted_by="the driver's suspend and resume, both after Go",
    ),
    "hda_intel": Device(
        {"devices": ("ich9-intel-hda",)}, "fsync", "azx_resume", kernel="devices", way="dpm",
        restarted_by="generic power management",
    ),
    "rtl8139": Device(
        {"nic": "rtl8139"}, "net", "napi_gro_receive", way="dpm",
        restarted_by="generic power management",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class DriversPlan:
    """Which devices, and how many Stops of each."""

    devices: tuple[str, ...] = tuple(DEVICES)
    stops: int = 5
    cpus: int = 2
    seed: int = 1


def _plan(it: DriversPlan, device: Device) -> Plan:
    return Plan(
        cpus=it.cpus,
        stops=it.stops,
        loads=(device.load,),
        modes=(device.way,),
        parts=Parts.ready(Kernel(device.kernel)),
        seed=it.seed,
        changes=device.changes,
        first_io={device.load: device.first_io},
    )


def _add(result: Result, name: str, device: Device, samples: list[Sample]) -> None:
    def longest(what: str, values: list[int]) -> None:
        result.add(f"{name}_{what}_max_ns", max(values), "ns", "modelled")

    longest("stop", [sample.stop_ns for sample in samples])
    longest("go", [sample.go_ns for sample in samples])
    longest("first_io", [s.first_io_ns for s in samples if s.first_io_ns is not None])
    result.add(f"{name}_way", device.way, "", "counted")
    result.add(f"{name}_restarted_by", device.restarted_by, "", "counted")
    result.add(f"{name}_stops", len(samples), "stops", "counted")


def run(it: DriversPlan) -> Result:
    """Measure each device; not ok if a Stop of the fast path takes longer than it may."""
    result = Result("drivers")
    need_all([Kernel(DEVICES[name].kernel) for name in it.devices])  # before the first one boots
    for name in it.devices:
        device = DEVICES[name]
        info(f"{name}: stop={device.way}, restarted by {device.restarted_by}")
        samples = measure(_plan(it, device), device.way)
        _add(result, name, device, samples)
        longest_ns = max(sample.stop_ns for sample in samples)
        if device.way == "fast" and longest_ns > STOP_MAX_NS:
            info(f"{name}: a Stop took {longest_ns:,} ns, at most {STOP_MAX_NS:,} are required")
            result.ok = False
    return result
