/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA's GPUs, for the registry. */
#ifndef TT_CUDA_TABLE_H
#define TT_CUDA_TABLE_H

#include "device_table.h"

extern const struct tt_device tt_device_cuda;

#endif
