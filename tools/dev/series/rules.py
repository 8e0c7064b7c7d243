# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the driver loses and what it gets another name for on its way into the kernel.

unifdef decides the conditions of the preprocessor first. Then the edits below are made, in their order. One without an
effect is an error, so that none outlives its reason.
"""

from typing import NamedTuple

VERSION = (7, 2, 0)  # of the kernel that the series is for, labkit's source of forky

# For unifdef: a value, or None for undefined.
DEFINED = {
    "LINUX_VERSION_CODE": str((VERSION[0] << 16) + (VERSION[1] << 8) + VERSION[2]),
    "__KERNEL__": "1",
    "__cplusplus": None,
    "T3_STREAM_PIECE_MAX": None,
}

DRIVER = "drivers/infiniband/hw/cxgb3"
UAPI = "include/uapi/rdma/cxgb3-abi.h"

# Folders and files of this tree, and where they are in the kernel's.
FOLDERS = {"kernel/iw_cxgb3": DRIVER, "include/hw": f"{DRIVER}/hw", "include/wire": f"{DRIVER}/wire"}
# Headers that the driver has in common with other modules of this tree.
SHARED = ("t3_cred.h", "t3_netdev.h", "t3_tcp_port.h")
FILES = {f"kernel/include/{name}": f"{DRIVER}/{name}" for name in SHARED} | {"include/uapi/t3_abi.h": UAPI}
# The kernel has what these declare, or the edits use what they wrap.
DROPPED = (
    "kernel/iw_cxgb3/card/cxgb3_ulp.h",
    "kernel/iw_cxgb3/verbs/compat_mm.h",
    "include/wire/assert.h",
    "kernel/iw_cxgb3/README.md",
)


class Edit(NamedTuple):
    """A regular expression and its replacement, for the files whose path in this tree matches a pattern."""

    files: str
    pattern: str
    replacement: str = ""


def function(name: str) -> str:
    """Matches a definition with the comment before it."""
    return rf"(?:^/\*(?:(?!\*/)[\s\S])*\*/\n)?^[a-z][\w *]*\b{name}\((?:(?!^\}})[\s\S])*?^\}}\n"


EVERY = "*"

EDITS = (
    # Headers: those of this tree that are not needed, and those that are in the kernel's include folders.
    Edit(EVERY, r"^#include <linux/version\.h>\n"),
    Edit(EVERY, r'^#include ["<](?:t3_context\.h|t3_compat_verbs\.h|compat_mm\.h)[">]\n'),
    Edit(EVERY, rf"^#include <({'|'.join(SHARED)})>", r'#include "\1"'),
    Edit(EVERY, r'\n+#include "uapi/t3_abi\.h"\n+', "\n#include <rdma/cxgb3-abi.h>\n\n"),
    Edit("include/wire/*", r'^#include "assert\.h"', "#include <linux/build_bug.h>\n#include <linux/stddef.h>"),
    Edit("*/iw_cxgb3.h", r'^#include "cxgb3_ulp\.h"', '#include "cxgb3_ctl_defs.h"\n#include "cxgb3_offload.h"'),
    Edit("*/verbs/verbs.h", r"^#include <rdma/iw_cm\.h>\n", "\\g<0>#include <rdma/uverbs_ioctl.h>\n"),
    Edit("*/iw_cxgb3.h", r"; cxgb3_ulp\.h its structures"),
    # cxgb3's headers have a macro of this name.
    Edit("*/device/device.h", r"^#define DRV_NAME.*\n"),
    Edit("*", r"\bDRV_NAME\b", "KBUILD_MODNAME"),
    Edit("*/device/stats.c", r'^#include "device\.h"', '#include "common.h"\n#include "device.h"'),
    # Verbs whose signatures differ between kernels.
    Edit("*/verbs/*", r"^T3_DEFINE_\w+\(\w+, \w+\)\n"),
    Edit("*/verbs/*", r"\b(t3_create_cq|t3_reg_user_mr)_op\b", r"\1"),
    Edit(
        "*/verbs/cq.c",
        r"(t3_create_cq\([^{]*)struct ib_udata \*udata\)\n\{\n",
        r"\1struct uverbs_attr_bundle *attrs)" "\n{\n\tstruct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;\n",
    ),
    Edit(
        "*/verbs/mr.c",
        r"(t3_reg_user_mr\([^{]*)struct ib_udata \*udata\)(\n\{\n(?:\t.*\n)*)\n",
        r"\1struct ib_dmah *dmah,\n\t\t\t\t    struct ib_udata *udata)\2\n"
        "\tif (dmah)\n\t\treturn ERR_PTR(-EOPNOTSUPP);\n",
    ),
    Edit("*/verbs/mr.c", r"(= t3_reg_user_mr\(.*), udata\)", r"\1, NULL, udata)"),
    # Functions of the kernel in place of our wrappers.
    Edit("*/verbs/*", r"\bt3_udata_empty\(", "ib_is_udata_in_empty("),
    Edit("*/verbs/*", r"\bt3_udata_respond\((\w+), &(\w+), sizeof\(\2\)\)", r"ib_respond_udata(\1, \2)"),
    Edit("*/verbs/umem.c", r"\bt3_pin_flags\((.*)\);", r"FOLL_LONGTERM | (\1 ? FOLL_WRITE : 0);"),
    Edit("*/verbs/umem.c", r"(err = dma_map_.*), T3_UMEM_DMA_ATTRS", r"\1," "\n\t\t\t      DMA_ATTR_REQUIRE_COHERENT"),
    Edit("*/verbs/umem.c", r"(dma_unmap_.*), T3_UMEM_DMA_ATTRS", r"\1," "\n\t\t\t  DMA_ATTR_REQUIRE_COHERENT"),
    Edit("*/verbs/verbs.c", r"\bt3_vma_flags\(", "vm_flags_mod("),
    Edit(
        "*/verbs/verbs.c",
        r"\bt3_zap_vma\(vma\)",
        "zap_special_vma_range(vma, vma->vm_start, vma->vm_end - vma->vm_start)",
    ),
    Edit("*/t3_tcp_port.h", function("t3_kernel_bind")),
    Edit(
        "*/conn/tcp_port.c",
        r"\bt3_kernel_bind\(sock, \(struct sockaddr \*\)",
        "kernel_bind(sock, (struct sockaddr_unsized *)",
    ),
    # ib_core reports the links of ports.
    Edit("*/device/port.c", r"(nports; i\+\+\)) \{\n(.*\n)\t\tassign_bit\(i, &dev->ports_up.*\n\t\}\n", r"\1\n\2"),
    Edit("*/device/port.c", function("t3_port_check_link")),
    Edit("*/device/port.c", function("t3_port_has_link")),
    Edit("*/device/port.c", r"\t/\* before a consumer learns of the link \*/\n\tt3_port_check_link\(dev, i\);"),
    Edit("*/device/port.c", r"^/\* ports_up is the state.*\n"),
    Edit(
        "*/device/port.c",
        r"the link state and speed; the MAC address[\s\S]*?\n \*/",
        "the speed of the link; the MAC address, which makes\n"
        " * the GID; and addresses and interfaces that are removed.\n */",
    ),
    Edit("*/iw_cxgb3.h", r"^\tunsigned long ports_up;.*\n"),
    Edit("*/iw_cxgb3.h", r"(\tunsigned long ports_slow;.*)/\* the same: ", r"\1/* bit per port, port.c: "),
    # The series mends the lock of cxgb3's queues.
    Edit("*/card/card.h", function("t3_dev_may_send")),
    Edit("*/conn/ep.c", r"\(([^()]*\([^()]*\)) \|\| !t3_dev_may_send\(\)\)", r"(\1)"),
    Edit(
        "*/conn/tids.c",
        r"A softirq may not send, see t3_dev_may_send\(\), so a work item does\. cxgb3 has such a\n \* list, but",
        "A work item sends. cxgb3 has such a list, but",
    ),
    # Our connection manager.
    Edit("*/conn/route.c", r"!cm_id->cm_handler \|\| "),
    Edit(
        "*/conn/route.c",
        r" t3_rdma_cm, whose ids have no handler of\n \* iw_cm, applies[\s\S]*?repeated\.",
    ),
    Edit("*/conn/tcp_port.c", r"!cm_id->cm_handler \|\| "),
    Edit("*/conn/tcp_port.c", r"\bt3_tcp_port_is_managers\b", "t3_tcp_port_is_mapped"),
    Edit(
        "*/conn/tcp_port.c",
        r"The socket is that of the manager or[\s\S]*?their bind on\. iwpmd has a socket on each\n \* mapped",
        "The socket is that of the port mapper in one case: iwpmd has a socket on each\n * mapped",
    ),
    Edit("*/conn/tcp_port.c", r"NULL if the manager answers", "NULL if the port mapper answers"),
    Edit("*/conn/tcp_port.c", r", as those of t3_rdma_cm do"),
    Edit("*/verbs/qp.c", r"rdma_ucm or t3_rdma_cm\. Both\n \* refuse a", "rdma_ucm. It\n * refuses a"),
    Edit("*/verbs/qp.c", r"and call the driver", "and calls the driver"),
    # Our verbs dispatcher.
    Edit("*/verbs/cq.c", r"t3_uverbs lets no page fault wait: the page may", "The page may"),
    Edit("*/verbs/umem.h", r"calls no other file of the driver\. ib_umem[\s\S]*?\n \*/", "calls no other file.\n */"),
    # Documents and programs of this project that comments cite.
    Edit(EVERY, r"(?:\n \*)? \((?:docs|tests)/[^)]*\)"),
    Edit("*/conn/ep_fsm.h", r" docs/states\.md shows[\s\S]*?picture\."),
    Edit(EVERY, r" \(guess G\d+\)"),
    Edit("*/verbs/mr.c", r"(memory windows \(default N\)): safe only[^\"]*", r"\1"),
    Edit(
        "include/hw/t3_cpl.h",
        r" A longer one takes its\n \* scatter/gather path[\s\S]*?\n \*/",
        "\n */",
    ),
    Edit("include/hw/t3_cpl.h", r" A build against a cxgb3 that is mended may have more\."),
    # Allocations of objects.
    Edit(EVERY, r"\b(k(?:m|z|vm|vz)alloc)\(sizeof\(([^()]+)\), ", r"\1_obj(\2, "),
    # One place of the kernel has the values, whatever a user sets: card_timeout_secs and others.
    Edit(
        EVERY,
        r"^static (bool|unsigned int) (crc_enabled|markers_enabled|ep_timeout_secs|card_timeout_secs)( = \w+)?;\n"
        r"module_param\((?:[^;]*;\n)MODULE_PARM_DESC\([^;]*(?:;[^;\n]+)*;\n",
        r"static const \1 \2\3;" "\n",
    ),
    # Headers that are C++ and user space, too.
    Edit("include/hw/t3_host.h", r"^#define t3_(?:to|from)_be.*\n"),
    Edit("include/hw/t3_host.h", r"^#ifdef __BIG_ENDIAN\n#define T3_BIG_ENDIAN\n#endif\n"),
    Edit("include/hw/t3_host.h", r"^#define t3_(?:un)?likely.*\n"),
    Edit("include/hw/t3_host.h", r"^/\* A function of its arguments alone.*\n#define t3_constant_fn.*\n"),
    Edit("include/hw/t3_host.h", r" \* What the sources shared[\s\S]*?\n \*/", " * Words of two parts in memory.\n */"),
    Edit("include/hw/t3_cpl.h", r"^#define T3_CPL_ASSERT.*\n\n"),
    Edit("include/hw/t3_cpl.h", r"^#include <linux/types\.h>\n", "#include <linux/build_bug.h>\n\\g<0>"),
    Edit(
        "include/hw/*_build.h",
        r"for the kernel\n \* module and the user library alike\. Plain C that is\n \* also C\+\+; pure",
        "pure",
    ),
    Edit(
        "include/hw/*_decode.h",
        r", for\n \* the kernel module and the user library alike\. Plain C that is also C\+\+; pure",
        ". Pure",
    ),
    Edit("include/hw/*_decode.h", r"; C\+\+ has no designators for arrays"),
    Edit("include/hw/*", r" __attribute__\(\(may_alias\)\)"),
    # The interface to user space.
    Edit("include/uapi/*", r"GPL-2\.0 OR Linux-OpenIB", "((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB)"),
    Edit("include/uapi/*", r"\bT3_ABI_H\b", "CXGB3_ABI_USER_H"),
    Edit("include/uapi/*", r"^#define T3_ABI_ASSERT[\s\S]*?^#undef T3_ABI_ASSERT\n\n"),
    # Makefile.
    Edit("*/Kbuild", r"obj-m := ", "obj-$(CONFIG_INFINIBAND_CXGB3) += "),
    Edit("*/Kbuild", r"^# Each folder calls itself.*\n"),
    Edit(
        "*/Kbuild",
        r"^(ccflags-y) := .*",
        r"\1 := -I $(srctree)/drivers/net/ethernet/chelsio/cxgb3"
        "\n"
        r"\1 += -I $(src) -I $(src)/device -I $(src)/conn -I $(src)/verbs -I $(src)/card",
    ),
)

# New names on the same line; what is aligned with a parenthesis stays aligned.
RENAMES = (
    Edit(EVERY, r"\bCXGB3_NUM_CPL_CMDS\b", "NUM_CPL_CMDS"),
    Edit(EVERY, r"\bt3c_data\(", "T3C_DATA("),
    Edit("*/device/stats.c", r"(?<=, )(?:ip|tcp)(?:_[a-z]+)+(?=\))", "camel case"),
    Edit("include/hw/*", r"\bt3_to_be(32|64)\b", r"cpu_to_be\1"),
    Edit("include/hw/*", r"\bt3_from_be(32|64)\b", r"be\1_to_cpu"),
    Edit("include/hw/*", r"\bt3_((?:un)?likely)\b", r"\1"),
    Edit("include/hw/*", r"\bt3_constant_fn\b", "static __always_inline"),
    Edit("include/hw/*", r"\bT3_BIG_ENDIAN\b", "__BIG_ENDIAN"),
    Edit("include/hw/t3_cpl.h", r"\bT3_CPL_ASSERT\((.*), (\d+)\);", r"static_assert(sizeof(\1) == \2);"),
    Edit("include/wire/*", r"\bWIRE_ASSERT_SIZE\((.*), (\w+)\);", r"static_assert(sizeof(\1) == \2);"),
    Edit("include/wire/*", r"\bWIRE_ASSERT_OFFSET\((.*), (\w+)\);", r"static_assert(offsetof(\1) == \2);"),
    Edit("include/[hw]*", r"__attribute__\(\(packed\)\)", "__packed"),
    Edit("include/[hw]*", r"\b__(u8|u16|u32|u64)\b", r"\1"),
)

# What no file of the series may have.
BANNED = (
    r"LINUX_VERSION_CODE|KERNEL_VERSION|linux/version\.h",
    r"(?i)kunit",
    r"(?i)t3_compat|compat_mm|T3_CORE_REPORTS|T3_DEFINE_",
    r"t3_context\.h|cxgb3_ulp|t3_kernel_bind|t3_udata_",
    r"t3_rdma_cm|t3_uverbs|t3accept|t3doctor|t3sim",
    r"\bdocs/|\btests/|\btools/|guess G\d",
    r"__cplusplus|C\+\+|__KERNEL__",
    r"MODULE_VERSION",
)
