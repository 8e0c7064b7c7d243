# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which guests continue from a snapshot, and what makes another snapshot."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from labkit import snapshot
from labkit.image import Image
from labkit.machine import Machine


@pytest.fixture
def image(tmp_path, monkeypatch):
    for name in ("vmlinux", "root.squashfs", "modules.squashfs", "qemu"):
        (tmp_path / name).write_bytes(b"1")
    monkeypatch.setattr(Image, "initramfs", lambda *_: b"initramfs")
    return Image("bookworm", tmp_path, "6.1", ())


def test_a_guest_of_debian_continues(image):
    assert snapshot.exists_for(image, Machine())
    assert snapshot.exists_for(image, Machine(memory=1024, cpus=2))


@pytest.mark.parametrize(
    "machine",
    [
        Machine(boot=True),
        Machine(kvm=True),
        Machine(counted=True),
        Machine(iommu=True),
        Machine(arguments="swiotlb=force"),
        Machine(firmware=SimpleNamespace()),
    ],
)
def test_a_guest_with_a_machine_of_its_own_boots(image, machine):
    assert not snapshot.exists_for(image, machine)


@pytest.mark.parametrize("other", [{"kernel": SimpleNamespace()}, {"own_init": True}, {"suite": "trixie-arm64"}])
def test_a_guest_with_an_image_of_its_own_boots(image, other):
    assert not snapshot.exists_for(replace(image, **other), Machine())


@pytest.mark.parametrize("name", ["vmlinux", "root.squashfs", "modules.squashfs", "qemu"])
def test_another_file_at_a_path_makes_another_snapshot(image, tmp_path, name):
    emulator = [str(tmp_path / "qemu")]
    before = snapshot.recipe(image, Machine(), emulator)
    assert snapshot.recipe(image, Machine(), emulator) == before
    (tmp_path / name).write_bytes(b"22")
    assert snapshot.recipe(image, Machine(), emulator) != before


def test_memory_and_processors_make_another_snapshot(image):
    recipes = [snapshot.recipe(image, machine, []) for machine in (Machine(), Machine(memory=1024), Machine(cpus=2))]
    assert recipes[0] != recipes[1] != recipes[2] != recipes[0]
