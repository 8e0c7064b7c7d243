# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Applications: MPI and NFS, with Debian's packages.

They need guests with more packages, which take a minute to make, so they run with --long only.
"""

import re

import pytest
from labkit import siw
from labkit.machine import Machine
from labkit.sim import Wire
from stock import address, objects
from test_known_bugs import counters

PACKAGES = ("openmpi-bin", "python3-mpi4py", "openssh-server", "openssh-client", "nfs-kernel-server", "nfs-common")
MACHINE = Machine(memory=1024, packages=PACKAGES)
NFS_PORT = 20049
FILE_MB = 16

pytestmark = pytest.mark.long


def trust_each_other(lab):
    """Sets up ssh as root between the guests, which mpirun uses."""
    for number, guest in enumerate(lab.guests):
        guest.check(f"hostname node{number}; for n in 0 1; do echo 10.0.0.$((n + 1)) node$n >> /etc/hosts; done")
    first = lab.guests[0]
    first.check("mkdir -p ~/.ssh && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519", 120)
    key = first.check("cat ~/.ssh/id_ed25519.pub").strip()
    for guest in lab.guests:
        guest.check(
            f"""mkdir -p ~/.ssh /run/sshd && echo '{key}' >> ~/.ssh/authorized_keys
            echo 'StrictHostKeyChecking no' > ~/.ssh/config; chmod -R go= ~/.ssh; chown -R root: ~
            /usr/sbin/sshd -o UsePAM=no""",
            60,
        )


MPI_PROGRAM = """
from mpi4py import MPI
import hashlib, sys
world = MPI.COMM_WORLD
me, other = world.Get_rank(), 1 - world.Get_rank()
for size in (1, 1000, 65536, 1 << 20):
    block = bytearray(hashlib.shake_128(b'%d %d' % (me, size)).digest(size))
    got = bytearray(size)
    world.Sendrecv([block, MPI.BYTE], other, 0, [got, MPI.BYTE], other, 0)
    assert got == hashlib.shake_128(b'%d %d' % (other, size)).digest(size), size
total = world.allreduce(me + 1)
print('rank', me, 'on', MPI.Get_processor_name(), 'of', world.Get_size(), 'total', total, flush=True)
"""


# libfabric's provider ofi_rxm makes a completion queue for FI_UNIVERSE_SIZE processes, by default 256, and the card has
# none of that size. Every program over ofi_rxm needs it.
OFI_RXM = {"FI_VERBS_IFACE": "eth0", "FI_UNIVERSE_SIZE": "2"}


# Debian's Open MPI reaches verbs devices that are not InfiniBand through ofi_rxm.
def test_mpi_moves_its_messages_over_the_card(make_lab):
    lab = make_lab(machine=MACHINE)
    trust_each_other(lab)
    first = lab.guests[0]
    for guest in lab.guests:
        guest.push(MPI_PROGRAM.encode(), "/tmp/exchange.py")
    opens = "tcpActiveOpens", "tcpPassiveOpens"
    before = sum(counters(first, *opens))
    done = first.run(
        f"""ulimit -l unlimited
        mpirun --allow-run-as-root -np 2 --host node0,node1 --mca oob_tcp_if_include 10.0.0.0/24 \\
            --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' \\
            {" ".join(f"-x {name}={value}" for name, value in OFI_RXM.items())} python3 /tmp/exchange.py""",
        300,
    )
    assert done.rc == 0, done.stdout + done.stderr
    for rank in range(2):
        assert re.search(rf"rank {rank} on node{rank} of 2 total 3", done.stdout), done.stdout
    assert sum(counters(first, *opens)) > before
    assert not any(objects(first).values())


@pytest.mark.parametrize("version", ["3", "4.2"])
def test_nfs_of_a_host_with_a_card(make_lab, suite, version):
    """The client uses siw: Linux's client needs regions of 17 pages (259 pages in 16 regions), and a T3 supports 10 per
    region."""
    siw.module(suite)
    lab = make_lab(machine=MACHINE, cards=(1, 0), wires=[Wire("p0", ("c0.0", "n1"))])
    server, client = lab.guests
    server.check(
        f"""set -e
        mount -t tmpfs none /srv; head -c {FILE_MB}M /dev/urandom > /srv/given
        mkdir -p /run/rpcbind; rpcbind -w; mount -t nfsd none /proc/fs/nfsd; mkdir -p /var/lib/nfs/v4recovery
        echo '/srv 10.0.0.0/24(rw,no_root_squash,fsid=0,insecure,no_subtree_check)' > /etc/exports
        modprobe rpcrdma
        exportfs -ra; rpc.nfsd --rdma={NFS_PORT} 2; rpc.mountd""",
        120,
    )
    client.check(
        f"""set -e
        modprobe rpcrdma; mkdir -p /run/rpcbind; rpcbind -w; mkdir -p /mnt/nfs
        mount -t nfs -o vers={version},proto=rdma,port={NFS_PORT},nolock {address(server)}:{'/srv' if version == '3' else '/'} /mnt/nfs
        grep -q proto=rdma /proc/mounts""",  # noqa: E501
        120,
    )  # noqa: E501
    written = server.check("sha256sum < /srv/given", 60)
    assert client.check("sha256sum < /mnt/nfs/given", 240) == written
    client.check(f"head -c {FILE_MB}M /dev/urandom > /mnt/nfs/taken; sync", 240)
    assert client.check("sha256sum < /mnt/nfs/taken", 240) == server.check("sha256sum < /srv/taken", 60)
    assert objects(server)["qp"]
    client.check("umount /mnt/nfs", 60)
    server.check("rpc.nfsd 0; exportfs -ua; pkill rpc.mountd; umount /srv", 60)
