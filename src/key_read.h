/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the job's key comes from. */
#ifndef TT_KEY_READ_H
#define TT_KEY_READ_H

#include "key.h"

/* `configured` (a member of a config; may be NULL), else TUTTI_KEY, else the file TUTTI_KEY_FILE, else none.
 * TUTTI_ERR_INVALID: it is malformed, or others can read the file. */
tutti_result_t tt_key_read(const char *configured, struct tt_key *out);

#endif
