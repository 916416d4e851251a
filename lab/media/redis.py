# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A trace of the real redis: the memory requests of a machine with LightPC's caches under load.

The machine boots without caches, which is quick; redis is filled, clients on the machine itself
begin to read and write for ever, and the machine stops. Traced is the same machine after Go, now
with caches: redis, its clients and the kernel. No two runs are the same to the instruction; the
recorded one is cached by the hash of kernel, root and commands. Loader and plugin are not part of
the hash: a recording takes too long to be repeated at each of their changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.errors import RemError
from lab.isa import IsaName
from lab.machine import Machine, MachineConfig
from lab.machine.cut_plan import UNANNOUNCED
from lab.machine.cut_points import attach_cut_points
from lab.machine.tracing import record
from lab.messages import info
from lab.setup.inputs import Inputs
from lab.setup.need import Site
from lab.setup.packages import Group
from lab.setup.products import Part, Plugin, need, need_all
from lab.testbed.machines import parts_of, with_caches

RECORDS = 4_000_000
PROFILE = "lightpc"
# Of RISC-V as many harts as LightPC's prototype has.
CPUS: Mapping[IsaName, int] = {"x86_64": 2, "riscv64": 8}
NVRAM_BYTES = 512 << 20
BOOT_LIMIT_S = 600.0
TRACE_LIMIT_S = 1800.0  # of the host's time; then the trace ends early
KEYS = 200_000
VALUE_BYTES = 256
# Nine clients read for each one that writes, over keys that no cache holds.
SERVE = f"""redis-server --save '' --appendonly no --daemonize yes --dir /run >/dev/null
until redis-cli ping >/dev/null 2>&1; do sleep 0.1; done
redis-benchmark -t set -n {KEYS * 2} -r {KEYS} -d {VALUE_BYTES} -P 64 -c 8 -q >/dev/null
redis-cli dbsize
for kind in get set; do
  clients=9; [ $kind = set ] && clients=1
  redis-benchmark -t $kind -l -c $clients -r {KEYS} -d {VALUE_BYTES} -q >/dev/null 2>&1 </dev/null &
done"""


def _parts(isa: IsaName) -> list[Part[Any]]:
    """All that its machine consists of."""
    own = parts_of(isa)
    return [own.programs, own.kernel, own.loader, own.root, Plugin()]


def _config(name: str, isa: IsaName) -> MachineConfig:
    own, made = parts_of(isa), need_all(_parts(isa))
    return MachineConfig(
        name=name,
        kernel=made[own.kernel].bz_image,
        isa=isa,
        loader=made[own.loader],
        root=made[own.root],
        cpus=CPUS[isa],
        nvram_bytes=NVRAM_BYTES,
        network="user",
        stop_mode="fast",
        cmdline_extra="nokaslr",
    )


def record_redis(
    name: str, records: int, limit_s: float = TRACE_LIMIT_S, isa: IsaName = "x86_64"
) -> tuple[Machine, Path]:
    """The machine that served, off, and its trace; the caller destroys the machine."""
    config = _config(name, isa)
    machine = Machine.create(config, destroy_on_exit=True)
    try:
        info("redis: booting and filling")
        machine.boot()
        machine.wait_up(BOOT_LIMIT_S)
        keys = machine.run_in_guest(SERVE, limit_s=BOOT_LIMIT_S).stdout.split()[-1]
        machine.guest.close()
        if not machine.cut().stopped:
            raise RemError(f"machine {name!r} did not stop: see `rem inspect`")
        machine.config = with_caches(config, PROFILE)
        attach_cut_points(machine)
        info(f"redis: {keys} keys; resuming with caches, tracing {records:,} records")
        machine.resume()
        machine.wait_resumed(BOOT_LIMIT_S)
        path = record(machine, records, limit_s)
        machine.cut(UNANNOUNCED)
    except BaseException:
        machine.__exit__(None, None, None)
        raise
    return machine, path


@dataclass(frozen=True)
class RedisTrace(Part[Path]):
    """The trace for benchmarks and experiments, recorded if necessary."""

    isa: IsaName = "x86_64"

    def needs_groups(self) -> tuple[Group, ...]:
        return tuple(group for part in _parts(self.isa) for group in part.needs_groups())

    def make(self, site: Site) -> Path:
        own = parts_of(self.isa)
        recipe = f"{SERVE} {PROFILE} {CPUS[self.isa]} {NVRAM_BYTES} {RECORDS}"
        inputs = Inputs("trace-redis").add("recipe", recipe)
        for product in (site[own.kernel].bz_image, site[own.root]):
            inputs.add("product", product.parent.name)

        def record(into: Path) -> None:
            name = f"media-redis-{os.getpid()}"
            machine, path = record_redis(name, RECORDS, isa=self.isa)
            with machine:
                path.rename(into / "redis.trace")

        return site.product("trace-redis", inputs.key(), record) / "redis.trace"


def redis_trace(isa: IsaName = "x86_64") -> Path:
    """The trace; what its machine consists of is made first and side by side."""
    need_all(_parts(isa))
    return need(RedisTrace(isa))
