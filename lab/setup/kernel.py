# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel: Debian's linux-source-6.12, our patches and folders, our configuration.

    base      CACHE/build/linux-VERSION-KEY  Debian's source for x86, never changed
    overlay   our changes: files after kernel/patches, files of kernel/tree.txt
    tree      CACHE/build/tree-VERSION  base with the overlay, built in place, kept for next time;
                                        tree-VERSION-VARIANT for variants that share no object
    product   CACHE/kernel/KEY          bzImage, vmlinux, System.map, config, version

A variant has kernel/config/VARIANT.config on top of the configuration, if there is one, or planted
bugs, or both: `mutants` has all patches of kernel/mutants, `debug` and `races` have them and the
kernel's own detectors, `filesystems` has them and XFS, btrfs and a log of writes, `tracing` has
them and patches its own text, `server` has what typical services need, `riscv64` is for that
architecture. `debian`, which the packages have, is on top of Debian's own configuration instead,
and its product has modules, as they are installed, and `debian-lost`: what of Debian's has gone
with our lines.
Production sources contain no planted bug: the patches are applied to a copy (patch_series.py).

The tree is kept so that a build after a small change takes seconds. Only files that differ
are touched, with a new time, so that `make` rebuilds only what depends on them.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.errors import InfraError, RemError
from lab.isa import RISCV64, X86_64, Isa
from lab.paths import cache_dir, repo_dir
from lab.progress import step
from lab.run import run, stream
from lab.setup.apt import installed_versions
from lab.setup.cache import lock
from lab.setup.host import explain, need_disk, tool_version
from lab.setup.inputs import Inputs, source_files
from lab.setup.kernel_config import config_lacks, config_lost, debian_config, merge_fragments
from lab.setup.need import Part, Site
from lab.setup.packages import KERNEL_SOURCE, Group
from lab.setup.patch_series import Series, add_series, patched_copy, read_series

BUILD_MIB = 6000  # base, tree and objects
# For the bar of the first build; later builds have the number.
OBJECTS_ABOUT, OBJECTS_OF_DEBIAN_ABOUT = 1500, 6400
OBJECT_LINES = ("  CC ", "  AS ")
# A third of the source's files, which none of our configurations uses.
NOT_UNPACKED = (
    # Architectures that do not begin with x or r, except their Kconfig files, which are read, and
    # um, of which fs/hostfs reads a Makefile. Patches are of all of ours.
    f"{KERNEL_SOURCE}/arch/[!xrKu]*.*",
    f"{KERNEL_SOURCE}/Documentation/devicetree/*",
    f"{KERNEL_SOURCE}/Documentation/translations/*",
    f"{KERNEL_SOURCE}/drivers/gpu/drm/amd/include/*",
    f"{KERNEL_SOURCE}/tools/testing/*",
)
FUZZ_LINES = 1  # the archive's source changes; a patch that matches only roughly is still refused
TARBALL = Path(f"/usr/src/{KERNEL_SOURCE}.tar.xz")
RESULTS = {
    "{image}": "bzImage",  # whatever an image is called for its instruction set
    "vmlinux": "vmlinux",
    "System.map": "System.map",
    ".config": "config",
    "include/config/kernel.release": "version",
}
# For every make of a kernel. Kconfig writes the versions of Rust's compiler and of pahole into the
# configuration, which each object includes: with them, machines would share no object.
MAKE = ("make", "CC=ccache gcc", "RUSTC=none", "BINDGEN=none", "PAHOLE=none")
MODULES_PLACE = Path("lib/modules")  # in a product that is packed
# Of a packed kernel without modules, for depmod and for what makes initial RAM disks.
LISTS = ("modules.builtin", "modules.builtin.modinfo")
LOST = "debian-lost"
MANIFEST = ".remanence-overlay"  # in the tree: the files that are not the base's
MUTANTS = "mutants"
SERVER = "server"
DEBIAN = "debian"
# What is in our packages.
PACKED = DEBIAN
# Of Debian's, what a disk needs whose kernel has the drivers of the root as modules.
FOR_MODULES = ("initramfs-tools", "zstd")
TRACING = "tracing"
RISCV, RISCV_MUTANTS = "riscv64", "riscv64-mutants"
FILESYSTEMS, GROUPS, TIERING = "filesystems", "groups", "tiering"
# Variants.
WITH_MUTANTS = (
    MUTANTS,
    "devices-mutants",
    "debug",
    "races",
    FILESYSTEMS,
    GROUPS,
    TRACING,
    RISCV_MUTANTS,
)
# Variants that share few objects with the others.
OWN_TREE = ("debug", "races", GROUPS, TIERING, TRACING, SERVER, DEBIAN, RISCV)


def mutants_of(variant: str | None) -> str:
    """The variant of a kernel that has planted bugs, too."""
    return MUTANTS if variant is None else f"{variant}-{MUTANTS}"


@dataclass(frozen=True)
class KernelProduct:
    bz_image: Path
    vmlinux: Path
    version: str  # what `uname -r` prints
    key: str

    @staticmethod
    def of(folder: Path) -> KernelProduct:
        version = (folder / "version").read_text(encoding="utf-8").strip()
        return KernelProduct(folder / "bzImage", folder / "vmlinux", version, folder.name)

    @property
    def modules(self) -> Path:
        """Modules, of a variant that has some, with the lists that depmod reads."""
        return self.bz_image.parent / MODULES_PLACE / self.version


@dataclass(frozen=True)
class Recipe:
    """How to change the base: `overlay(base, into)` fills a folder with the files that differ."""

    key: str
    overlay: Callable[[Path, Path], None]
    config: str  # lines on top of `allnoconfig`, or of `base`
    config_name: str  # their origin, for errors
    tree: str = ""  # suffix of the tree's name
    isa: Isa = X86_64
    base: str = ""  # a whole configuration
    is_packed: bool = False

    @property
    def make(self) -> list[str]:
        """The beginning of each call of make."""
        if self.isa is X86_64:
            return list(MAKE)
        words = [f"CC=ccache {self.isa.tools}gcc", f"CROSS_COMPILE={self.isa.tools}"]
        return [MAKE[0], f"ARCH={self.isa.kernel_arch}", *words, *MAKE[2:]]


def kernel_source_version() -> str:
    """Return the version of the installed package."""
    version = installed_versions([KERNEL_SOURCE]).get(KERNEL_SOURCE, "")
    if not version:
        raise InfraError(f"{KERNEL_SOURCE} is not installed: run `./rem setup`")
    return version


@dataclass(frozen=True)
class Kernel(Part[KernelProduct]):
    """The kernel of this checkout, or a variant of it."""

    variant: str | None = None

    groups = (Group.COMPILER, Group.KERNEL)
    lane = "kernel"

    def needs_groups(self) -> tuple[Group, ...]:
        """Return packages, a compiler for its architecture among them."""
        if isa_of(self.variant) is RISCV64:
            return (*self.groups, Group.RISCV_BUILD)
        return (*self.groups, Group.DEBIAN_CONFIG) if self.variant == DEBIAN else self.groups

    def make(self, site: Site) -> KernelProduct:
        source_version = kernel_source_version()
        key = kernel_key(source_version, self.variant)

        def make(into: Path) -> None:
            build(source_version, recipe_of(key, self.variant), into)

        lock_name = tree_lock(tree_of(self.variant))
        return KernelProduct.of(site.product("kernel", key, make, lock_name))


def isa_of(variant: str | None) -> Isa:
    """Return what a variant is compiled for."""
    return RISCV64 if variant in (RISCV, RISCV_MUTANTS) else X86_64


def recipe_of(key: str, variant: str | None) -> Recipe:
    """Return the recipe of the kernel of this checkout with that key."""
    overlay = make_mutant_overlay if variant in WITH_MUTANTS else make_overlay
    base, tree = _base_config(variant), tree_of(variant)
    asked, isa = _asked(variant), isa_of(variant)
    return Recipe(
        key, partial(overlay, repo_dir()), *asked, tree, isa, base, is_packed=variant == PACKED
    )


def tree_of(variant: str | None) -> str:
    """Return the suffix of the name of the folder where a variant is built."""
    if variant == RISCV_MUTANTS:
        return f"-{RISCV}"
    return f"-{variant}" if variant in OWN_TREE else ""


def base_dir(source_version: str) -> Path:
    """Return the folder of the unpacked source; its name changes with the list of omitted files."""
    key = Inputs("base").add("left out", " ".join(NOT_UNPACKED)).key()
    return cache_dir() / "build" / f"linux-{source_version}-{key[:8]}"


def tree_dir(source_version: str, recipe: Recipe) -> Path:
    """Return the folder of the build."""
    return cache_dir() / "build" / f"tree-{source_version}{recipe.tree}"


def tree_lock(tree: str) -> str:
    """Return the cache's lock of a folder by its suffix: others can be built in meanwhile."""
    return f"kernel{tree or '-base'}"


def kernel_key(source_version: str, variant: str | None = None) -> str:
    """Return the hash of all inputs of the kernel."""
    repo = repo_dir()
    compiler = tool_version(f"{isa_of(variant).tools}gcc")
    inputs = Inputs("kernel").add("source", source_version).add("gcc", compiler)
    inputs.add_path(repo / "kernel" / "patches", "patches")
    inputs.add("config", _asked(variant)[0])
    for source, destination in tree_entries(repo):
        inputs.add_path(source, destination)
    if variant is not None:
        inputs.add("variant", variant)
    if base := _base_config(variant):
        inputs.add("base", base)
    elif variant == PACKED:
        inputs.add("lists", " ".join(LISTS))
    if variant in WITH_MUTANTS:
        add_series(inputs, kernel_mutants(repo))
    return inputs.key()


def kernel_mutants(repo: Path) -> Series:
    """The planted bugs of the kernel."""
    return read_series(repo / "kernel" / "mutants")


def tree_entries(repo: Path) -> Iterator[tuple[Path, str]]:
    """Yield lines `SOURCE DESTINATION` of kernel/tree.txt: paths here and in the kernel tree."""
    table = repo / "kernel" / "tree.txt"
    if not table.exists():
        return
    for number, line in enumerate(table.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or Path(words[1]).is_absolute() or ".." in Path(words[1]).parts:
            raise RemError(f"kernel/tree.txt:{number}: want `SOURCE DESTINATION`, got: {line}")
        yield repo / words[0], words[1]


def make_overlay(repo: Path, base: Path, into: Path) -> None:
    """Fill `into` with every file that differs from the base: patched files and ours."""
    patches = sorted((repo / "kernel" / "patches").glob("*.patch"))
    for patch in patches:
        text = patch.read_text(encoding="utf-8")
        if "\ndeleted file mode" in text:
            raise RemError(f"kernel/patches/{patch.name} deletes a file: the overlay only adds")
        for name in _touched(text):
            target = into / name
            if not target.exists() and (base / name).exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(base / name, target)
        argv = ["patch", "-p1", "-s", "-N", f"-F{FUZZ_LINES}", "--no-backup-if-mismatch"]
        done = run([*argv, "-i", patch], cwd=into, check=False)
        if not done.ok:
            why = (done.stdout + done.stderr).strip().replace("\n", "; ")
            raise RemError(f"kernel/patches/{patch.name} does not apply to {base.name}: {why}")
    for source, destination in tree_entries(repo):
        if source.exists():
            _copy_sources(source, into / destination)


def make_mutant_overlay(repo: Path, base: Path, into: Path) -> None:
    """The same from a copy of our sources with all planted bugs."""
    sources = [str(source.relative_to(repo)) for source, _ in tree_entries(repo)]
    with tempfile.TemporaryDirectory(prefix="rem-mutants-") as folder:
        copy = Path(folder)
        patched_copy(repo, ["kernel", *sources], kernel_mutants(repo).patches, copy)
        make_overlay(copy, base, into)


def sync_tree(base: Path, overlay: Path, tree: Path) -> None:
    """Make `tree` the base with the overlay, touching only files that differ.

    A file that reverts to the base's is copied, not linked: it needs a new time, or `make` would
    use the object of the changed file.
    """
    manifest = tree / MANIFEST
    before = set(manifest.read_text(encoding="utf-8").split("\n")) if manifest.exists() else set()
    now = {str(p.relative_to(overlay)) for p in overlay.rglob("*") if p.is_file()}
    # Written first: after an interruption every file that may differ is known.
    manifest.write_text("\n".join(sorted(before | now)), encoding="utf-8")
    for name in sorted(now):
        _put(overlay / name, tree / name)
    for name in sorted(before - now - {""}):
        if (base / name).exists():
            _put(base / name, tree / name)
        else:
            (tree / name).unlink(missing_ok=True)
    manifest.write_text("\n".join(sorted(now)), encoding="utf-8")


def build(source_version: str, recipe: Recipe, into: Path) -> None:
    """Build in the recipe's tree: the caller holds its lock."""
    need_disk(cache_dir(), BUILD_MIB, "the kernel build")
    build = cache_dir() / "build"
    base = base_dir(source_version)
    tree = tree_dir(source_version, recipe)
    try:
        with lock("kernel-source"):
            if not base.is_dir():
                with step(f"kernel: unpack {source_version}"):
                    _unpack(base)
        with step("kernel: apply patches"):
            if not tree.is_dir():
                _clone(base, tree)
            overlay = build / f"overlay{recipe.tree}"
            shutil.rmtree(overlay, ignore_errors=True)
            overlay.mkdir()
            recipe.overlay(base, overlay)
            sync_tree(base, overlay, tree)
        _note_first_build()  # Kconfig's questions to the compiler are in the cache, too
        with step("kernel: configure"):
            got = _configure(tree, recipe)
        _compile(tree, recipe)
        if recipe.base:
            lost = config_lost(recipe.base, recipe.config, got)
            (into / LOST).write_text("".join(f"{line}\n" for line in lost), encoding="utf-8")
            with step("kernel: modules"):
                _install_modules(tree, recipe, into)
        elif recipe.is_packed:
            _install_lists(tree, into)
    except InfraError as error:
        raise explain(error, "building the kernel") from error
    for result, name in RESULTS.items():
        shutil.copy(tree / result.format(image=recipe.isa.kernel_image), into / name)


def _unpack(base: Path) -> None:
    partial = base.with_name(base.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    argv = ["tar", "-C", str(partial), "--strip-components=1", "--wildcards"]
    argv += [f"--exclude={pattern}" for pattern in NOT_UNPACKED]
    run([*argv, "-xf", TARBALL], env={"XZ_OPT": "-T0"}, what="unpacking the kernel source")
    partial.rename(base)


def _clone(base: Path, tree: Path) -> None:
    """Copy by hard links: the source has 1 GB. Files are replaced (`_put`), never edited."""
    partial = tree.with_name(tree.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    run(["cp", "-al", base, partial], what="copying the kernel source")
    partial.rename(tree)


def _touched(patch: str) -> set[str]:
    names = re.findall(r"^(?:---|\+\+\+) [ab]/(\S+)", patch, flags=re.MULTILINE)
    return set(names)


def _copy_sources(source: Path, target: Path) -> None:
    for file in source_files(source):
        to = target if file == source else target / file.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)


def _put(source: Path, target: Path) -> None:
    if target.exists() and target.read_bytes() == source.read_bytes():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(target.name + ".remanence-new")
    shutil.copy(source, fresh)
    fresh.replace(target)


def make_env(key: str = "") -> dict[str, str]:
    """Return the environment for reproducible builds whose objects all checkouts share."""
    return {
        **({"CCACHE_DEPEND": "1"} if _first_build().exists() else {}),
        "LC_ALL": "C",
        # Kbuild unsets LC_ALL, and ccache tells objects apart by what is left.
        "LANG": "C.UTF-8",
        "KBUILD_BUILD_TIMESTAMP": "Thu Jan  1 00:00:00 UTC 1970",
        "KBUILD_BUILD_VERSION": "1",
        "KBUILD_BUILD_USER": "remanence",
        "KBUILD_BUILD_HOST": key,  # in /proc/version, to distinguish kernels of different inputs
        "CCACHE_DIR": str(cache_dir() / "ccache"),
        "CCACHE_BASEDIR": str(cache_dir() / "build"),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_MAXSIZE": "2G",
    }


def _asked(variant: str | None) -> tuple[str, str]:
    """Return the configuration, and the name of its last fragment for messages."""
    folder = repo_dir() / "kernel" / "config"
    names = ["remanence.config", "x86.config"]
    if variant == DEBIAN:
        names = [f"{DEBIAN}.config", f"{DEBIAN}-off.config"]
    elif isa_of(variant) is RISCV64:
        names[1:] = [f"{RISCV}.config"]
    elif variant is not None and variant != MUTANTS:
        names.append(f"{variant.removesuffix(f'-{MUTANTS}')}.config")
    text = merge_fragments([(folder / name).read_text(encoding="utf-8") for name in names])
    return text, f"kernel/config/{names[-1]}"


def _base_config(variant: str | None) -> str:
    """Return the whole configuration below the variant's lines; empty for `allnoconfig`."""
    return debian_config(kernel_source_version()) if variant == DEBIAN else ""


def _configure(tree: Path, recipe: Recipe) -> str:
    """Return the configuration that Kconfig has made."""
    config, env = tree / ".config", make_env()
    if recipe.base:
        target = "olddefconfig"
        config.write_text(merge_fragments([recipe.base, recipe.config]), encoding="utf-8")
    else:
        target = "allnoconfig"
        fragment = cache_dir() / "build" / f"allconfig{recipe.tree}"  # trees have locks
        fragment.write_text(recipe.config, encoding="utf-8")
        env["KCONFIG_ALLCONFIG"] = str(fragment)
    run([*recipe.make, "-s", target], cwd=tree, env=env, what="kernel: configure")
    got = config.read_text(encoding="utf-8")
    lacks = config_lacks(recipe.config, got)
    if lacks:
        raise RemError(
            f"{recipe.config_name} wants {', '.join(lacks)} and Kconfig did not accept it: "
            "a dependency is missing, or this kernel has no such symbol"
        )
    return got


def _install_lists(tree: Path, into: Path) -> None:
    version = (tree / "include/config/kernel.release").read_text(encoding="utf-8").strip()
    folder = into / MODULES_PLACE / version
    folder.mkdir(parents=True)
    for name in LISTS:
        shutil.copy(tree / name, folder / name)


def _install_modules(tree: Path, recipe: Recipe, into: Path) -> None:
    """Put modules where a system has them, stripped and compressed, without what depmod makes."""
    words = [f"INSTALL_MOD_PATH={into}", "INSTALL_MOD_STRIP=1", "DEPMOD=true"]
    argv = ["nice", *recipe.make, "-s", f"-j{os.cpu_count() or 1}", *words, "modules_install"]
    run(argv, cwd=tree, env=make_env(recipe.key), what="kernel: modules")
    for folder in (into / MODULES_PLACE).iterdir():
        (folder / "build").unlink(missing_ok=True)  # the tree


def _first_build() -> Path:
    """Return a file that exists from the begin of the first build to its end, over interruptions.

    While the compiler's cache is empty, a lookup costs a quarter more: each file is preprocessed
    twice. With CCACHE_DEPEND it is not. A cache with content is worth the cost: it then finds
    files that differ only in the name of their configuration.
    """
    return cache_dir() / "build" / "first-build"


def _note_first_build() -> None:
    cache = cache_dir() / "ccache"
    if not cache.is_dir() or next(cache.iterdir(), None) is None:
        _first_build().touch()


def _compile(tree: Path, recipe: Recipe) -> None:
    log = cache_dir() / "logs" / "kernel.log"
    modules = "=m\n" in (tree / ".config").read_text(encoding="utf-8")
    image = Path(recipe.isa.kernel_image).name
    targets = [image, "modules"] if modules else [image]
    argv = ["nice", *recipe.make, f"-j{os.cpu_count() or 1}", *targets]
    count_file = cache_dir() / "build" / f"objects{recipe.tree}"
    before = _objects(tree)
    with step("kernel: compile", unit="objects") as shown:
        about = OBJECTS_OF_DEBIAN_ABOUT if recipe.base else OBJECTS_ABOUT
        total = _known_count(count_file) or about
        if before < total:  # otherwise it is a build of a few objects after a change
            shown.skip(before, total)

        def count(line: str) -> None:
            if line.startswith(OBJECT_LINES) and "/tools/" not in line:
                shown.advance()

        env = make_env(recipe.key)
        stream(argv, cwd=tree, env=env, log=log, on_line=count, what="kernel: compile")
    _first_build().unlink(missing_ok=True)
    count_file.write_text(f"{_objects(tree)}\n", encoding="utf-8")


def _objects(tree: Path) -> int:
    """Return the number of objects that `make` has compiled, without programs of the host."""
    found = 0
    for folder, folders, files in os.walk(tree):
        if Path(folder) == tree:
            folders[:] = [name for name in folders if name not in ("scripts", "tools")]
        present = set(files)
        found += sum(f"{name[:-2]}{end}" in present for name in files if name.endswith(".o")
                     for end in (".c", ".S"))  # fmt: skip
    return found


def _known_count(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
