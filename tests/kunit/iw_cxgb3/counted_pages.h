/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counts the page lists of the driver's files, since kmemleak does not know pages. Include after
 * the kernel's headers and before the driver's .c files.
 */
#ifndef T3_KUNIT_COUNTED_PAGES_H
#define T3_KUNIT_COUNTED_PAGES_H

#include <linux/gfp.h>

static int list_pages;	/* allocated and not freed */

static inline unsigned long get_list_page(gfp_t gfp)
{
	unsigned long page = __get_free_page(gfp);

	list_pages += !!page;
	return page;
}

static inline void free_list_page(unsigned long page)
{
	list_pages--;
	free_pages(page, 0);
}

#undef __get_free_page
#undef free_page
#define __get_free_page(gfp) get_list_page(gfp)
#define free_page(page) free_list_page(page)

#endif
