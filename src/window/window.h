/* SPDX-License-Identifier: BSD-3-Clause */
/* Windows of a communicator, as others see them. */
#ifndef TT_WINDOW_H
#define TT_WINDOW_H

#include "comm.h"

/* Free what is left of them, of a communicator that goes; in a child of fork(), too. */
void tt_windows_free(struct tutti_comm *comm);

#endif
