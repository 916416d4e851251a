# SPDX-License-Identifier: Apache-2.0 OR MIT
"""UEFI firmware for machines and guests, with its shell: OVMF as Debian ships it."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lab.progress import step
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


# Edits the variables of OVMF; only this uses it, so it is not in the environment of rem.
VIRT_FIRMWARE = "virt-firmware==26.10"
# Who owns the keys, by UEFI; any value.
OWNER = "8c6b7a4e-53a5-4b8e-9d0a-5e8a1f6f2c11"


@dataclass(frozen=True)
class OwnKeysOvmf(Part[Firmware]):
    """Secure Boot on with keys of our own only, as an administrator enrols theirs: no key of
    Debian's or of Microsoft's is in the variables, and no shim is needed.

    The private key is made here, and leaves this machine's cache never.
    """

    groups = (Group.UEFI,)
    lane = "fetch"

    def make(self, site: Site) -> Firmware:
        names = {"CODE.fd": "CODE_4M.secboot.fd", "EMPTY.fd": "VARS_4M.fd"}
        files = {name: f"usr/share/OVMF/OVMF_{place}" for name, place in names.items()}
        folder = files_of(site, "ovmf", files)

        def enrol(into: Path) -> None:
            with step("ovmf: keys of our own"):
                signer = _make_key(into)
                _enrol(folder / "EMPTY.fd", into / "VARS.fd", signer.certificate)

        inputs = Inputs("ovmf-own").add_path(folder / "EMPTY.fd", "EMPTY.fd")
        own = site.product("ovmf-own", inputs.add("tool", VIRT_FIRMWARE).key(), enrol)
        signer = SigningKey(own / "own.key", own / "own.pem")
        return Firmware(folder / "CODE.fd", own / "VARS.fd", signer)


def _make_key(into: Path) -> SigningKey:
    key, certificate = into / "own.key", into / "own.pem"
    words = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "36500"]
    words += ["-subj", "/CN=Remanence tests/", "-keyout", str(key), "-out", str(certificate)]
    run(["openssl", *words], what="making a key for Secure Boot")
    key.chmod(0o600)
    return SigningKey(key, certificate)


def _enrol(empty: Path, variables: Path, certificate: Path) -> None:
    """Write variables in which the certificate is platform key, exchange key and only signer."""
    with tempfile.TemporaryDirectory(prefix="rem-virt-firmware-") as scratch:
        run([sys.executable, "-m", "venv", scratch], what="making an environment")
        programs = Path(scratch) / "bin"
        pip: list[str | Path] = [programs / "pip", "install", "--quiet", VIRT_FIRMWARE]
        run(pip, what="installing virt-firmware")
        keys: list[str | Path] = []
        for option in ("--set-pk", "--add-kek", "--add-db"):
            keys += [option, OWNER, certificate]
        run(
            [
                programs / "virt-fw-vars",
                "--input",
                empty,
                "--output",
                variables,
                *keys,
                "--secure-boot",
            ]
        )
