/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_SHM_H
#define TT_SHM_H

#include "transport.h"

extern const struct tt_transport tt_transport_shm;

#endif
