# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Shared folders without a machine: the words, the server's command, its sandbox.

Goal: the server has the owner's rights and no more, sees one folder, and makes nothing that gives
rights. Method: the sandbox runs a shell instead of the server, which tries what a hostile guest
would make the server try.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.machine import share_server
from lab.machine.config import MachineConfig
from lab.machine.shares import Share

OWNER = 1234


def test_words_of_a_share(tmp_path: Path) -> None:
    assert Share.parse(str(tmp_path)) == Share(tmp_path, "/host", False)
    assert Share.parse(f"{tmp_path},ro") == Share(tmp_path, "/host", True)
    assert Share.parse(f"{tmp_path}:/srv/data,ro") == Share(tmp_path, "/srv/data", True)
    (tmp_path / "with,comma").mkdir()
    assert Share.parse(f"{tmp_path}/with,comma").host == tmp_path / "with,comma"


@pytest.mark.parametrize(
    "guest", ["relative", "/", "/a/../b", "/a b", "/a;b", "/a/", "/.hidden", "/a,b"]
)
def test_paths_that_a_command_line_could_misread_are_refused(tmp_path: Path, guest: str) -> None:
    with pytest.raises(UsageError, match="no path for the guest"):
        Share.parse(f"{tmp_path}:{guest}")


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        Share.parse(f"{tmp_path}/missing")


def test_two_folders_in_one_place_are_refused(tmp_path: Path) -> None:
    shares = (Share(tmp_path, "/host", False), Share(tmp_path, "/host", True))
    with pytest.raises(UsageError, match="two folders at /host"):
        MachineConfig("m", Path("kernel"), shares=shares)


@pytest.mark.parametrize("network", ["user", "none"])
def test_share_without_a_tap_network_is_refused(tmp_path: Path, network: str) -> None:
    """On the others it could be reached by everybody, or by nobody."""
    with pytest.raises(UsageError, match="needs a tap network"):
        MachineConfig("m", Path("k"), shares=(Share(tmp_path, "/a", True),), network=network)  # type: ignore[arg-type]


def test_config_keeps_its_shares(tmp_path: Path) -> None:
    config = MachineConfig("m", Path("kernel"), shares=(Share(tmp_path, "/a", True),), disk_bytes=1)
    assert MachineConfig.from_json(config.to_json()) == config
    assert "rem.share=/a,5640,ro" in config.cmdline().split()
    assert "rem.share" not in replace(config, shares=()).cmdline()


def tried(share: Share, script: str) -> str:
    """What a shell prints that runs in the server's place."""
    with ExitStack() as stack:
        pipes = share_server.inherited(stack, share)
        argv = share_server.server_command(share, Path("/"), "127.0.0.1:0", pipes)
        argv = [*argv[: argv.index(share_server.SERVER)], "sh", "-c", script]
        fds = list(pipes.values())
        done = subprocess.run(argv, capture_output=True, text=True, pass_fds=fds, timeout=60)
    return done.stdout + done.stderr


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the sandbox")


@pytest.fixture(params=[0, OWNER])
def share(request: pytest.FixtureRequest, tmp_path: Path) -> Share:
    """A folder of root's, and one of a user's; a file beside it belongs to the same owner."""
    place = tmp_path / "shared"
    place.mkdir()
    (place / "inside").touch()
    (tmp_path / "beside").write_text("secret", encoding="utf-8")
    for path in (place, place / "inside", tmp_path / "beside"):
        os.chown(path, request.param, request.param)
    return Share(place, "/host", False)


@needs_root
def test_server_is_the_owner_without_capabilities(share: Share) -> None:
    owner = share.host.stat().st_uid
    shown = tried(share, "id -u; id -G; grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status")
    words = shown.split()
    assert words[:2] == [str(owner), str(owner)]
    # Root's server changes to root by itself, which takes two that mean nothing to root.
    assert int(words[words.index("CapEff:") + 1], 16) == (0xC0 if owner == 0 else 0)
    assert words[-1] == "1"


@needs_root
def test_server_sees_one_folder(share: Share) -> None:
    assert tried(share, "ls /share") == "inside\n"
    beside = share.host.parent / "beside"
    assert "No such file" in tried(share, f"cat {beside} /share/../..{beside} /etc/shadow")
    (share.host / "link").symlink_to(beside)
    assert "secret" not in tried(share, "cat /share/link")
    assert "Read-only file system" in tried(share, "touch /usr/x")


@needs_root
def test_server_reads_only_where_that_was_asked(share: Share) -> None:
    assert tried(share, "touch /share/new && echo done") == "done\n"
    assert "Read-only file system" in tried(replace(share, read_only=True), "touch /share/more")
    assert sorted(os.listdir(share.host)) == ["inside", "new"]


PERL = "perl -e '{}' 2>&1"


@needs_root
@pytest.mark.parametrize("mode", ["4755", "2755", "6755"])
@pytest.mark.parametrize(
    "call",
    [
        'chmod(0{mode}, "/share/inside") or print $!',
        'open(F, "/share/inside"); chmod(0{mode}, *F) or print $!',
        'use Fcntl; sysopen(F, "/share/new", O_CREAT|O_WRONLY, 0{mode}) or print $!',
        'my $p = "/share/new"; syscall(85, $p, 0{mode}) >= 0 or print $!',
        'my $p = "/share/inside"; syscall(268, -100, $p, 0{mode}) >= 0 or print $!',
        'my $p = "/share/inside"; syscall(452, -100, $p, 0{mode}, 0) >= 0 or print $!',
    ],
)
def test_server_makes_no_program_with_rights(share: Share, call: str, mode: str) -> None:
    shown = tried(share, PERL.format(call.replace("{mode}", mode)))
    assert shown == "Operation not permitted"
    for name in os.listdir(share.host):
        assert (share.host / name).stat().st_mode & 0o6000 == 0


@needs_root
def test_server_makes_no_device_and_no_fifo(share: Share) -> None:
    assert "Operation not permitted" in tried(share, "mknod /share/null c 1 3")
    assert "Operation not permitted" in tried(share, "mkfifo /share/fifo")
    assert os.listdir(share.host) == ["inside"]


@needs_root
def test_server_changes_ordinary_modes(share: Share) -> None:
    """Or the tests above would pass with a filter that refuses everything."""
    shown = tried(
        share, "chmod 0751 /share/inside && mkdir /share/d && echo x >/share/d/f; ls /share/d"
    )
    assert shown == "f\n"
    assert (share.host / "inside").stat().st_mode & 0o7777 == 0o751


@needs_root
def test_without_the_filter_the_attack_succeeds(share: Share) -> None:
    """So that it is the filter which the tests above see."""
    with ExitStack() as stack:
        pipes = share_server.inherited(stack, share)
        argv = share_server.server_command(share, Path("/"), "127.0.0.1:0", pipes)
        at = argv.index("--seccomp")
        argv = [*argv[:at], *argv[at + 2 : argv.index(share_server.SERVER)]]
        fds = list(pipes.values())
        subprocess.run([*argv, "chmod", "4755", "/share/inside"], pass_fds=fds, timeout=60)
    assert (share.host / "inside").stat().st_mode & 0o7777 == 0o4755
