/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The switch of mutate.py in a program: the number of the active mutant
 * (T3_MUTANT in the environment), and a flag for each mutant that a thread has
 * executed (written to the file that T3_MUTANT_HITS names).
 */
#ifndef T3_MUTANT_H
#define T3_MUTANT_H

/* This header is first in each file; one that defines the macro itself would be too late. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) int t3_mutant;
__attribute__((weak)) unsigned char t3_mutant_hits[2000];

__attribute__((weak, constructor)) void t3_mutant_begin(void) {
    const char* wanted = getenv("T3_MUTANT");
    t3_mutant = wanted ? atoi(wanted) : 0;
}

__attribute__((weak, destructor)) void t3_mutant_end(void) {
    const char* path = getenv("T3_MUTANT_HITS");
    FILE* file = path ? fopen(path, "a") : NULL;
    if (!file)
        return;
    for (size_t n = 0; n < sizeof(t3_mutant_hits); n++)
        if (t3_mutant_hits[n])
            fprintf(file, "%zu\n", n);
    fclose(file);
}

#define T3_MUTANT(n) (__atomic_store_n(&t3_mutant_hits[n], 1, __ATOMIC_RELAXED), t3_mutant == (n))

#endif
