# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import multiprocessing
import os
import signal
import time

import pytest
from labkit import cache


def test_an_entry_is_made_once_and_found_again(cache_home):
    made = []

    def fill(path):
        made.append(path)
        (path / "content").write_text("x")

    first = cache.entry("thing", {"version": 1}, fill)
    assert cache.entry("thing", {"version": 1}, fill) == first
    assert (first / "content").read_text() == "x"
    assert len(made) == 1


def test_another_recipe_is_another_entry(cache_home):
    assert cache.entry("thing", 1, lambda path: None) != cache.entry("thing", 2, lambda path: None)


def test_a_failed_fill_leaves_no_entry_and_the_next_one_starts_clean(cache_home):
    def broken(path):
        (path / "half").write_text("x")
        raise OSError("no space")

    with pytest.raises(OSError):
        cache.entry("thing", 1, broken)
    assert [item.complete for item in cache.entries()] == [False]
    path = cache.entry("thing", 1, lambda path: (path / "all").write_text("x"))
    assert sorted(file.name for file in path.iterdir()) == ["all", "recipe.json"]


def _slow_fill(path):
    (path / "half").write_text("x")
    (path.parent / "filling").write_text("x")
    time.sleep(30)


def test_a_killed_fill_leaves_no_entry_and_no_lock(cache_home):
    filler = multiprocessing.get_context("fork").Process(target=cache.entry, args=("thing", 1, _slow_fill))
    filler.start()
    for _ in range(500):
        if (cache_home / "filling").exists():
            break
        time.sleep(0.01)
    os.kill(filler.pid, signal.SIGKILL)
    filler.join(5)
    assert not any(item.complete for item in cache.entries())
    path = cache.entry("thing", 1, lambda path: None)
    assert not (path / "half").exists()


def _count_fill(path):
    with open(path.parent / "count", "a") as file:
        file.write("x")
    time.sleep(0.3)


def test_two_at_a_time_fill_once(cache_home):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=cache.entry, args=("thing", 1, _count_fill)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(10)
    assert (cache_home / "count").read_text() == "x"


def test_clean_keeps_selected_entries_and_removes_protected_folders(cache_home):
    def fill(path):
        (path / "sealed").mkdir()
        (path / "sealed/file").write_text("x")
        (path / "sealed").chmod(0o500)

    keep = cache.entry("new", 1, fill)
    cache.entry("old", 1, fill)
    gone = cache.clean(keep=lambda name: name == keep.name)
    assert [item.name for item in gone] == [cache.key("old", 1)]
    assert [item.name for item in cache.entries()] == [keep.name]
