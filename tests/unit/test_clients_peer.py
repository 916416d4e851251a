# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The peers must detect frames and acknowledgements that are lost, repeated or damaged.

Method: a correct counterpart of each guest program in Python, which misbehaves on request, and the
real programs against a real client process.
"""

from __future__ import annotations

import asyncio
import subprocess
import zlib
from pathlib import Path

import pytest

from lab.clients.peer import ACK, HEADER, Peers
from lab.clients.process import ClientProcess
from lab.paths import repo_dir

Fault = tuple[int, str] | None


async def talk_frames(peers: Peers, count: int, fault: Fault) -> bytes:
    """Send *count* frames and the last one; return the peer's last header."""
    ports = peers.status()["ports"]
    assert isinstance(ports, list)
    reader, writer = await asyncio.open_connection("127.0.0.1", ports[0])
    for number in range(count):
        payload = b"%d" % number
        crc = zlib.crc32(payload)
        if fault == (number, "damaged"):
            crc ^= 1
        frame = HEADER.pack(len(payload), crc, number) + payload
        if fault == (number, "repeated"):
            frame += frame
        if fault != (number, "lost"):
            writer.write(frame)
    writer.write(HEADER.pack(0, 0, count))
    await writer.drain()
    last = b""
    try:
        while True:
            header = await reader.readexactly(HEADER.size)
            size, _, _ = HEADER.unpack(header)
            if size == 0:
                last = header
                break
            await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()
    return last


def play_frames(fault: Fault) -> tuple[bytes, dict[str, object]]:
    async def run() -> tuple[bytes, dict[str, object]]:
        peers = Peers("127.0.0.1", 0, 0)
        await peers.start()
        last = await asyncio.wait_for(talk_frames(peers, 500, fault), 10)
        await asyncio.sleep(0.05)
        status = peers.status()
        await peers.close()
        return last, status

    return asyncio.run(run())


def test_both_sides_count_the_same() -> None:
    last, status = play_frames(None)
    assert HEADER.unpack(last) == (0, 0, status["frames_sent"])
    assert status["frames_received"] == 500
    assert status["frame_connections_finished"] == 1
    assert not status["failures"]


@pytest.mark.parametrize("what", ["damaged", "repeated", "lost"])
def test_one_bad_frame_is_a_failure(what: str) -> None:
    last, status = play_frames((250, what))
    assert last == b""
    assert len(list(status["failures"])) == 1  # type: ignore[call-overload]
    assert status["frame_connections_finished"] == 0


@pytest.mark.parametrize(
    ("numbers", "acked", "fails"),
    [([1, 2, 3], 3, False), ([1, 3], 1, True), ([1, 1], 1, True), ([2], 0, True)],
)
def test_acknowledgements_are_consecutive(numbers: list[int], acked: int, fails: bool) -> None:
    async def run() -> None:
        peers = Peers("127.0.0.1", 0, 0)
        await peers.start()
        ports = peers.status()["ports"]
        assert isinstance(ports, list)
        _, writer = await asyncio.open_connection("127.0.0.1", ports[1])
        for number in numbers:
            writer.write(ACK.pack(number))
        await writer.drain()
        writer.close()
        await asyncio.sleep(0.1)
        await peers.close()
        assert peers.acks.acked == acked
        assert (peers.acks.failure is not None) == fails

    asyncio.run(run())


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("programs")
    subprocess.run(
        ["make", "-s", "-C", repo_dir() / "guest" / "programs", f"OUT={out}", "CC=gcc",
         f"{out}/rem-tcp", f"{out}/rem-fsync"],
        check=True,
    )  # fmt: skip
    return out


def test_guest_programs_agree_with_their_peers(programs: Path, tmp_path: Path) -> None:
    data = str(tmp_path / "records")
    with ClientProcess([], "peer", host="127.0.0.1") as load:
        frame_port, ack_port = load.started["ports"]
        tcp = [programs / "rem-tcp", "--peer", f"127.0.0.1:{frame_port}", "--count", "300"]
        output = subprocess.run(tcp, capture_output=True, text=True, timeout=60, check=True).stdout
        assert output.startswith("OK rem-tcp")
        fsync = [programs / "rem-fsync", "--path", data, "--ack", f"127.0.0.1:{ack_port}",
                 "--count", "20"]  # fmt: skip
        subprocess.run(fsync, capture_output=True, timeout=60, check=True)
        status = load.ask("status")
    assert not status["failures"] and status["frame_connections_finished"] == 1
    assert status["acked_records"] == 20


# The last case: record 6 was begun when 5 was durable, so 5 must not be missing.
@pytest.mark.parametrize(
    ("acked", "damage", "ok"),
    [
        (20, None, True),
        (21, None, False),
        (20, 4, False),
        (20, 19, False),
        (19, 19, True),
        (3, 4, False),
    ],
)
def test_record_checker_finds_missing_records(
    programs: Path, tmp_path: Path, acked: int, damage: int | None, ok: bool
) -> None:
    data = tmp_path / "records"
    writer = [programs / "rem-fsync", "--path", data, "--count", "20"]
    subprocess.run(writer, capture_output=True, timeout=60, check=True)
    if damage is not None:
        with data.open("r+b") as file:
            file.seek(damage * 4096 + 100)
            file.write(b"damage")
    checker = [programs / "rem-fsync", "--check", "1", "--path", data, "--acked", str(acked)]
    done = subprocess.run(checker, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode == 0) == ok, done.stdout
    assert done.stdout.startswith("OK" if ok else "FAIL")
