/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims on tutti_notify() and tutti_notify_fd(), for ranks of any kind. */
#ifndef TT_TEST_NOTICES_H
#define TT_TEST_NOTICES_H

#include <tutti/tutti.h>

/* All ranks of `comm` call this; 0 if every claim holds. */
int notices_come(tutti_comm_t comm);

#endif
