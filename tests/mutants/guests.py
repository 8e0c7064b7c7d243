# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Judges the mutants of the modules in guests: by the KUnit suites, and by the operations of the race tests on a
modelled card."""

import copy
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

from common import MODULES, OUT, closure, code_in, digest, files_in, module_files
from labkit import Lab, LabError, build, image, klog, ktap, paths, points

import mutate

sys.path.insert(0, str(paths.REPO / "tests/races"))
import fixture  # noqa: E402

MOST = 2000  # mutants in one build
HERE = Path(__file__).resolve().parent


def switchable_tree(tree):
    """Writes the modules and all that is built with them, with their mutants and the points of the races; returns the
    mutants."""
    files = module_files()
    mutated = {paths.REPO / file for file in files}
    for part in ("include", "kernel", "tests/fakes", "tests/kunit", "tests/tables", "tests/modules/races"):
        build.sync(paths.REPO / part, tree / part, lambda path: build.built(path) or path in mutated)
    shutil.copyfile(HERE / "kernel_mutant.h", tree / "kernel/include/t3_mutant.h")
    mutants = mutate.tree(paths.REPO, files, tree, "#include <t3_mutant.h>", points.sources())
    if len(mutants) >= MOST:
        raise SystemExit(f"{len(mutants)} mutants: raise MOST")
    for suite in (tree / "tests/kunit").glob("*/*_kunit.c"):
        text = (paths.REPO / suite.relative_to(tree)).read_text()
        suite.write_text(
            f"""{text}
unsigned char t3_mutant_hits[{MOST}];
module_param_array(t3_mutant_hits, byte, NULL, 0444);
"""
        )
    # A module of its own has the number: KUnit of some kernels runs a suite before the parameters of its module are
    # parsed.
    (tree / "tests/kunit/mutant").mkdir(exist_ok=True)
    (tree / "tests/kunit/mutant/Kbuild").write_text(
        f"obj-m := t3_mutant.o\nccflags-y := -I$(src)/../../../kernel/include -DT3_MUTANTS={MOST}\n"
    )
    shutil.copyfile(HERE / "kernel_mutant.c", tree / "tests/kunit/mutant/t3_mutant.c")
    return mutants


def points_in(files):
    """The points of some files, for a hash."""
    return [str(point) for point in points.read() if point.file in files]


class InGuests:
    """Judges mutants by suites that run in a lab, several mutants after one another. A suite is what can run by itself
    and takes seconds."""

    MOST_SUITES = None  # how many of the suites that execute a mutant are tried

    def __init__(self, kind, debian, deadline):
        self._kernel, self._debian = kind, debian
        self._made = image.get(debian, kind)
        self._out = build.modules_folder(self._made) / "mutants"
        self._deadline = deadline
        self._name = f"mutants-{os.getpid()}"
        self._lab = None
        self._stopped = False
        self._booted = 0  # how many labs were started; a scan for leaks concerns the last one
        self._pace = {}  # seconds that a suite takes
        self.files = module_files()
        self.hits = {}  # numbers of the mutants that a suite executes

    def _start(self):
        """Starts the lab and prepares its first guest."""
        raise NotImplementedError

    def _run(self, guest, suite, number, deadline):
        """Runs a suite with a mutant; returns its exit status, what was wrong, or "", and the flags of the mutants that
        were executed."""
        raise NotImplementedError

    def _suites_for(self, files):
        """The suites that may execute a mutant of the files, and what their result depends on."""
        raise NotImplementedError

    def _folder(self, name):
        return f"/t3/{(self._out / name).relative_to(paths.guest_build(self._debian))}"

    def worker(self, number):
        """One that judges beside others, in a lab of its own; after survey()."""
        made = copy.copy(self)
        made._name, made._lab, made._booted = f"{self._name}-{number}", None, 0
        return made

    def stop(self):
        """Called by another thread: what waits for a guest fails, and no guest is started any more."""
        self._stopped = True
        if self._lab:
            self._lab.end()

    def end(self):
        if self._lab:
            self._lab.end()
        self._lab = None

    def _guest(self):
        if self._stopped:
            raise LabError("the run is being ended")
        if self._lab and not self._lab.healthy:
            self.end()
        if not self._lab:
            self._start()
            self._booted += 1
        return self._lab.guests[0]

    def _once(self, suite, number):
        """Runs a suite; returns the error, or ""."""
        broken = True  # whether the lab must be restarted
        try:
            guest = self._guest()
            before = len(guest.dmesg())
            status, wrong, hits = self._run(
                guest, suite, number, (20 + 3 * self._pace.get(suite, self._deadline)) / self._made.pace
            )
            trouble = klog.trouble(guest.dmesg()[before:])
            broken = bool(trouble) or status != 0
            if trouble:
                return trouble.splitlines()[0]
            if not number:
                self.hits[suite] = hits
            return wrong
        except LabError as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
        finally:
            if broken:
                self.end()

    def survey(self, files):
        """Runs each suite that has one of the files without a mutant, which records the mutants that it executes; it
        must pass. The records are stored, too, by what they depend on: also by the numbers of the mutants."""
        names = [mutant.name for mutant in mutate.numbered(paths.REPO, module_files())]
        for suite, depends in self._suites_for(files):
            known = OUT / f"survey-{suite}-{digest(self._debian, self._kernel, *names, *depends)}.json"
            if known.exists():
                self._pace[suite], hits = json.loads(known.read_text())
                self.hits[suite] = set(hits)
                continue
            self._guest()
            start = time.monotonic()
            wrong = self._once(suite, 0)
            self._pace[suite] = time.monotonic() - start
            if wrong:
                raise SystemExit(f"{suite} fails without any mutant: {wrong}")
            known.write_text(json.dumps([self._pace[suite], sorted(self.hits[suite])]))
            print(f"{suite}: {self._pace[suite]:.1f} s, executes {len(self.hits[suite])} mutants", flush=True)

    def _now(self):
        return float(self._guest().check("cut -d' ' -f1 /proc/uptime"))

    def _suites_of(self, mutant):
        """The suites that execute a mutant, the fastest first."""
        return sorted((name for name in self.hits if mutant.number in self.hits[name]), key=self._pace.get)[
            : self.MOST_SUITES
        ]

    def _try(self, mutant, suite):
        """Runs a suite with a mutant; returns the error, or ""."""
        wrong = self._once(suite, mutant.number)
        if wrong and self._lab and self._lab.healthy:
            # State that a failed test left must not affect the next one.
            after = self._once(suite, 0)
            if after:
                self.end()
                wrong = self._once(suite, mutant.number)
        return wrong

    def _leaks(self, runs):
        """The runs, tuples that begin with two times, in which memory was leaked. A scan takes a minute, so there is
        one for many runs; an object's age shows in which of them it was allocated."""
        guest = self._guest()
        guest.run("sleep 6; echo scan > /sys/kernel/debug/kmemleak; echo scan > /sys/kernel/debug/kmemleak", 120)
        leaks = guest.check("cat /sys/kernel/debug/kmemleak", 120)
        now = self._now()
        guest.check("echo clear > /sys/kernel/debug/kmemleak")
        times = [now - age for age in map(float, re.findall(r"\(age (\d+\.\d+)s\)", leaks))]
        return [run for run in runs if any(run[0] - 0.5 <= at <= run[1] + 0.5 for at in times)]

    def _run_all(self, pairs):
        """Runs pairs of a mutant and a suite, then scans for leaks. Returns what was wrong, by the number of the
        mutant."""
        wrong, runs, waiting = {}, [], list(pairs)
        while waiting:
            mutant, suite = waiting.pop(0)
            if mutant.number in wrong:
                continue
            begin = self._now()
            booted = self._booted
            error = self._try(mutant, suite)
            if error:
                wrong[mutant.number] = suite, error
            elif booted == self._booted:
                runs.append((begin, self._now(), mutant, suite, booted))
            if (error or booted != self._booted) and runs:
                # What a guest has leaked is lost with it.
                self._guest()
                waiting += [(run[2], run[3]) for run in runs if run[4] != self._booted and run[2].number not in wrong]
                runs = [run for run in runs if run[4] == self._booted]
        for _, _, mutant, suite, _ in self._leaks(runs) if runs else ():
            wrong.setdefault(mutant.number, (suite, "memory leaked"))
        return wrong

    def judge(self, mutants):
        """Yields a mutant, its outcome, the suites and the error. The fastest suite of each runs first, since it kills
        most of them."""
        seen = [mutant for mutant in mutants if self._suites_of(mutant)]
        wrong = self._run_all([(mutant, self._suites_of(mutant)[0]) for mutant in seen])
        alive = [mutant for mutant in seen if mutant.number not in wrong]
        wrong |= self._run_all([(mutant, suite) for mutant in alive for suite in self._suites_of(mutant)[1:]])
        alive = [mutant for mutant in alive if mutant.number not in wrong]
        if alive:
            # A stale pointer in this guest may hide a leak from kmemleak: once more in another guest.
            self.end()
            wrong |= self._run_all([(mutant, suite) for mutant in alive for suite in self._suites_of(mutant)])
        for mutant in mutants:
            if mutant not in seen:
                yield mutant, "unseen", "", ""
            elif mutant.number in wrong:
                yield mutant, "killed", *wrong[mutant.number]
            else:
                yield mutant, "survived", " ".join(self._suites_of(mutant)), ""


class Kunit(InGuests):
    """The suites of tests/kunit."""

    name = "kunit"

    def __init__(self, kind, debian):
        super().__init__(kind, debian, 120.0)
        self.suites = {}
        for module in MODULES:
            folders = [paths.REPO / part for part in (f"kernel/{module}", "kernel/include", "include", ".")]
            for suite in (paths.REPO / f"tests/kunit/{module}").glob("*_kunit.c"):
                seen = set()
                closure(suite.resolve(), folders, seen)
                self.suites[suite.stem] = {str(path.relative_to(paths.REPO)) for path in seen}

    def prepare(self):
        mutants = switchable_tree(self._out / "src")
        build.in_build_root(
            self._made,
            f"""
            cd /src/{self._out.relative_to(paths.REPO)}
            nice make -C {build.OWN_HEADERS} {self._made.kernel.kind.kbuild} M=$PWD/src/tests/kunit -j{os.cpu_count()} modules
            mkdir -p kunit && find src/tests/kunit -name '*.ko' -exec cp -p {{}} kunit/ \\;""",  # noqa: E501
            self._out / "build.log",
        )  # noqa: E501
        return mutants

    def depends(self, mutant):
        """The hash of the inputs of a result."""
        suites = sorted(name for name, files in self.suites.items() if mutant.file in files)
        files = sorted({file for name in suites for file in self.suites[name]})
        return digest(
            self._debian,
            self._kernel,
            mutant.name,
            *code_in(files),
            *points_in(files),
        )

    def _start(self):
        self._lab = Lab(
            guests=1, cards=0, load="none", suite=self._debian, kernel=self._kernel, name=self._name
        ).__enter__()
        guest = self._lab.guests[0]
        folder = self._folder("kunit")
        depends = guest.check(f"cd {folder} && modinfo -F depends *.ko")
        needed = {name for line in depends.split() for name in line.split(",")} - {"t3_mutant"} | {"kunit"}
        guest.check(f"modprobe -a {' '.join(sorted(needed))} && insmod {folder}/t3_mutant.ko", 60)

    def _suites_for(self, files):
        for suite in sorted(name for name, included in self.suites.items() if included & files):
            files = [*self.files, *sorted(self.suites[suite])]
            yield suite, [*code_in(files), *points_in(files)]

    def _run(self, guest, suite, number, deadline):
        before = len(guest.dmesg())
        done = guest.run(
            (
                f"echo {number} > /sys/module/t3_mutant/parameters/number && insmod {self._folder('kunit')}/{suite}.ko"
                f" && cat /sys/module/{suite}/parameters/t3_mutant_hits && rmmod {suite}"
            ),
            deadline,
        )
        results = ktap.parse(guest.dmesg()[before:])
        faults = [f"{name}: {fault}" for run in results for name, test in run.leaves() for fault in test.faults()]
        hits = {n for n, hit in enumerate(done.stdout.strip().split(",")) if hit == "1"}
        if done.rc or not results:
            return done.rc, f"status {done.rc}: {done.stderr.strip()}", hits
        return 0, faults[0] if faults else "", hits


class Operations(InGuests):
    """The operations of tests/races, each alone: real commands, files and mappings, removal of the device, and
    unloading. An operation counts as failed if objects are left, it does not end, or the kernel log has an error."""

    MOST_SUITES = 4
    STATE = "/sys/module/t3_mutant/parameters"
    DEVICE = "none"  # as of tests/races/fixture.py

    def __init__(self, kind, debian):
        super().__init__(kind, debian, 60.0)
        folders = ("kernel", "tests/fakes", "tests/programs/races", "tests/modules/races")
        files = [file for folder in folders for file in files_in(folder)]
        self._inputs = [*code_in(files), *points_in(files)]

    def prepare(self):
        """In the tree of Kunit, so that a mutant has one number."""
        tree = self._out / "src"
        mutants = switchable_tree(tree)
        (tree / "Kbuild").write_text("obj-m := tests/kunit/mutant/ tests/modules/races/ kernel/\n")
        build.in_build_root(
            self._made,
            f"""
            cd /src/{self._out.relative_to(paths.REPO)}
            nice make -C {build.OWN_HEADERS} {self._made.kernel.kind.make} M=$PWD/src -j{os.cpu_count()} modules
            mkdir -p mutated && find src/kernel src/tests/modules src/tests/kunit/mutant -name '*.ko' -exec cp -p {{}} mutated/ \\;""",  # noqa: E501
            self._out / "build-mutated.log",
        )  # noqa: E501
        build.everything(self._debian, self._kernel)  # the programs, and the modules of a card's peer
        return mutants

    def depends(self, mutant):
        return digest(self.name, self._debian, self._kernel, mutant.name, *self._inputs)

    def _start(self):
        self._lab = fixture.new_lab(self.DEVICE, self._debian, self._kernel, self._name).__enter__()
        self._lab.guests[0].check(f"insmod {self._folder('mutated')}/t3_mutant.ko", 60)
        fixture.prepare(self._lab, self._folder("mutated"), self.DEVICE)

    def _suites_for(self, _files):
        operations = re.findall(r"^operation (\S+)", self._guest().check("/t3/bin/t3-races --operations"), re.M)
        for operation in operations:
            yield f"{self.name}.{operation}", self._inputs

    def _run(self, guest, suite, number, deadline):
        (guest.share / "alone").write_text(suite.removeprefix(f"{self.name}.") + "\n")
        (guest.share / "zeros").write_text(",".join("0" * MOST))
        done = guest.run(
            f"""cat /share/zeros > {self.STATE}/hits && echo {number} > {self.STATE}/number || exit 99
            /t3/bin/t3-races --modules {self._folder('mutated')}{fixture.device_option(self._lab, self.DEVICE)} --alone /share/alone
            status=$?
            echo 0 > {self.STATE}/number
            echo hits $(cat {self.STATE}/hits)
            exit $status""",  # noqa: E501
            deadline,
        )  # noqa: E501
        [flags] = re.findall(r"^hits (\S+)", done.stdout, re.M) or [""]
        reports = re.findall(r"^report (.*)", done.stdout, re.M)
        wrong = reports[0] if reports else f"status {done.rc}: {done.stderr.strip()[-200:]}" if done.rc else ""
        return done.rc, wrong, {n for n, hit in enumerate(flags.split(",")) if hit == "1"}


class Device(Operations):
    """On the device without hardware: for the dispatcher and the connection manager."""

    name = "device"

    def __init__(self, kind, debian):
        super().__init__(kind, debian)
        self.files = [file for file in self.files if not file.startswith("kernel/iw_cxgb3/")]


class Card(Operations):
    """On a modelled card, with the peer of its connections in another guest."""

    name = "card"
    DEVICE = "card"
