// SPDX-License-Identifier: GPL-2.0
/*
 * The number of the active mutant, for all suites; 0: none. The flags are for
 * modules that have none of their own.
 */
#include <linux/module.h>
#include <t3_mutant.h>

int t3_mutant;
EXPORT_SYMBOL_GPL(t3_mutant);
module_param_named(number, t3_mutant, int, 0644);

unsigned char t3_mutant_hits[T3_MUTANTS];
EXPORT_SYMBOL_GPL(t3_mutant_hits);
module_param_array_named(hits, t3_mutant_hits, byte, NULL, 0644);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("switch of mutants in test modules");
