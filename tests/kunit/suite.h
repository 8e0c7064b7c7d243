/* SPDX-License-Identifier: GPL-2.0 */
/* What each suite has, and tables of cases. */
#ifndef T3_KUNIT_SUITE_H
#define T3_KUNIT_SUITE_H

#include <kunit/test.h>
#include <linux/module.h>

/* The product's files call it at the points of tests/races/points. Each suite has one. */
void t3_race_point(const char *name);

/* The end of a file with one suite; the last arguments are its functions. */
#define TEST_SUITE(title, cases, ...)						\
	static struct kunit_suite cases##_suite = {				\
		.name = title, .test_cases = cases, __VA_ARGS__			\
	};									\
	TEST_MODULE(title, &cases##_suite)

#define TEST_MODULE(title, ...)							\
	kunit_test_suites(__VA_ARGS__);						\
	MODULE_DESCRIPTION("KUnit tests: " title);				\
	MODULE_LICENSE("GPL")

/* As KUNIT_ARRAY_PARAM(), for an array whose rows have a name. */
#define NAMED_PARAM(param, array)						\
	static void param##_row_name(typeof((array)[0]) const *row, char *name)	\
	{									\
		strscpy(name, row->name, KUNIT_PARAM_DESC_SIZE);		\
	}									\
	KUNIT_ARRAY_PARAM(param, array, param##_row_name)

#endif
