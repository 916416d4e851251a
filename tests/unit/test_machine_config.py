# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The machine's record and QEMU's command line, which is a pure function of it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import Exit, RemError
from lab.machine.config import Forward, MachineConfig
from lab.machine.files import MachineFiles
from lab.machine.qemu import BootOptions, Wires, build_command, esp_texts, quoted_command
from lab.quantities import parse_bytes, parse_ns, parse_span_s

CONFIG = MachineConfig(
    name="m", kernel=Path("/k/bzImage"), loader=Path("/g/loader.elf"), root=Path("/r/root.img")
)
FILES = MachineFiles(Path("/state/m"))


def command(config: MachineConfig = CONFIG, **options: object) -> list[str]:
    boot = BootOptions(**options)  # type: ignore[arg-type]
    return build_command(config, FILES, Wires.by_path(), boot, "tap,id=rem-net,ifname=rem0")


def values(words: list[str], option: str) -> list[str]:
    return [words[i + 1] for i, word in enumerate(words) if word == option]


def test_config_survives_json() -> None:
    config = replace(
        CONFIG,
        forwards=(Forward(6379, 6379),),
        devices=("rtl8139",),
        nvram_dir=Path("/dev/shm"),
        stop_mode="dpm",
        memtype="dram",
        disk="nvme",
        nic="e1000e",
        dram_file=Path("/dev/shm/dram"),
        firmware_code=Path("/f/CODE.fd"),
        firmware_variables=Path("/f/VARS.fd"),
        signing_key=Path("/f/key"),
        signing_certificate=Path("/f/pem"),
        blank_bytes=1 << 30,
    )
    assert MachineConfig.from_json(config.to_json()) == config


@pytest.mark.parametrize("text", ["", "{}", "[1]", CONFIG.to_json().replace('"cpus"', '"cores"')])
def test_config_of_another_version_is_one_line(text: str) -> None:
    with pytest.raises(RemError, match="rem rm") as caught:
        MachineConfig.from_json(text)
    assert caught.value.exit_code == Exit.INFRASTRUCTURE


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "../m"}, {"name": "-m"}, {"name": "M"}, {"name": ""}, {"name": "m" * 33},
        {"cpus": 0}, {"cpus": 65}, {"cpus": 3, "threads": 2},
        {"dram_bytes": 1 << 20}, {"dram_bytes": (64 << 20) + 1},
        {"nvram_bytes": 0}, {"nvram_bytes": (1 << 30) + (1 << 20)},
        {"blank_bytes": 0}, {"blank_bytes": 1 << 19},
        {"disk": "floppy"}, {"nic": "ne2000"}, {"memtype": "flash"},
        {"memtype": "dram", "dram_bytes": 64 << 20},
        {"nvram_second_bytes": 0}, {"nvram_second_bytes": 1 << 20}, {"nvram_second_bytes": 4 << 30},
        {"nvram_second_bytes": 1 << 30, "nvram_bytes": 5 << 30},
        {"nvram_second_bytes": 1 << 30, "nvram_kind": "nvdimm-n"},
    ],
)  # fmt: skip
def test_impossible_machines_are_usage_errors(wrong: dict[str, object]) -> None:
    with pytest.raises(RemError) as caught:
        replace(CONFIG, **wrong)  # type: ignore[arg-type]
    assert caught.value.exit_code == Exit.USAGE


@pytest.mark.parametrize("text", ["80", "0:80", "80:65536", "a:b", "1:2:3", ""])
def test_impossible_forwards_are_usage_errors(text: str) -> None:
    with pytest.raises(RemError, match="--forward") as caught:
        Forward.parse(text)
    assert caught.value.exit_code == Exit.USAGE


def test_second_disk_comes_after_the_root() -> None:
    words = command(replace(CONFIG, blank_bytes=1 << 30))
    disks = [word for word in values(words, "-device") if word.startswith("virtio-blk-pci,")]
    assert [word.split(",")[1] for word in disks] == ["drive=rem-disk", "drive=rem-blank"]
    assert any("filename=/state/m/blank.img" in word for word in values(words, "-blockdev"))


def test_loader_is_booted_and_kernel_goes_by_fw_cfg() -> None:
    words = command()
    assert values(words, "-kernel") == ["/g/loader.elf"]
    given = values(words, "-fw_cfg")
    assert "name=opt/remanence/kernel,file=/k/bzImage" in given
    assert not any("cold" in one or "initrd" in one for one in given)
    assert "-append" not in words
    cold = values(command(cold=True), "-fw_cfg")
    assert "name=opt/remanence/cold,string=1" in cold


def test_command_line_of_kernel_keeps_its_commas() -> None:
    words = command(replace(CONFIG, cmdline_extra="netconsole=a,b", stop_mode="fast"))
    line = next(one for one in values(words, "-fw_cfg") if "cmdline" in one)
    assert "netconsole=a,,b" in line
    assert "remanence.stop=fast" in line
    assert "remanence.stop" not in CONFIG.cmdline()


def test_memory_is_small_dram_and_shared_nvram_of_the_state() -> None:
    words = command()
    assert values(words, "-m") == ["64M,slots=2,maxmem=8G"]
    (backend,) = values(words, "-object")
    assert "share=on" in backend
    assert "mem-path=/state/m/nvram.img,size=1073741824" in backend


def test_second_range_of_nvram_is_behind_a_gap() -> None:
    config = replace(CONFIG, nvram_second_bytes=512 << 20)
    first, second = values(command(config), "-object")
    assert "mem-path=/state/m/nvram.img,size=1073741824" in first
    assert "mem-path=/state/m/nvram.second,size=536870912" in second
    places = [one for one in values(command(config), "-device") if one.startswith("nvdimm,")]
    assert [one.rpartition("=")[2] for one in places] == ["0x100000000", "0x200000000"]
    assert values(command(config, first_nvram=False), "-object") == [second]


def test_disk_may_be_late() -> None:
    assert not any("size=512" in one for one in values(command(), "-blockdev"))
    assert any(one.endswith(",size=512") for one in values(command(disk_late=True), "-blockdev"))


def test_memtype_is_passed_to_the_kernel_with_enough_dram() -> None:
    def of(memtype: str | None, **more: object) -> MachineConfig:
        return replace(CONFIG, memtype=memtype, **more)  # type: ignore[arg-type]

    assert " memtype=nvram" in CONFIG.cmdline(), "the default"
    assert "memtype=" not in of(None).cmdline()
    assert " memtype=nvram,dram " in of("nvram,dram").cmdline() + " "
    # The last word takes precedence, for the loader and for the kernel.
    assert of("nvram", cmdline_extra="memtype=dram").cmdline().endswith("memtype=dram")
    assert values(command(of("nvram")), "-m") == values(command(of(None)), "-m")
    assert values(command(of("dram")), "-m") == ["1024M,slots=2,maxmem=8G"]
    assert values(command(of("dram", dram_bytes=512 << 20)), "-m") == ["512M,slots=2,maxmem=8G"]


def test_dram_that_caches_nvram_is_modelled_beside_it() -> None:
    config = replace(CONFIG, memtype="mixed", icount=True, caches="lightpc", plugin="p.so")
    assert values(command(config), "-m") == ["256M,slots=2,maxmem=8G"]
    assert not any("dram" in one for one in values(command(config), "-plugin"))
    (plugin,) = values(command(replace(config, memory="optane")), "-plugin")
    assert "controller=optane,dram=0x10000000,dramcontroller=dram," in plugin
    (plugin,) = values(command(replace(config, memory="optane", memtype="nvram")), "-plugin")
    assert "dram" not in plugin


def test_dram_can_be_a_file() -> None:
    words = command(replace(CONFIG, dram_file=Path("/dev/shm/dram")))
    assert "memory-backend=dram" in values(words, "-machine")
    assert any("mem-path=/dev/shm/dram,size=67108864" in one for one in values(words, "-object"))
    assert "memory-backend=dram" not in values(command(), "-machine")


def test_devices_are_behind_an_iommu_by_default() -> None:
    assert not any("iommu" in word for word in command(replace(CONFIG, iommu=False)))
    words = values(command(replace(CONFIG, iommu=True)), "-device")
    # Behind the NVDIMM, and before all devices behind it.
    assert words.index("intel-iommu,intremap=on,eim=on,device-iotlb=on") == 1
    assert sum("iommu_platform=on" in word for word in words) == 2


def test_disk_and_network_device_can_be_others_than_virtio() -> None:
    config = replace(CONFIG, disk="nvme", nic="e1000e", iommu=True)
    devices = values(command(config), "-device")
    assert any(one.startswith("nvme,drive=rem-disk,serial=rem-root") for one in devices)
    assert any(one.startswith("e1000e,netdev=rem-net,mac=52:54") for one in devices)
    assert not any("virtio" in one or "iommu_platform" in one for one in devices)
    assert "root=/dev/nvme0n1 rootwait" in config.cmdline()
    assert "root=/dev/vda" in CONFIG.cmdline()
    assert "rootwait" not in CONFIG.cmdline()


def test_icount_is_seeded_and_takes_its_clock_from_the_machine() -> None:
    words = command(replace(CONFIG, icount=True, seed=7))
    assert values(words, "-icount") == ["shift=0,sleep=off"]
    waits = command(replace(CONFIG, icount=True, idle_waits=True))
    assert values(waits, "-icount") == ["shift=0,sleep=on"]
    assert values(words, "-seed") == ["7"]
    assert values(words, "-rtc")[0].endswith("clock=vm")
    assert "-icount" not in command()
    assert "nox2apic" in replace(CONFIG, icount=True).cmdline().split()
    assert "nox2apic" not in CONFIG.cmdline().split()


@pytest.mark.parametrize(
    ("icount", "idle_waits", "off"),
    [(False, False, True), (True, True, True), (True, False, False)],
)
def test_hpet_is_on_where_an_idle_guest_skips_time(
    icount: bool, idle_waits: bool, off: bool
) -> None:
    words = replace(CONFIG, icount=icount, idle_waits=idle_waits).cmdline().split()
    assert ("hpet=disable" in words) is off


def test_same_machine_but_for_logs_and_clock_at_each_boot() -> None:
    first, second = command(boot=1), command(boot=2, rtc="2030-01-01T00:00:00")
    different = [(a, b) for a, b in zip(first, second, strict=True) if a != b]
    assert len(different) == 2
    assert "console-0001.log" in different[1][0]
    assert different[0][1].startswith("base=2030-01-01T00:00:00")


def test_clock_offset_is_added_to_a_fixed_base() -> None:
    config = replace(CONFIG, rtc_base="2026-11-21T00:00:00")
    assert BootOptions.rtc_of(config, 7 * 86400) == "2026-11-28T00:00:00"
    assert BootOptions.rtc_of(CONFIG, 0) == "utc"


def test_dry_run_is_quoted_so_that_a_shell_gives_the_command_back() -> None:
    words = command(replace(CONFIG, cmdline_extra="a='b c'"))
    assert shlex.split(quoted_command(["ip", "netns", "exec", "x"], words))[4:] == words


def test_quantities_need_their_units() -> None:
    assert parse_bytes("64M", "--dram") == 64 << 20
    assert parse_ns("17ms", "--hold-up") == 17_000_000
    assert parse_ns("0.5us", "--hold-up") == 500
    assert parse_span_s("7d", "--off-for") == 604_800
    for wrong in ("17", "ms", "17 min", "-1ms", "0.1ns", "1e3ms"):
        with pytest.raises(RemError, match="--hold-up"):
            parse_ns(wrong, "--hold-up")


UEFI = replace(CONFIG, firmware_code=Path("/f/CODE.fd"), firmware_variables=Path("/f/VARS.fd"))


def test_uefi_starts_the_loader_from_a_disk() -> None:
    words = command(UEFI)
    assert "-kernel" not in words and "-fw_cfg" not in words
    assert "if=pflash,format=raw,readonly=on,file=/f/CODE.fd" in words
    assert "if=pflash,format=raw,file=/state/m/uefi-variables.fd" in words
    assert any("filename=/state/m/esp.img" in word and "read-only=on" in word for word in words)


def test_places_on_the_bus_are_those_of_direct_boot() -> None:
    """The disk of the firmware comes last."""
    devices = [word for word in values(command(UEFI), "-device") if "rem-esp" not in word]
    assert devices == values(command(), "-device")


def test_disk_that_boots_by_itself_is_the_only_one() -> None:
    """An installed system: the lab adds no loader, kernel or words."""
    whole = replace(UEFI, boots_from_root=True)
    words = command(whole)
    assert not any("rem-esp" in word or "esp.img" in word for word in words)
    assert values(words, "-device") == values(command(), "-device")
    for wrong in (CONFIG, replace(UEFI, root=None)):
        with pytest.raises(RemError, match="a disk boots by itself with UEFI firmware only"):
            replace(wrong, boots_from_root=True)


def test_loader_gets_its_options_on_that_disk() -> None:
    texts = esp_texts(UEFI, BootOptions(cold=True, mutant="m", disk_serial="s"))
    assert texts == {"cmdline": UEFI.cmdline(), "protected": "s", "mutant": "m", "cold": ""}
    assert set(esp_texts(replace(UEFI, disk_cache="volatile"), BootOptions())) == {"cmdline"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"firmware_variables": None},
        {"firmware_code": None},
        {"loader": None},
        {"boots_from_root": True, "icount": True},
        {"boots_from_root": True, "cut_points": True},
    ],
)
def test_uefi_needs_both_its_files_and_a_loader_that_is_known(wrong: dict[str, object]) -> None:
    with pytest.raises(RemError) as caught:
        replace(UEFI, **wrong)  # type: ignore[arg-type]
    assert caught.value.exit_code == Exit.USAGE


def test_uefi_has_volatile_caches_by_icount() -> None:
    config = replace(UEFI, icount=True, cut_points=True, plugin="p.so,ctl=c", caches="wsp-c5528")
    words = command(config)
    assert "if=pflash,format=raw,file=/state/m/uefi-variables.fd" in words
    assert values(words, "-icount") == ["shift=0,sleep=off"]
    assert values(words, "-plugin")[0].startswith("p.so,ctl=c,cache=wsp-c5528,")
    assert {"nokaslr", "nox2apic"} <= set(esp_texts(config, BootOptions())["cmdline"].split())


def test_secure_boot_is_a_matter_of_the_key() -> None:
    signed = replace(UEFI, signing_key=Path("/f/key"), signing_certificate=Path("/f/pem"))
    assert "smm=on" in command(signed) and "smm=on" not in command(UEFI)
    assert "driver=cfi.pflash01,property=secure,value=on" in values(command(signed), "-global")
    with pytest.raises(RemError):
        replace(signed, signing_certificate=None)
    with pytest.raises(RemError):
        replace(signed, firmware_code=None, firmware_variables=None)
