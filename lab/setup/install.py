# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Install the missing packages of some groups, by one call of apt-get.

Cheap on a machine that is set up: dpkg is queried only if the list or dpkg's state file has changed
since the last check.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from lab.errors import InfraError
from lab.paths import cache_dir
from lab.progress import Step, step
from lab.run import run
from lab.setup import cache, rust, sources
from lab.setup.apt import (
    apt_get,
    apt_versions,
    finish_interrupted,
    installed_versions,
    is_at_least,
    newest,
)
from lab.setup.host import debian, explain, is_root, need_disk, once_as_root
from lab.setup.inputs import Inputs
from lab.setup.packages import (
    KERNEL_CONFIG,
    KERNEL_SOURCE,
    PACKAGES,
    USUAL,
    Group,
    Package,
    of_groups,
)

DPKG_STATUS = Path("/var/lib/dpkg/status")
MIB_OF_EACH = 100  # with what it depends on: on a bare Debian 26 packages take 2 GiB
LISTS_NEW_ENV = "REM_APT_UPDATED"  # the entry script has just run `apt-get update`
# For `update` an unreachable mirror is only a warning; without lists nothing can be installed.
UPDATE = ("update", "-o", "APT::Update::Error-Mode=any")
# The installation of Debian's slapd must not create a directory of its own and serve it.
ANSWERS = {"slapd": "slapd slapd/no_configuration boolean true\n"}


def install(groups: tuple[Group, ...]) -> None:
    """Install the missing packages of the groups, or raise InfraError with the remedy."""
    if _stamp_holds(groups):
        return
    system = debian()
    with cache.lock("packages"):
        lacking = missing(groups)
        if lacking or _lacks_rust(groups):
            if not is_root():
                raise InfraError(f"not root, and packages are missing: {by_root(groups)}")
            need_disk(Path("/usr"), MIB_OF_EACH * (len(lacking) + 1), "Debian packages")
            try:
                with step("Debian packages", unit="steps") as shown:
                    _install(lacking, groups, system.codename, shown)
            except InfraError as error:
                raise explain(error, "installing Debian packages") from error
            _check(groups)
        _write_stamp(groups)


def missing(groups: tuple[Group, ...]) -> list[Package]:
    """Return packages that are not installed, or too old, except the Rust compiler's."""
    wanted = of_groups(groups)
    have = installed_versions([p.name for p in wanted])
    return [p for p in wanted if not _serves(have.get(p.name), p.at_least)]


def _lacks_rust(groups: tuple[Group, ...]) -> bool:
    return Group.RUST in groups and rust.folder() is None


def by_root(groups: tuple[Group, ...]) -> str:
    """Return the command that root has to run once, for this user's cache."""
    return once_as_root("".join(f" --packages {name}" for name in groups if name not in USUAL))


def _serves(version: str | None, at_least: str) -> bool:
    return version is not None and (not at_least or is_at_least(version, at_least))


def _install(lacking: list[Package], groups: tuple[Group, ...], codename: str, shown: Step) -> None:
    names = [p.name for p in lacking]
    from_backports = any(name.startswith("qemu-") for name in names)
    _update(backports=codename == "bookworm" and from_backports, codename=codename)
    wanted = [_with_version(name) for name in names]
    if _lacks_rust(groups):
        wanted += rust.packages()
    for answer in (ANSWERS[name] for name in names if name in ANSWERS):
        run(["debconf-set-selections"], stdin=answer)
    if not wanted:
        return
    finish_interrupted()
    with tempfile.NamedTemporaryFile("w", suffix=".pref", encoding="utf-8") as preferences:
        preferences.write(_preferences(codename))
        preferences.flush()
        words = [f"-oDir::Etc::preferences={preferences.name}", "--no-install-recommends"]
        apt_get("install", *words, *wanted, step=shown)


def _preferences(codename: str) -> str:
    """The machine's own preferences of versions, and ours: QEMU's from the backports."""
    own = sources.APT_DIR / "preferences"
    found = [own.read_text(encoding="utf-8")] if own.exists() else []
    return "\n\n".join(filter(None, [*found, sources.preferences(codename)]))


def _update(backports: bool, codename: str) -> None:
    """New lists of packages: of all sources, or of the new one if the others' are just fetched."""
    own = _write_backports_entry(codename) if backports else None
    if os.environ.pop(LISTS_NEW_ENV, "") != "1":
        apt_get(*UPDATE)
    elif own is not None:
        places = {"sourcelist": str(own), "sourceparts": "/dev/null"}
        words = [f"-oDir::Etc::{key}={value}" for key, value in places.items()]
        apt_get(*UPDATE, *words, "-oAPT::Get::List-Cleanup=false")


def _with_version(name: str) -> str:
    if name == KERNEL_SOURCE:
        return f"{name}={_kernel_source_version()}"
    if name == KERNEL_CONFIG:
        have = installed_versions([KERNEL_SOURCE]).get(KERNEL_SOURCE)
        return f"{name}={_kernel_config_version(have or _kernel_source_version())}"
    return name


def _kernel_source_version() -> str:
    """The newest 6.12.y, from wherever: the backports may lag behind the security archive."""
    best = newest(apt_versions(KERNEL_SOURCE))
    bound = next(p.at_least for p in PACKAGES if p.name == KERNEL_SOURCE)
    if not best or not is_at_least(best, bound):
        raise InfraError(
            f"apt offers {KERNEL_SOURCE} {best or 'in no version'}, {bound} or newer is needed: "
            "is the release's security suite among the machine's sources?"
        )
    return best


def _kernel_config_version(source: str) -> str:
    """The source's version, or the newest: archives keep old sources longer than configurations."""
    offered = apt_versions(KERNEL_CONFIG)
    return source if source in offered else newest(offered) or source


def _write_backports_entry(codename: str) -> Path | None:
    """Replace the file of an earlier set-up or of the user by the derived entry.

    Return None if the machine's own sources have the suite.
    """
    own = sources.APT_DIR / "sources.list.d" / sources.OWN_NAME
    own.unlink(missing_ok=True)
    found = sources.read_machine()
    if sources.has_suite(found, f"{codename}-backports"):
        return None
    entry = sources.backports(found, codename)
    if entry is None:
        raise InfraError(
            f"no apt source of {codename}/main found below {sources.APT_DIR}, so none for its "
            "backports can be derived (QEMU >= 10 is there): add one, then run `./rem setup`"
        )
    own.write_text(
        "# Written by `rem setup`: QEMU >= 10. Derived from this machine's own entry.\n"
        + entry.as_deb822(),
        encoding="utf-8",
    )
    return own


def _check(groups: tuple[Group, ...]) -> None:
    left = [f"{p.name} >= {p.at_least}" if p.at_least else p.name for p in missing(groups)]
    if left:
        raise InfraError(
            f"apt did not install what is needed: {', '.join(left)}: "
            "see `apt-cache policy` of these packages"
        )


def _stamp_path() -> Path:
    return cache_dir() / "stamps" / "packages.json"


def _stamp_now() -> dict[str, object]:
    return {"list": Inputs("packages").add("list", repr(PACKAGES)).key(), "dpkg": dpkg_state()}


def dpkg_state() -> str:
    """Return a value that changes whenever a package is installed or removed."""
    stat = DPKG_STATUS.stat()
    return f"{stat.st_mtime_ns} {stat.st_size}"


def _read_stamp() -> dict[str, object]:
    """Return what was checked; empty if it is no longer valid."""
    try:
        stamp: dict[str, object] = json.loads(_stamp_path().read_text(encoding="utf-8"))
        return stamp if stamp["now"] == _stamp_now() else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _stamp_holds(groups: tuple[Group, ...]) -> bool:
    checked = _read_stamp().get("groups", [])
    return isinstance(checked, list) and {str(group) for group in groups} <= set(checked)


def _write_stamp(groups: tuple[Group, ...]) -> None:
    before = _read_stamp().get("groups", [])
    checked = {*(before if isinstance(before, list) else []), *map(str, groups)}
    path = _stamp_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps({"now": _stamp_now(), "groups": sorted(checked)}), encoding="utf-8")
    fresh.replace(path)
