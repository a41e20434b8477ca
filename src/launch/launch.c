/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of launchers' environment variables: of the launcher that launchers.c finds. One that
 * says too little there is asked (kvs.h).
 *
 * Where the ranks meet: TUTTI_STORE if set; else the address the launcher gives; else, if the
 * launcher says that all ranks are on one host, a unix socket named after the user and the job; else
 * where rank 0 says by the launcher's key-value store (kvs.h); else, or where that may end this
 * process, at an address that follows from what the launcher says. Rank 0 hosts the store unless
 * TUTTI_STORE_SERVED says that the launcher does. */
#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launch.h"
#include "launchers.h"
#include "log.h"
#include "small_file.h"
#include "store.h"
#include "transport.h"

/* For the launcher to answer, should it be stopped. */
#define REPORT_NS 1000000000
#define PLACE_NS  30000000000

/* Of stores whose address is derived: below those that kernels give out. */
#define FIRST_PORT	 20000
#define PORTS		 10000
#define ALLOWED_IN_NAMES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_"

/* How a launcher's job is named, and where its ranks meet. */
struct row {
	/* Fills out->job, "" if there is nothing to make it of. */
	void (*job)(struct tt_launch *out);
	/* Fills out->store where the launcher gives an address, or out->kvs where it brings one; "" where
	 * it does neither. */
	tutti_result_t (*store)(struct tt_launch *out);
	/* Perhaps one of these, whose ranks are the launcher's: of a launcher without a size the first that
	 * there is says all four numbers. */
	const struct tt_kvs *kvs[TT_KVS_KINDS];
	/* Fills out->store with what follows from what else there is; "" if nothing does. */
	void (*derived)(struct tt_launch *out);
};

/* That counts here. */
static const char *variable(const char *name)
{
	return tt_launcher_variable(name);
}

/* A job's id becomes part of a socket's name and of keys. */
static void set_job(struct tt_launch *out, const char *text)
{
	size_t i = 0;

	for (; text[i] && i < sizeof(out->job) - 1; i++)
		out->job[i] =
			isalnum((unsigned char)text[i]) || strchr(".-_", text[i]) ? text[i] : '_';
	out->job[i] = 0;
}

/* ---------------------------------------------------------------- numbers */

static tutti_result_t parse_number(const char *launcher, const char *name, const char *value,
				   long least, long most, int *out)
{
	char *end;

	errno = 0;
	const long number = strtol(value, &end, 10);
	if (*end || isspace((unsigned char)*value) || errno != 0 || number < least || number > most)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "%s set %s to \"%s\": expected a number from %ld to %ld", launcher,
			       name, value, least, most);
	*out = (int)number;
	return TUTTI_OK;
}

/* *out stays as it is if the name is not set. */
static tutti_result_t read_optional(const struct tt_launcher *launcher, const char *name,
				    long least, int *out)
{
	const char *value = variable(name);

	return value ? parse_number(launcher->name, name, value, least, INT_MAX, out) : TUTTI_OK;
}

static tutti_result_t read_needed(const struct tt_launcher *launcher, const char *name, long least,
				  int *out)
{
	const char *value;

	if (variable(name))
		return read_optional(launcher, name, least, out);
	const char *sign = tt_launcher_sign(launcher, &value);
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"%s is set to \"%s\", so %s started this process, but %s is not set: set both, or "
		"unset %s to run alone",
		sign, value, launcher->name, name, sign);
}

static tutti_result_t read_variables(const struct tt_launcher *launcher, struct tt_launch *out)
{
	tutti_result_t result = read_needed(launcher, launcher->rank, 0, &out->rank);

	if (result == TUTTI_OK)
		result = read_needed(launcher, tt_launcher_size(launcher), 1, &out->size);
	if (result == TUTTI_OK)
		result = read_optional(launcher, launcher->local_rank, 0, &out->local_rank);
	if (result == TUTTI_OK)
		result = read_optional(launcher, launcher->local_size, 1, &out->local_size);
	return result;
}

/* Once in a process: later calls need no turn at the launcher's library. */
static tutti_result_t ask_place(const struct tt_kvs *kvs, struct tt_kvs_place *out)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	static struct tt_kvs_place known; /* size 0: not yet */
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&one);
	if (known.size == 0)
		result = tt_kvs_place(kvs, &known, tt_now() + PLACE_NS);
	*out = known;
	pthread_mutex_unlock(&one);
	return result;
}

static tutti_result_t ask_launcher(const struct tt_launcher *launcher, const struct row *row,
				   struct tt_launch *out)
{
	char why[512];
	const char *value, *sign = tt_launcher_sign(launcher, &value);
	const struct tt_kvs *kvs = tt_kvs_find(row->kvs, why, sizeof(why));
	struct tt_kvs_place place;

	if (!kvs)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"%s is set to \"%s\", so a launcher that speaks %s started this process, but cannot be asked "
			"(%s): install what is missing, or set TUTTI_RANK and TUTTI_SIZE, or unset %s to run alone",
			sign, value, launcher->name, why, sign);
	const tutti_result_t result = ask_place(kvs, &place);
	if (result) {
		snprintf(why, sizeof(why), "%s", tt_thread_error());
		return tt_fail(
			result, COMM,
			"%s. %s is set to \"%s\": set TUTTI_RANK and TUTTI_SIZE, or unset %s to run alone",
			why, sign, value, sign);
	}
	out->rank = place.rank;
	out->size = place.size;
	out->local_rank = place.local_rank;
	out->local_size = place.local_size;
	return TUTTI_OK;
}

static tutti_result_t read_numbers(const struct tt_launcher *launcher, const struct row *row,
				   struct tt_launch *out)
{
	const tutti_result_t result =
		launcher->size ? read_variables(launcher, out) : ask_launcher(launcher, row, out);

	if (result != TUTTI_OK)
		return result;
	if (out->rank >= out->size)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "%s says rank %d of %d ranks: expected a rank below %d",
			       launcher->size ? launcher->rank : launcher->name, out->rank,
			       out->size, out->size);
	if (out->local_size > out->size ||
	    (out->local_size > 0 && out->local_rank >= out->local_size))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "%s says local rank %d of %d on this host, with %d ranks in all: "
			       "expected a "
			       "local rank below the number on the host, and that at most %d",
			       launcher->name, out->local_rank, out->local_size, out->size,
			       out->size);
	return TUTTI_OK;
}

/* ---------------------------------------------------------------- what launchers do differently */

static tutti_result_t no_store(struct tt_launch *out)
{
	(void)out;
	return TUTTI_OK;
}

static void nothing(struct tt_launch *out)
{
	(void)out;
}

static void tutti_job(struct tt_launch *out)
{
	const char *job = variable("TUTTI_JOB");

	set_job(out, job ? job : "");
}

/* With an agent's store (TORCHELASTIC_USE_AGENT_STORE=True) PyTorch itself listens at MASTER_PORT:
 * the next port is ours. */
static tutti_result_t torchrun_store(struct tt_launch *out)
{
	const char *host = variable("MASTER_ADDR"), *text = variable("MASTER_PORT");
	const bool here = out->local_size ==
			  out->size; /* then a name that others know it by need not be known */
	const bool taken = !tt_kvs_torchrun.lacks();
	int port = 0;

	if (!host || !text)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "RANK and WORLD_SIZE are set, but %s is not: set it to %s, or set "
			       "TUTTI_STORE",
			       host ? "MASTER_PORT" : "MASTER_ADDR",
			       host ? "a free port on the machine of rank 0, such as 29500"
				    : "the address of the machine of rank 0");
	const tutti_result_t result =
		parse_number("torchrun", "MASTER_PORT", text, 1, 65535, &port);
	if (result != TUTTI_OK)
		return result;
	port += taken;
	if (port > 65535)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "MASTER_PORT is \"%s\", which makes port %d for the store: expected "
			       "at most "
			       "65535; choose a smaller one or set TUTTI_STORE",
			       text, port);
	if (!here && taken) {
		out->kvs = &tt_kvs_torchrun;
		return TUTTI_OK;
	}
	if (here)
		host = "127.0.0.1";
	if (host[strspn(host, ALLOWED_IN_NAMES ",:[]%")])
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"MASTER_ADDR is \"%s\": expected the name or the address of the machine of rank 0, such as "
			"node1 or 192.0.2.1",
			host);
	if ((size_t)snprintf(out->store, sizeof(out->store),
			     strchr(host, ':') && *host != '[' ? "tcp://[%s]:%d" : "tcp://%s:%d",
			     host, port) >= sizeof(out->store))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"MASTER_ADDR has %zu bytes: expected the address of the machine of rank 0",
			strlen(host));
	return TUTTI_OK;
}

/* The run's id, and of one agent how often it has restarted its ranks, which several do not count alike;
 * ids are often left at "none". */
static void torchrun_job(struct tt_launch *out)
{
	const char *id = variable("TORCHELASTIC_RUN_ID");
	const char *restart = variable("TORCHELASTIC_RESTART_COUNT");
	char text[128];

	if (!id || strcmp(id, "none") == 0)
		return;
	if (out->local_size == out->size)
		snprintf(text, sizeof(text), "%.40s.%.16s", id, restart ? restart : "0");
	else
		snprintf(text, sizeof(text), "%.40s", id);
	set_job(out, text);
}

static void pmix_job(struct tt_launch *out)
{
	const char *id = variable("PMIX_NAMESPACE");

	if (!id)
		id = variable("OMPI_MCA_ess_base_jobid");
	set_job(out, id ? id : "");
}

/* When a process started, in clock ticks since boot: names it for ever, together with its pid. */
static bool start_time(long pid, unsigned long long *ticks)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if (tt_small_file_read(path, text, sizeof(text)))
		return false;
	/* the command's name, in parentheses, may hold anything: count fields from its end */
	const char *rest = strrchr(text, ')');
	return rest && sscanf(rest + 1,
			      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			      "%*d %*d %*d "
			      "%llu",
			      ticks) == 1;
}

/* Hydra gives no id that all ranks share, but each a socket to the proxy that started it: one proxy
 * per host, known by the socket's credentials even where a shell stands between it and us. Ranks on
 * several hosts have different proxies, hence no id. */
static void hydra_job(struct tt_launch *out)
{
	const char *text = variable("PMI_FD");
	struct ucred proxy;
	socklen_t length = sizeof(proxy);
	unsigned long long ticks;
	char job[64];

	if (!text || out->local_size != out->size ||
	    getsockopt(atoi(text), SOL_SOCKET, SO_PEERCRED, &proxy, &length) < 0 ||
	    !start_time(proxy.pid, &ticks))
		return;
	snprintf(job, sizeof(job), "%ld-%llu", (long)proxy.pid, ticks);
	set_job(out, job);
}

static void slurm_job(struct tt_launch *out)
{
	const char *job = variable("SLURM_JOB_ID"), *step = variable("SLURM_STEP_ID");
	const char *nodes = variable("SLURM_STEP_NUM_NODES");
	char text[128];

	if (!nodes)
		nodes = variable("SLURM_NNODES");
	if (nodes && strcmp(nodes, "1") == 0)
		out->local_size = out->size;
	if (!job || !step)
		return;
	snprintf(text, sizeof(text), "%.40s.%.20s", job, step);
	set_job(out, text);
}

/* The first name of a list such as "rack[1-2]n[01-16,20],login1": rack1n01. False: it does not fit, or
 * is none. */
static bool first_of_nodes(const char *list, char *out, size_t size)
{
	size_t used = 0;

	for (; *list && *list != ','; list++) {
		if (*list == '[') {
			const size_t digits = strspn(list + 1, "0123456789"),
				     end = strcspn(list, "]");

			if (digits == 0 || list[end] != ']' || used + digits >= size)
				return false;
			memcpy(out + used, list + 1, digits);
			used += digits;
			list += end;
		} else if (used + 1 < size) {
			out[used++] = *list;
		} else {
			return false;
		}
	}
	out[used] = 0;
	return used > 0 && strspn(out, ALLOWED_IN_NAMES) == used;
}

/* Rank 0 is on the step's first node, which others know by its name. The port is the step's, as far as
 * there are ports. */
static void slurm_derived(struct tt_launch *out)
{
	const char *nodes = variable("SLURM_STEP_NODELIST"), *job = variable("SLURM_JOB_ID"),
		   *step = variable("SLURM_STEP_ID");
	char name[200];

	if (!nodes || !job || !step || !first_of_nodes(nodes, name, sizeof(name)))
		return;
	const unsigned long number = strtoul(job, NULL, 10) * 16 + strtoul(step, NULL, 10);
	/* its own name is often a loopback address there, which the others do not mean */
	snprintf(out->store, sizeof(out->store), "tcp://%s:%lu",
		 out->rank == 0 ? "[::],0.0.0.0" : name, FIRST_PORT + number % PORTS);
}

static const struct row rows[TT_LAUNCHERS] = {
	[TT_TUTTI_RUN] = { tutti_job, no_store, { NULL }, nothing },
	[TT_KUBERNETES] = { tutti_job, no_store, { NULL }, nothing },
	[TT_TORCHRUN] = { torchrun_job, torchrun_store, { NULL }, nothing },
	[TT_OPEN_MPI] = { pmix_job, no_store, { &tt_kvs_pmix }, nothing },
	[TT_HYDRA] = { hydra_job, no_store, { &tt_kvs_pmi_wire, &tt_kvs_pmi_library }, nothing },
	[TT_SLURM] = { slurm_job,
		       no_store,
		       { &tt_kvs_pmix, &tt_kvs_pmi_wire, &tt_kvs_pmi_library },
		       slurm_derived },
	[TT_PMI] = { nothing,
		     no_store,
		     { &tt_kvs_pmix, &tt_kvs_pmi_wire, &tt_kvs_pmi_library },
		     nothing },
	[TT_PMIX] = { pmix_job, no_store, { &tt_kvs_pmix }, nothing },
};

/* ---------------------------------------------------------------- where to meet */

/* Does this job's launcher serve the store? `once`: for this start and no other. */
static tutti_result_t read_served(bool *served, bool *once)
{
	const char *text = variable("TUTTI_STORE_SERVED");

	*once = text && strcmp(text, "once") == 0;
	*served = *once || (text && strcmp(text, "1") == 0);
	if (!text || *served || strcmp(text, "0") == 0)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, COMM,
		       "TUTTI_STORE_SERVED is \"%s\": expected 0, 1 or once", text);
}

static tutti_result_t fail_nowhere(const struct row *row, const struct tt_launch *out,
				   const char *why)
{
	return tt_fail(
		TUTTI_ERR_INVALID, COMM,
		"%s started rank %d of %d, but does not say where the ranks meet (%s%s%s): %s"
		"set TUTTI_STORE on every rank to an address of the machine of rank 0 and a free "
		"port, such as TUTTI_STORE=tcp://192.0.2.1:29500, and TUTTI_KEY_FILE to a file with "
		"the job's key; or TUTTI_STORE to a directory that all see, such as "
		"TUTTI_STORE=file:/shared/job1",
		out->launcher, out->rank, out->size,
		out->local_size == out->size ? "and gives no job id"
		: out->local_size < 0	     ? "nor whether they share a host"
					     : "and they are on several hosts",
		*why ? "; " : "", why,
		row->derived == slurm_derived
			? "start it by srun --mpi=pmi2, or set TUTTI_KEY_FILE to a file with the job's key, or "
			: "");
}

static tutti_result_t take_store(const char *given, struct tt_launch *out)
{
	const char *port = strrchr(given, ':'); /* of tcp:// */

	if (strlen(given) >= sizeof(out->store))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "TUTTI_STORE has %zu bytes: expected at most %zu", strlen(given),
			       sizeof(out->store) - 1);
	if (strncmp(given, "tcp://", strlen("tcp://")) == 0 && port[strspn(port, ":0")] == 0)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_STORE is \"%s\": expected tcp://HOST:PORT with a port that all ranks know, 1 to 65535",
			given);
	memcpy(out->store, given, strlen(given) + 1);
	return TUTTI_OK;
}

static tutti_result_t find_store(const struct row *row, bool keyed, struct tt_launch *out)
{
	const char *given = variable("TUTTI_STORE");
	bool served, once;
	char why[512] = "";
	tutti_result_t result = read_served(&served, &once);

	if (result)
		return result;
	out->serve = out->rank == 0 && !served;
	out->host = served ? "the launcher" : "rank 0";
	if (given) {
		out->lasting = strncmp(given, "file:", strlen("file:")) == 0 || (served && !once);
		return take_store(given, out);
	}
	result = row->store(out);
	if (result != TUTTI_OK || out->store[0] || out->kvs)
		return result;
	if (out->local_size == out->size && out->job[0]) {
		snprintf(out->store, sizeof(out->store), "unix:tutti-%ld-%s", (long)geteuid(),
			 out->job);
		return TUTTI_OK;
	}
	out->kvs = tt_kvs_find(row->kvs, why, sizeof(why));
	/* without a key nothing is served to other hosts */
	if (keyed && (!out->kvs || out->kvs->may_exit))
		row->derived(out);
	if (out->store[0])
		out->kvs = NULL;
	return out->kvs || out->store[0] ? TUTTI_OK : fail_nowhere(row, out, why);
}

tutti_result_t tt_launch_read(bool keyed, struct tt_launch *out)
{
	struct tt_launch launch = {
		.launcher = "none", .size = 1, .local_rank = -1, .local_size = -1
	};
	const struct tt_launcher *launcher = tt_launcher_find();
	tutti_result_t result = TUTTI_OK;

	if (!launcher && variable("JOB_COMPLETION_INDEX"))
		tt_log(WARN, COMM,
		       "this pod of an Indexed Job (JOB_COMPLETION_INDEX) is the only rank of its job: set TUTTI_SIZE to the number "
		       "of pods, and TUTTI_STORE, if they belong together");
	if (!launcher) {
		launch.local_rank = 0;
		launch.local_size = 1;
		*out = launch;
		return TUTTI_OK;
	}
	const struct row *row = &rows[launcher - tt_launchers];

	launch.launcher = launcher->name;
	result = read_numbers(launcher, row, &launch);
	if (result != TUTTI_OK)
		return result;
	row->job(&launch);
	if (launch.size > 1)
		result = find_store(row, keyed, &launch);
	if (result != TUTTI_OK)
		return result;
	*out = launch;
	return TUTTI_OK;
}

/* ---------------------------------------------------------------- a job that runs already */

tutti_result_t tt_launch_joins(bool *out)
{
	const char *text = variable("TUTTI_JOIN");

	*out = text && strcmp(text, "1") == 0;
	if (text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "TUTTI_JOIN is \"%s\": expected 0 or 1",
			       text);
	return TUTTI_OK;
}

/* Its TUTTI_RESTART is that of no other process of the job. That nobody hears it does no harm
 * here. */
void tt_launch_report(tutti_store_t store, const char *state)
{
	const char *number = variable("TUTTI_RESTART");
	char key[64];

	if (!number || strlen(number) > 20)
		return;
	snprintf(key, sizeof(key), "tutti-run/%s/%s", state, number);
	if (tutti_store_set(store, key, "1", 1))
		tt_log(DEBUG, COMM, "the launcher does not learn that this rank %s: %s", state,
		       tt_thread_error());
}

void tt_launch_report_left_out(const int *pids, int count, const struct tt_key *key)
{
	const char *address = variable("TUTTI_STORE");
	tutti_result_t result = TUTTI_OK;
	tutti_store_t store;
	bool served, once;
	char name[64];

	if (count == 0 || !address || read_served(&served, &once) || !served)
		return;
	if (tt_store_open(address, key, -1, false, REPORT_NS, &store)) {
		tt_log(DEBUG, COMM, "the launcher does not learn who is left out: %s",
		       tt_thread_error());
		return;
	}
	for (int i = 0; i < count && !result; i++) {
		snprintf(name, sizeof(name), "tutti-run/left out/%d", pids[i]);
		result = tutti_store_set(store, name, "1", 1);
	}
	tutti_store_close(store);
}

/* Only a store that somebody else serves: that of the launched ranks' first rendezvous may be
 * gone. */
tutti_result_t tt_launch_meets(const char *call, struct tt_launch *out)
{
	const char *store = variable("TUTTI_STORE");

	*out = (struct tt_launch){ .launcher = "none" };
	if (!store)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"%s: store is NULL and TUTTI_STORE is not set: set it to the address of a store that stays, as "
			"tutti-run does, or give one",
			call);
	tutti_job(out);
	return take_store(store, out);
}
