/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The switch of mutate.py in a module: the number of the active mutant, and a
 * flag for each mutant that a thread has executed.
 */
#ifndef T3_MUTANT_H
#define T3_MUTANT_H

extern int t3_mutant;
extern unsigned char t3_mutant_hits[];

#define T3_MUTANT(n)								\
	(*(volatile unsigned char *)&t3_mutant_hits[n] = 1,			\
	 *(volatile int *)&t3_mutant == (n))

#endif
