/* SPDX-License-Identifier: BSD-3-Clause */
/* What the C library has given out. */
#ifndef TEST_BYTES_IN_USE_H
#define TEST_BYTES_IN_USE_H

#include <malloc.h>
#include <stddef.h>

static inline size_t bytes_in_use(void)
{
#if __GLIBC_PREREQ(2, 33)
	const struct mallinfo2 info = mallinfo2();
#else
	const struct mallinfo info = mallinfo();
#endif
	return (size_t)info.uordblks + (size_t)info.hblkhd;
}

#endif
