# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs the commands of docs/own-driver.md with a guest that has nothing of this project: Debian's kernel, busybox,
cxgb3.

Its initramfs is made here. The guest of `B` pings that of `A` through their cards.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from labkit import image, qemu, sim
from labkit.cpio import Archive
from labkit.paths import REPO

RECIPE, IMAGE, HOST = re.findall(r"^```sh\n(.*?)^```$", (REPO / "docs/own-driver.md").read_text(), re.M | re.S)
DEADLINE = 600
INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
for word in $(cat /proc/cmdline); do
    case $word in own.*) eval "${word#own.}" ;; esac
done
insmod /mdio.ko
insmod /cxgb3.ko
until [ -e /sys/class/net/eth0 ]; do sleep 1; done
ip addr add $address/24 dev eth0
ip link set eth0 up
if [ "$peer" ]; then
    until ping -c 1 -W 2 $peer > /dev/null; do sleep 1; done
    echo "own init: $(ping -c 5 -s 1472 $peer | grep transmitted)"
    poweroff -f
fi
while :; do sleep 1000; done
"""
REPLIED = "own init: 5 packets transmitted, 5 packets received, 0% packet loss"


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """Variables of the page, and a PATH with the programs that it uses."""
    made = image.get("bookworm")
    modules = next((made.build_root / "usr/lib/modules").iterdir()) / "kernel/drivers/net"
    archive = Archive()
    archive.file("init", INIT.encode(), 0o755)
    archive.file("bin/busybox", (made.folder / "busybox").read_bytes(), 0o755)
    archive.file("mdio.ko", (modules / "mdio.ko").read_bytes())
    archive.file("cxgb3.ko", (modules / "ethernet/chelsio/cxgb3/cxgb3.ko").read_bytes())
    archive.node("dev/console", 5, 1)
    folder = tmp_path_factory.mktemp("own")
    (folder / "initrd").write_bytes(archive.data())
    programs = folder / "bin"
    programs.mkdir()
    (programs / "t3sim").symlink_to(sim.program())
    (programs / "qemu-system-x86_64").write_text(f'#!/bin/sh\nexec {shlex.join(qemu.command())} "$@"\n')
    (programs / "qemu-system-x86_64").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
        "KERNEL": str(made.kernel_file),
        "INITRD": str(folder / "initrd"),
        "A": "own.address=198.18.0.1",
        "B": "own.address=198.18.0.2 own.peer=198.18.0.1",
    }


class Script:
    """A shell script with all the processes that it starts."""

    def __init__(self, script, environment, prefix=()):
        self._log = Path(environment["TMPDIR"]) / f"script{time.monotonic_ns()}.log"
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(
                [*prefix, "sh", "-euc", script],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def output(self):
        return self._log.read_text(errors="replace")

    def wait_for(self, text):
        end = time.monotonic() + DEADLINE
        while text not in self.output:
            assert self.process.poll() is None and time.monotonic() < end, self.output[-3000:]
            time.sleep(0.2)

    def end(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextlib.contextmanager
def running(script, environment, prefix=()):
    started = Script(script, environment, prefix)
    try:
        yield started
    finally:
        started.end()


def test_a_guest_of_your_own(guest):
    with running(RECIPE + "cat $T3/a.log\nls $T3\n", guest) as script:
        assert script.process.wait(DEADLINE) == 0, script.output[-3000:]
        assert REPLIED in script.output
        # The driver's rings, as ctl shows them while the other guest still runs.
        assert re.search(r"^a +Ethernet +\d+ +0x[1-9a-f]", script.output, re.M), script.output
        counters = json.loads(re.search(r"^\{\n.*?^\}\n", script.output, re.M | re.S)[0])
        assert counters["a"]["vfio.interrupts"] > 5 and counters["b"]["sge.work_requests"] > 5
        assert "a.0-b.0.pcapng" in script.output


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The image of make-image: its folder, its configuration, and its root."""
    folder = tmp_path_factory.mktemp("oci")
    done = subprocess.run(
        ["sh", "-euc", IMAGE.replace("-o t3sim.tar", f"--program {sim.program()} -o {folder}/t3sim.tar")],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done
    with tarfile.open(folder / "t3sim.tar") as archive:
        archive.extractall(folder / "layout")
    layout = folder / "layout"
    assert json.loads((layout / "oci-layout").read_text()) == {"imageLayoutVersion": "1.0.0"}

    def blob(described):
        data = (layout / "blobs" / described["digest"].replace(":", "/")).read_bytes()
        assert described["digest"] == "sha256:" + hashlib.sha256(data).hexdigest() and described["size"] == len(data)
        return data

    (described,) = json.loads((layout / "index.json").read_text())["manifests"]
    manifest = json.loads(blob(described))
    config = json.loads(blob(manifest["config"]))
    (layer,) = manifest["layers"]
    packed = folder / "layer.tar.gz"
    packed.write_bytes(blob(layer))
    (folder / "root").mkdir()
    with tarfile.open(packed) as archive:
        assert all(member.uid == 0 and not member.mode & 0o6000 for member in archive)
        archive.extractall(folder / "root")
    plain = subprocess.run(["gzip", "-dc", packed], capture_output=True, check=True).stdout
    assert config["rootfs"]["diff_ids"] == ["sha256:" + hashlib.sha256(plain).hexdigest()]
    return folder, config["config"], folder / "root"


def in_container(unpacked, sockets):
    """A command that runs the image's program as a container engine does: podman if it works here, else namespaces and
    chroot."""
    folder, config, root = unpacked
    if (
        shutil.which("podman")
        and subprocess.run(["podman", "load", "-i", folder / "t3sim.tar"], capture_output=True, check=False).returncode
        == 0
    ):
        return ["podman", "run", "--rm", "--network", "none", "-v", f"{sockets}:/run/t3", "t3sim"]
    script = f"""set -e; mount --bind {sockets} {root}/run/t3; mount -t proc proc {root}/proc; exec /usr/sbin/chroot {root} "$@" """  # noqa: E501
    user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    return [
        "unshare",
        *user,
        "--mount",
        "--pid",
        "--net",
        "--fork",
        "--kill-child=KILL",
        "env",
        "-i",
        *config["Env"],
        "/bin/sh",
        "-c",
        script,
        "sh",
        *config["Entrypoint"],
    ]


def test_a_card_in_a_container(guest, unpacked, tmp_path):
    """The same guests, whose QEMU runs outside. t3sim sees no file of the host but the folder of the sockets."""
    sockets = tmp_path / "t3"
    sockets.mkdir()
    command = in_container(unpacked, sockets)
    serve = (
        f"T3={sockets}\n{shlex.join(command)} --card a=/run/t3/a --card b=/run/t3/b --wire a.0,b.0 --capture /run/t3"
        " --control /run/t3/ctl > $T3/t3sim.log &\n"
    )
    with running(serve + "".join(RECIPE.splitlines(keepends=True)[2:]), guest) as started:
        assert started.process.wait(DEADLINE) == 0, started.output[-3000:]
        assert REPLIED in started.output
        assert (sockets / "a.0-b.0.pcapng").stat().st_size > 5 * 1500


@pytest.fixture
def hosts():
    """Two network namespaces with a cable between them: the prefix of a command, and the address of the other one, for
    each."""
    if os.getuid() != 0:
        pytest.skip("network namespaces with VXLAN need root")
    names = [f"t3own{os.getpid()}{end}" for end in "ab"]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        if subprocess.run(
            f"ip -n {names[0]} link add probe type vxlan id 1 dstport 4789 remote 192.0.2.9".split(),
            check=False,
        ).returncode:
            pytest.skip("this kernel has no VXLAN")
        subprocess.run(["ip", "-n", names[0], "link", "del", "probe"], check=True)
        subprocess.run(
            f"ip link add under netns {names[0]} mtu 1600 type veth peer name under netns {names[1]} mtu 1600".split(),
            check=True,
        )
        for number, name in enumerate(names):
            subprocess.run(
                (
                    f"ip -n {name} addr add 192.0.2.{number + 1}/24 dev under && ip -n {name} link set under up && ip"
                    f" -n {name} link set lo up"
                ),
                shell=True,
                check=True,
            )
        yield [(["ip", "netns", "exec", name], f"192.0.2.{2 - number}") for number, name in enumerate(names)]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def test_cards_on_different_hosts(guest, hosts):
    """Two t3sim in two network namespaces, which only VXLAN joins."""
    define = re.search(r"^guest\(\).*?^}\n", RECIPE, re.M | re.S)[0]
    (prefix_a, there_a), (prefix_b, there_b) = hosts
    with running(HOST + define + 'guest a "$A"\n', {**guest, "THERE": there_a, "N": "1"}, prefix_a) as first, running(
        HOST + define + 'guest a "$B"; t3sim ctl $T3/ctl wires; t3sim ctl $T3/ctl quit\n',
        {**guest, "THERE": there_b, "N": "2"},
        prefix_b,
    ) as second:
        second.wait_for(REPLIED)
        assert second.process.wait(DEADLINE) == 0, second.output[-3000:]
        (wire,) = json.loads(re.search(r"^\[\n.*?^\]\n", second.output, re.M | re.S)[0])
        assert wire["ends"] == ["a.0", "t3tap"] and wire["frames"] >= 10
        assert first.process.poll() is None, first.output[-3000:]
        outside = subprocess.run(
            [*prefix_b, "ip", "-j", "-s", "link", "show", "under"], capture_output=True, text=True, check=True
        )
        assert json.loads(outside.stdout)[0]["stats64"]["rx"]["bytes"] > 5 * 1500
