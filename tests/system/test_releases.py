# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Guests of the other Debian releases, each with its own kernel and rdma-core. All other tests run on Debian 12.

An image takes minutes to make, so `make test` runs these tests only if it is cached, and `make test-long` makes it.
Only that runs kernels of backports, which Debian replaces often.
"""

import pytest
import test_layout
from conftest import Keeper, lend
from labkit import build, cache, image, paths
from programs import BIN, SUM_PORT, run_alone, run_pair
from stock import address, reload_driver, rping, wait_listening

# Debian release, its kernel, the private ABI of its libibverbs. Kernels of backports change.
RELEASES = (
    ("bookworm-backports", "6.12.", "34"),
    ("trixie", "6.12.", "34"),
    ("trixie-backports", "7.", "34"),
    ("forky", "7.2.", "65"),
)


def cached(suite):
    return (paths.cache() / cache.key(f"image-{suite}", image.recipe(suite))).is_dir()


@pytest.fixture(scope="module", params=RELEASES, ids=[name for name, *_ in RELEASES])
def release(request):
    """A pair of guests of another release, and the versions that they must have."""
    suite, kernel, abi = request.param
    if not request.config.getoption("--long") and (suite.endswith("-backports") or not cached(suite)):
        pytest.skip(f"there is no image of {suite} yet, or its kernel changes; --long runs it")
    if not request.config.getoption("--no-build"):
        build.everything(suite)
    keeper = Keeper(guests=2, suite=suite, name=suite)
    yield keeper, kernel, abi
    keeper.drop()


@pytest.fixture
def pair(request, release):
    yield from lend(release[0], request, empty=True)


def test_guests_run_the_release(pair, release):
    _, kernel, abi = release
    for guest in pair.guests:
        assert guest.check("uname -r").startswith(kernel)
        assert f"libcxgb3-rdmav{abi}.so" in guest.check("ls /usr/lib/x86_64-linux-gnu/libibverbs")
        shown = guest.check("ibv_devinfo -d cxgb3_0")
        assert shown.count("PORT_ACTIVE") == 2 and "iWARP" in shown


@pytest.mark.parametrize("ours, theirs", test_layout.VIEWS)
def test_layouts_of_other_modules_structures_match_btf(pair, ours, theirs):
    test_layout.compare(pair.suite, ours, theirs)


@pytest.mark.parametrize("size", [64, 65535])
def test_rping(pair, size):
    server, client = pair.guests
    rping(server, client, f"-C 200 -S {size} -V", timeout=120)


def test_events_instead_of_polling(pair):
    server, client = pair.guests
    serving = server.start(f"exec {BIN}/sum-server --events")
    wait_listening(server, SUM_PORT)
    done = client.run(f"{BIN}/sum-client --events {address(server)} 3 4", 30)
    assert (done.rc, done.stdout) == (0, "3 + 4 = 7\n")
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize(
    "name, options", [("verbs_smoke", ""), ("verbs_smoke", "--extended"), ("flush", ""), ("fork", "")]
)
def test_verbs(pair, name, options):
    run_pair(*pair.guests, name, options)


def test_domains(pair):
    server, client = pair.guests
    run_alone(client, server, "domains")


def test_perftest(pair):
    server, client = pair.guests
    serving = server.start("exec ib_write_bw -R -d cxgb3_0 -s 4096 -n 200")
    wait_listening(server, 18515)
    done = client.run(f"ib_write_bw -R -d cxgb3_0 -s 4096 -n 200 {address(server)}", 90)
    assert done.rc == 0, done
    assert serving.wait(30).rc == 0


def test_the_driver_is_unloaded_and_loaded(pair):
    client = pair.guests[1]
    for _ in range(2):
        reload_driver(client)
