# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The architectures of guests: names of images, packages, and the machine that QEMU emulates."""

import lzma
import shutil
import subprocess

import pytest
from labkit import arch, build, errors, guest, image, kernel, machine, paths, qemu

CROSS = [name for name, target in arch.ARCHITECTURES.items() if target.cross]


def test_a_name_of_an_image_is_a_release_with_an_architecture():
    assert arch.image_name("forky", "amd64") == "forky" and arch.of_image("trixie-backports") == (
        "trixie-backports",
        arch.ARCHITECTURES["amd64"],
    )
    for name in CROSS:
        assert arch.of_image(arch.image_name("bookworm", name)) == ("trixie", arch.ARCHITECTURES[name])
    assert set(image.NAMES) == {*image.SUITES, "trixie-arm64", "trixie-arm64-16k"}


@pytest.mark.parametrize("name", CROSS)
def test_packages_of_another_architecture_are_those_of_the_host_with_its_libraries(name):
    target = arch.ARCHITECTURES[name]
    packages = image.build_packages(target)
    assert {
        "gcc-aarch64-linux-gnu",
        "g++-aarch64-linux-gnu",
        "libibverbs-dev:arm64",
        "librdmacm-dev:arm64",
        "busybox-static:arm64",
    } <= set(packages)
    libraries = {
        package.removesuffix(":arm64")
        for package in packages
        if package.startswith("lib") and package.endswith("-dev:arm64")
    }
    headers_only = {"libcli11-dev"}
    assert libraries | headers_only == {
        package for package in image.build_packages() if package.startswith("lib") and package.endswith("-dev")
    } - {"libelf-dev"}


def test_images_of_the_host_do_not_depend_on_other_architectures():
    assert "essential" not in image.recipe("bookworm") and "essential" in image.recipe("trixie-arm64")
    assert qemu.recipe()["package"] == "qemu-system-x86"


@pytest.mark.parametrize(
    "name, first, words",
    [
        ("bookworm", "q35", ("console=ttyS0", "tsc=reliable")),
        ("trixie-arm64", "virt,gic-version=3", ("console=ttyAMA0", "watchdog_thresh=60")),
    ],
)
def test_a_guest_has_the_machine_of_its_image(tmp_path, name, first, words):
    made = guest.Guest(0, image.Image(name, tmp_path, "6.12", ()), machine.Machine(), tmp_path, tmp_path, tmp_path, [])
    arguments = made._arguments()
    assert arguments[:2] == ["-M", first]
    line = arguments[arguments.index("-append") + 1].split()
    # The last one counts.
    assert set(words) <= {
        *[word for word in line if "=" not in word],
        *{word.partition("=")[0]: word for word in line}.values(),
    }
    assert f"local,path={paths.guest_build(name)},mount_tag=t3" in " ".join(arguments)


@pytest.mark.parametrize(
    "name, device, word",
    [
        ("bookworm", "intel-iommu,caching-mode=on", "intel_iommu=on"),
        ("trixie-arm64", "virtio-iommu-pci", "iommu.strict=1"),
    ],
)
def test_an_iommu_is_there_before_the_cards(tmp_path, name, device, word):
    made = guest.Guest(
        0,
        image.Image(name, tmp_path, "6.1", ()),
        machine.Machine(iommu=True),
        tmp_path,
        tmp_path,
        tmp_path,
        [tmp_path / "card"],
    )
    arguments = made._arguments()
    devices = [arguments[at + 1] for at, text in enumerate(arguments) if text == "-device"]
    assert devices[0] == device and any("vfio-user-pci" in text for text in devices)
    assert word in arguments[arguments.index("-append") + 1].split()


@pytest.mark.parametrize("iommu, order", [(True, "virtio-iommu.ko\nvirtio_blk.ko\n"), (False, "virtio_blk.ko\n")])
def test_the_driver_of_an_iommu_is_loaded_before_those_that_wait_for_it(tmp_path, iommu, order):
    driver = tmp_path / "build/usr/lib/modules/6.12" / arch.ARCHITECTURES["arm64"].iommu_module
    driver.parent.mkdir(parents=True)
    driver.write_bytes(lzma.compress(b"of the IOMMU"))
    (tmp_path / "busybox").write_bytes(b"")
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/virtio_blk.ko").write_bytes(b"of disks")
    made = image.Image("trixie-arm64", tmp_path, "6.12", ("virtio_blk.ko",)).initramfs(iommu)
    assert order.encode() in made and (b"of the IOMMU" in made) == iommu == (b"virtio-iommu" in made)


def test_an_architecture_without_a_kernel_of_debian_has_one_of_the_project(monkeypatch, tmp_path):
    """Its guests are those of the architecture with the same programs; only the kernel and its modules differ."""
    (tmp_path / "image.json").write_text('{"release": "6.12-debian", "boot_modules": ["virtio_blk.ko"]}')
    monkeypatch.setattr(image.cache, "entry", lambda name, *_: tmp_path)
    monkeypatch.setattr(
        image.kernel, "get", lambda *asked: kernel.Kernel(kernel.kind(asked[0]), tmp_path / asked[1], "6.12-ours")
    )
    theirs, ours = image.get("trixie-arm64"), image.get("trixie-arm64-64k")
    assert (ours.suite, ours.build_root, ours.products) == (theirs.suite, theirs.build_root, theirs.products)
    assert (theirs.release, theirs.kernel_file.name, ours.release, ours.kernel_file) == (
        "6.12-debian",
        "vmlinux",
        "6.12-ours",
        tmp_path / "trixie/Image",
    )
    assert ours.disks[1] == tmp_path / "trixie/modules.squashfs" and not ours.boot_modules
    assert build.modules_folder(ours) == ours.products / "kernels/arm64-64k"
    with pytest.raises(errors.UsageError, match="no kernel of the project is built for trixie-arm64-64k"):
        image.get("trixie-arm64-64k", "debug")


def test_a_root_that_was_only_unpacked_is_finished(tmp_path):
    """Links that packages no longer have, users, and the alternatives of programs that guests need."""
    for path in ("usr/bin", "usr/sbin", "usr/lib", "usr/share/base-passwd", "etc"):
        (tmp_path / path).mkdir(parents=True)
    for program in ("mawk", "dash"):
        shutil.copy2("/bin/true", tmp_path / "usr/bin" / program)
    for kind in ("passwd", "group"):
        (tmp_path / f"usr/share/base-passwd/{kind}.master").write_text("root:*:0:0:root:/root:/bin/bash\n")
    subprocess.run([paths.GUEST_FILES / "finish-root", tmp_path], check=True)
    links = {
        path.relative_to(tmp_path).as_posix(): path.readlink().as_posix()
        for path in tmp_path.rglob("*")
        if path.is_symlink()
    }
    assert links == {
        "bin": "usr/bin",
        "sbin": "usr/sbin",
        "lib": "usr/lib",
        "usr/bin/awk": "mawk",
        "usr/bin/sh": "dash",
    }
    assert "root:" in (tmp_path / "etc/passwd").read_text() and (tmp_path / "dev").is_dir()
