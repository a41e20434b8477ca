/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups: calls kept until tutti_group_end() starts them together. */
#ifndef TT_GROUP_H
#define TT_GROUP_H

#include <stdatomic.h>

#include "call.h"

/* Keep `call` if the thread has a group open on `comm`; false: it has none. `*result` is the
 * call's. */
bool tt_group_keep(struct tutti_comm *comm, const struct tt_call *call, tutti_request_t *request,
		   tutti_result_t *result);
/* Groups that are open in this process. A thread that has opened none finds out so by one load;
 * relaxed, since it sees what it did itself. */
extern _Atomic unsigned tt_groups_open;
/* What every public function begins with that is more than one operation, or none that a group
 * could keep: TUTTI_OK, or the error where `comm` is not usable, or the thread has a group open
 * on it. Inside the group the operations that the function is made of would be kept, with
 * pointers to what is the function's own, and nothing would have come when it goes on. */
tutti_result_t tt_group_refuse(const struct tutti_comm *comm, const char *call);
/* The elements of the next call have this name, if the thread has a group open on `comm`; false: it has
 * none. */
bool tt_group_say_element(const struct tutti_comm *comm, uint64_t element);
/* Drop what the thread has open on `comm`, which is being destroyed: another may come to lie at
 * its place. */
void tt_group_drop(const struct tutti_comm *comm);
/* Hand out the results of all-reduces that travelled as one (or just free, if that failed). */
void tt_fused_finish(struct tt_fused *fused, bool succeeded);

#endif
