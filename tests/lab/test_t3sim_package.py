# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The Python package for scripts, with a t3sim without guests."""

import subprocess

import pytest
import t3sim
from labkit import paths
from t3sim.process import program


def test_cards_and_their_tables_are_objects(t3sim_script):
    a, b = t3sim_script.cards()
    assert (a.name, b.name, a.guest) == ("a", "b", False)
    assert a.qps() == [] and b.connections() == []
    assert t3sim_script.card("b").counters()["sge.cqes"] == 0
    with pytest.raises(AttributeError, match="Card has no frob; its columns are name, socket"):
        a.frob
    assert "Card(name='a'" in repr(a)


def test_a_refused_command_is_an_error_with_its_reason(t3sim_script):
    with pytest.raises(t3sim.T3simError, match="no fault 'frob'"):
        t3sim_script.card("a").cause("frob")
    with pytest.raises(t3sim.T3simError, match="no card 'z'"):
        t3sim_script.card("z")
    with pytest.raises(t3sim.T3simError, match="no card 'z'"):
        t3sim_script.qps("z")


def test_a_table_in_parts_is_read_whole(t3sim_process):
    """Cards that no wires join come in parts of their own."""
    script = t3sim_process([f"c{number}" for number in range(4)])
    assert script.qps() == []


def test_faults_and_cables(t3sim_script, tmp_path):
    t3sim_script.cause("a", "late-dma", "5ms")
    t3sim_script.cable("a.0-b.0", plugged=False)
    t3sim_script.impair("a.1-b.1", "a.1", loss=0.5, reorder_delay="20us")
    down, impaired = t3sim_script.control("wires")
    assert not down["up"] and impaired["impairments"]["a.1"]["reorder_delay_ns"] == 20000
    t3sim_script.impair("a.1-b.1")
    assert t3sim_script.control("wires")[1]["impairments"]["b.1"]["loss"] == 0
    with t3sim_script.capturing(tmp_path) as files:
        assert [file.name for file in files] == ["a.0-b.0.pcapng", "a.1-b.1.pcapng"]


def test_wait_has_a_deadline(t3sim_script):
    assert t3sim_script.wait(lambda: t3sim_script.cards(), 1)
    with pytest.raises(TimeoutError, match="not within 0.02 s"):
        t3sim_script.wait(lambda: False, 0.02)


def test_a_process_that_does_not_start_shows_its_log(t3sim_process):
    with pytest.raises(t3sim.T3simError, match="(?s)ended with status 2.*no-such-option"):
        t3sim_process(["a"], "--no-such-option")


def test_an_end_is_noticed(t3sim_script):
    assert t3sim_script.alive
    t3sim_script.control("quit")
    t3sim_script.wait(lambda: not t3sim_script.alive, 10)
    with pytest.raises(t3sim.T3simError, match="cannot reach a t3sim"):
        t3sim_script.cards()


def test_the_socket_is_that_of_the_variable(t3sim_script, monkeypatch):
    monkeypatch.setenv("T3SIM_CONTROL", str(t3sim_script.control_socket))
    assert [card.name for card in t3sim.Script().cards()] == ["a", "b"]
    monkeypatch.delenv("T3SIM_CONTROL")
    with pytest.raises(t3sim.T3simError, match="T3SIM_CONTROL"):
        t3sim.Script()


def test_the_program_is_that_of_the_variable_or_of_the_path(monkeypatch, tmp_path):
    monkeypatch.setenv("T3SIM", "/elsewhere/t3sim")
    assert program() == "/elsewhere/t3sim"
    monkeypatch.delenv("T3SIM")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(t3sim.T3simError, match="no program t3sim"):
        program()


def test_the_installed_package_registers_its_fixtures(tmp_path, t3sim_program):
    """As python3-t3sim installs it: pytest finds the plugin, and a test needs no other file."""
    build = paths.REPO / "build"
    if not (build / "cmake_install.cmake").exists():
        pytest.skip("nothing is configured in build")
    subprocess.run(
        ["cmake", "--install", build, "--component", "python3-t3sim", "--prefix", tmp_path],
        check=True,
        capture_output=True,
    )
    test = tmp_path / "test_of_a_user.py"
    test.write_text(
        "def test_it(t3sim_script):\n    assert [card.name for card in t3sim_script.cards()] == ['a', 'b']\n"
    )
    done = subprocess.run(
        ["/usr/bin/python3", "-m", "pytest", "-q", test, "--t3sim", t3sim_program],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "lib/python3/dist-packages")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
