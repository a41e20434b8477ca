/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends, receives, barriers, and the collectives with counts per rank that Python completes. */
#ifndef TP_MESSAGES_H
#define TP_MESSAGES_H

#include "python.h"

extern PyMethodDef tp_message_methods[];
int tp_message_count(void);

#endif
