# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""check-newest, which compares the kernel's declarations of two releases: what it reads from modules."""

import subprocess

import loading
import pytest

SOURCE = """
struct kept { int same; int used; void (*callback)(int); };
struct other { int unused; };
int called(struct kept *, %(argument)s);
int also_called(struct other *);
int init(struct kept *kept, struct other *other) { kept->callback(1); return called(kept, 0) + also_called(other); }
"""


@pytest.fixture
def check():
    return loading.program("tools/kernel-headers/check-newest")


def compiled(folder, name, **changes):
    source = SOURCE % {"argument": "long", **changes}
    for before, after in changes.get("replace", ()):
        source = source.replace(before, after)
    made = folder / f"{name}.ko"
    subprocess.run(["gcc", "-g", "-O1", "-c", "-x", "c", "-o", made, "-"], input=source, text=True, check=True)
    return made


def differences(check, monkeypatch, capsys, old, new):
    monkeypatch.setattr(check, "built", lambda suite, _module: {"old": old, "new": new}[suite])
    monkeypatch.setattr(check, "names_used", lambda: {"used", "callback"})
    check.list_differences("new", "old")
    return capsys.readouterr().out.splitlines()


def test_equal_declarations_are_not_listed(check, monkeypatch, capsys, tmp_path):
    same = compiled(tmp_path, "a"), compiled(tmp_path, "b")
    assert differences(check, monkeypatch, capsys, *same) == ["check-newest: 0 declarations differ from old"]


def test_changed_prototypes_and_members_that_are_used_are_listed(check, monkeypatch, capsys, tmp_path):
    replace = [("int used", "unsigned int used"), ("callback)(int)", "callback)(long)"), ("int unused", "long unused")]
    shown = differences(
        check, monkeypatch, capsys, compiled(tmp_path, "a"), compiled(tmp_path, "b", argument="char", replace=replace)
    )
    assert shown == [
        "check-newest: 3 declarations differ from old:",
        "  called",
        "    int called(struct kept *, long int);",
        "    int called(struct kept *, char);",
        "  kept.callback",
        "    void (*callback)(int)",
        "    void (*callback)(long int)",
        "  kept.used",
        "    int used",
        "    unsigned int used",
    ]


def test_a_member_that_is_gone_is_listed_if_its_structure_exists(check, monkeypatch, capsys, tmp_path):
    replace = [("int used; ", "")]
    assert differences(
        check, monkeypatch, capsys, compiled(tmp_path, "a"), compiled(tmp_path, "b", replace=replace)
    ) == ["check-newest: 1 declarations differ from old:", "  kept.used", "    int used", "    none"]


def test_functions_that_are_not_exported_any_more_are_listed(check, monkeypatch, capsys, tmp_path):
    """Before the build: it fails because of them."""
    exports = {"old": "called also_called unused", "new": "also_called"}
    for suite, names in exports.items():
        symbols = tmp_path / suite / "usr/src/linux-headers-1/Module.symvers"
        symbols.parent.mkdir(parents=True)
        symbols.write_text("".join(f"0x12345678\t{name}\tvmlinux\tEXPORT_SYMBOL\t\n" for name in names.split()))
    monkeypatch.setattr(check, "headers_root", lambda suite: (tmp_path / suite, "1"))
    module = compiled(tmp_path, "a")
    monkeypatch.setattr(check, "built", lambda _suite, _module: module)
    check.list_vanished("new", "old")
    assert capsys.readouterr().out.splitlines() == [
        "check-newest: 1 symbols of old are not exported:",
        "  called (t3_rdma_cm)",
    ]


def test_the_newest_suite_is_found_by_debians_order_of_versions(check, monkeypatch):
    versions = {"bookworm-backports": "6.12.95-1~bpo12+1", "trixie-backports": "7.10.1-1~bpo13+1", "sid": "7.9.13-1"}
    monkeypatch.setattr(check, "packages", lambda suite: {check.HEADERS: {"Version": versions[suite]}})
    assert check.newest() == "trixie-backports"
    monkeypatch.setattr(check, "packages", lambda _suite: {})
    with pytest.raises(check.LabError, match="no kernel is in any of"):
        check.newest()


def test_a_cached_root_with_an_earlier_kernel_is_made_again(check, monkeypatch, tmp_path):
    releases = ["7.3.3-amd64", "7.3.4-amd64"]
    removed = []
    monkeypatch.setattr(
        check, "packages", lambda _suite: {check.HEADERS: {"Depends": "linux-headers-7.3.4-amd64 (= 7.3.4-1~bpo13+1)"}}
    )
    monkeypatch.setattr(check, "headers_root", lambda _suite: (tmp_path, releases.pop(0)))
    monkeypatch.setattr(check.cache, "remove_tree", removed.append)
    assert (check.release_of("sid"), removed) == ("7.3.4-amd64", [tmp_path])
    releases.append("7.3.4-amd64")
    assert (check.release_of("sid"), removed) == ("7.3.4-amd64", [tmp_path])
