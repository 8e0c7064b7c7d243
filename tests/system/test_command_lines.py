# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The command lines of t3lab and t3sim, with every option that other tests do not use."""

import json
import subprocess

import pytest
from labkit import sim
from labkit.paths import REPO
from stock import rping


def run(*words, timeout=120):
    return subprocess.run(
        [str(word) for word in words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def t3lab(*words, timeout=300):
    return run(REPO / "tools/lab/t3lab", *words, timeout=timeout)


def t3sim(*words):
    return run(sim.program(), *words)


def test_t3lab_run_takes_every_option(suite, tmp_path):
    """One card whose ports are connected to each other; the guest and the files on the host are as the options
    state."""
    done = t3lab(
        *f"run --lab options --suite {suite} --guests 1 --cards 1 --load nic --memory 700 --cpus 2".split(),
        *f"--wire loop=c0.0,c0.1 --capture {tmp_path}/wires --record {tmp_path}/run.t3t --timeout 60".split(),
        "--append",
        "loglevel=3 t3lab.word=appended",
        (
            "grep -o t3lab.word=.* /proc/cmdline; nproc; sed -n 's/MemTotal: *//p' /proc/meminfo; ping -c 1 -W 1 -I"
            " 10.0.0.1 10.0.0.99 >/dev/null; exit 7"
        ),
    )
    assert done.returncode == 7, done
    appended, cpus, memory = done.stdout.splitlines()
    assert appended == "t3lab.word=appended"
    assert cpus == "2" and 500_000 < int(memory.split()[0]) < 700_000
    assert (tmp_path / "wires/loop.pcapng").stat().st_size > 100
    assert (tmp_path / "run.t3t").stat().st_size > 10_000
    shown = t3sim("trace", tmp_path / "run.t3t", "--from", "1000000")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, "", "")
    logs = t3lab("logs", "--lab", "options", "--lines", 3)
    assert (
        logs.returncode == 0
        and logs.stdout.count("==> ") >= 2
        and len(logs.stdout.splitlines()) <= 6 * logs.stdout.count("==> ")
    )


def test_t3lab_run_has_an_iommu_between_card_and_memory():
    done = t3lab(
        *"run --lab options --iommu --guests 1 --load nic".split(),
        "cat /sys/bus/pci/drivers/cxgb3/*/iommu_group/type",
    )
    assert (done.returncode, done.stdout) == (0, "DMA\n"), done


def test_t3lab_run_boots_a_guest():
    done = t3lab(
        *"run --lab options --boot --guests 1 --cards 0".split(),
        "sed 's/.*t3lab.name=\\([^ ]*\\).*/\\1/' /proc/cmdline",
    )
    assert (done.returncode, done.stdout) == (0, "g0\n"), done


def test_t3lab_run_ends_a_command_at_its_timeout(suite):
    done = t3lab("run", "--lab", "options", "--suite", suite, "--guests", 1, "--cards", 0, "--timeout", 1, "sleep 30")
    assert done.returncode == 1 and "not done after 1 s" in done.stderr, done


@pytest.mark.long
def test_t3lab_run_boots_a_kernel_of_the_project():
    done = t3lab(
        *"run --lab options --kernel base --guests 1 --cards 0".split(),
        "zcat /proc/config.gz | grep -c KUNIT=",
        timeout=3600,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done


@pytest.mark.long
@pytest.mark.parametrize("arch, page", [("arm64", 4096), ("arm64-16k", 16384), ("arm64-64k", 65536)])
def test_t3lab_run_boots_another_architecture(arch, page):
    done = t3lab(
        *f"run --lab options --arch {arch} --guests 1 --load rdma".split(),
        "uname -m; getconf PAGESIZE; ls /sys/class/infiniband",
        timeout=3600,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["aarch64", str(page), "cxgb3_0"]), done


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    return tmp_path_factory.mktemp("recording") / "rping.t3t"


def test_t3sim_ctl_records_a_connection(pair, recording):
    socket = pair.sim.control_socket
    assert t3sim("ctl", socket, "record", "start", recording).returncode == 0
    server, client = pair.guests
    rping(server, client, "-C 2")
    assert t3sim("ctl", socket, "record", "stop").returncode == 0
    assert {row["name"] for row in json.loads(t3sim("ctl", socket, "cards").stdout)} == {"c0", "c1"}


def test_t3sim_trace_shows_a_recording(recording, tmp_path):
    full = t3sim("trace", recording).stdout
    assert full == t3sim("trace", "--text", recording).stdout
    only = t3sim("trace", recording, "--card", "c0").stdout
    assert 0 < len(only.splitlines()) < len(full.splitlines())
    first, last = (float(full.splitlines()[at].split()[0]) for at in (0, -1))
    early, late = (
        t3sim("trace", recording, option, f"{(first + last) / 2:.9f}").stdout.splitlines()
        for option in ("--to", "--from")
    )
    assert len(early) + len(late) >= len(full.splitlines()) and late[-1] == full.splitlines()[-1] != early[-1]
    picture, events = tmp_path / "ladder.svg", tmp_path / "events.json"
    drawn = t3sim("trace", recording, "--ladder", picture, "--perfetto", events)
    assert drawn.returncode == 0 and "</svg>" in picture.read_text() and json.loads(events.read_text())


@pytest.mark.parametrize(
    "words, status, message",
    [
        (("--qp", "0x7fff", "--ladder", "x.svg"), 2, "t3sim: "),
        (("--tid", "99999", "--ladder", "x.svg"), 2, "t3sim: "),
        (("--from", "soon"), 2, "--from 'soon'"),
        (("--to", "later"), 2, "--to 'later'"),
        (("--loud",), 2, "--loud"),
    ],
)
def test_t3sim_trace_refuses_wrong_arguments(recording, tmp_path, words, status, message):
    done = run(
        sim.program(), "trace", recording, *(tmp_path / word if word.endswith(".svg") else word for word in words)
    )
    assert done.returncode == status and message in done.stderr and not done.stdout, done


@pytest.mark.parametrize(
    "words, status, message",
    [
        (("-h",), 0, "Usage: t3sim"),
        (("trace", "-h"), 0, "Usage: t3sim trace"),
        (("ctl", "-h"), 0, "Usage: t3sim ctl"),
        (("--version",), 0, "t3sim (t3rdma)"),
        (("ctl",), 2, "usage: t3sim ctl"),
        (("ctl", "/nowhere", "cards"), 1, "cannot reach"),
        (("--card", "a=/nowhere/a", "--record", "/nowhere/r"), 2, "/nowhere"),
        (("--card", "a=/nowhere/a", "--record-limit", "1M"), 2, "add --record FILE"),
    ],
)
def test_t3sim_help_and_usage_errors(words, status, message):
    done = t3sim(*words)
    assert done.returncode == status and message in done.stdout + done.stderr, done
    assert not (done.stdout if status else done.stderr)
