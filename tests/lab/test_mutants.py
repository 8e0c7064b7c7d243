# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import pathlib
import subprocess
import sys
import tempfile

import pytest
from labkit import paths, points

sys.path.insert(0, str(paths.REPO / "tests/mutants"))

import common  # noqa: E402
import mutate  # noqa: E402

SOURCE = """// SPDX-License-Identifier: GPL-2.0
static int make(struct dev *dev)
{
	unsigned long flags;

	if (!kref_get_unless_zero(&dev->ref))
		return -ENODEV;
	spin_lock_irqsave(&dev->lock, flags); /* kref_put(&comment) */
	if (dev->gone) {
		spin_unlock_irqrestore(&dev->lock, flags);
		goto put;
	}
	list_del(&dev->list);
	spin_unlock_irqrestore(&dev->lock, flags);
	if (dev->once)
		flush_work(&dev->work);
	else
		dev->once = "kfree(text)";
	smp_store_release(&dev->ready, 1);
	return 0;
put:
	undo(dev);
	kref_put(&dev->ref, dev_release);
	return -EIO;
}
"""
NAMES = [
    "get: kref_get_unless_zero(&dev->ref)",
    "lock: spin_lock_irqsave(&dev->lock, flags)",
    "put: list_del(&dev->list)",
    "flush: flush_work(&dev->work)",
    "barrier: smp_store_release(&dev->ready, 1)",
    "unwind: undo(dev)",
    "put: kref_put(&dev->ref, dev_release)",
]


def numbered(text):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "a.c").write_text(text)
        return mutate.numbered(pathlib.Path(folder), ["a.c"])


def test_each_step_is_found_and_none_in_comments_or_strings():
    assert [mutant.name for mutant in numbered(SOURCE)] == [f"a.c: make: {name}" for name in NAMES]


def test_messages_and_attributes_are_no_steps():
    text = SOURCE.replace(
        "undo(dev);",
        'dev_err(dev, "no");\n\tibdev_warn(dev, "no");\n\tnla_put_u32(msg, 1, 2);\n\tmutex_destroy(&dev->mutex);',
    )
    assert [mutant.name for mutant in numbered(text)] == [f"a.c: make: {name}" for name in NAMES if "undo" not in name]


def test_a_lock_is_removed_with_all_its_unlocks():
    changed = mutate.apply(SOURCE, numbered(SOURCE))
    assert changed.count("T3_MUTANT(2)") == 3
    assert "else\n\t\tdev->once" in changed


def test_one_mutant_without_switch_is_the_source_without_its_step():
    changed = mutate.without(SOURCE, numbered(SOURCE)[1])
    assert "T3_MUTANT" not in changed and "(0) spin_" not in changed
    assert changed.count("if (!1) spin_lock_irqsave(") == 1 and changed.count("if (!1) spin_unlock_irqrestore(") == 2


def test_results_do_not_depend_on_comments_and_annotations(tmp_path, monkeypatch):
    monkeypatch.setattr(common.paths, "REPO", tmp_path)
    (tmp_path / "a.h").write_text("struct s {\n\tint a __guarded_by(&lock); /* kept */\n};\n")
    (tmp_path / "b.h").write_text("struct s {\n\tint a;\n}; // no\n")
    (tmp_path / "c.h").write_text("struct s { int b; };\n")
    (tmp_path / "d.h").write_text('char *s = "/* text */";\n')
    same, equal, other, text = common.code_in(["a.h", "b.h", "c.h", "d.h"])
    assert same.strip() == equal.strip() != other.strip() and "/* text */" in text


def test_a_name_does_not_depend_on_earlier_code():
    assert [m.key for m in numbered(SOURCE)] == [
        m.key for m in numbered(SOURCE.replace("static int", "int other;\n\nstatic int"))
    ]


def test_a_macro_before_a_function_does_not_have_its_name():
    text = SOURCE.replace("static int make(", "T3_DEFINE_MAKE(make_any, make)\n\nstatic int make(")
    assert [mutant.name for mutant in numbered(text)] == [f"a.c: make: {name}" for name in NAMES]


def test_equal_steps_have_different_names():
    twice = SOURCE.replace("\tundo(dev);\n", "\tundo(dev);\n\tundo(dev);\n")
    names = [mutant.name for mutant in numbered(twice)]
    assert "a.c: make: unwind: undo(dev) #2" in names and len(set(names)) == len(names)


@pytest.mark.parametrize("number", range(1, len(NAMES) + 1))
def test_a_mutant_lacks_its_step_and_nothing_else(tmp_path, number):
    """Each step prints its number; the output is that of the original without one number."""
    counted = (
        """#include <stddef.h>
#include <stdio.h>
#define EIO 5
#define ENODEV 19
static int mutant;
#define T3_MUTANT(n) (mutant == (n))
#define WRITE_ONCE(x, v) ((x) = (v))
struct dev { int ref, lock, gone, list, work, ready; const char *once; };
static int kref_get_unless_zero(int *x) { printf("1\\n"); return 1; }
#define spin_lock_irqsave(l, f) do { (f) = 0; (void)(f); printf("2\\n"); } while (0)
#define spin_unlock_irqrestore(l, f) printf("2\\n")
static void list_del(int *x) { printf("3\\n"); }
static void flush_work(int *x) { printf("4\\n"); }
#define smp_store_release(p, v) do { *(p) = (v); printf("5\\n"); } while (0)
static void undo(struct dev *d) { printf("6\\n"); }
static void dev_release(void) {}
static void kref_put(int *x, void (*f)(void)) { printf("7\\n"); }
"""
        + mutate.apply(SOURCE, numbered(SOURCE))
        + """
int main(int argc, char **argv)
{
	struct dev ok = { .once = "" }, bad = { .gone = 1 };

	sscanf(argv[1], "%d", &mutant);
	make(&ok);
	make(&bad);
	return 0;
}
"""
    )
    (tmp_path / "a.c").write_text(counted)
    subprocess.run(["cc", "-w", "-o", tmp_path / "a", tmp_path / "a.c"], check=True)

    def steps(mutant):
        return subprocess.run([tmp_path / "a", str(mutant)], check=True, capture_output=True, text=True).stdout.split()

    assert steps(number) == [step for step in steps(0) if step != str(number)]


def test_the_points_of_the_races_change_no_mutant():
    """Mutants that are numbered with and without the points are the same."""
    changed = {name: text for name, text in points.sources().items() if name.startswith("kernel/uverbs/")}
    with_points, without = (mutate.numbered(paths.REPO, list(changed), texts) for texts in (changed, None))
    assert [(mutant.name, mutant.line) for mutant in with_points] == [(mutant.name, mutant.line) for mutant in without]
