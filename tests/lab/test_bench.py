# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How benchmarks with two sides read, check and record their figures (bench/ratios.py)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))

import ratios  # noqa: E402
from ratios import Aim, Figure  # noqa: E402

FIGURES = [
    Figure("uverbs.alloc_pd.write", 500, 1000),
    Figure("uverbs.reg_mr_4k.write", 800, 1000),
    Figure("uverbs.siw.alloc_pd.write", 990, 1000),
]


def test_printed_figures_can_be_parsed():
    printed = [str(figure) for figure in FIGURES]
    assert printed[0] == "bench uverbs.alloc_pd.write ours=500 ref=1000 ratio=0.500"
    assert ratios.parse(["t3lab: guest booted", *printed, "bench fastpath.send.1 ours=85.3", ""]) == FIGURES


@pytest.mark.parametrize(
    "aim, met",
    [
        (Aim(r"uverbs\.[a-z_0-9]+\.write", most=0.8), True),
        (Aim(r"uverbs\.[a-z_0-9]+\.write", most=0.79), False),
        (Aim(r"uverbs\..*", least=0.5), True),
        (Aim(r"uverbs\..*", least=0.51), False),
        (Aim(r"uverbs\.[a-z_0-9]+\.write", mean=0.633), True),  # the root of 0.5 * 0.8 is 0.6325
        (Aim(r"uverbs\.[a-z_0-9]+\.write", mean=0.632), False),
        (Aim(r"uverbs\.alloc_pd\.write", ours=500), True),
        (Aim(r"uverbs\.alloc_pd\.write", ours=499), False),
    ],
)
def test_an_aim_is_met_or_reported(aim, met):
    failures = ratios.missed(FIGURES, [aim])
    assert not failures if met else len(failures) == 1 and "the aim is" in failures[0]


def test_an_aim_without_figures_is_not_met():
    assert ratios.missed(FIGURES, [Aim(r"uverbs\.open_device\.write", most=1.0)]) == [
        r"uverbs\.open_device\.write: there is no such figure"
    ]
    # A name is matched as a whole.
    assert ratios.missed(FIGURES, [Aim(r"alloc_pd", most=1.0)])


def test_a_ratio_may_be_three_percent_worse_than_recorded(tmp_path):
    file = tmp_path / "x.json"
    ratios.record([Figure("a", 500, 1000)], file, "6.1")
    assert not ratios.grown([Figure("a", 515, 1000), Figure("new", 9, 1)], file, "6.1")
    assert ratios.grown([Figure("a", 516, 1000)], file, "6.1") == ["a: ratio 0.516, 0.500 is recorded"]
    assert not ratios.grown([Figure("a", 516, 1000)], file, "6.12"), "of another kernel nothing is known"
    assert not ratios.grown([Figure("a", 516, 1000)], tmp_path / "absent", "6.1")


def test_the_end_of_a_run(tmp_path, capsys):
    """Figures are printed, an unmet aim fails the run, and only costs are recorded."""
    file = tmp_path / "x.json"
    run = [Figure("cm.instr_per_conn", 500, 1000), Figure("cm.rate_100", 400, 100)]
    aims = [Aim(r"cm\.rate_100", least=3.0)]
    assert ratios.conclude("bench-cm", run, aims, file, "6.1", True, r"cm\.instr.*") == 0
    assert ratios.parse(capsys.readouterr().out.splitlines()) == run
    slower = [Figure("cm.instr_per_conn", 600, 1000), Figure("cm.rate_100", 299, 100)]
    assert ratios.conclude("bench-cm", slower, aims, file, "6.1", False, r"cm\.instr.*") == 1
    failures = capsys.readouterr().err.splitlines()
    assert (
        len(failures) == 2
        and failures[0].startswith("bench-cm: cm.rate_100: ratio 2.990")
        and "0.500 is recorded" in failures[1]
    )
