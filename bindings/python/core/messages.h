/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends, receives and barriers. */
#ifndef TP_MESSAGES_H
#define TP_MESSAGES_H

#include "python.h"

extern PyMethodDef tp_message_methods[];
int tp_message_count(void);

#endif
