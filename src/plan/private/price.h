/* SPDX-License-Identifier: BSD-3-Clause */
/* How an algorithm's cost becomes seconds, for the tuner on this machine and for clusters that
 * are only described. */
#ifndef TT_PRICE_H
#define TT_PRICE_H

#include "schedule.h"

/* Seconds, and seconds per byte: [0] within a host, [1] between hosts. */
struct tt_prices {
	double message[2];  /* one that another waits for */
	double call[2];	    /* one at once with it … */
	double gathered[2]; /* … that needs no waking up */
	double byte[2];	    /* through one rank's links */
	double in_place;    /* within a host: less for one that is combined where it arrives … */
	double again;	    /* … or sent once more while it is in the cache */
	double awaited;	    /* one that others expose while nothing else can be done */
	double network;	    /* a byte through the network of a host; 0: nothing beside what its
			    * rank pays */
	double shared;	    /* a byte written where others read it, or read there */
	double reduced;
	double segment; /* bytes of what pipelined algorithms cut blocks into */
	double sync;	/* waiting for others of the host once … */
	double peer[2]; /* … of which one is read after another: [0] of a rank's domain, [1] not */
};

/* The longest path; `shared` as in the algorithm's table. */
double tt_price(const struct tt_prices *price, const struct tt_cost *cost, bool shared);

#endif
