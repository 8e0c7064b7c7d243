# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import os
import subprocess

import pytest
from labkit import Lab, cli, control, errors, paths
from labkit.machine import Machine

T3LAB = paths.REPO / "tools/lab/t3lab"


def t3lab(*words, **env):
    return subprocess.run(
        [T3LAB, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=20,
        env={"PATH": "/usr/bin:/bin", **env},
        check=False,
    )


@pytest.mark.parametrize(
    "words, wrong",
    [
        ((), "required: COMMAND"),
        (("upp",), "invalid choice: 'upp'"),
        (("up", "--guests", "0"), "'0' is not a count of guests"),
        (("up", "--guests", "99"), "(a number from 1 to 16)"),
        (("up", "--guests"), "expected one argument"),
        (("up", "--memory", "1"), "'1' is not a memory in MiB"),
        (("up", "--cpus", "0"), "'0' is not a count of CPUs"),
        (("up", "--lab", "a/b"), "'a/b' is not a name of a lab"),
        (("up", "--lab", ".."), "'..' is not a name of a lab"),
        (("up", "--capture", "/etc/passwd/x"), "'/etc/passwd/x' is not a folder"),
        (("up", "--wire", "c0.0,c1.0"), "'c0.0,c1.0' is not a wire"),
        (("up", "--wire", "w=c0.0"), "'w=c0.0' is not a wire"),
        (("up", "--package", "-o"), "expected one argument"),
        (("up", "--package", "qperf,fio"), "'qperf,fio' is not a name of a Debian package"),
        (("run", "--timeout", "0", "true"), "'0' is not a time in seconds"),
        (("up", "--suite", "buster"), "invalid choice: 'buster'"),
        (("up", "--arch", "sparc"), "invalid choice: 'sparc'"),
        (("shell",), "required: GUEST"),
        (("shell", "first"), "'first' is not a guest"),
        (("exec", "0"), "no command given"),
        (("cache", "burn"), "invalid choice: 'burn'"),
        (("up", "--kernel", "plain"), "invalid choice: 'plain'"),
        (("up", "--load", "half"), "invalid choice: 'half'"),
        (("up", "--cards", "9"), "'9' is not a count of cards"),
        (("up", "--record"), "expected one argument"),
        (("up", "--guess", "G12=once"), "'G12=once' is not an answer to an open question (for example G12=other)"),
        (("logs", "--lines", "0"), "'0' is not a count of lines"),
        (("check-wire", "--connections", "-1", "x"), "--connections"),
        (("check-wire",), "required: FILE"),
        (("down", "--all"), "unrecognized arguments: --all"),
    ],
)
def test_wrong_arguments_get_one_line_and_status_2(words, wrong):
    done = t3lab(*words)
    assert done.returncode == 2
    assert wrong in done.stderr and "usage: t3lab" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


@pytest.mark.parametrize(
    "words", [("exec", "--lab", "absent", "0", "true"), ("shell", "--lab", "absent", "0"), ("down", "--lab", "absent")]
)
def test_commands_on_a_lab_that_does_not_run_are_refused(words):
    done = t3lab(*words)
    assert done.returncode == 2
    assert done.stderr == "t3lab: no lab called absent is running (t3lab up starts one)\n"


@pytest.mark.parametrize(
    "running, name, found",
    [
        (["mine"], None, "mine"),
        (["lab", "mine"], None, "lab"),
        (["lab", "mine"], "mine", "mine"),
        (["mine", "yours"], None, "several labs run"),
        ([], None, "no lab is running"),
        (["lab"], "mine", "no lab called mine"),
    ],
)
def test_a_lab_is_found_by_name_or_as_the_only_one(monkeypatch, running, name, found):
    monkeypatch.setattr(control, "running", lambda: [{"name": one} for one in running])
    if found in running:
        assert control.find(name)["name"] == found
    else:
        with pytest.raises(errors.UsageError, match=found):
            control.find(name)


@pytest.mark.parametrize(
    "words, wrong",
    [
        (("up", "--guests", "5", "--cards", "2"), "a lab has one guest or more and 8 cards at most, not 5 with 2 each"),
        (("up", "--arch", "arm64", "--suite", "forky"), "guests of arm64 are of trixie, not of forky"),
        (("up", "--arch", "arm64", "--arch", "amd64", "--arch", "amd64"), "3 architectures for 2 guests"),
        (
            ("up", "--cards", "0", "--arch", "arm64", "--kernel", "debug"),
            "no kernel of the project is built for trixie-arm64",
        ),
        (("logs", "--lab", "absent"), f"no logs in {paths.artifacts('absent')}"),
    ],
)
def test_impossible_labs_are_refused_before_any_process_starts(words, wrong):
    done = t3lab(*words)
    assert (done.returncode, done.stderr, done.stdout) == (2, f"t3lab: {wrong}\n", "")


@pytest.mark.parametrize(
    "words, packages", [((), ()), (("--package", "qperf", "--package", "libfabric-bin"), ("qperf", "libfabric-bin"))]
)
def test_packages_of_the_command_line_are_those_of_the_guests(monkeypatch, words, packages):
    made = []
    monkeypatch.setattr(cli, "Lab", lambda *_args, **options: made.append(options["machine"]))
    cli._lab(cli.parser().parse_args(["up", "--cards", "0", *words]), "lab")
    assert made[0].packages == packages


@pytest.mark.parametrize(
    "words, images",
    [
        ((), ["bookworm"] * 3),
        (("--suite", "forky"), ["forky"] * 3),
        (("--arch", "arm64"), ["trixie-arm64"] * 3),
        (("--arch", "arm64", "--suite", "trixie"), ["trixie-arm64"] * 3),
        (("--arch", "arm64-16k", "--arch", "amd64"), ["trixie-arm64-16k", "bookworm", "bookworm"]),
        (("--suite", "forky", "--arch", "amd64", "--arch", "arm64"), ["forky", "trixie-arm64", "trixie-arm64"]),
        (("--arch", "arm64-64k"), ["trixie-arm64-64k"] * 3),
    ],
)
def test_architectures_of_the_command_line_are_those_of_the_guests(monkeypatch, words, images):
    made = []
    monkeypatch.setattr(cli, "Lab", lambda *_args, **options: made.append(options["suite"]))
    cli._lab(cli.parser().parse_args(["up", "--guests", "3", "--cards", "0", *words]), "lab")
    assert made[0] == images


def test_guests_of_another_architecture_need_emulation():
    with pytest.raises(errors.UsageError, match="KVM runs only guests of the host's architecture"):
        Lab(suite="trixie-arm64", machine=Machine(kvm=True))


def test_the_demo_refuses_wrong_arguments():
    done = subprocess.run(
        [paths.REPO / "tools/lab/demo", "--suite", "buster"], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("demo: argument --suite: invalid choice: 'buster'") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "words, wrong",
    [
        # Backports are kernels; packages are built for releases.
        (("bookworm-backports",), "no such Debian release: bookworm-backports (known: bookworm, trixie, forky)"),
        (("--arch", "arm64", "forky"), "packages of arm64 are of trixie"),
        (("--arch", "sparc"), "invalid choice: 'sparc'"),
    ],
)
def test_packages_are_built_for_releases_only(words, wrong):
    done = subprocess.run(
        [paths.REPO / "tools/dev/deb", *words], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2 and wrong in done.stderr


def test_a_full_disk_is_reported_before_a_long_step(tmp_path):
    with pytest.raises(errors.LabError, match=f"a guest image needs 1073741824 MiB in {tmp_path}, where "):
        paths.need_space(tmp_path, 1 << 30, "a guest image")


def test_help_names_every_command():
    done = t3lab("--help")
    assert done.returncode == 0
    for name in ("up", "run", "shell", "exec", "logs", "down", "image", "build", "cache"):
        assert f"\n    {name} " in done.stdout


@pytest.mark.parametrize(
    "command", ["up", "run", "shell", "exec", "logs", "down", "image", "build", "check-wire", "cache"]
)
def test_each_command_has_help(command):
    for option in ("-h", "--help"):
        done = t3lab(command, option)
        assert done.returncode == 0 and done.stdout.startswith(f"usage: t3lab {command} ") and not done.stderr


@pytest.mark.skipif(os.access("/dev/kvm", os.R_OK | os.W_OK), reason="/dev/kvm can be used here")
def test_kvm_is_refused_without_dev_kvm():
    done = t3lab("run", "--kvm", "--cards", "0", "true")
    assert done.returncode == 2 and "/dev/kvm does not exist or you may not open it" in done.stderr


@pytest.mark.parametrize("options, left", [((), set()), (("--all",), set())], ids=["outdated", "all"])
def test_the_cache_can_be_cleaned(tmp_path, options, left):
    made = tmp_path / "t3rdma/image-bookworm-000000000000"
    made.mkdir(parents=True)
    (made / "root.squashfs").write_bytes(bytes(4096))
    done = t3lab("cache", "clean", *options, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert done.returncode == 0 and "removed image-bookworm-000000000000" in done.stdout, done
    assert {path.name for path in made.parent.iterdir() if not path.name.startswith(".")} == left


def test_an_empty_cache_lists_only_its_folder(tmp_path):
    done = t3lab("cache", XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout == f"in {tmp_path}/t3rdma\n"
