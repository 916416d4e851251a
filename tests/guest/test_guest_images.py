# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: a container image runs as a machine: its process is started as configured, ssh and copies
work in an image without a shell, and everything continues after a cut.

Method: an image of busybox alone, built here; the guest queries its web server.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.setup.packages import BUSYBOX
from tests.support.command_line import Cli, running_machine
from tests.support.oci_builder import LayoutBuilder
from tests.support.tar_builder import Archive

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

SERVE = b"""#!/bin/busybox sh
busybox id; busybox env; busybox pwd; echo "arguments $*"; echo opened >/dev/stdout
trap 'echo asked to stop; exit 0' QUIT
busybox httpd -f -p 8080 -h /srv & wait
"""


def image(where: Path) -> Path:
    """Two layers: a system without /bin/sh, and a service."""
    system, service = Archive(), Archive()
    system.file("bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
    system.file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/srv:/bin/sh\n")
    system.file("etc/group", b"root:x:0:\nweb:x:1000:\nmore:x:77:web\n")
    system.file("old", b"")
    service.file(".wh.old", b"")
    service.file("srv/index.html", b"from an image\n")
    service.file("serve", SERVE, mode=0o755)
    process = {
        "Entrypoint": ["/serve"],
        "Cmd": ["a  b", "c"],
        "Env": ["GREETING=good day", "PATH=/bin"],
        "WorkingDir": "/srv",
        "User": "web",
        "StopSignal": "SIGQUIT",
    }
    built = LayoutBuilder(process=process)
    built.layer(system.bytes())
    built.layer(service.bytes(), "zstd")
    return built.write_archive(where)


@pytest.fixture(scope="module")
def rem(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    folder = tmp_path_factory.mktemp("image")
    words = ["--caches", "off", "--cpus", "2", "--oci", str(image(folder / "image.tar"))]
    with running_machine(tmp_path_factory.mktemp("state"), "image", *words) as cli:
        yield cli


def test_process_is_the_one_of_the_image(rem: Cli) -> None:
    fetched = "until wget -qO- http://127.0.0.1:8080/ 2>/dev/null; do sleep 0.2; done"
    assert rem.guest(fetched) == "from an image\n"
    log = rem.guest("cat /opt/rem/service.log")
    assert "uid=1000(web) gid=1000(web) groups=77(more)" in log
    assert "GREETING=good day\n" in log
    assert "/srv\narguments a  b c\nopened\n" in log
    assert (
        rem.guest("ls /old 2>&1; stat -c %U /srv") == "ls: /old: No such file or directory\nroot\n"
    )


def test_files_are_copied_in_an_image_without_a_shell(rem: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content", encoding="utf-8")
    rem.well("cp", str(tmp_path / "file"), ":/srv/")
    rem.well("cp", ":/srv", str(tmp_path / "back"))
    assert (tmp_path / "back" / "file").read_text(encoding="utf-8") == "content"


def test_process_continues_after_a_cut_and_stops_on_request(rem: Cli) -> None:
    pid = "ps | grep '[h]ttpd -f' | awk '{print $1}'"
    before = rem.guest(pid)
    assert before.strip().isdigit()
    rem.well("cut")
    rem.well("resume")
    assert rem.guest(f"{pid}; wget -qO- http://127.0.0.1:8080/") == f"{before}from an image\n"
    rem.well("stop", "--power-off")
    rem("resume", "-d")  # its exit code reports a cold boot
    assert "asked to stop\n" in rem.guest("cat /opt/rem/service.log")
