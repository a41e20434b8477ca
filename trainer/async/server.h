/* SPDX-License-Identifier: BSD-3-Clause */
/* One of the servers that workers push to, in the order in which they come. Server 0 also gives out
 * the tasks, takes newcomers in, and says when an epoch ends. */
#ifndef TRAIN_SERVER_H
#define TRAIN_SERVER_H

#include "report.h"
#include "team.h"

struct training;
struct server;

/* Of this rank, in the team of the servers. */
tutti_result_t server_create(struct training *training, struct server **out, struct why *why);
void server_destroy(struct server *server);

/* One of the workers that are there at the start; the communicator has the servers first, then the
 * worker. It is the server's from now on, whatever is returned. */
tutti_result_t server_add_worker(struct server *server, tutti_comm_t comm, int origin,
				 struct why *why);

/* Serve until the tasks of so many steps of the epoch are done; on the other servers, and with all of
 * them, until all are. */
tutti_result_t server_serve(struct server *server, size_t steps, struct why *why);

/* All epochs are done: let the workers go. */
tutti_result_t server_end(struct server *server, struct why *why);

/* The training cannot go on: the workers end with these words. */
void server_abort(struct server *server, const struct why *why);

/* The velocity of this server's shard. */
void *server_velocity(struct server *server);

/* Sums over the tasks of the epoch (server 0's). */
struct sums server_sums(const struct server *server);

/* What is known of the workers: their number, and, if `out` is not NULL, their accounts. */
size_t server_accounts(const struct server *server, struct rank_account *out);
/* How gradients came. */
void server_sum_up(const struct server *server, struct summary *summary);

#endif
