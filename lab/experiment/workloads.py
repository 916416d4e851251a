# SPDX-License-Identifier: Apache-2.0 OR MIT
"""LightPC's 17 workloads, as programs of a guest.

Those of Debian as they are; the others, of SPEC and of laboratories, by a program of their class
that checks what it computed (guest/works), with a library that Debian keeps where there is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.setup.root_extras import WORKS_FOLDER

PACKAGES = ("bzip2", "openssl")
CI, FULL = "ci", "full"
DATA, TEXT, SOURCE, DATABASE = "/dev/shm/data", "/dev/shm/text", "/dev/shm/x.c", "/dev/shm/x.db"
KEY = f"-K {'00' * 32} -iv {'00' * 16}"
REDIS_PORT, MEMCACHED_PORT, SHARED_PORT = 7777, 7778, 7779
SHARED_THREADS = 4  # of the server in KeyDB's place, and its clients
CORES = 8  # of the prototype (LightPC, Table I)
# HPC programs have a thread for each core, crypto and SPEC one (section VI).
EACH_CORE = f"--threads {CORES}"

# Sizes of what is common to several programs.
SIZES = {
    CI: {"DATA": 4 << 20, "LINES": 4000, "FUNCTIONS": 10, "REQUESTS": 1000},
    FULL: {"DATA": 32 << 20, "LINES": 40_000, "FUNCTIONS": 30, "REQUESTS": 5000},
}
# A client's words to a server of memcached's protocol: each key is set, or one in so many.
REQUESTS = (
    'perl -e \'for (1..@REQUESTS@) {{ print "set k$_ 0 0 64\\r\\n", "x" x 64, "\\r\\n" '
    'if $_ % 10 < {tenths}; print "get k", int $_ / 2, "\\r\\n" }} print "quit\\r\\n"\' >{to}'
)
PREPARE = f"""
head -c @DATA@ /dev/urandom >{DATA}
perl -e 'srand 1; print join(" ", map {{ int rand 5000 }} 1..8), "\\n" for 1..@LINES@' >{TEXT}
perl -e 'print "int f$_(int *a, int n) {{ int s = 0; for (int i = 0; i < n; i++) s += a[i] * i ^ (s >> $_ % 7); return s; }}\\n" for 1..@FUNCTIONS@' >{SOURCE}
redis-server --port {REDIS_PORT} --save "" --daemonize yes >/dev/null
memcached -u root -p {MEMCACHED_PORT} -P /dev/shm/memcached.pid -d
memcached -u root -p {SHARED_PORT} -t {SHARED_THREADS} -P /dev/shm/shared.pid -d
{REQUESTS.format(tenths=10, to="/dev/shm/mc")}
{REQUESTS.format(tenths=7, to="/dev/shm/shared")}
until redis-cli -p {REDIS_PORT} ping >/dev/null 2>&1; do sleep 0.1; done
"""  # noqa: E501


@dataclass(frozen=True)
class Program:
    """A workload: a shell command with sizes between @, and what stands for what."""

    command: str
    what: str  # in tables
    # Another command to run before, so that its files are in memory; None: the same.
    first: str | None = None
    server_pid: str = ""  # shell words that print the process whose memory is the program's, too
    says: str = ""  # what it prints if its result is right

    def words(self, size: str) -> str:
        return sized(self.command, size)

    def first_words(self, size: str) -> str:
        return sized(self.command if self.first is None else self.first, size)


def sized(text: str, size: str) -> str:
    for name, value in SIZES[size].items():
        text = text.replace(f"@{name}@", str(value))
    return text


@dataclass(frozen=True)
class Work(Program):
    """One of guest/works, whose sizes are options."""

    sizes: tuple[tuple[str, str], ...] = ()  # of CI and FULL

    def words(self, size: str) -> str:
        return f"{WORKS_FOLDER}/{self.command} {dict(self.sizes)[size]}"

    def first_words(self, size: str) -> str:
        return f"{WORKS_FOLDER}/{self.command} {self.first}"


def _work(name: str, what: str, first: str, ci: str, full: str) -> Work:
    return Work(name, what, first, says=f"OK {name} ", sizes=((CI, ci), (FULL, full)))


PROGRAMS: dict[str, Program] = {
    "AES": Program(
        f"openssl enc -aes-256-cbc {KEY} -in {DATA} -out /dev/null", "`openssl enc -aes-256-cbc`"
    ),
    "SHA512": Program(f"openssl dgst -sha512 {DATA}", "`openssl dgst -sha512`"),
    "miniFE": _work(
        "cg", "conjugate gradients over finite elements, ours", f"--side 2 {EACH_CORE}",
        f"--side 14 {EACH_CORE}", f"--side 40 {EACH_CORE}",
    ),
    "AMG": _work(
        "multigrid", "Laplace's equation by hypre's BoomerAMG", f"--side 4 {EACH_CORE}",
        f"--side 28 {EACH_CORE}", f"--side 44 {EACH_CORE}",
    ),
    "SNAP": _work(
        "sweep", "a transport sweep by discrete ordinates, ours",
        f"--side 2 --groups {CORES} {EACH_CORE}",
        f"--side 8 --groups {CORES} --steps 2 {EACH_CORE}",
        f"--side 16 --angles 12 --groups {CORES} --steps 6 {EACH_CORE}",
    ),
    "perlbench": Program(
        f"perl -ne 'for (split) {{ $n{{$_}}++; $s .= $1 if /(3\\d)/ }} "
        f"END {{ print scalar(keys %n), length $s }}' {TEXT}",
        "`perl`, counting words",
    ),
    "bzip2": Program(f"bzip2 -9 -c {TEXT} >/dev/null", "`bzip2 -9`"),
    "gcc": Program(f"gcc -O2 -c {SOURCE} -o /dev/shm/x.o", "`gcc -O2 -c`"),
    "mcf": _work(
        "flow", "vehicles for trips, by LEMON's network simplex", "--trips 10",
        "--trips 800", "--trips 8000 --choices 40",
    ),
    "astar": _work(
        "astar", "ways on a map by A*, ours", "--side 8",
        "--side 160 --ways 6", "--side 768 --ways 16",
    ),
    "cactusADM": _work(
        "gravity", "Einstein's equations of a weak field, ours", "--side 4",
        "--side 16 --steps 8", "--side 40 --steps 30",
    ),
    "dealII": _work(
        "elements", "Poisson's equation on a refined mesh by GetFEM", "--rounds 1",
        "--rounds 3", "--rounds 6",
    ),
    "wrf": _work(
        "weather", "air and water in levels and columns, ours", "--side 4",
        "--side 20 --steps 5", "--side 80 --steps 15",
    ),
    "Redis": Program(
        f"redis-benchmark -p {REDIS_PORT} -n @REQUESTS@ -c 4 -t set,get -r 10000 -q >/dev/null",
        "`redis-server`, `redis-benchmark`",
        server_pid=f"redis-cli -p {REDIS_PORT} info server | "
        "sed -n 's/^process_id:\\([0-9]*\\).*/\\1/p'",
    ),
    "KeyDB": Program(
        f"for i in $(seq {SHARED_THREADS}); do nc 127.0.0.1 {SHARED_PORT} </dev/shm/shared "
        ">/dev/null & done; wait",
        "`memcached` with four threads and clients, 7 sets for 10 gets",
        server_pid="cat /dev/shm/shared.pid",
    ),
    "Memcached": Program(
        f"nc 127.0.0.1 {MEMCACHED_PORT} </dev/shm/mc >/dev/null",
        "`memcached`, a set for each get",
        server_pid="cat /dev/shm/memcached.pid",
    ),
    "SQLite": Program(
        f"rm -f {DATABASE}; sqlite3 {DATABASE} 'pragma journal_mode=wal; "
        "create table t(a integer primary key, b text); with recursive c(i) as (select 1 union all "
        "select i + 1 from c where i < @REQUESTS@) insert into t select i, hex(randomblob(20)) "
        'from c; create index ti on t(b); select count(*) from t where b like "%A1%"\'',
        "`sqlite3`, a table with an index",
    ),
}  # fmt: skip
