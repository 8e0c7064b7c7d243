# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import fnmatch
import re

import pytest
from labkit import Lab, arch, image, kernel
from labkit.errors import LabError, UsageError
from labkit.machine import Machine
from labkit.sim import Wire


def configured(tmp_path, text, granted):
    (tmp_path / "a.config").write_text(text)
    kernel.configure(tmp_path, [tmp_path / "a.config"])
    (tmp_path / ".config").write_text(granted)
    return kernel.lost(tmp_path)


def test_an_option_that_kconfig_dropped_is_reported(tmp_path):
    assert configured(
        tmp_path, "# why\nCONFIG_KASAN=y\nCONFIG_SMP=y\n", "CONFIG_SMP=y\n# CONFIG_KASAN is not set\n"
    ) == ["CONFIG_KASAN=y"]


def test_a_module_instead_of_built_in_is_reported(tmp_path):
    assert configured(tmp_path, "CONFIG_NET=y\n", "CONFIG_NET=m\n") == ["CONFIG_NET=y"]


@pytest.mark.parametrize(
    "granted, missing",
    [
        ("", []),
        ("# CONFIG_VT is not set\n", []),
        ("CONFIG_VT=y\n", ["# CONFIG_VT is not set"]),
        ("CONFIG_VT_CONSOLE=y\n", []),
    ],
)
def test_an_option_that_must_be_off(tmp_path, granted, missing):
    assert configured(tmp_path, "CONFIG_VT=n\n", granted) == missing


def test_a_later_fragment_takes_precedence(tmp_path):
    for name, value in (("a", "n"), ("b", "y")):
        (tmp_path / f"{name}.config").write_text(f"CONFIG_SLUB={value}\n")
    kernel.configure(tmp_path, [tmp_path / "a.config", tmp_path / "b.config"])
    assert (tmp_path / "requested.config").read_text() == "CONFIG_SLUB=y\n"


def test_each_fragment_is_used_by_a_kernel():
    used = {path for suite, kind in kernel.every() for path in kernel.fragments(suite, kind)}
    assert used == set(kernel.FRAGMENTS.glob("*.config"))


def test_a_releases_fragment_follows_and_affects_only_its_kernels():
    assert [path.stem for path in kernel.fragments("forky", kernel.kind("debug"))] == [
        "base",
        "base-forky",
        "debug",
        "debug-forky",
    ]
    assert [path.stem for path in kernel.fragments("bookworm", kernel.kind("debug"))] == ["base", "debug"]


@pytest.mark.parametrize("fragment", sorted(path.stem for path in kernel.FRAGMENTS.glob("*.config")))
def test_fragments_are_well_formed_without_duplicates(fragment):
    lines = (kernel.FRAGMENTS / f"{fragment}.config").read_text().splitlines()
    requested = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"CONFIG_[A-Z0-9_]+=(y|m|n|\d+)", line) for line in requested)
    names = [line.partition("=")[0] for line in requested]
    assert len(set(names)) == len(names)


def test_an_unknown_kernel_is_refused_by_name():
    with pytest.raises(LabError, match="fast.*base, debug, kcsan, uml"):
        kernel.kind("fast")


def test_user_mode_linux_is_made_with_its_architecture_and_boots_a_program(tmp_path):
    uml = kernel.kind("uml")
    assert (
        uml.kbuild == "ARCH=um"
        and uml.make.startswith("ARCH=um ")
        and kernel.Kernel(uml, tmp_path, "6.1").file.name == "linux"
    )
    assert not any(kind.kbuild for kind in kernel.KINDS.values() if not kind.uml)


def test_a_kernel_of_arm64_is_cross_compiled_of_its_own_sources(tmp_path):
    kind = kernel.kind("arm64-64k")
    assert (
        kernel.suites(kind) == ("trixie",) and kind.kbuild == kind.make == "ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-"
    )
    assert kernel.Kernel(kind, tmp_path, "6.12").file.name == "Image"
    sources = {arch: f"arch/{arch}/kernel/setup.c" for arch in ("x86", "arm64", "arm", "arc", "alpha", "riscv", "um")}
    for name, left in (("arm64-64k", {"arm64"}), ("debug", {"x86", "um"})):
        patterns = kernel.kind(name).left_out
        assert {
            arch
            for arch, path in sources.items()
            if not any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
        } == left
    assert "arch/arm64/include" in kind.kept and "arch/x86/include" not in kind.kept


def test_kernels_of_an_architecture_are_no_choice_for_the_guests_of_another():
    assert not set(kernel.KINDS) & set(kernel.OF_ARCHITECTURES) and all(
        name in arch.ARCHITECTURES for name in kernel.OF_ARCHITECTURES
    )
    with pytest.raises(UsageError, match=r"built for bookworm \(only for trixie\)"):
        kernel.get("arm64-64k", "bookworm", None)


@pytest.mark.parametrize(
    "parts",
    [
        {"cards": 0, "wires": [Wire("lan", ("n0", "tap:t0"))]},
        {"cards": 0, "machine": Machine(counted=True)},
        {"machine": Machine(iommu=True)},
    ],
)
def test_user_mode_linux_has_no_nics_no_iommu_and_no_counted_instructions(monkeypatch, tmp_path, parts):
    made = image.Image("bookworm", tmp_path, "6.1", (), kernel=kernel.Kernel(kernel.kind("uml"), tmp_path, "6.1"))
    monkeypatch.setattr(image, "get", lambda *_: made)
    with pytest.raises(UsageError, match="no NICs"):
        Lab(guests=1, kernel="uml", **parts).__enter__()
