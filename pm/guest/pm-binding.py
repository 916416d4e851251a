# SPDX-License-Identifier: Apache-2.0 OR MIT
"""In the guest: libpm from Python. Ends with an error where something is not as it should be."""

import errno
import os
import select

import pm

LIMIT_MS = 60_000  # for news that are there already

with pm.Service() as service:
    before = service.status()
    news = select.poll()
    news.register(service.fileno(), select.POLLIN)
    assert not news.poll(0)
    service.create("py-raw", 1 << 20)
    service.create("py-blocks", 1 << 20, block_bytes=512)
    assert news.poll(LIMIT_MS)
    assert {s.name for s in service} >= {b"py-raw", b"py-blocks"}
    assert service.status().used == before.used + 2
    assert not news.poll(0)
    try:
        service.create("py-fof", 1 << 20, persist=pm.FOF)
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP
    else:
        raise AssertionError("a platform that does not write caches back was reported to do so")
    changed = service.get("py-raw")
    changed.mode = 0o640
    service.change(changed)
    assert os.stat("/dev/pm/py-raw").st_mode & 0o777 == 0o640
    assert service.check().refused == before.refused
    with service.map("py-raw") as memory:
        memory[100:105] = b"hello"
        memory.persist(100, 5)
    with open("/dev/pm/py-raw", "rb") as file:
        assert file.read(105)[100:] == b"hello"
    service.resize("py-raw", 2 << 20)
    assert service.get("py-raw").bytes == 2 << 20
    with pm.Blocks("py-blocks") as blocks:
        blocks.write({3: b"a" * 512, 7: b"b" * 512})
        assert blocks.read([7, 3]) == [b"b" * 512, b"a" * 512]
        assert blocks.bad() == []
        blocks.write({3: None})
        assert blocks.read([3]) == [bytes(512)]
        try:
            blocks.read([1 << 40])
        except OSError as error:
            assert error.errno == errno.ERANGE
        else:
            raise AssertionError("a block that is not there was read")
    service.resize("py-blocks", 2 << 20)  # copied to another place
    with pm.Blocks("py-blocks") as blocks:
        assert blocks.read([7, 3]) == [b"b" * 512, bytes(512)]
        assert blocks.scrub().bad_blocks == 0
    with open(f"/dev/{pm.disk_add('py-blocks')}", "rb") as disk:
        assert disk.read(8 * 512)[7 * 512 :] == b"b" * 512
    pm.disk_remove("py-blocks")
    for name in ("py-raw", "py-blocks"):
        service.destroy(name)
    try:
        service.get("py-raw")
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("what was destroyed is still there")
