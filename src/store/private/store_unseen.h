/* SPDX-License-Identifier: BSD-3-Clause */
/* What ranks tell each other in a store whose host, if there is one, does not see who is there. */
#ifndef TT_STORE_UNSEEN_H
#define TT_STORE_UNSEEN_H

#include <pthread.h>

#include "store.h"

#define TT_UNSEEN_POLL_NS                                                                          \
	100000000ull /* while a get waits, between looks at whether what it waits for was ended */

struct tt_unseen_attendance;

/* What every such store begins with. */
struct tt_unseen {
	struct tutti_store base;
	pthread_mutex_t lock;
	struct tt_unseen_attendance *first;
};

void tt_unseen_init(struct tt_unseen *store);
void tt_unseen_finish(struct tt_unseen *store);

/* Of the table. A get that waits polls, too. */
void tt_unseen_end(tutti_store_t store, const char *prefix, tutti_result_t result,
		   const char *error_text);
void tt_unseen_attend(tutti_store_t store, const struct tt_attendance *attendance);
void tt_unseen_leave(tutti_store_t store);
tutti_result_t tt_unseen_poll(tutti_store_t store);

#endif
