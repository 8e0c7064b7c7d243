# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs the commands of docs/first-card.md in their order, block by block, in a guest whose card has both ports joined
by a wire.

A line whose comment begins with "may fail" may fail. The guest has no network but its card.
"""

import json
import os
import re

import pytest
from labkit import Lab, package, paths
from labkit.machine import Machine
from labkit.installed import Installed
from labkit.paths import REPO
from labkit.sim import Wire
from machines import MEMORY, ours, settle

BLOCKS = re.findall(r"^```sh\n(.*?)^```$", (REPO / "docs/first-card.md").read_text(), re.M | re.S)
CABLE = [Wire("p", ("c0.0", "c0.1"))]
PERFTEST_CRASHES = pytest.mark.allow_log(
    r"ib_\w+\[\d+\].*(general protection|segfault).*librdmacm", "perftest's retry after a rejection"
)


def follow(guest, prefix="", without=()):
    """Returns what was printed."""
    printed = ""
    for block in BLOCKS:
        lines = [line for line in block.splitlines() if not line.startswith(without)]
        # A slow machine gets the short form, which the page names.
        script = "\n".join(
            re.sub(r"(.*?) +# may fail$", r"\1 || true", line).replace("--both-ports", "--both-ports --quick")
            for line in lines
        )
        done = guest.run(f"cd /tmp; set -e; {prefix}\n{script}", 900)
        printed += done.stdout + done.stderr
        assert done.rc == 0, (script, done)
    return printed


def check(guest, printed):
    assert "PASSED. The report is in first.txt and first.json" in printed and printed.count("ping data: ") == 10
    report = json.loads(guest.pull("/tmp/first.json"))
    assert report["passed"] and report["anonymous"]
    assert {step["state"] for step in report["steps"]} <= {"passed", "note"}
    assert "Chelsio T3, examined by t3doctor" in guest.pull("/tmp/doctor.txt").decode()
    assert json.loads(guest.pull("/tmp/alone.json"))["setting"] == "one machine"


@PERFTEST_CRASHES
def test_commands_of_the_page(make_lab):
    """Without packages: what needs them is left out."""
    (guest,) = make_lab(guests=1, wires=CABLE).guests
    check(guest, follow(guest, "PATH=/t3/bin:$PATH", without=("lspci", "apt-get")))


@pytest.mark.long
@pytest.mark.skipif(os.getuid() != 0, reason="packages are built and installed by root")
@PERFTEST_CRASHES
@pytest.mark.parametrize("suite", package.RELEASE_NUMBERS)
def test_commands_of_the_page_on_an_installed_machine(suite):
    name = f"first-card-{suite}"
    built = package.build(suite, with_sim=False, i386=False)
    with Installed(suite, paths.REPO / "build/install" / name, ours(built)) as machine, Lab(
        guests=1, wires=CABLE, installed=machine.image(), load="none", name=name, machine=Machine(memory=MEMORY)
    ) as lab:
        (guest,) = lab.guests
        settle(guest)
        # The lab's own programs are in PATH, too.
        installed = "PATH=${PATH%:/t3/bin}"
        check(guest, follow(guest, installed))
        assert not guest.check(f"{installed}; ls /sys/class/infiniband; command -v t3accept || true").strip()
