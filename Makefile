# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# The entry point. CMake builds user space and the card model, Kbuild builds the modules, tools/lab runs guests.
#
#   make demo       two emulated machines with T3 cards, and a stock rping between them
#   make check      format, build without warnings, unit tests        (the fast part of the tests)
#   make test       check, and the system tests in guests
#   make help       all other targets

BUILD ?= build
PREFIX ?= /usr
JOBS  ?= $(shell nproc)
# Clones share the compiler's results.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

.DEFAULT_GOAL := help
.PHONY: help deps configure sim tools provider examples modules build format format-check check test test-long test-big-endian test-races netdev-tests demo bench bench-sim \
	bench-uverbs bench-cm build-cost kernel-check upstream mutants tidy install uninstall deb clean

help:
	@sed -n 's/^#   make /  make /p' Makefile
	@echo "  make sim        the card model, $(BUILD)/sim/t3sim"
	@echo "  make tools      ofedctrl, t3info, t3doctor, ofed-check"
	@echo "  make examples   the programs of examples/"
	@echo "  make provider   the libibverbs provider for this machine's rdma-core"
	@echo "  make modules    kernel modules for this machine's kernel (KDIR=... for another one)"
	@echo "  make kernel-check  modules against the headers of Debian 12, 13 and 14 and the newest kernel of backports and sid, with W=1, sparse, checkpatch and clang's check of locks"
	@echo "  make upstream   series of patches for Linux and rdma-core in build/upstream; the one for Linux is built and checked in a kernel's source (needs root)"
	@echo "  make test-long  the jobs of the long run whose inputs have changed (JOB='a b': these; tests/run long --list: all)"
	@echo "  make test-races one thread held at each point of the modules while another operation runs (SAMPLE=n SEED=n JOBS=n PAIR=name KERNEL=debug|stock SUITE=...)"
	@echo "  make netdev-tests  the kernel's own driver tests, with cxgb3 on the model between two guests (TEST='ping.py csum.py': these); tests/netdev"
	@echo "  make test-big-endian  unit tests of portable code for s390x, under qemu-user"
	@echo "  make test CAPTURES=1  every system test with its wires captured and checked by tshark"
	@echo "  make mutants    quality of the tests: removes one get, put, lock ... at a time (SAMPLE=20 SEED=1: a part)"
	@echo "  make bench      instructions per post and per completion"
	@echo "  make bench-uverbs  instructions of verbs commands, beside the in-tree ib_uverbs on the same device"
	@echo "  make bench-cm   connections: instructions, context switches, rates, beside the in-tree rdma_cm (CASE=null|siw|roce|t3: one device)"
	@echo "  make bench-sim  bandwidth and latency of the card model between two guests, beside siw in the same guests"
	@echo "  make build-cost processor seconds of a build without a compiler cache"
	@echo "  make tidy       clang-tidy"
	@echo "  make format     clang-format over the C++ files, black over the Python files"
	@echo "  make install    modules, provider and t3sim on this machine (DESTDIR= and PREFIX= honoured)"
	@echo "  make uninstall  removes these files again"
	@echo "  make deb        Debian packages of each release in build/deb (SUITES='bookworm trixie forky', or ARCH=arm64; needs root)"
	@echo "  make deps       installs the Debian packages of packaging/build-deps.txt"

deps:
	@tools/dev/deps

$(BUILD)/build.ninja: CMakeLists.txt | deps
	cmake -G Ninja -S . -B $(BUILD) \
	  $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache) >/dev/null

configure: $(BUILD)/build.ninja

sim: configure
	ninja -C $(BUILD) -j$(JOBS) t3sim

provider: configure
	ninja -C $(BUILD) -j$(JOBS) cxgb3_provider

tools: configure
	ninja -C $(BUILD) -j$(JOBS) tools

examples: configure
	ninja -C $(BUILD) -j$(JOBS) examples

modules:
	$(MAKE) -C kernel

build: configure
	ninja -C $(BUILD) -j$(JOBS)

cxx_files = $$(git ls-files '*.cc' '*.hh')
python_files = $$({ git ls-files '*.py'; git grep -lE '^\#!/usr/bin/python3'; } | sort -u)

format: deps
	clang-format -i $(cxx_files)
	black -q -l 120 $(python_files)

format-check: deps
	@tools/dev/format-check

check: deps
	@tests/run check --build $(BUILD)

# CAPTURES=1: every system test with its wires captured and checked; the captures stay in build/captures.
captures = $(if $(CAPTURES),--captures $(BUILD)/captures)

test: deps
	@tests/run test --build $(BUILD) $(captures)

test-long: deps
	@tests/run long --build $(BUILD) $(captures) $(JOB)

# Also in test-long. The programs run under qemu-user.
test-big-endian: deps
	@tests/big-endian/run $(BUILD)/big-endian

# SAMPLE=n: number of pairs, chosen by SEED=n. PAIR=name: runs one pair again. JOBS=n: number of guests at once.
test-races: deps
	@tests/races/run $(if $(KERNEL),--kernel $(KERNEL)) $(if $(SUITE),--suite $(SUITE)) $(if $(SAMPLE),--sample $(SAMPLE)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(filter command line,$(origin JOBS)),--jobs $(JOBS)) $(if $(PAIR),--pair '$(PAIR)')

# TEST='a b': these tests. Also in test-long.
netdev-tests: deps sim
	@tests/netdev/run $(TEST)

demo: deps
	@tools/lab/demo

bench: build
	ninja -C $(BUILD) -j$(JOBS) recorder_bench_bare >/dev/null
	@bench/run --build $(BUILD)

build-cost: deps
	@bench/build-cost

bench-sim: deps sim
	@bench/sim

# These need no card, except bench-cm's case t3. CASE=null|siw|roce|t3: that device only.
bench-uverbs: deps
	@bench/uverbs

bench-cm: deps sim
	@bench/cm $(if $(CASE),--case $(CASE))

kernel-check: deps
	$(MAKE) -C kernel check

# RDMA_CORE=dir: a checkout of rdma-core, for the lists that name a provider.
upstream: deps
	@tools/dev/upstream $(if $(RDMA_CORE),--rdma-core $(RDMA_CORE))

mutants: deps
	@SAMPLE=$(SAMPLE) SEED=$(SEED) tests/mutants/run

# Each file by itself, as clang-tidy looks at them.
tidy: deps
	@cmake -G Ninja -S . -B $(BUILD)/tidy -DT3_TOGETHER=OFF >/dev/null
	@tools/dev/tidy $(BUILD)/tidy

install: sim provider tools modules
	DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)
	$(MAKE) -C kernel modules_install
	install -D -m 644 packaging/debian/t3rdma-dkms.udev $(DESTDIR)/etc/udev/rules.d/60-t3rdma.rules
	install -D -m 644 packaging/debian/t3rdma-dkms.modprobe $(DESTDIR)/etc/modprobe.d/t3rdma.conf

# The manifest lists the files that cmake installed.
uninstall:
	test ! -e $(BUILD)/install_manifest.txt || sed 's,^,$(DESTDIR),' $(BUILD)/install_manifest.txt | xargs -d '\n' rm -f
	rm -f $(DESTDIR)/etc/udev/rules.d/60-t3rdma.rules $(DESTDIR)/etc/modprobe.d/t3rdma.conf
	$(MAKE) -C kernel modules_uninstall

deb: deps
	@tools/dev/deb $(if $(ARCH),--arch $(ARCH)) $(SUITES)

clean:
	rm -rf $(BUILD)
	$(MAKE) -C kernel clean
