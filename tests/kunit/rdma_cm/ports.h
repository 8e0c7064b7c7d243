/* SPDX-License-Identifier: GPL-2.0 */
/* For suites that include port.c. */
#ifndef T3_KUNIT_PORTS_H
#define T3_KUNIT_PORTS_H

/* No id has a port. */
static bool __maybe_unused ports_are_free(void)
{
	bool is_free = true;
	int i;

	for (i = 0; i < CM_PORT_BUCKETS; i++)
		is_free &= hlist_empty(&cm_ports[i].owners);
	return is_free;
}

#endif
