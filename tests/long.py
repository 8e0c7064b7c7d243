# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The jobs of the long run, and docs/evidence.md, which has a line of each."""

import datetime
import hashlib
import os
import platform
import subprocess
import time
from typing import NamedTuple

from stages import ROOT, Stage, Tally, kunit, pytest, races

CMAKE = ("CMakeLists.txt", "tests/CMakeLists.txt")
MODEL = (*CMAKE, "include", "sim")
MODULES = ("include", "kernel", "tools/kernel-headers", "tools/lab")
ALL = (
    "CMakeLists.txt",
    "tests/CMakeLists.txt",
    "Makefile",
    "examples",
    "include",
    "kernel",
    "packaging",
    "sim",
    "tools",
    "userspace",
)
# What all system tests share. A job adds its own files.
SYSTEM = (*ALL, "tests/layout", "tests/modules", "tests/programs", "tests/system", ":!tests/system/test_*.py")
RACES = (*MODULES, "sim", "tests/races", "tests/fakes", "tests/modules", "tests/programs")

# System tests for the debug kernel, where each takes several times as long: all ways in which connections and devices
# end, with the in-tree modules and with ours.
ON_THE_DEBUG_KERNEL = (
    "test_rping.py",
    "test_bad_cases.py",
    "test_life.py",
    "test_connections.py::test_processes_can_be_killed_without_a_carrier",
    "test_connections.py::test_the_card_is_unbound_in_use_and_bound_again",
    "test_perftest.py::test_both_directions_at_once",
)
# These choose their modules themselves.
ONCE_ON_THE_DEBUG_KERNEL = (
    "test_debug_kernel.py",
    "test_kernel_users.py",
    "test_fuzz.py::test_fuzz_for_ten_minutes",
    "test_rdma_cm.py::test_C2_C3_C4_C5_C14_C16_C23_a_storm_leaves_no_objects",
)

# Tests with several threads and contexts, for the kernel that reports data races.
ON_THE_KCSAN_KERNEL = (
    "test_rping.py",
    "test_connections.py",
    "test_uverbs_life.py",
    "test_perftest.py::test_both_directions_at_once",
)

# The main functions of the stack, which must work with all modules that serve user space: the levels of labkit/stack.py
# beside "rdma".
OVER_OUR_MODULES = (
    "test_rping.py",
    "test_connections.py",
    "test_perftest.py",
    "test_stock_tools.py",
    "test_bad_cases.py",
    "test_life.py",
)
OUR_MODULES = ("rdma-t3cm", "rdma-t3uverbs", "rdma-t3")

# What depends on the releases of the kernel, of rdma-core or of the programs, beside test_matrix.py, which has its
# guests of all releases itself.
ON_EVERY_RELEASE = ("test_roce.py", "test_bond.py", "test_programs.py", "test_isolation.py")
OTHER_RELEASES = ("trixie", "forky")

# With both guests of arm64; test_arm64.py chooses its guests itself.
ON_ARM64 = (
    "test_rping.py",
    "test_verbs.py",
    "test_connections.py",
    "test_stock_tools.py",
    "test_bad_cases.py",
    "test_life.py",
    "test_perftest.py::test_sizes",
)
# These choose their modules themselves: all faults of the card, the removal of a card in use, under each of our
# modules, and siw as the peer.
ONCE_ON_ARM64 = (
    "test_faults.py",
    "test_uverbs_life.py::test_D9_D10_device_removal_with_an_open_file",
    "test_uverbs_life.py::test_D8_device_removal_during_mmap_and_munmap",
    "test_rdma_cm.py::test_C17_C24_device_removal_and_return",
    "test_siw.py",
)

# With cards behind an IOMMU: guests and stack. The ordinary run has Debian 12 with the in-tree modules.
WITH_AN_IOMMU = (
    ("bookworm", "rdma-t3"),
    ("trixie", "rdma-t3"),
    ("forky", "rdma-t3"),
    ("trixie-arm64", "rdma"),
    ("trixie-arm64", "rdma-t3"),
)

# What maps its memory for each request, for guests in which the card reaches bounce buffers only. One test needs a
# stream of a program.
WITH_BOUNCED_DMA = ("test_nic.py", "test_applications.py::test_nfs_of_a_host_with_a_card")

FUZZ_SECONDS = 3600
# What a fuzz target is made of, beside tests/fuzz.
FUZZED = {
    "card": (*MODEL, "tests/sim/hostile", "tests/sim/choices.hh", "tests/sim/fake_host.hh"),
    "tcp": (*CMAKE, "sim/core", "sim/tcp", "tests/sim/tcp", "tests/sim/choices.hh"),
    "vfio": (*CMAKE, "sim/core", "sim/vfio"),
    "vhost": (*CMAKE, "sim/core", "sim/vhost"),
}


class Job(NamedTuple):
    """A stage of the long run, and the files of the tree that its result depends on."""

    stage: Stage
    inputs: tuple
    own: tuple = ()  # further files, which the exclusions of `inputs` do not hide
    seed: str = "-"

    @property
    def name(self):
        return self.stage.name

    def _git(self, *command):
        return "".join(
            subprocess.run(["git", *command, "--", *paths], cwd=ROOT, check=True, capture_output=True, text=True).stdout
            for paths in (self.inputs, self.own)
            if paths
        )

    def changed(self):
        """The inputs that differ from the commit."""
        return self._git("status", "--porcelain")

    def digest(self):
        return hashlib.sha256(self._git("ls-files", "--stage").encode()).hexdigest()[:12]


class Evidence:
    """The lines of docs/evidence.md, by job. Only this class writes the file."""

    COLUMNS = ("Job", "Commit", "Date", "Machine", "Seconds", "Passed", "Failed", "Skipped", "Seed", "Inputs")
    HEAD = """\
# Evidence

`make test-long` writes this file: the last run of each of its jobs. A job runs again when its inputs, files of the
tree, have changed since then, or when a test failed. *Inputs* is a digest of them.
"""

    def __init__(self, path):
        self._path = path
        self.lines = self._read()

    def _read(self):
        text = self._path.read_text() if self._path.exists() else ""
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")
        ]
        return {row[0]: dict(zip(self.COLUMNS, row)) for row in rows[2:]}

    def is_current(self, job):
        line = self.lines.get(job.name)
        return bool(line) and line["Failed"] == "0" and line["Inputs"] == job.digest() and not job.changed()

    def add(self, job, tally, seconds):
        """The line of a job that has run; false if its inputs are in no commit."""
        if job.changed():
            return False
        commit = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()
        row = (
            job.name,
            commit,
            datetime.date.today().isoformat(),
            machine(),
            f"{seconds:.0f}",
            tally.passed,
            len(tally.failures),
            tally.skipped,
            job.seed,
            job.digest(),
        )
        self.lines = self._read()  # another run may have added lines meanwhile
        self.lines[job.name] = dict(zip(self.COLUMNS, map(str, row)))
        self._write()
        return True

    def _write(self):
        rows = [self.COLUMNS, ["---"] * len(self.COLUMNS), *(line.values() for _, line in sorted(self.lines.items()))]
        self._path.write_text(self.HEAD + "\n" + "".join(f"| {' | '.join(row)} |\n" for row in rows))


def machine():
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs {platform.machine()}, {memory:.0f} GB"


def all_races(results):
    """All pairs on User Mode Linux, samples on a card and on rxe, and samples with two CPUs and preemption on the debug
    kernels of two releases."""
    seed = time.strftime("%j")  # another choice each day
    for name, options in {
        "races": ["--kernel", "uml"],
        "races-card": ["--card", "--kernel", "uml", "--sample", "1000"],
        "races-rxe": ["--rxe", "--kernel", "uml", "--sample", "1000"],
        "races-debug": ["--kernel", "debug", "--sample", "1000"],
        "races-forky": ["--suite", "forky", "--kernel", "debug", "--sample", "1000"],
    }.items():
        yield Job(races(name, results, "--seed", seed, *options, timeout=43200), RACES, seed=seed)


def system(name, tests, results, *options, timeout=7200):
    """System tests of some files, in pytests of their own."""
    files = tuple(f"tests/system/{test.partition('::')[0]}" for test in tests)
    return Job(
        pytest(name, [f"tests/system/{test}" for test in tests], results, *options, timeout=timeout), SYSTEM, files
    )


def jobs(build, captures):
    """All jobs of the long run, cheap ones first. The build has been made."""
    results = build / "long"
    for target, inputs in FUZZED.items():
        command = ["tests/fuzz/run", "--build", build / "fuzz", "--seconds", str(FUZZ_SECONDS), target]
        yield Job(Stage(f"fuzz-{target}", command, timeout=2 * FUZZ_SECONDS), (*inputs, "tests/fuzz"), seed="1")
    for who in ("guest", "client"):
        seed = str(int(time.time()))
        command = ["tests/sim/hostile/run", "--build", build, "--seconds", str(FUZZ_SECONDS), "--seed", seed, who]
        yield Job(Stage(f"hostile-{who}", command, timeout=2 * FUZZ_SECONDS), (*MODEL, "tests/sim"), seed=seed)
    seed, junit = str(int(time.time())), results / "hostile-card.xml"
    command = ["tests/hostile_card/run", "--seconds", str(FUZZ_SECONDS), "--seed", seed, "--junit", junit]
    yield Job(Stage("hostile-card", command, junit, 2 * FUZZ_SECONDS), (*RACES, "tests/hostile_card"), seed=seed)
    junit = results / "netdev.xml"
    yield Job(
        Stage("netdev", ["tests/netdev/run", "--out", results / "netdev", "--junit", junit], junit, 7200),
        (*MODEL, "tools/lab", "tests/netdev"),
    )
    folder = build / "big-endian"
    yield Job(
        Stage("big-endian", ["tests/big-endian/run", folder], folder / "ctest.xml"),
        (*ALL, "tests/unit", "tests/big-endian"),
    )
    yield Job(
        Stage("model", ["tests/model/check-long", build / "tests/model/cm_table", build / "tests/model/long"]),
        ("kernel/rdma_cm", "tests/model"),
    )
    yield Job(
        Stage("upstream", ["tools/dev/upstream"], timeout=7200), ("docs/upstream", *MODULES, "userspace", "tools/dev")
    )
    # Building these kernels takes too long for `test`.
    for kind in ("base", "debug", "kcsan"):
        yield Job(kunit(kind, results), (*MODULES, "tests/fakes", "tests/kunit"))
    yield Job(kunit("arm64-64k", results, "--suite=trixie-arm64-64k"), (*MODULES, "tests/fakes", "tests/kunit"))
    options = ["--long", *(["--captures", captures] if captures else [])]
    for file in sorted((ROOT / "tests/system").glob("test_*.py")):
        yield system(file.stem, [file.name], results, *options, timeout=14400)
    yield from all_races(results)
    for level in OUR_MODULES:
        yield system(level, OVER_OUR_MODULES, results, f"--load={level}")
        yield system(f"programs-{level}", ["test_programs.py"], results, "--long", f"--load={level}")
    for suite in OTHER_RELEASES:
        for name in ON_EVERY_RELEASE:
            yield system(f"{name.removesuffix('.py')}-{suite}", [name], results, "--long", f"--suite={suite}")
    for level in ("rdma", "rdma-t3"):
        yield system(f"arm64-{level}", ON_ARM64, results, "--suite=trixie-arm64", f"--load={level}", timeout=14400)
    for suite in ("trixie-arm64", "trixie-arm64-16k"):
        yield system(f"once-{suite}", ONCE_ON_ARM64, results, "--long", f"--suite={suite}", timeout=14400)
    for suite, level in WITH_AN_IOMMU:
        yield system(f"iommu-{suite}-{level}", ["test_iommu.py"], results, f"--suite={suite}", f"--load={level}")
    yield system(
        "swiotlb", WITH_BOUNCED_DMA, results, "--long", "--append=swiotlb=force", "-k", "not beside_a_stream_of_writes"
    )
    for name, tests, load in (
        ("debug", ON_THE_DEBUG_KERNEL, "rdma"),
        ("debug-t3", ON_THE_DEBUG_KERNEL, "rdma-t3"),
        ("kcsan-t3", ON_THE_KCSAN_KERNEL, "rdma-t3"),
        ("debug-once", ONCE_ON_THE_DEBUG_KERNEL, "rdma"),
    ):
        yield system(name, tests, results, f"--kernel={name.split('-')[0]}", f"--load={load}")


def listed(all_jobs, evidence):
    """A line for each job: its name, and why it would run or not."""
    for job in all_jobs:
        line = evidence.lines.get(job.name)
        if evidence.is_current(job):
            state = f"current, of {line['Date']}"
        elif not line:
            state = "never ran"
        else:
            state = f"failed at {line['Commit']}" if line["Failed"] != "0" else f"inputs changed since {line['Commit']}"
        yield f"{job.name:<32} {state}"


def run(all_jobs, evidence, names, tally):
    """Runs the named jobs, or without names those that are not current. After each one its line is in the file, so an
    interrupted run continues."""
    for job in all_jobs:
        if names and job.name not in names:
            continue
        if not names and evidence.is_current(job):
            print(f"== {job.name}: current, not run")
            continue
        own = Tally()
        job.stage.run(own)
        if not evidence.add(job, own, own.stages[-1][2]):
            print(
                f"== {job.name}: no line in docs/evidence.md, since its inputs are in no commit:\n{job.changed()}",
                end="",
            )
        tally.add(own)
