/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Named points between two steps of an object's life, at which a test can hold a thread while
 * another operation runs to its end: tests/races. A module that is built for use has none of
 * them; only a build with -DT3_RACE_POINTS calls the hook, which is in tests/modules/races.
 *
 * A point may be anywhere, also under a spinlock or in an interrupt; the hook holds only a
 * thread that may sleep, and counts the others.
 */
#ifndef T3_RACE_POINT_H
#define T3_RACE_POINT_H

#ifdef T3_RACE_POINTS
void t3_race_point(const char *name);
#define T3_RACE_POINT(name)	t3_race_point(#name)
#else
#define T3_RACE_POINT(name)	do { } while (0)
#endif

#endif
