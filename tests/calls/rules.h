/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sends and receives what in each call. */
#ifndef TT_RULES_H
#define TT_RULES_H

#include <stdbool.h>

#include "what.h"

enum shape {
	NOTHING,
	ONE,  /* a block */
	EACH, /* a block of or for each rank */
};

enum whose {
	NOBODYS,
	ROOTS,
	ALLS,
};

struct rule {
	const char *name;
	enum shape send, recv;
	enum whose sends, receives; /* for whom the buffer matters */
	enum whose in_place;	    /* who may call it so */
	bool combines, tables;
};

extern const struct rule rules[WHATS];

#endif
