# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tables at the end of pytest's output, of dictionaries that tests recorded by record_property(): workers of
pytest-xdist send no other objects."""

from typing import Callable


def show(terminalreporter, title: str, what: str, lines: Callable[[list], list[str]]) -> None:
    """Shows the lines() of all values that were recorded under that name, if there are any."""
    reports = (
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
    )
    values = [value for report in reports for name, value in report.user_properties if name == what]
    if values:
        terminalreporter.section(title)
        for line in lines(values):
            terminalreporter.write_line(line)
