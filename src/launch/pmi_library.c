/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns PMI-1 by the launcher's own library: Slurm's without a plugin for MPI, Cray PALS's, Flux's. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "fork.h"
#include "kvs.h"
#include "library.h"
#include "log.h"

#define SUCCESS 0
#define FALSE_	0

struct pmi {
	int (*initialized)(int *yes);
	int (*init)(int *spawned);
	int (*finalize)(void);
	int (*my_name)(char *name, int size);
	int (*put)(const char *store, const char *key, const char *value);
	int (*commit)(const char *store);
	int (*barrier)(void);
	int (*get)(const char *store, const char *key, char *value, int size);
};

#define F(member, name)                                                                            \
	{                                                                                          \
		name, offsetof(struct pmi, member), false                                          \
	}
static const struct tt_function functions[] = {
	F(initialized, "PMI_Initialized"), F(init, "PMI_Init"),	  F(finalize, "PMI_Finalize"),
	F(my_name, "PMI_KVS_Get_my_name"), F(put, "PMI_KVS_Put"), F(commit, "PMI_KVS_Commit"),
	F(barrier, "PMI_Barrier"),	   F(get, "PMI_KVS_Get"),
};
#undef F

static const struct tt_library library = {
	.variable = "FLUX_PMI_LIBRARY_PATH",
	.names = { "libpmi.so.0", "libpmi.so" },
	.global = true, /* Slurm's plug-ins want its functions */
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

static struct pmi pmi;
static struct tt_owner owner; /* who has begun it, and ends it */
static bool began;
static _Thread_local bool inside; /* this thread is in the library */
static char store_name[TT_KVS_TEXT_MAX];

/* Does a launcher say that it is there? Without one the library would have one rank. */
static const char *lacks(void)
{
	static char why[TT_LIBRARY_WHY];
	static void *opened;

	if (!getenv("SLURM_STEP_ID") && !getenv("PMI_RANK") && !getenv("FLUX_PMI_LIBRARY_PATH"))
		return "none of SLURM_STEP_ID, PMI_RANK and FLUX_PMI_LIBRARY_PATH is set";
	if (began && !tt_owned_here(&owner))
		return "it is a parent's of this process";
	if (!opened)
		opened = tt_library_open(&library, &pmi, why);
	return opened ? NULL : why;
}

static tutti_result_t judge(const char *function, int code)
{
	return code == SUCCESS
		       ? TUTTI_OK
		       : tt_fail(TUTTI_ERR_SYSTEM, COMM,
				 "the launcher's %s failed with %d: its own messages may say why",
				 function, code);
}

/* At the process's end. Slurm's library calls exit() where it has no configuration of Slurm's, or cannot
 * prove who it is. */
static void explain(void)
{
	if (inside)
		tt_log(ERROR, COMM,
		       "the launcher's library %s has ended this process: its own message says why. "
		       "Under Slurm it needs slurm.conf (SLURM_CONF) and munge: without these start "
		       "by srun --mpi=pmi2, or set TUTTI_KEY_FILE to a file with the job's key. "
		       "Elsewhere " TT_KVS_INSTEAD,
		       tt_library_name(&library));
}

static void finalize(void)
{
	if (tt_owned_here(&owner) && !tt_kvs_mpi_began() && !tt_kvs_is_occupied())
		pmi.finalize();
}

static tutti_result_t begin(void)
{
	int yes = FALSE_, spawned;
	tutti_result_t result = judge("PMI_Initialized", pmi.initialized(&yes));

	if (!result && yes == FALSE_) {
		result = judge("PMI_Init", pmi.init(&spawned));
		if (result)
			return result;
		atexit(finalize);
	}
	owner = tt_owner_here();
	if (!result)
		result = judge("PMI_KVS_Get_my_name", pmi.my_name(store_name, sizeof(store_name)));
	began = !result;
	return result;
}

static tutti_result_t put(const char *key, const char *text)
{
	const tutti_result_t result = judge("PMI_KVS_Put", pmi.put(store_name, key, text));

	return result ? result : judge("PMI_KVS_Commit", pmi.commit(store_name));
}

/* A library that no launcher has anything to do with takes each process for the only one. */
static tutti_result_t get(const char *key, char text[TT_KVS_TEXT_MAX])
{
	const int code = pmi.get(store_name, key, text, TT_KVS_TEXT_MAX);

	text[TT_KVS_TEXT_MAX - 1] = 0;
	if (code == SUCCESS)
		return TUTTI_OK;
	return tt_fail(
		TUTTI_ERR_SYSTEM, COMM,
		"%s does not have what another rank put there (PMI_KVS_Get: %d): it is not the launcher's library, perhaps",
		tt_library_name(&library), code);
}

/* Rank 0 gets something, too, so that it sees that there are others. */
static tutti_result_t exchange(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX])
{
	tutti_result_t result = began ? TUTTI_OK : begin();
	char last[TT_KVS_KEY_MAX + 8], there[TT_KVS_TEXT_MAX];

	snprintf(last, sizeof(last), "%s-last", key);
	if (!result && rank == 0)
		result = put(key, text);
	if (!result && rank == size - 1)
		result = put(last, "there");
	if (!result)
		result = judge("PMI_Barrier", pmi.barrier());
	if (result)
		return result;
	return rank == 0 ? get(last, there) : get(key, text);
}

static tutti_result_t bring(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX])
{
	static bool explained;

	if (!explained)
		explained = atexit(explain) == 0;
	inside = true;
	const tutti_result_t result = exchange(rank, size, key, text);
	inside = false;
	return result;
}

const struct tt_kvs tt_kvs_pmi_library = {
	.name = "libpmi", .lacks = lacks, .bring = bring, .may_exit = true
};
