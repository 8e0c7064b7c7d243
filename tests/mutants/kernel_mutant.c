// SPDX-License-Identifier: GPL-2.0
/* The number of the active mutant, for all suites; 0: none. */
#include <linux/module.h>

int t3_mutant;
EXPORT_SYMBOL_GPL(t3_mutant);
module_param_named(number, t3_mutant, int, 0644);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("switch of mutants in test modules");
