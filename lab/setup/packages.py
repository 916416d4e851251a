# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Debian packages that the host needs: one list, each with its reason and its groups.

A part of lab/setup/need.py names groups. Only they are installed, and while it is made only their
programs are in PATH (lab/setup/tools.py): a step that uses a package outside its groups fails on
every machine, not only on a bare one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

KERNEL_SOURCE = "linux-source-6.12"
KERNEL_CONFIG = "linux-config-6.12"  # of the same version
QEMU = "qemu-system-x86"
BUSYBOX = Path("/bin/busybox")  # static: many programs in one, without ld.so


class Group(StrEnum):
    """Packages that are installed together, when first needed."""

    BASE = "base"  # for every command that calls set-up
    COMPILER = "compiler"
    CLANG = "clang"
    KERNEL = "kernel"
    DEBIAN_CONFIG = "debian-config"  # of a kernel with Debian's own configuration
    MODULES = "modules"
    ROOT = "root"
    RUST = "rust"
    MACHINE = "machine"
    GUESTS = "guests"
    SOURCES = "sources"
    CHECKS = "checks"
    TESTS = "tests"
    HEAP_PEER = "heap-peer"
    LDAP = "ldap"
    BROWSER = "browser"
    UEFI = "uefi"
    TPM = "tpm"
    RTL = "rtl"
    MEDIA_PEER = "media-peer"
    WORKS = "works"  # programs of LightPC's workloads
    PACKAGES = "packages"
    RISCV = "riscv"  # machines of RISC-V: programs that run here
    RISCV_BUILD = "riscv-build"  # what is built for them


BASE = Group.BASE
# Groups that `./rem setup` installs; the others are large and rarely needed.
RARE = (
    Group.HEAP_PEER,
    Group.LDAP,
    Group.BROWSER,
    Group.RTL,
    Group.MEDIA_PEER,
    Group.WORKS,
    Group.PACKAGES,
    Group.DEBIAN_CONFIG,
    Group.RISCV,
    Group.RISCV_BUILD,
)
USUAL = tuple(group for group in Group if group not in RARE)
CHECKERS = (Group.COMPILER, Group.CLANG, Group.KERNEL, Group.RUST, Group.CHECKS)
QUICK_TESTS = (*CHECKERS, Group.MACHINE)  # for guests of a few bytes
ALL_TESTS = (*QUICK_TESTS, Group.GUESTS, Group.TESTS)


@dataclass(frozen=True)
class Package:
    """A package; `at_least` is the oldest suitable version, as dpkg compares."""

    name: str
    groups: tuple[Group, ...]
    why: str
    at_least: str = ""


_COMPILER, _CLANG, _KERNEL, _MODULES = Group.COMPILER, Group.CLANG, Group.KERNEL, Group.MODULES
_ROOT, _MACHINE, _CHECKS, _TESTS = Group.ROOT, Group.MACHINE, Group.CHECKS, Group.TESTS

PACKAGES = (
    Package("ca-certificates", (BASE,), "fetches from package registries"),
    Package("python3", (BASE,), "runs rem; scripts of the kernel's build"),
    Package("python3-venv", (BASE,), "the Python environment of rem"),
    Package("git", (BASE,), "lists the files of the checkout, names its commit"),
    Package("openssh-client", (_MACHINE, _ROOT), "the key of the guests, commands in them"),
    Package(QEMU, (_MACHINE,), "the machine; plugin API 4 needs QEMU 10", "1:10.0"),
    Package("qemu-utils", (_MACHINE,), "the overlay of a disk with a volatile write cache"),
    Package("binutils", (_MACHINE,), "nm: places in the loader at which power is cut"),
    Package("mtools", (Group.UEFI,), "the disk that UEFI firmware boots from"),
    Package("sbsigntool", (Group.UEFI,), "signs the loader for Secure Boot"),
    Package("openssl", (Group.UEFI, _CHECKS), "the key that signs it; certificates of tests"),
    Package("swtpm", (Group.TPM,), "the TPM of a machine"),
    Package("iproute2", (_MACHINE,), "network namespace and tap of a machine"),
    Package("e2fsprogs", (_ROOT, _MACHINE), "makes and checks ext4"),
    Package("mmdebstrap", (_ROOT,), "makes the guest root"),
    Package("fdisk", (_ROOT,), "sfdisk: the partitions of a disk that boots"),
    Package("patchelf", (_ROOT,), "programs that bring their libraries into any root"),
    Package("bubblewrap", (_MACHINE,), "the sandbox of a shared folder's server"),
    Package("gcc", (_COMPILER,), "compiles the kernel and the guest's programs"),
    Package("libc6-dev", (_COMPILER,), "static C library for the guest's programs"),
    Package("make", (_COMPILER, Group.RTL), "builds the kernel, the loader, the RTL's bench"),
    Package("cmake", (Group.MEDIA_PEER,), "builds DRAMsim3, the peer of `rem bench media`"),
    Package("clang", (_CLANG,), "the loader, and tests and fuzzers in C"),
    Package("lld", (_CLANG,), "links the loader"),
    Package(KERNEL_SOURCE, (_KERNEL,), "the kernel that the patches are for", "6.12.111"),
    Package(KERNEL_CONFIG, (Group.DEBIAN_CONFIG, _TESTS), "Debian's configuration of that source"),
    Package("libssl-dev", (Group.DEBIAN_CONFIG,), "programs of the build for signed modules"),
    Package("flex", (_KERNEL,), "Kconfig"),
    Package("bison", (_KERNEL,), "Kconfig"),
    Package("bc", (_KERNEL,), "time constants"),
    Package("perl", (_KERNEL, _CHECKS), "scripts of the kernel's build, checkpatch"),
    Package("libelf-dev", (_KERNEL,), "objtool"),
    Package("lz4", (_KERNEL,), "the compressed image"),
    Package("zstd", (_KERNEL, _ROOT), "the compressed initrd; layers of container images"),
    Package("xz-utils", (_KERNEL,), "unpacks the kernel source"),
    Package(
        "patch",
        (_COMPILER, _KERNEL, Group.RUST, Group.RTL),
        "applies patches, planted bugs among them",
    ),
    Package("ccache", (_KERNEL,), "a kernel built again is built in a minute"),
    Package("kmod", (_MODULES,), "depmod: the modules of Debian's kernel for a guest"),
    Package(
        "g++",
        (_MODULES, Group.RTL, Group.MEDIA_PEER, Group.WORKS),
        "an OFF2F program in C++; the bench of the RTL; DRAMsim3; guest/works",
    ),
    Package("dwarves", (_MODULES,), "pahole: types of modules for Debian's kernel"),
    Package("busybox-static", (Group.GUESTS, _ROOT, _CHECKS), "what init needs, small guests"),
    Package("umoci", (_TESTS,), "a peer that unpacks container images"),
    Package("dkms", (_TESTS,), "builds the modules of pm as a stock system does"),
    Package("dpkg-dev", (_TESTS, Group.SOURCES, Group.PACKAGES), "unpacks and makes packages"),
    Package("debhelper", (Group.PACKAGES,), "the steps of making a package"),
    Package("dh-dkms", (Group.PACKAGES,), "packages whose modules DKMS builds"),
    Package("apt-utils", (_TESTS, Group.PACKAGES), "the index of packages, for apt"),
    Package("gpg", (_TESTS, Group.PACKAGES), "signs the repository of packages"),
    Package("gpg-agent", (_TESTS, Group.PACKAGES), "has the key for gpg"),
    Package("lintian", (Group.PACKAGES,), "checks packages"),
    Package("curl", (_CHECKS,), "asks a BMC in tests of remctl"),
    Package("shellcheck", (_CHECKS,), "linter of shell scripts"),
    Package("zsh", (_CHECKS,), "a test of its completion"),
    Package("fish", (_CHECKS,), "a test of its completion"),
    Package("clang-format", (_CHECKS,), "formatter of C"),
    Package("libclang-rt-dev", (_CHECKS,), "sanitizers and fuzzers of the loader and of pm"),
    Package("strace", (_TESTS, Group.HEAP_PEER), "system calls of off2f; that no heap calls msync"),
    Package("valgrind", (Group.HEAP_PEER,), "counts the instructions of an update there"),
    Package("libpmemobj-dev", (Group.HEAP_PEER,), "the heap's peer in `rem bench heap`"),
    Package("slapd", (Group.LDAP,), "the server whose back end keeps its entries in the heap"),
    Package("ldap-utils", (Group.LDAP,), "clients of slapd"),
    Package("libldap-dev", (Group.LDAP,), "the LDAP client of the benchmark"),
    Package("libltdl-dev", (Group.LDAP,), "slapd's source is configured with it"),
    Package("libsasl2-dev", (Group.LDAP,), "slapd's source is configured with it"),
    Package("libgnutls28-dev", (Group.LDAP,), "slapd's source is configured with it"),
    Package("chromium", (Group.BROWSER,), "shows pages to tests"),
    Package("verilator", (Group.RTL,), "the memory controller's RTL as a program"),
    Package("yosys", (Group.RTL,), "synthesis and proofs of it"),
    Package("z3", (Group.RTL,), "the solver of the proofs"),
    Package("qemu-system-riscv", (Group.RISCV,), "a machine of RISC-V", "1:10.0"),
    Package("device-tree-compiler", (Group.RISCV,), "fdtput: says which memory is NVRAM"),
    Package("qemu-user-static", (Group.RISCV_BUILD,), "scripts of packages for RISC-V", "1:10.0"),
    Package("arch-test", (Group.RISCV_BUILD,), "mmdebstrap asks it whether they run"),
    Package("gcc-riscv64-linux-gnu", (Group.RISCV_BUILD,), "kernel, loader, guest's programs"),
    Package("libc6-dev-riscv64-cross", (Group.RISCV_BUILD,), "their C library"),
)


def of_groups(groups: tuple[Group, ...]) -> list[Package]:
    """The packages of these groups."""
    wanted = set(groups)
    return [package for package in PACKAGES if wanted & set(package.groups)]
