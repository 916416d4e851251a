# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UEFI firmware for machines and guests, with its shell: OVMF as Debian ships it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lab.run import run
from lab.setup.inputs import Inputs
from lab.setup.need import Part, Site
from lab.setup.packaged import files_of
from lab.setup.packages import Group


@dataclass(frozen=True)
class SigningKey:
    """A private key and its certificate, both PEM."""

    key: Path
    certificate: Path


@dataclass(frozen=True)
class Firmware:
    """Two files of flash: the code, and variables as they are at first.

    *signer*: under Secure Boot, whose programs are started. The key is public.
    """

    code: Path
    variables: Path
    signer: SigningKey | None = None


@dataclass(frozen=True)
class Ovmf(Part[Firmware]):
    groups = (Group.UEFI,)
    lane = "fetch"

    def make(self, site: Site) -> Firmware:
        names = ("CODE", "VARS")
        files = {f"{name}.fd": f"usr/share/OVMF/OVMF_{name}_4M.fd" for name in names}
        folder = files_of(site, "ovmf", files)
        return Firmware(folder / "CODE.fd", folder / "VARS.fd")


# Of the key that Debian enrols in these variables, for tests; it is in the package, too.
PASSWORD = "snakeoil"


@dataclass(frozen=True)
class SecureOvmf(Part[Firmware]):
    """The same with Secure Boot on."""

    groups = (Group.UEFI,)
    lane = "fetch"

    def make(self, site: Site) -> Firmware:
        files = {
            "CODE.fd": "usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
            "VARS.fd": "usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd",
            "locked.key": "usr/share/ovmf/PkKek-1-snakeoil.key",
            "signer.pem": "usr/share/ovmf/PkKek-1-snakeoil.pem",
        }
        folder = files_of(site, "ovmf", files)

        def unlock(into: Path) -> None:
            locked: list[str | Path] = ["-in", folder / "locked.key", "-passin", f"pass:{PASSWORD}"]
            run(
                ["openssl", "rsa", *locked, "-out", into / "signer.key"],
                what="unlocking the test key of Secure Boot",
            )

        inputs = Inputs("ovmf-key").add_path(folder / "locked.key", "locked.key")
        key = site.product("ovmf-key", inputs.key(), unlock) / "signer.key"
        signer = SigningKey(key, folder / "signer.pem")
        return Firmware(folder / "CODE.fd", folder / "VARS.fd", signer)
