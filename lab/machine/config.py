# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The configuration of a machine, written when it is made and read by each resume.

A resumed image fits only the machine that stopped, so nothing of this may change between two
boots except what Machine.boot() and .resume() take as arguments.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from lab.addresses import GUEST_ADDRESS, HOST_ADDRESS
from lab.errors import InfraError, UsageError
from lab.isa import ISA_NAMES, ISAS, X86_64, Isa, IsaName
from lab.machine.disks import DISK_CACHES, DISK_LOSSES, DiskCache, DiskLoss
from lab.machine.memories import check_memory
from lab.machine.shares import Share
from lab.machine.shares import check as check_shares
from lab.machine.tpm import TPM_MODELS, TpmModel

MIB_BYTES = 1 << 20
GIB_BYTES = 1 << 30

# A named model, so that no feature comes from the host. TCG has neither PCID, INVPCID nor the TSC
# deadline timer; CLFLUSHOPT and CLWB are what the flush of Stop uses. `enforce` makes a QEMU that
# lacks one of the features refuse to start instead of quietly running another CPU.
CPU_MODEL = "Haswell-v2,-pcid,-invpcid,-tsc-deadline,+clflushopt,+clwb,enforce=on"

# Firmware and loader need little. A kernel that lives in DRAM needs what userland needs, too.
DRAM_BYTES = 64 * MIB_BYTES
# UEFI needs more: under Secure Boot it has the loader with its kernel twice, as file and as image.
DRAM_OF_UEFI_BYTES = 128 * MIB_BYTES
# So it has what an installed system boots, whose image has an initial RAM disk of Debian's, too.
DRAM_OF_DISK_BYTES = 256 * MIB_BYTES
DRAM_AS_MAIN_MEMORY_BYTES = GIB_BYTES
DRAM_AS_CACHE_BYTES = 256 * MIB_BYTES
DRAM_AS_MAIN_MEMORY_MIN_BYTES = 256 * MIB_BYTES

NVRAM_PHYS = X86_64.nvram_phys
# A second range begins here, with a gap before it as between the sockets of a board.
NVRAM_SECOND_PHYS = 1 << 33
NVRAM_SECOND_MAX_BYTES = 3 * GIB_BYTES  # QEMU's maxmem, see _memory_arguments() in qemu.py
NVRAM_MIN_BYTES = 256 * MIB_BYTES  # of main memory, for a guest that boots
REGION_UNIT_BYTES = 2 * MIB_BYTES  # of a region that is reserved in NVRAM

# Enough for any Stop that ends, even on a busy host: without icount the host's clock counts, and
# stop=dpm waits for fsync of the host's disk. A Stop that hangs must still end in a cut.
HOLD_UP_DEFAULT_NS = 60_000_000_000

# On a busy host a vCPU may get no ticks for so long that the kernel's test of its timer fails, and
# the virtual TSC is what its clock source watchdog would call unstable. QEMU's APIC timer counts
# nanoseconds: the loop that calibrates it was half of a boot with caches.
CMDLINE_ANY = (
    "console=ttyS0 rw init=/sbin/rem-init "
    f"ip={GUEST_ADDRESS}::{HOST_ADDRESS}:255.255.255.0::eth0:off panic=-1"
)
CMDLINE_BASE = f"{CMDLINE_ANY} no_timer_check tsc=reliable lapic_timer_khz=1000000"

# A profile with what the kernel and Stop need: write-back of lines (Zicbom), and of whole caches
# by extensions of a maker; a timer of supervisor mode, interrupts as messages. It has no vectors.
RISCV_CPU_AIA = ",smaia=on,ssaia=on"
RISCV_CPU_MODEL = f"rva22s64,sstc=on{RISCV_CPU_AIA},xtheadcmo=on,xtheadsync=on"

# Without the instructions of a maker: caches are written back line by line.
RISCV_CPU_BY_LINES = RISCV_CPU_MODEL.replace(",xtheadcmo=on,xtheadsync=on", "")

# Also part of names of namespaces and files: no dots, no slashes.
NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")

# RISC-V: messages to each hart (IMSIC, APLIC), or wires alone.
InterruptsName = Literal["aia", "plic"]
INTERRUPTS: tuple[str, ...] = get_args(InterruptsName)
StopModeName = Literal["dpm", "fast", "sng"]
STOP_MODES: tuple[str, ...] = get_args(StopModeName)
MemtypeName = Literal["nvram", "dram", "nvram,dram", "mixed"]
MEMTYPES: tuple[str, ...] = get_args(MemtypeName)
NvramKind = Literal["scm", "nvdimm-n", "battery"]
NVRAM_KINDS: tuple[str, ...] = get_args(NvramKind)
NetworkMode = Literal["auto", "tap", "user", "none"]
# The guest's only disk and network device. Those that are not virtio are restarted after Go by
# their driver's error recovery.
DiskModel = Literal["virtio-blk", "nvme", "ahci"]
NicModel = Literal["virtio-net", "e1000e", "e1000", "igb", "rtl8139"]
DISK_MODELS: tuple[str, ...] = get_args(DiskModel)
NIC_MODELS: tuple[str, ...] = get_args(NicModel)
# NVMe's and AHCI's drivers find their disk in the background.
ROOT_WORDS = {
    "virtio-blk": "root=/dev/vda",
    "nvme": "root=/dev/nvme0n1 rootwait",
    "ahci": "root=/dev/sda rootwait",
}


@dataclass(frozen=True)
class Forward:
    """A TCP port of the host's 127.0.0.1 that leads to a port of the guest."""

    host_port: int
    guest_port: int

    @staticmethod
    def parse(text: str) -> Forward:
        match = re.fullmatch(r"(\d{1,5}):(\d{1,5})", text)
        ports = [int(port) for port in match.groups()] if match else []
        if not match or not all(0 < port < 65536 for port in ports):
            raise UsageError(f"--forward {text}: give HOST:GUEST, two TCP ports, as in 6379:6379")
        return Forward(*ports)


PATH_FIELDS = (
    "kernel", "loader", "root", "initrd", "nvram_dir", "dram_file", "share_server",
    "firmware_code", "firmware_variables", "signing_key", "signing_certificate", "acpi_table",
)  # fmt: skip


@dataclass(frozen=True)
class MachineConfig:
    """The machine. Paths are of products in the cache, which are never written."""

    name: str
    kernel: Path
    isa: IsaName = "x86_64"
    interrupts: InterruptsName = "aia"  # of RISC-V
    loader: Path | None = None  # None: QEMU's own -kernel boot; cannot resume
    root: Path | None = None  # copied, sparse, into the machine's state
    initrd: Path | None = None
    firmware_code: Path | None = None  # UEFI, which starts the loader; None: QEMU's own firmware
    firmware_variables: Path | None = None  # as they are at first; copied
    boots_from_root: bool = False  # firmware starts what is on the root, a whole disk
    signing_key: Path | None = None  # with it Secure Boot is on, and the loader is signed
    signing_certificate: Path | None = None
    nvram_kind: NvramKind = "scm"  # the technology of NVRAM
    disk_cache: DiskCache = "protected"  # whether the disk's write cache survives
    disk_loss: DiskLoss = "all"  # what a volatile cache loses
    disk_claim: DiskCache | None = None  # its description to the loader, if that is false
    cpus: int = 4
    threads: int = 1  # of each core
    memtype: MemtypeName | None = "nvram"  # None: no word; then our loader hides DRAM
    dram_bytes: int | None = None  # None: as much as memtype needs
    dram_file: Path | None = None  # DRAM is this file, so that its content can be checked later
    nvram_bytes: int = GIB_BYTES
    nvram_second_bytes: int | None = None  # a second range of NVRAM
    nvram_dir: Path | None = None  # None: in the machine's state; else e.g. /dev/shm
    cpu_model: str = CPU_MODEL
    cmdline_extra: str = ""
    stop_mode: StopModeName | None = None  # None: the kernel's own default
    iommu: bool = True
    tpm: TpmModel | None = None
    icount: bool = False
    idle_waits: bool = False  # under icount: a halted guest waits for timers, else it skips to them
    caches: str | None = None  # profile of volatile caches; needs icount and the plugin
    memory: str | None = None  # controller behind the caches; guest time follows it
    plugin: str | None = None  # FILE[,KEY=VALUE...] as QEMU's -plugin takes it
    cut_points: bool = False  # the plugin is that of cut_points.py
    seed: int = 1
    rtc_base: str | None = None  # fixed date for bit-exact runs; None: the host's clock
    disk: DiskModel = "virtio-blk"
    network: NetworkMode = "auto"
    nic: NicModel = "virtio-net"
    forwards: tuple[Forward, ...] = ()
    devices: tuple[str, ...] = ()  # further QEMU -device arguments
    acpi_table: Path | None = None  # one more than QEMU's own; no machine is the same with another
    hold_up_ns: int = HOLD_UP_DEFAULT_NS
    disk_bytes: int | None = None  # None: as large as the root's image
    blank_bytes: int | None = None  # of a second disk, which is blank at first: virtio-blk
    pm_bytes: int | None = None  # of NVRAM, put aside as a region of persistent memory
    off2f_bytes: int | None = None  # of NVRAM, put aside for the texts of programs
    shares: tuple[Share, ...] = ()
    share_server: Path | None = None  # files of their server, as the root of its sandbox

    def __post_init__(self) -> None:
        if not NAME_PATTERN.fullmatch(self.name):
            raise UsageError(
                f"machine name {self.name!r}: 1 to 32 of a-z, 0-9 and '-', not '-' first"
            )
        if not 1 <= self.cpus <= 64:
            raise UsageError(f"{self.cpus} CPUs: give 1 to 64")
        if self.threads < 1 or self.cpus % self.threads:
            raise UsageError(f"{self.cpus} CPUs with {self.threads} threads each: give a divisor")
        if self.caches is not None and not (self.icount and self.plugin):
            raise UsageError("volatile caches need --icount and the plugin")
        if self.memory is not None:
            check_memory(self.memory)
            if self.caches is None:
                raise UsageError("--memory needs volatile caches, whose misses it serves")
        if self.memtype is not None and self.memtype not in MEMTYPES:
            raise UsageError(f"--memtype {self.memtype}: choose one of {' '.join(MEMTYPES)}")
        if self.disk not in DISK_MODELS:
            raise UsageError(f"--disk {self.disk}: choose one of {' '.join(DISK_MODELS)}")
        if self.nic not in NIC_MODELS:
            raise UsageError(f"--nic {self.nic}: choose one of {' '.join(NIC_MODELS)}")
        if self.tpm is not None and self.tpm not in TPM_MODELS:
            raise UsageError(f"--tpm {self.tpm}: choose one of {' '.join(TPM_MODELS)}")
        if self.nvram_kind not in NVRAM_KINDS:
            raise UsageError(f"NVRAM of {self.nvram_kind}: choose {' or '.join(NVRAM_KINDS)}")
        if self.disk_cache not in DISK_CACHES:
            raise UsageError(f"disk cache {self.disk_cache}: choose {' or '.join(DISK_CACHES)}")
        if self.disk_claim not in (None, *DISK_CACHES):
            raise UsageError(f"disk claim {self.disk_claim}: choose {' or '.join(DISK_CACHES)}")
        if self.disk_loss not in DISK_LOSSES:
            raise UsageError(f"disk loss {self.disk_loss}: choose {' or '.join(DISK_LOSSES)}")
        dram_bytes = self.dram_size_bytes
        if self.memtype == "dram" and dram_bytes < DRAM_AS_MAIN_MEMORY_MIN_BYTES:
            raise UsageError(
                f"DRAM of {dram_bytes} bytes is too little as main memory: "
                f"memtype=dram needs {DRAM_AS_MAIN_MEMORY_MIN_BYTES >> 20} MiB"
            )
        if dram_bytes < 16 * MIB_BYTES or dram_bytes % MIB_BYTES:
            raise UsageError(f"DRAM of {dram_bytes} bytes: give whole MiB, at least 16")
        if self.nvram_bytes < NVRAM_MIN_BYTES or self.nvram_bytes % (2 * MIB_BYTES):
            raise UsageError(
                f"NVRAM of {self.nvram_bytes} bytes: give a multiple of 2 MiB, at least 256 MiB"
            )
        if (self.firmware_code is None) != (self.firmware_variables is None):
            raise UsageError("firmware is two files: its code, and its variables")
        if (self.signing_key is None) != (self.signing_certificate is None):
            raise UsageError("what signs is two files: a key, and its certificate")
        if self.signing_key is not None and self.firmware_code is None:
            raise UsageError("Secure Boot needs UEFI firmware")
        if self.boots_from_root and (self.firmware_code is None or self.root is None):
            raise UsageError("a disk boots by itself with UEFI firmware only")
        if self.firmware_code is not None and self.loader is None:
            raise UsageError("UEFI starts the loader: leave --no-loader out")
        if self.boots_from_root and (self.icount or self.cut_points):
            raise UsageError("a disk that boots by itself: no --icount, --cut-points or caches")
        if self.blank_bytes is not None and (self.blank_bytes <= 0 or self.blank_bytes % MIB_BYTES):
            raise UsageError(f"a second disk of {self.blank_bytes} bytes: give whole MiB")
        self._check_isa()
        self._check_second_range()
        self._check_regions()
        check_shares(self.shares)
        if self.shares and self.network not in ("auto", "tap"):
            raise UsageError(f"--share needs a tap network, not --network {self.network}")

    def _check_isa(self) -> None:
        if self.isa not in ISA_NAMES:
            raise UsageError(f"--arch {self.isa}: choose {' or '.join(ISA_NAMES)}")
        if self.interrupts not in INTERRUPTS:
            raise UsageError(f"--interrupts {self.interrupts}: choose {' or '.join(INTERRUPTS)}")
        if self.isa != "riscv64":
            if self.interrupts != "aia":
                raise UsageError("--interrupts: only with --arch riscv64")
            return
        others = {
            "--memory": self.memory is not None,
            "--firmware uefi": self.firmware_code is not None,
            "--tpm": self.tpm is not None,
            "--memtype with DRAM": self.memtype not in (None, "nvram"),
            "--nvram-second": self.nvram_second_bytes is not None,
            "--nvram-kind": self.nvram_kind == "nvdimm-n",
            "--disk ahci": self.disk == "ahci",
            "--nic": self.nic not in ("virtio-net", "e1000e"),
            "--pm and --off2f": bool(self.regions_bytes),
            "threads": self.threads > 1,
        }
        for what, given in others.items():
            if given:
                raise UsageError(f"{what}: not with --arch riscv64")

    def _check_second_range(self) -> None:
        second_bytes = self.nvram_second_bytes
        if second_bytes is None:
            return
        if not 0 < second_bytes <= NVRAM_SECOND_MAX_BYTES or second_bytes % (2 * MIB_BYTES):
            raise UsageError(f"--nvram-second {second_bytes} bytes: a multiple of 2 MiB, up to 3G")
        if self.nvram_bytes > NVRAM_SECOND_PHYS - NVRAM_PHYS:
            raise UsageError("--nvram-second: the first range is larger than 4G")
        if self.caches is not None or self.nvram_kind != "scm":
            raise UsageError("--nvram-second: only without volatile caches, and with NVRAM of scm")

    def _check_regions(self) -> None:
        for option, count_bytes in (("--pm", self.pm_bytes), ("--off2f", self.off2f_bytes)):
            if count_bytes is None:
                continue
            if count_bytes <= 0 or count_bytes % REGION_UNIT_BYTES:
                raise UsageError(f"{option} {count_bytes} bytes: give a multiple of 2 MiB")
            if self.memtype not in ("nvram", "nvram,dram", "mixed"):
                raise UsageError(f"{option} is a part of NVRAM, which the kernel may not use here")
        left_bytes = self.nvram_bytes - self.regions_bytes
        if self.regions_bytes and left_bytes < NVRAM_MIN_BYTES:
            raise UsageError(
                f"--pm and --off2f leave {left_bytes >> 20} MiB of NVRAM as main memory: "
                f"give a larger --nvram, {(self.regions_bytes + NVRAM_MIN_BYTES) >> 20}M or more"
            )

    @property
    def machine_isa(self) -> Isa:
        """Its instruction set."""
        return ISAS[self.isa]

    @property
    def block_bytes(self) -> int:
        """Where the record block is in the file of NVRAM."""
        return self.machine_isa.block_bytes

    @property
    def cpu(self) -> str:
        """The model of the CPU, as QEMU takes it."""
        if self.isa != "riscv64":
            return self.cpu_model
        model = RISCV_CPU_MODEL if self.cpu_model == CPU_MODEL else self.cpu_model
        return model if self.interrupts == "aia" else model.replace(RISCV_CPU_AIA, "")

    @property
    def regions_bytes(self) -> int:
        """What is put aside of NVRAM."""
        return (self.pm_bytes or 0) + (self.off2f_bytes or 0)

    @property
    def dram_size_bytes(self) -> int:
        if self.dram_bytes is not None:
            return self.dram_bytes
        most = {"dram": DRAM_AS_MAIN_MEMORY_BYTES, "mixed": DRAM_AS_CACHE_BYTES}
        least = DRAM_BYTES if self.firmware_code is None else DRAM_OF_UEFI_BYTES
        least = DRAM_OF_DISK_BYTES if self.boots_from_root else least
        return most.get(self.memtype or "", least)

    @property
    def has_iommu(self) -> bool:
        """Not with AHCI: QEMU's maps the table of a command by one request, which its IOMMU ends at
        a page, so that large commands fail, as on no hardware."""
        return self.iommu and self.disk != "ahci" and self.isa == "x86_64"

    @property
    def x2apic(self) -> bool:
        """Whether the kernel drives local APICs by registers, which takes an IOMMU."""
        return self.has_iommu and "nox2apic" not in self.cmdline().split()

    def cmdline(self) -> str:
        """The kernel's command line; the user's words come last, so that they take precedence."""
        words = [CMDLINE_BASE if self.isa == "x86_64" else CMDLINE_ANY, ROOT_WORDS[self.disk]]
        if self.memtype is not None:
            words.append(f"memtype={self.memtype}")
        if self.stop_mode is not None:
            words.append(f"remanence.stop={self.stop_mode}")
        if self.cut_points:
            words.append("nokaslr")
        if self.icount and self.isa == "x86_64":
            # A boot reads its timer's count, by RDMSR from an x2APIC: "Bad icount read".
            words.append("nox2apic")
        if self.isa == "x86_64" and (self.idle_waits or not self.icount):
            # QEMU's HPET goes on firing each millisecond after the kernel has shut it down: an idle
            # machine took a sixth of a core. Where an idle guest skips to the next timer it is what
            # keeps the skips short; without it a boot that waits for its disk takes minutes.
            words.append("hpet=disable")
        words += self._region_words()
        words += [share.word(number) for number, share in enumerate(self.shares)]
        if self.cmdline_extra:
            words.append(self.cmdline_extra)
        return " ".join(words)

    def _region_words(self) -> list[str]:
        """Put regions aside, and let the guest's init use them (guest/rem-init)."""
        words = []
        if self.off2f_bytes:
            # Below the region of pm=, which is at the end.
            address = NVRAM_PHYS + self.nvram_bytes - self.regions_bytes
            words += [f"memmap={self.off2f_bytes >> 20}M!{address:#x}", "rem.off2f=/dev/pmem0"]
        if self.pm_bytes:
            words += [f"pm={self.pm_bytes >> 20}M", "rem.pm"]
        return words

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str, indent=1) + "\n"

    @staticmethod
    def from_json(text: str) -> MachineConfig:
        """Raises RemError when the file is of another version of this program."""
        known = {field.name for field in fields(MachineConfig)}
        try:
            raw: dict[str, Any] = json.loads(text)
            if set(raw) != known:
                raise KeyError(*sorted(set(raw) ^ known))
            for key in PATH_FIELDS:
                raw[key] = None if raw[key] is None else Path(raw[key])
            raw["forwards"] = tuple(Forward(**forward) for forward in raw["forwards"])
            raw["devices"] = tuple(raw["devices"])
            raw["shares"] = tuple(
                Share(Path(share["host"]), share["guest"], share["read_only"])
                for share in raw["shares"]
            )
            return MachineConfig(**raw)
        except (ValueError, KeyError, TypeError) as err:
            raise InfraError(
                f"config.json of the machine does not fit this version ({err}): "
                "remove the machine with `rem rm` and make a new one"
            ) from err
