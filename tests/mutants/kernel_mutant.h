/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What mutate.py puts into a module: which of its mutants is the one that
 * counts, and which of them a thread has come by.
 */
#ifndef T3_MUTANT_H
#define T3_MUTANT_H

extern int t3_mutant;
extern unsigned char t3_mutant_hits[];

#define T3_MUTANT(n)								\
	(*(volatile unsigned char *)&t3_mutant_hits[n] = 1,			\
	 *(volatile int *)&t3_mutant == (n))

#endif
