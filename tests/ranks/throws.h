/* SPDX-License-Identifier: BSD-3-Clause */
/* An exception of C++, for tests in C. */
#ifndef TT_THROWS_H
#define TT_THROWS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

void throw_it(void);
/* Does the body throw? */
bool catch_it(void (*body)(void *argument), void *argument);

#ifdef __cplusplus
}
#endif

#endif
