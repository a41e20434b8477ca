/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <stdlib.h>

struct call_memory call_memory = { malloc, free };
