/* SPDX-License-Identifier: BSD-3-Clause */
/* The journal of a server: what it was sent, in the order in which it made updates of it. One JSON
 * object per line: first what the training is, then an entry for each task that came, and a line at
 * the end of each epoch. */
#ifndef TRAIN_JOURNAL_H
#define TRAIN_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "protocol.h"
#include "why.h"

/* What a journal is of. */
struct journal_head {
	unsigned server, servers, workers; /* workers: at the start */
	uint64_t options, data;		   /* checksums */
	uint64_t step;			   /* of the training, where it begins */
};

struct journal_entry {
	uint64_t
		update; /* the version that it led to; several may share one. 0: it came too late */
	uint64_t worker; /* by order of appearance */
	uint64_t task, age;
	uint64_t versions[SERVERS_MAX]; /* [servers] */
	double seconds;			/* since the training began */
};

/* ---- writing */

/* Zeroed is none. */
struct journal_writer {
	FILE *file;
	const char *path;
	unsigned servers;
};

/* Of several servers each writes a file of its own: the path, and behind it ".SERVER". */
tutti_result_t journal_open(const char *path, const struct journal_head *head,
			    struct journal_writer *out, struct why *why);
tutti_result_t journal_add(struct journal_writer *writer, const struct journal_entry *entry,
			   struct why *why);
/* The end of an epoch, from 1; all that came before is in the file on return. */
tutti_result_t journal_end_epoch(struct journal_writer *writer, unsigned epoch, struct why *why);
void journal_close(struct journal_writer *writer);

/* ---- reading */

/* Zeroed is empty. */
struct journal {
	struct journal_head head;
	struct journal_entry *entries; /* owned: those of complete epochs */
	size_t count, capacity;
	size_t *ends; /* owned: behind the last entry of each epoch */
	unsigned epochs;
};

/* How many workers there were at the start. */
tutti_result_t journal_workers(const char *path, unsigned servers, size_t *workers,
			       struct why *why);

/* Of server `server`. What is not complete at the end, as of a training that was killed, is left
 * out; anything else that is no journal's is refused. */
tutti_result_t journal_read(const char *path, unsigned server, unsigned servers,
			    struct journal *out, struct why *why);
/* The same of bytes; `path` is for error messages. */
tutti_result_t journal_parse(const char *path, const char *bytes, size_t length,
			     struct journal *out, struct why *why);
void journal_finish(struct journal *journal);

#endif
