/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks learn of faults, deaths and notes when they have no record in common (news=US): each
 * at a time of its own. Under the lock of the fabric. */
#ifndef TT_LOOP_NEWS_H
#define TT_LOOP_NEWS_H

#include "endpoint.h"

/* Tell the others a fault, unless this rank has told a better one; endpoint->fault is the best
 * known on return. */
void tt_loop_news_send(struct loop_endpoint *self, const struct tt_fault *fault);
/* Take in what has come by now; what is better than what this rank knew is told on. `thorough`:
 * deaths, too. */
void tt_loop_news_receive(struct loop_endpoint *self, bool thorough);
/* May this note be heard by now? */
bool tt_loop_news_has_come(const struct loop_endpoint *self, uint64_t note);
/* Does the rank know by now that `peer` has left or died? */
bool tt_loop_news_knows_gone(const struct loop_endpoint *self, int peer);
/* Something was told, or somebody died, at that time: wake those whom it reaches, when it does. */
void tt_loop_news_spread(struct loop_fabric *fabric, uint64_t at);
/* When the rank may learn of something after `now`; 0: of nothing. */
uint64_t tt_loop_news_next(const struct loop_fabric *fabric, int rank, uint64_t now);

#endif
