/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns PMIx, which Open MPI's launchers, Slurm's mpi/pmix and Flux speak: by libpmix, which is opened
 * at run time. (PMIx Standard 4.1, chapters 5 and 6.) */
#include <limits.h>
#include <openssl/crypto.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fork.h"
#include "kvs.h"
#include "library.h"
#include "log.h"

/* Of pmix_common.h, as version 4 has it. What is used of these is alike from 3 to 5. */
#define SUCCESS		0
#define ALL_RANKS	(UINT32_MAX - 1) /* PMIX_RANK_WILDCARD: of the job as a whole */
#define SCOPE_GLOBAL	3
#define TYPE_BOOL	1
#define TYPE_STRING	3
#define TYPE_UINT16	13
#define TYPE_UINT32	14
#define JOB_SIZE	"pmix.job.size"
#define LOCAL_SIZE	"pmix.local.size"
#define LOCAL_RANK	"pmix.lrank"
#define COLLECT_DATA	"pmix.collect"
#define NOT_FROM_OTHERS "pmix.optional" /* what this process has been told already */
#define NAMESPACE_MAX	255
#define ATTRIBUTE_MAX	511

struct process {
	char space[NAMESPACE_MAX + 1];
	uint32_t rank;
};

struct value {
	uint16_t type;
	union {
		bool flag;
		char *string;
		uint16_t u16;
		uint32_t u32;
		uint64_t room[3];
	} data;
};

struct info {
	char key[ATTRIBUTE_MAX + 1];
	uint32_t flags;
	struct value value;
};

_Static_assert(sizeof(struct process) == 260 && sizeof(struct value) == 32 &&
		       sizeof(struct info) == 552,
	       "as the library has it");

struct pmix {
	int (*init)(struct process *self, struct info *info, size_t count);
	int (*finalize)(const struct info *info, size_t count);
	int (*put)(uint8_t scope, const char *key, struct value *value);
	int (*commit)(void);
	int (*fence)(const struct process *processes, size_t count, const struct info *info,
		     size_t info_count);
	int (*get)(const struct process *process, const char *key, const struct info *info,
		   size_t count, struct value **out);
	const char *(*error_text)(int code);
};

#define F(member, name)                                                                            \
	{                                                                                          \
		name, offsetof(struct pmix, member), false                                         \
	}
static const struct tt_function functions[] = {
	F(init, "PMIx_Init"),
	F(finalize, "PMIx_Finalize"),
	F(put, "PMIx_Put"),
	F(commit, "PMIx_Commit"),
	F(fence, "PMIx_Fence"),
	F(get, "PMIx_Get"),
	F(error_text, "PMIx_Error_string"),
};
#undef F

static const struct tt_library library = {
	.names = { "libpmix.so.2", "libpmix.so" },
	.functions = functions,
	.count = sizeof(functions) / sizeof(functions[0]),
};

static struct pmix pmix;
static struct process self;
static struct tt_owner owner; /* who has begun it, and ends it */
static bool began;

static const char *lacks(void)
{
	static char why[TT_LIBRARY_WHY];
	static void *opened;

	if (!getenv("PMIX_NAMESPACE"))
		return "PMIX_NAMESPACE is not set";
	if (!getenv("PMIX_RANK"))
		return "PMIX_RANK is not set";
	if (began && !tt_owned_here(&owner))
		return "it is a parent's of this process";
	if (!opened)
		opened = tt_library_open(&library, &pmix, why);
	return opened ? NULL : why;
}

static tutti_result_t judge(const char *function, int code)
{
	return code == SUCCESS ? TUTTI_OK
			       : tt_fail(TUTTI_ERR_SYSTEM, COMM, "the launcher's %s failed: %s",
					 function, pmix.error_text(code));
}

/* The library counts who has begun it: an MPI library ends it for itself. */
static void finalize(void)
{
	if (tt_owned_here(&owner) && !tt_kvs_is_occupied())
		pmix.finalize(NULL, 0);
}

static tutti_result_t begin(void)
{
	const tutti_result_t result = judge("PMIx_Init", pmix.init(&self, NULL, 0));

	if (result)
		return result;
	owner = tt_owner_here();
	atexit(finalize);
	began = true;
	return TUTTI_OK;
}

static tutti_result_t put(const char *key, char *text)
{
	struct value value = { .type = TYPE_STRING, .data.string = text };
	const tutti_result_t result = judge("PMIx_Put", pmix.put(SCOPE_GLOBAL, key, &value));

	return result ? result : judge("PMIx_Commit", pmix.commit());
}

/* Of all ranks; the values come along. */
static tutti_result_t fence(void)
{
	struct info collect = { .key = COLLECT_DATA,
				.value = { .type = TYPE_BOOL, .data.flag = true } };

	return judge("PMIx_Fence", pmix.fence(NULL, 0, &collect, 1));
}

static tutti_result_t get(const char *key, char text[TT_KVS_TEXT_MAX])
{
	struct process first = self;
	struct value *value = NULL;

	first.rank = 0;
	tutti_result_t result = judge("PMIx_Get", pmix.get(&first, key, NULL, 0, &value));
	if (result)
		return result;
	if (!value || value->type != TYPE_STRING || !value->data.string ||
	    strlen(value->data.string) >= TT_KVS_TEXT_MAX)
		result = tt_fail(TUTTI_ERR_INVALID, COMM,
				 "the launcher's PMIx_Get gave no text of at most %d bytes",
				 TT_KVS_TEXT_MAX - 1);
	else
		memcpy(text, value->data.string, strlen(value->data.string) + 1);
	if (value && value->type == TYPE_STRING && value->data.string) {
		OPENSSL_cleanse(value->data.string, strlen(value->data.string));
		free(value->data.string);
	}
	free(value);
	return result;
}

static tutti_result_t bring(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX])
{
	tutti_result_t result = began ? TUTTI_OK : begin();

	if (!result && self.rank != (uint32_t)rank)
		result = tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"the launcher says that this is rank %d, and PMIx rank %u: its variables "
			"(PMIX_RANK, PMIX_NAMESPACE) are another launcher's; unset them",
			rank, (unsigned)self.rank);
	if (!result && rank == 0)
		result = put(key, text);
	if (!result)
		result = fence();
	return result || rank == 0 ? result : get(key, text);
}

/* -1: the launcher does not say. */
static int number_of(uint32_t rank, const char *key)
{
	struct process process = self;
	const struct info optional = { .key = NOT_FROM_OTHERS,
				       .value = { .type = TYPE_BOOL, .data.flag = true } };
	struct value *value = NULL;
	int64_t number = -1;

	process.rank = rank;
	if (pmix.get(&process, key, &optional, 1, &value) != SUCCESS || !value)
		return -1;
	if (value->type == TYPE_UINT32)
		number = value->data.u32;
	else if (value->type == TYPE_UINT16)
		number = value->data.u16;
	free(value);
	return number <= INT_MAX ? (int)number : -1;
}

static tutti_result_t place(struct tt_kvs_place *out)
{
	const tutti_result_t result = began ? TUTTI_OK : begin();

	if (result)
		return result;
	*out = (struct tt_kvs_place){ .rank = self.rank <= INT_MAX ? (int)self.rank : -1,
				      .size = number_of(ALL_RANKS, JOB_SIZE),
				      .local_rank = number_of(self.rank, LOCAL_RANK),
				      .local_size = number_of(ALL_RANKS, LOCAL_SIZE) };
	if (out->rank >= 0 && out->size > 0)
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, COMM,
		       "the launcher's PMIx says rank %d of %d: expected a rank, and " JOB_SIZE,
		       out->rank, out->size);
}

const struct tt_kvs tt_kvs_pmix = {
	.name = "PMIx", .lacks = lacks, .bring = bring, .place = place
};
