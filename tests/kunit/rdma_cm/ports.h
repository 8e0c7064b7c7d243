/* SPDX-License-Identifier: GPL-2.0 */
/* For suites that include port.c. */
#ifndef T3_KUNIT_PORTS_H
#define T3_KUNIT_PORTS_H

/* No id has a port. */
static bool __maybe_unused ports_are_free(void)
{
	return !atomic_read(&cm_ports.nelems);
}

#endif
