# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Finds what can be taken away from a source, and makes every such change switchable at run time.

A mutant lacks one step of a pattern that keeps objects alive or accesses in order: a get, a put, a lock with its
unlocks, a barrier, a flush, a cancel, a charge, or a step of an unwinding path. All mutants of a tree are in one build:
a step that mutant N lacks becomes `if (!T3_MUTANT(N)) step;`, so that nothing is compiled anew for each, and a mutant
that does not compile is found at once.
"""

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

# Steps by the name of the function that is called, first match first. What a call in an expression gives when it is not
# made: `given`.
STEPS = (
    (
        "flush",
        r"(flush|drain|destroy)_\w*work\w*|flush_workqueue|synchronize_\w+|\w*rcu_barrier|wait_for_completion\w*|(__)?wait_event\w*"  # noqa: E501
        r"|kthread_stop|tasklet_kill|free_irq|\w+_wait_\w+|wait_\w+",
        "0",
    ),
    (
        "cancel",
        r"cancel_\w*work\w*|disable_work\w*|(del|delete)_timer\w*|timer_(delete|shutdown)\w*|hrtimer_cancel|\w+_cancel(_\w+)?"  # noqa: E501
        r"|\w+_stop(_\w+)?|unregister_\w+|\w+_unregister\w*|\w+_unlisten|\w+_unwatch",
        "0",
    ),
    ("charge", r"(\w+_)?(un)?charge(_\w+)?|ib_rdmacg_\w+|account_\w+|atomic(64)?_(add|sub|inc|dec)\w*", "0"),
    (
        "get",
        r"kref_get(_unless_zero)?|refcount_(inc|add)\w*|(t3_|uv_|cm_|ucm_)\w+_(get|hold)|(dev|dst|neigh|sock|l2t|mm|fd)_hold"  # noqa: E501
        r"|get_(device|page|net|file|task\w*)|try_module_get|__module_get|mmgrab|mmget\w*|t3_dev_enter|percpu_ref_\w*get\w*"  # noqa: E501
        r"|(\w+_)?ref_get|get|hold",
        "1",
    ),
    (
        "put",
        r"kref_put\w*|refcount_(dec|sub)\w*|\w+_(put|unref|drop)(_\w+)?|put_(device|page|net|file|task\w*|unused_fd|user_pages\w*)|put"  # noqa: E501
        r"|module_put|mmdrop|t3_dev_leave|k?v?free(_\w+)?|kmem_cache_free|kfree_(skb|rcu)|\w+_(free|release|destroy|dealloc|erase|remove"  # noqa: E501
        r"|forget|close|unmap|exit)(_\w+)?|free_\w+|munmap|unpin_\w+|unpin|list_del\w*|hlist_del\w*|hash_del\w*|__list_del\w*"  # noqa: E501
        r"|xa_erase\w*|ida_free|idr_remove|fput|sock_release|ibv_cmd_(destroy|dereg|dealloc)\w*|dma_unmap\w*|skb_queue_purge"  # noqa: E501
        r"|t3_qp_leave_cqs|\w+_unlist",
        "0",
    ),
    ("barrier", r"smp_[rwm]+b\w*|dma_[rw]mb|[rw]?mb|\w+_barrier|atomic_thread_fence", "0"),
)  # noqa: E501
ALWAYS = ("complete", "complete_all", "wake_up_all", "wake_up")  # steps of unwinding only
LOCKS = (
    (r"spin_lock(?:_bh|_irq|_irqsave|_nested|_irqsave_nested)?", r"spin_unlock(?:_bh|_irq|_irqrestore)?"),
    (r"mutex_lock(?:_nested|_interruptible|_killable)?", r"mutex_unlock"),
    (r"xa_lock(?:_bh|_irq|_irqsave)?", r"xa_unlock(?:_bh|_irq|_irqrestore)?"),
    (r"rcu_read_lock", r"rcu_read_unlock"),
    (r"srcu_read_lock", r"srcu_read_unlock"),
    (r"down_read(?:_killable)?", r"up_read"),
    (r"down_write(?:_killable)?", r"up_write"),
    (r"mmap_read_lock", r"mmap_read_unlock"),
    (r"pthread_mutex_lock", r"pthread_mutex_unlock"),
    (r"(?:\w+(?:\.|->))+(?:try_)?lock", r"(?:\w+(?:\.|->))+unlock"),
    (r"local_irq_save", r"local_irq_restore"),
)
WEAKER = (  # what becomes of an ordered access
    (r"smp_store_release", "WRITE_ONCE(*({0}), {1})"),
    (r"smp_load_acquire", "READ_ONCE(*({0}))"),
    (r"rcu_assign_pointer", "RCU_INIT_POINTER({0}, {1})"),
    (r"atomic_set_release", "atomic_set({0}, {1})"),
    (r"atomic_read_acquire", "atomic_read({0})"),
    (r"atomic_fetch_dec_release", "atomic_fetch_dec_relaxed({0})"),
)
ORDERS = re.compile(
    r"__ATOMIC_(?:ACQUIRE|RELEASE|ACQ_REL|SEQ_CST)|std::memory_order_(?:acquire|release|acq_rel|seq_cst)"
)
RELAXED = {"_": "__ATOMIC_RELAXED", "s": "std::memory_order_relaxed"}
CALL = re.compile(r"(?<![\w.>:])((?:[A-Za-z_]\w*(?:\([^()]*\))?(?:\.|->|::))*)([A-Za-z_]\w*)\s*\(")
LABEL = re.compile(r"^(?!default|public|private)([A-Za-z_]\w*):$", re.M)
# No steps: statements, assertions, messages, attributes that are put into a netlink message, and the end of what holds
# no memory by then.
NO_STEP = re.compile(
    r"^(if|for|while|switch|return|sizeof|do|else|case|defined|list_for_each\w*|trace_\w+|T3_\w+|t3_race_point|lockdep_\w+|user_\w*access_\w+"  # noqa: E501
    r"|\w+_init|\w*_(un)?lock(_\w+)?|lock|unlock|(dev|pr|ibdev|netdev)_(err|warn|info|dbg)\w*|rdma_nl_put_\w+|nla_\w+|\w+_report_\w+"  # noqa: E501
    r"|(pthread_)?mutex_destroy|ida_destroy|__(acquire|release)\w*)$"
)  # noqa: E501


@dataclass
class Mutant:
    """One step that is not taken."""

    file: str  # below the tree
    function: str
    step: str  # get, put, lock, barrier, flush, cancel, charge or unwind
    text: str  # what is taken away
    twin: int  # how many equal ones are before it in the same function
    line: int
    number: int = 0
    edits: list[tuple[int, int, str]] = field(default_factory=list)  # from, to, new text; {n} is the number

    @property
    def name(self) -> str:
        """The same whatever changes elsewhere in the file."""
        return f"{self.file}: {self.function}: {self.step}: {self.text}" + (f" #{self.twin + 1}" if self.twin else "")

    @property
    def key(self) -> str:
        return hashlib.sha256(self.name.encode()).hexdigest()[:12]


def code_of(text: str) -> str:
    """The same without comments, strings and directives, character by character."""

    def blank(match: re.Match) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, text, flags=re.M)


def end_of_call(code: str, opening: int) -> int:
    """Behind the parenthesis that closes the one at `opening`; -1: none does."""
    depth = 0
    for at in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[at], 0)
        if not depth:
            return at + 1
    return -1


def arguments(text: str) -> list[str]:
    """Of a call, from behind its opening parenthesis to before its closing one."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(c, 0)
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def functions(code: str) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of each function's body."""
    depth = 0
    start = 0
    name = ""
    outside: list[bool] = []  # for each open brace: does it hold functions
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match[0] == "{":
            head = code[start:at]
            holds = bool(re.search(r"\b(namespace|class|struct|extern|union|enum)\b[^()]*$", head)) and depth == sum(
                outside
            )
            if depth == sum(outside) and not holds:
                found = re.findall(
                    r"([A-Za-z_~]\w*)\s*\(", re.sub(r"__\w+\([^()]*\)|\bT3_DEFINE_\w+\([^()]*\)", "", head)
                )
                name, begin = (found[0] if found else ""), at + 1
            outside.append(holds)
            depth += 1
            start = at + 1
        elif match[0] == "}":
            if outside:
                held = outside.pop()
                depth -= 1
                if not held and depth == sum(outside) and name:
                    yield name, begin, at
                    name = ""
            start = at + 1
        else:
            start = at + 1


def is_statement(code: str, begin: int, end: int) -> bool:
    """Whether a call is all there is between two statements."""
    if not re.match(r"\s*;", code[end : end + 200]):
        return False
    before = code[:begin].rstrip()
    if not before or before[-1] in ";{}" or re.search(r"\b(else|do)$", before):
        return True
    if before[-1] == ")":  # of if, for or while, but not a cast or another call
        depth = 0
        for at in range(len(before) - 1, -1, -1):
            depth += {")": 1, "(": -1}.get(before[at], 0)
            if not depth:
                return bool(re.search(r"\b(if|for|while|switch|\w*for_each\w*)\s*$", before[:at]))
        return False
    return bool(re.search(r"(^|\n)\s*(case [^:\n?]*|default|\w+):$", before))


def find(text: str, file: str) -> list[Mutant]:
    """All mutants of one source."""
    code = code_of(text)
    found: list[Mutant] = []
    for function, begin, end in functions(code):
        body = code[begin:end]
        label = LABEL.search(body)
        unwinding = begin + label.end() if label else end
        calls = []
        for match in CALL.finditer(code, begin, end):
            closing = end_of_call(code, match.end() - 1)
            if 0 < closing <= end:
                calls.append((match.start(), closing, match[2], match[1] + match[2], text[match.end() : closing - 1]))
        found += _locks(code, text, file, function, calls)
        for at, closing, name, full, inside in calls:
            mutant = _step(code, text, file, function, at, closing, name, full, inside, at >= unwinding)
            if mutant:
                found.append(mutant)
    found.sort(key=lambda mutant: mutant.edits[0][0])
    seen: dict[str, int] = {}
    for mutant in found:
        name = mutant.name
        mutant.twin = seen.get(name, 0)
        seen[name] = mutant.twin + 1
    return found


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _step(code, text, file, function, at, closing, name, full, inside, unwinding) -> Mutant | None:
    call = text[at:closing]
    if NO_STEP.match(name):
        return None
    for pattern, weaker in WEAKER:
        if re.fullmatch(pattern, name):
            new = weaker.format(*arguments(inside))
            return _replaced(code, text, file, function, "barrier", at, closing, call, new)
    if ORDERS.search(inside):
        new = ORDERS.sub(lambda order: RELAXED[order[0][0]], call)
        return _replaced(code, text, file, function, "barrier", at, closing, call, new)
    for step, pattern, given in STEPS:
        if re.fullmatch(pattern, name):
            break
    else:
        if not unwinding or not is_statement(code, at, closing):
            return None
        step, given = "unwind", "0"
    if name in ALWAYS and not unwinding:
        return None
    if is_statement(code, at, closing):
        semicolon = code.index(";", closing) + 1
        edits = [(at, semicolon, "do { if (!T3_MUTANT({n})) " + text[at:semicolon] + " } while (0);")]
    elif step in ("get", "charge", "cancel", "flush", "put") and _is_condition(code, at, closing):
        edits = [(at, closing, "(T3_MUTANT({n}) ? (" + given + ") : (" + call + "))")]
    else:
        return None
    return Mutant(file, function, step, _short(call), 0, _line(text, at), edits=edits)


def _is_condition(code: str, at: int, closing: int) -> bool:
    """Whether a call's value is only tested for being 0."""
    before, after = code[max(0, at - 60) : at].rstrip(), code[closing : closing + 60].lstrip()
    return bool(re.search(r"\b(if|while)\s*\(!?$|(&&|\|\|)\s*!?$", before)) and bool(re.match(r"\)|&&|\|\|", after))


def _replaced(code, text, file, function, step, at, closing, call, new) -> Mutant:
    if is_statement(code, at, closing):
        semicolon = code.index(";", closing) + 1
        edits = [(at, semicolon, "do { if (T3_MUTANT({n})) " + new + "; else " + text[at:semicolon] + " } while (0);")]
    else:
        edits = [(at, closing, "(T3_MUTANT({n}) ? (" + new + ") : (" + call + "))")]
    return Mutant(file, function, step, _short(call), 0, _line(text, at), edits=edits)


def _locks(code, text, file, function, calls) -> Iterator[Mutant]:
    """Each lock with all its unlocks up to the next time that it is taken."""
    for taking, leaving in LOCKS:
        held: dict[str, Mutant] = {}
        for at, closing, name, full, inside in calls:
            member = "lock" in leaving and "\\." in leaving
            called = full if member else name
            takes, leaves = re.fullmatch(taking, called), re.fullmatch(leaving, called)
            if not takes and not leaves:
                continue
            which = re.sub(r"(\.|->)(un|try_)?lock$", "", full) if member else arguments(inside)[0]
            statement = is_statement(code, at, closing)
            if statement:
                semicolon = code.index(";", closing) + 1
                edit = (at, semicolon, "do { if (!T3_MUTANT({n})) " + text[at:semicolon] + " } while (0);")
            else:
                given = "1" if "try" in name else "0"
                edit = (at, closing, "(T3_MUTANT({n}) ? " + given + " : (" + text[at:closing] + "))")
            if takes:
                held[which] = Mutant(file, function, "lock", _short(text[at:closing]), 0, _line(text, at), edits=[edit])
            elif which in held:
                held[which].edits.append(edit)
        yield from (mutant for mutant in held.values() if len(mutant.edits) > 1)


def apply(text: str, mutants: list[Mutant]) -> str:
    """The source with all mutants in it, each under its number. Of two that overlap, the inner one is within the
    outer."""
    edits = sorted(
        (begin, end, new.replace("{n}", str(mutant.number))) for mutant in mutants for begin, end, new in mutant.edits
    )
    for begin, end, new in reversed(edits):
        text = text[:begin] + new + text[end:]
    return text


def without_overlap(mutants: list[Mutant]) -> list[Mutant]:
    """Leaves out those within the text of another."""
    taken: list[tuple[int, int]] = []
    kept = []
    for mutant in sorted(mutants, key=lambda m: max(end - begin for begin, end, _ in m.edits)):
        spans = [(begin, end) for begin, end, _ in mutant.edits]
        if not any(begin < e and b < end for begin, end in spans for b, e in taken):
            taken += spans
            kept.append(mutant)
    return sorted(kept, key=lambda m: m.edits[0][0])


def numbered(root: Path, files: list[str], changed: dict[str, str] | None = None) -> list[Mutant]:
    """The mutants of several sources that do not overlap, with numbers from 1. `changed`: the text of a source, if not
    that of the file."""
    changed = changed or {}
    mutants = [
        mutant
        for file in files
        for mutant in without_overlap(find(changed.get(file) or (root / file).read_text(), file))
    ]
    for number, mutant in enumerate(mutants, 1):
        mutant.number = number
    return mutants


def without(text: str, mutant: Mutant) -> str:
    """The source with one mutant in place of the original."""
    for begin, end, new in sorted(mutant.edits, reverse=True):
        text = text[:begin] + re.sub(r"T3_MUTANT\(\{n\}\)", "1", new) + text[end:]
    return text


def tree(root: Path, files: list[str], goal: Path, prelude: str, changed: dict[str, str] | None = None) -> list[Mutant]:
    """Writes the sources with their mutants to goal; `prelude` is put behind the first line of each that has some.
    `changed`: as of numbered()."""
    changed = changed or {}
    everything = numbered(root, files, changed)
    for file in files:
        mutants = [mutant for mutant in everything if mutant.file == file]
        text = apply(changed.get(file) or (root / file).read_text(), mutants)
        if mutants:
            line, _, rest = text.partition("\n")
            text = f"{line}\n{prelude}\n{rest}"
        target = goal / file
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
    return everything
