# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Claim: unmodified Debian packages work in a guest, and their services continue after a cut.

Method: nginx, which listens on IPv6, too; in the soak tier PostgreSQL, whose installation creates a
cluster, and a JVM, whose installation needs folders of manual pages.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from lab.errors import Exit
from tests.support.command_line import LIMIT_S, Cli, running_machine

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]

JAVA = """
public class Hello {
    public static void main(String[] words) throws Exception {
        for (int i = 1; i <= 40; i++) {
            System.out.println("hello " + i);
            Thread.sleep(250);
        }
    }
}
"""


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    words = ["--caches", "off", "--cpus", "2", "--packages", "nginx"]
    with running_machine(tmp_path_factory.mktemp("state"), "web", *words) as cli:
        yield cli


def test_nginx_serves_both_families_and_continues_after_a_cut(web: Cli) -> None:
    assert web.guest("pgrep nginx || echo none") == "none\n"  # nothing was started by itself
    web.guest("service nginx start")
    fetch = "wget() { /opt/rem/bin/busybox wget -qO- $1 | grep -c 'Welcome to nginx'; }; "
    fetch += "wget http://127.0.0.1/; wget http://[::1]/"
    before = web.guest("pgrep -o nginx")
    assert web.guest(fetch) == "2\n2\n"
    web.well("cut")
    web.well("resume")
    assert web.guest(fetch) == "2\n2\n"
    assert web.guest("pgrep -o nginx") == before


@pytest.mark.in_turn
def test_unknown_package_is_reported_in_one_line(tmp_path_factory: pytest.TempPathFactory) -> None:
    cli = Cli(tmp_path_factory.mktemp("state"), "unknown")
    done = cli("run", "-d", "--packages", "no-such-package-1,nginx")
    assert done.returncode == Exit.USAGE
    last = done.stderr.splitlines()[-1]
    assert last.endswith("no package no-such-package-1")
    assert cli("status").returncode == Exit.USAGE  # no machine was made


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    words = ["--caches", "off", "--cpus", "2", "--disk-size", "6G", "--nvram", "2G"]
    words += ["--packages", "postgresql,default-jdk-headless"]
    with running_machine(tmp_path_factory.mktemp("state"), "large", *words) as cli:
        yield cli


@pytest.mark.soak
def test_database_keeps_its_session_across_a_cut(large: Cli) -> None:
    large.guest("service postgresql start")
    psql = "su postgres -c 'psql -qAt -c \"%s\"'"
    large.guest(psql % "create table t (n int); insert into t select generate_series(1, 10000)")
    slow = psql % "begin; select pg_sleep(8); select count(*) from t; commit"
    child = subprocess.Popen(
        large.words("ssh", slow),
        env=large.env,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    large.guest("until pgrep -f pg_sleep >/dev/null; do sleep 0.1; done")
    large.well("cut")
    large.well("resume")
    out, _ = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, out.split()) == (0, ["10000"])
    assert large.guest(psql % "select sum(n) from t") == "50005000\n"


@pytest.mark.soak
def test_java_program_continues_after_a_cut(large: Cli) -> None:
    large.well("ssh", "cat >Hello.java && javac Hello.java", input=JAVA)
    child = subprocess.Popen(
        large.words("ssh", "java Hello"),
        env=large.env,
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "hello 1\n"
    large.well("cut")
    large.well("resume")
    out, _ = child.communicate(timeout=LIMIT_S)
    assert (child.returncode, out) == (0, "".join(f"hello {i}\n" for i in range(2, 41)))
