/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the job's key comes from. */
#ifndef TT_KEY_READ_H
#define TT_KEY_READ_H

#include "key.h"

/* `configured` (a member of a config; may be NULL), else TUTTI_KEY, else the file
 * TUTTI_KEY_FILE, else none; and whether connections are encrypted: if `encrypt` is above 0, or
 * is 0 and TUTTI_ENCRYPT says so. TUTTI_ERR_INVALID: the key is malformed, or others can read the
 * file. */
tutti_result_t tt_key_read(const char *configured, int encrypt, struct tt_key *out);
/* No key will come from elsewhere: TUTTI_ERR_INVALID if there is none to encrypt by. */
tutti_result_t tt_key_check(const struct tt_key *key);

#endif
