# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import re

import pytest
from labkit import Lab, image, kernel
from labkit.errors import LabError, UsageError
from labkit.guest import Machine
from labkit.sim import Wire


def configured(tmp_path, text, granted):
    (tmp_path / "a.config").write_text(text)
    kernel.configure(tmp_path, [tmp_path / "a.config"])
    (tmp_path / ".config").write_text(granted)
    return kernel.lost(tmp_path)


def test_an_option_that_kconfig_dropped_is_reported(tmp_path):
    assert configured(tmp_path, "# why\nCONFIG_KASAN=y\nCONFIG_SMP=y\n", "CONFIG_SMP=y\n# CONFIG_KASAN is not set\n") == ["CONFIG_KASAN=y"]


def test_a_module_instead_of_built_in_is_reported(tmp_path):
    assert configured(tmp_path, "CONFIG_NET=y\n", "CONFIG_NET=m\n") == ["CONFIG_NET=y"]


@pytest.mark.parametrize("granted, missing", [("", []), ("# CONFIG_VT is not set\n", []), ("CONFIG_VT=y\n", ["# CONFIG_VT is not set"]),
                                           ("CONFIG_VT_CONSOLE=y\n", [])])
def test_an_option_that_must_be_off(tmp_path, granted, missing):
    assert configured(tmp_path, "CONFIG_VT=n\n", granted) == missing


def test_a_later_fragment_takes_precedence(tmp_path):
    for name, value in (("a", "n"), ("b", "y")):
        (tmp_path / f"{name}.config").write_text(f"CONFIG_SLUB={value}\n")
    kernel.configure(tmp_path, [tmp_path / "a.config", tmp_path / "b.config"])
    assert (tmp_path / "requested.config").read_text() == "CONFIG_SLUB=y\n"


def test_each_fragment_is_used_by_a_kernel():
    used = {path for suite in kernel.SUITES for kind in kernel.KINDS.values() for path in kernel.fragments(suite, kind)}
    assert used == set(kernel.FRAGMENTS.glob("*.config"))


def test_a_releases_fragment_follows_and_affects_only_its_kernels():
    assert [path.stem for path in kernel.fragments("forky", kernel.kind("debug"))] == ["base", "base-forky", "debug", "debug-forky"]
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
    assert uml.kbuild == "ARCH=um" and uml.make.startswith("ARCH=um ") and kernel.Kernel(uml, tmp_path, "6.1").file.name == "linux"
    assert not any(kind.kbuild for kind in kernel.KINDS.values() if not kind.uml)


@pytest.mark.parametrize("parts", [{"cards": 0, "wires": [Wire("lan", ("n0", "tap:t0"))]},
                                   {"cards": 0, "machine": Machine(counted=True)}, {"machine": Machine(iommu=True)}])
def test_user_mode_linux_has_no_nics_no_iommu_and_no_counted_instructions(monkeypatch, tmp_path, parts):
    made = image.Image("bookworm", tmp_path, "6.1", (), kernel=kernel.Kernel(kernel.kind("uml"), tmp_path, "6.1"))
    monkeypatch.setattr(image, "get", lambda *_: made)
    with pytest.raises(UsageError, match="no NICs"):
        Lab(guests=1, kernel="uml", **parts).__enter__()
