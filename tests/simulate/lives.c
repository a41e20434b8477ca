/* SPDX-License-Identifier: BSD-3-Clause */
#include "lives.h"

#include "calls.h"
#include "comm.h"
#include "faults.h"
#include "steps.h"
#include "store.h"

static bool is_absent(int rank)
{
	for (int i = 0; i < run.plan->nfaults; i++)
		if (run.plan->faults[i].kind == FAULT_ABSENT && run.plan->faults[i].rank == rank)
			return true;
	return false;
}

/* Through the store: the ranks make a communicator, a newcomer becomes a rank of one that grows. */
static tutti_result_t join(struct told *told, int rank, tutti_comm_t *comm)
{
	const bool newcomer = rank >= run.plan->ranks;
	tutti_config_t config = TUTTI_CONFIG_INIT;
	const uint64_t started = machine_now();
	tutti_store_t store = NULL;
	char host[16];

	snprintf(host, sizeof(host), "host %d", run.plan->host[rank]);
	run.joining++;
	config.timeout_s = run.plan->timeout_s;
	config.transports = "loop";
	config.algorithm = run.plan->algorithm;
	config.host_id = host;
	config.reproducible = run.plan->reproducible ? 1 : -1;
	tutti_result_t result = store_open(&store);
	if (result == TUTTI_OK)
		result = newcomer ? tutti_comm_join(store, &config, comm)
				  : tutti_comm_create(store, rank, run.plan->ranks, &config, comm);
	told_hear(told, NULL, result, newcomer ? "comm_join" : "comm_create");
	tutti_store_close(store);
	run.joining--;
	told_check_time(started, newcomer ? 2 : 1, newcomer ? "comm_join" : "comm_create");
	return result;
}

/* Carry out the plan's steps, as far as the communicator lasts. */
static void live(struct use *use, struct random *random)
{
	struct flights flights = { .count = 0 };
	bool good = tutti_op_create(use->comm, combine_compose, 0, NULL, &use->op_last) == TUTTI_OK;

	use->told->left = !good;
	for (int i = 0; i < run.plan->nsteps && good; i++)
		good = take_step(use, i, &flights, random);
	if (!use->told->left) {
		flights_finish(use, &flights, random);
		return;
	}
	machine_trace("leaves");
	tutti_comm_destroy(use->comm);
	use->comm = NULL;
	flights_abandon(&flights);
}

/* The survivors make another communicator; false: there is none, or it is not for this rank. */
static bool go_on(struct participant *self, struct use *use)
{
	struct use next = { 0 };
	const uint64_t started = machine_now();

	faults_from_now(FAULT_SURVIVOR);
	machine_trace("goes on with the survivors");
	run.joining++;
	const tutti_result_t result = tutti_comm_shrink(use->comm, &next.comm);
	run.joining--;
	machine_trace("shrink: %s%s%s", tutti_strerror(result), result ? ": " : "",
		      result ? tutti_last_error(NULL) : "");
	machine_note((uint64_t)result + 77);
	run.out->operations++;
	told_check_time(started, 4 + 2 * run.plan->nfaults, "comm_shrink");
	use->told->shrunk = true;
	use->told->shrink_result = result;
	tutti_comm_destroy(use->comm);
	use->comm = next.comm;
	if (result)
		return false;
	use->told->shrunk_to = next.comm->id;
	use->told = told_begin(self);
	told_made(use->told, use->comm);
	machine_trace("is rank %d of %d", use->told->place, use->told->size);
	return true;
}

/* After a loss: some of the steps' parts, one after another. */
static void live_on(struct use *use, int life)
{
	bool good = tutti_op_create(use->comm, combine_compose, 0, NULL, &use->op_last) == TUTTI_OK;

	for (int i = 0; i < run.plan->nsteps && good; i++)
		if (i % LIVES_MAX == life)
			good = flights_take(use, STEP_CALL, run.plan->steps[i].parts,
					    run.plan->steps[i].nparts, true, NULL);
}

/* Take the newcomers in; false: there is no larger communicator, and this one is as before or
 * has failed. */
static bool grow(struct participant *self, struct use *use)
{
	struct use next = { 0 };
	const uint64_t started = machine_now();
	const unsigned refused = calls_refused();
	tutti_store_t store = NULL;

	run.joining++;
	tutti_result_t result = store_open(&store);
	use->told->left |= result != TUTTI_OK; /* no memory: it calls nothing more */
	machine_trace("takes %d newcomers in", run.plan->newcomers);
	faults_from_now(FAULT_MEMBER);
	if (result == TUTTI_OK)
		result = tutti_comm_grow(use->comm, store, run.plan->newcomers, &next.comm);
	const bool known = use->comm->fault.result;
	tutti_store_close(store);
	run.joining--;
	told_check_time(started, 6, "comm_grow");
	use->told->grown = true;
	use->told->grow_result = result;
	use->told->lacked_memory = calls_refused() > refused;
	/* if it has failed only since, that is another matter than why it did not grow */
	const tutti_result_t failed = tutti_comm_error(use->comm, NULL);
	if (result == TUTTI_OK || failed)
		told_hear(use->told, use->comm, result == TUTTI_OK || known ? result : failed,
			  "comm_grow");
	else
		machine_trace("comm_grow: %s: %s", tutti_strerror(result), tutti_last_error(NULL));
	if (result)
		return false;
	use->told->grown_to = next.comm->id;
	tutti_comm_destroy(use->comm);
	use->comm = next.comm;
	use->told = told_begin(self);
	told_made(use->told, use->comm);
	return true;
}

/* From one communicator to the next, as long as there is one. */
static void live_through(struct participant *self, struct use *use, bool grows)
{
	for (int life = 1; life < LIVES_MAX && use->comm; life++) {
		if (use->told->result == TUTTI_OK && grows) {
			grows = false;
			if (grow(self, use)) {
				life = 0;
				live_on(use, life);
			}
		}
		if (use->told->result == TUTTI_OK || !run.plan->goes_on)
			return;
		if (go_on(self, use))
			live_on(use, life);
	}
}

void *lives_main(void *argument)
{
	struct participant *self = argument;
	struct random random = random_stream(run.plan->seed, 50 + (uint64_t)self->rank);
	struct use use = { .told = told_begin(self) };
	const bool newcomer = self->rank >= run.plan->ranks;

	if (is_absent(self->rank)) {
		run.out->happened[FAULT_ABSENT]++;
		return NULL;
	}
	if (join(use.told, self->rank, &use.comm) == TUTTI_OK) {
		told_made(use.told, use.comm);
		if (newcomer)
			live_on(&use, 0);
		else
			live(&use, &random);
		live_through(self, &use, !newcomer && run.plan->newcomers > 0);
	}
	machine_trace("destroys the communicator");
	tutti_comm_destroy(use.comm);
	self->ended = true;
	machine_trace("has ended");
	return NULL;
}
