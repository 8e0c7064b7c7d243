# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results of the kernel's driver tests: what a test printed, the list of what a T3 lacks, and the JSON of the kernel's
CI."""

import fnmatch
import json
import re
import tomllib
from dataclasses import dataclass, field

from labkit import ktap

PASS, FAIL, SKIP = "pass", "fail", "skip"
KSFT_SKIP = 4  # exit status
TIMED_OUT = (124, 137)  # of timeout(1)
# What the older tests, which are shell scripts, print for each subtest.
_SHELL = re.compile(r"^TEST: (?P<name>.*?)\s+\[ ?(?P<result>[A-Z]+) ?\]\s*$")
_SHELL_RESULTS = {"OK": PASS, "FAIL": FAIL, "SKIP": SKIP, "XFAIL": SKIP}
_KTAP_RESULT = re.compile(r"^(not )?ok \d+")
_REASON_LINES = 3
_ERROR = re.compile(r"[\w.]*(Error|Exception|Failure|Ex|Terminate|TimeoutExpired)\b(:|$)")
_COMMAND = re.compile(r"CMD|\s+STDERR: ")  # that failed, and what it printed


@dataclass
class Result:
    """A subtest, or a test that has none."""

    name: str  # test:subtest
    outcome: str
    reason: str = ""
    seconds: float = 0.0
    lines: list[str] = field(default_factory=list)  # what the test printed about it


@dataclass
class Outcome:
    """A test that has run."""

    target: str
    program: str
    results: list[Result]
    seconds: float
    crashes: list[str] = field(default_factory=list)  # errors in the kernels' logs

    @property
    def outcome(self) -> str:
        outcomes = {result.outcome for result in self.results}
        return FAIL if FAIL in outcomes else PASS if PASS in outcomes else SKIP


def _why(lines: list[str]) -> str:
    """The end of a subtest's diagnostics: its failed checks, or the message of its exception."""
    texts = [re.sub(r"^(Defer )?Exception\| ?", "", line.lstrip("# ")).rstrip() for line in lines]
    found = [text for text in texts if text.startswith("Check failed")][:_REASON_LINES]
    errors = [at for at, text in enumerate(texts) if _ERROR.match(text)]
    if errors:
        printed = [text.strip() for text in texts[errors[-1] + 1 :] if _COMMAND.match(text)]
        found += [texts[errors[-1]].strip(), *printed]
    return "; ".join(dict.fromkeys(found)) or "; ".join(texts[-_REASON_LINES:])


def parse(program: str, lines: list[tuple[float, str]], status: int, began: float) -> list[Result]:
    """The results of a test, of its output, whose lines have the times when they came."""
    results = _shell(program, lines, began) or _ktap(program, lines, began)
    text = [line for _, line in lines]
    failed = any(result.outcome == FAIL for result in results)
    end = lines[-1][0] if lines else began
    if status in TIMED_OUT:
        results = [result for result in results if result.name != f"{program}:end"]
        results.append(Result(f"{program}:end", FAIL, "it did not end in time", end - began, text[-40:]))
    elif status == KSFT_SKIP and not results:
        results.append(Result(program, SKIP, _why(text) or "it skips itself", end - began, text[-40:]))
    elif status not in (0, KSFT_SKIP) and not failed:
        results.append(Result(f"{program}:end", FAIL, f"status {status}: {_why(text)}", end - began, text[-40:]))
    elif not results and "1..0" in text:
        results.append(Result(program, SKIP, _why(text[:-1]), end - began, text))
    elif not results:
        results.append(Result(f"{program}:end", FAIL, "it printed no result", end - began, text[-40:]))
    return results


def _shell(program: str, lines: list[tuple[float, str]], began: float) -> list[Result]:
    results, printed = [], []
    for when, line in lines:
        found = _SHELL.match(line)
        if not found:
            printed.append(line)
            continue
        if found["name"].startswith("SKIP: "):
            results.append(Result(program, SKIP, found["name"].removeprefix("SKIP: "), when - began, printed))
            began, printed = when, []
            continue
        outcome = _SHELL_RESULTS.get(found["result"], FAIL)
        reason = "" if outcome == PASS else found["result"]
        results.append(Result(f"{program}:{found['name']}", outcome, reason, when - began, printed))
        began, printed = when, []
    for result, following in zip(results, [*[result.lines for result in results[1:]], printed]):
        if result.outcome != PASS:  # the reason follows its line
            result.reason = " ".join(line.strip() for line in following[:1] if line.startswith("\t")) or result.reason
    return results


def _ktap(program: str, lines: list[tuple[float, str]], began: float) -> list[Result]:
    """labkit.ktap reads KTAP within a suite, as in a kernel log."""
    times = [when for when, line in lines if _KTAP_RESULT.match(line)]
    body = "".join(f"    {line}\n" for _, line in lines)
    suites = ktap.parse(f"    # Subtest: {program}\n{body}ok 1 {program}\n")
    if not suites or not suites[0].children:
        return []
    results = []
    for test, when in zip(suites[0].children, times):
        name = test.name.removeprefix(f"{program.rpartition('.')[0]}.")
        note = test.note.strip()
        outcome = PASS if test.outcome == "passed" else SKIP if test.outcome == "skipped" else FAIL
        if outcome == PASS and note.upper().startswith("XFAIL"):
            outcome = SKIP
        reason = "" if outcome == PASS else re.sub(r"^(SKIP|XFAIL)\s*", "", note, flags=re.IGNORECASE)
        if outcome != PASS and not reason:
            reason = _why(test.lines) or "it has no reason"
        results.append(Result(f"{program}:{name}", outcome, reason, when - began, test.lines))
        began = when
    plan = suites[0].plan
    if plan is not None and plan > len(results):
        results.append(
            Result(f"{program}:end", FAIL, f"{plan} subtests were announced, {len(results)} reported", 0.0, [])
        )
    return results


class Expected:
    """The list of subtests that cannot pass, each with a reason. A name may have * for any characters. Those of the
    section `skips` skip themselves, and only the list has the reason; the others fail."""

    SKIPS = "skips"

    def __init__(self, text: str):
        self.reasons: dict[str, str] = {}
        self._skips: set[str] = set()
        for section, entries in tomllib.loads(text).items():
            for name, reason in entries.items():
                if name in self.reasons:
                    raise ValueError(f"{name} is listed twice")
                if not isinstance(reason, str) or not reason.strip():
                    raise ValueError(f"{name} in [{section}] has no reason")
                self.reasons[name] = reason
                if section == self.SKIPS:
                    self._skips.add(name)
        self._met: set[str] = set()

    def of(self, name: str) -> str | None:
        """The entry of a subtest."""
        for entry in self.reasons:
            if entry == name or ("*" in entry and fnmatch.fnmatchcase(name, entry.replace("[", "[[]"))):
                self._met.add(entry)
                return entry
        return None

    def judge(self, results: list[Result]) -> None:
        """What does not pass as listed is a skip; anything else that is listed is a failure of the list."""
        for result in results:
            entry = self.of(result.name)
            if entry is None:
                continue
            if result.outcome == (SKIP if entry in self._skips else FAIL):
                result.outcome, result.reason = SKIP, self.reasons[entry]
            elif result.outcome == PASS:
                result.outcome, result.reason = FAIL, "listed, but passes"
            elif result.outcome == SKIP:
                result.outcome, result.reason = FAIL, f"listed, but skips itself: {result.reason}"

    def unmet(self, programs: set[str]) -> list[Result]:
        """The entries of these tests that no subtest had, after they all have run."""
        return [
            Result(entry, FAIL, "listed, but there is no such subtest")
            for entry in self.reasons
            if entry.partition(":")[0] in programs and entry not in self._met
        ]


def namify(text: str) -> str:
    """A name in the form of the kernel's CI."""
    return re.sub(r"[^0-9a-zA-Z]+", "-", text).strip("-")


def as_json(executor: str, branch: str, start: str, end: str, outcomes: list[Outcome], link: str = "") -> str:
    """A run in the form that the collector of the kernel's CI (NIPA) reads from a runner."""
    cases = []
    for index, outcome in enumerate(outcomes):
        case = {
            "test": namify(outcome.program),
            "group": f"selftests-{namify(outcome.target)}",
            "result": outcome.outcome,
            "time": round(outcome.seconds, 1),
            "link": f"{link}/{folder(index, outcome.program)}",
            "results": [
                {
                    "test": namify(result.name.partition(":")[2] or result.name),
                    "result": result.outcome,
                    "time": round(result.seconds, 1),
                    **({"reason": result.reason} if result.reason else {}),
                }
                for result in outcome.results
            ],
        }
        if outcome.crashes:
            case["crashes"] = outcome.crashes
        cases.append(case)
    run = {"executor": executor, "branch": branch, "start": start, "end": end, "link": link, "results": cases}
    return json.dumps(run, indent=1) + "\n"


def folder(index: int, program: str) -> str:
    """The folder of a test's output."""
    return f"{index}-{namify(program)}"
