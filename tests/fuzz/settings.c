/* SPDX-License-Identifier: BSD-3-Clause */
/* What users, launchers and files of theirs say. */
#include <stdio.h>
#include <string.h>

#include "address.h"
#include "faults.h"
#include "fuzz.h"
#include "key_read.h"
#include "launch.h"
#include "log.h"
#include "loop.h"
#include "meeting.h"
#include "model_file.h"
#include "pmi_wire.h"
#include "settings.h"
#include "store_address.h"

/* ---- what launchers and users leave in the environment. The input is lines NAME=VALUE; names
 * that tutti does not read are passed over */

static const char *const names[] = { "TUTTI_RANK",
				     "TUTTI_SIZE",
				     "TUTTI_LOCAL_RANK",
				     "TUTTI_LOCAL_SIZE",
				     "TUTTI_JOB",
				     "TUTTI_STORE",
				     "TUTTI_STORE_SERVED",
				     "RANK",
				     "WORLD_SIZE",
				     "LOCAL_RANK",
				     "LOCAL_WORLD_SIZE",
				     "MASTER_ADDR",
				     "MASTER_PORT",
				     "TORCHELASTIC_RUN_ID",
				     "TORCHELASTIC_RESTART_COUNT",
				     "TORCHELASTIC_USE_AGENT_STORE",
				     "OMPI_COMM_WORLD_RANK",
				     "OMPI_COMM_WORLD_SIZE",
				     "OMPI_COMM_WORLD_LOCAL_RANK",
				     "OMPI_COMM_WORLD_LOCAL_SIZE",
				     "PMIX_NAMESPACE",
				     "MPI_LOCALRANKID",
				     "MPI_LOCALNRANKS",
				     "PMI_RANK",
				     "PMI_SIZE",
				     "SLURM_STEP_ID",
				     "SLURM_STEP_NUM_TASKS",
				     "SLURM_PROCID",
				     "SLURM_NTASKS",
				     "SLURM_LOCALID",
				     "SLURM_STEP_NUM_NODES",
				     "SLURM_JOB_ID",
				     "SLURM_STEP_NODELIST",
				     "PMI_FD",
				     "JOB_COMPLETION_INDEX",
				     "TUTTI_TIMEOUT",
				     "TUTTI_TRANSPORT",
				     "TUTTI_ALGORITHM",
				     "TUTTI_SEGMENT",
				     "TUTTI_REPRODUCIBLE",
				     "TUTTI_HOST_ID",
				     "TUTTI_CUDA_BLOCKS",
				     "TUTTI_CUDA_MULTICAST",
				     "TUTTI_CUDA_ENGINES",
				     "TUTTI_CUDA_EXCHANGE" };
enum { NAMES = sizeof(names) / sizeof(names[0]) };

static void set(char *line)
{
	char *value = strchr(line, '=');

	for (int i = 0; value && i < NAMES; i++)
		if (strlen(names[i]) == (size_t)(value - line) &&
		    strncmp(names[i], line, (size_t)(value - line)) == 0)
			setenv(names[i], value + 1, 1);
}

FUZZ(environment)
{
	char *text = fuzz_text(data, size), *rest = NULL;
	struct tt_settings settings;
	struct tt_launch launch;

	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		set(line);
	for (int keyed = 0; keyed < 2; keyed++)
		if (tt_launch_read(keyed, &launch) == TUTTI_OK)
			FUZZ_PROMISE(launch.rank >= 0 && launch.rank < launch.size &&
				     (launch.size == 1 || launch.kvs || launch.store[0]));
		else
			FUZZ_PROMISE(tt_thread_error()[0]);
	if (tt_settings_read(NULL, &settings) == TUTTI_OK)
		FUZZ_PROMISE(settings.timeout_ns > 0);
	for (int i = 0; i < NAMES; i++)
		unsetenv(names[i]);
	free(text);
}

/* ---- the text of a key: of a config, of TUTTI_KEY, and of the file TUTTI_KEY_FILE */

static void check_key(tutti_result_t result, const struct tt_key *key, const char *text)
{
	uint8_t bits = 0;

	FUZZ_PROMISE(result == TUTTI_OK || result == TUTTI_ERR_INVALID);
	for (int i = 0; i < TT_KEY_BYTES; i++)
		bits |= key->bytes[i];
	if (result) {
		FUZZ_PROMISE(!key->set && !bits && tt_thread_error()[0]);
		/* a wrong key is nearly a right one */
		FUZZ_PROMISE(strlen(text) < 8 || !strstr(tt_thread_error(), text));
	}
}

FUZZ(key)
{
	char *text = fuzz_text(data, size);
	struct tt_key given, configured, filed;

	setenv("TUTTI_KEY", text, 1);
	unsetenv("TUTTI_KEY_FILE");
	const tutti_result_t result = tt_key_read(NULL, 0, &given);
	check_key(result, &given, text);
	unsetenv("TUTTI_KEY");
	if (*text) {
		FUZZ_PROMISE(tt_key_read(text, 0, &configured) == result);
		FUZZ_PROMISE(memcmp(configured.bytes, given.bytes, TT_KEY_BYTES) == 0);
	}
	setenv("TUTTI_KEY_FILE", fuzz_file(data, size), 1);
	check_key(tt_key_read(NULL, 0, &filed), &filed, text);
	FUZZ_PROMISE(!given.set || strlen(text) != size ||
		     memcmp(filed.bytes, given.bytes, TT_KEY_BYTES) == 0);
	free(text);
}

/* ---- lists that users write into environment variables: TUTTI_LOG, TUTTI_LOOP, TUTTI_INTERFACE */

static void check_log(const char *text)
{
	tt_log_read(text);
	for (int i = 0; i < TT_LOG_SUBSYSTEM_COUNT; i++)
		FUZZ_PROMISE(tt_log_levels[i] <= TUTTI_LOG_TRACE);
	tt_log_read("error");
}

static void check_loop(const char *text)
{
	struct loop_faults faults;

	tt_loop_set_faults(text);
	if (tt_loop_faults_read(&faults) != TUTTI_OK) {
		FUZZ_PROMISE(tt_thread_error()[0]);
	} else {
		FUZZ_PROMISE(faults.capacity > 0 && faults.cuts.count <= LOOP_PAIRS_MAX);
		FUZZ_PROMISE(faults.refusals.count <= LOOP_PAIRS_MAX && faults.mortal >= -1);
	}
	tt_loop_set_faults(NULL);
}

static void check_interfaces(const char *text)
{
	struct tcp_card card;

	setenv("TUTTI_INTERFACE", text, 1);
	if (tt_tcp_interfaces(&card, &(struct tcp_lack){ 0 }) == TUTTI_OK)
		FUZZ_PROMISE(card.count >= 0 && card.count <= TCP_ADDRESSES_MAX);
	else
		FUZZ_PROMISE(tt_thread_error()[0]);
}

FUZZ(lists)
{
	static void (*const checks[])(const char *text) = { check_log, check_loop,
							    check_interfaces };

	if (size == 0)
		return;
	char *text = fuzz_text(data + 1, size - 1);
	checks[data[0] % 3](text);
	free(text);
}

/* ---- what a launcher brings: a place to meet, which is an address of a store, and an answer of
 * PMI with a field in it */

static void check_place(const char *text)
{
	struct tt_store_address address;
	struct tt_meeting meeting;

	if (!tt_meeting_parse(text, &meeting))
		return;
	FUZZ_PROMISE(tt_store_address_parse(meeting.store, &address) == TUTTI_OK);
	FUZZ_PROMISE(!address.local && atoi(address.port) > 0 && address.host[0]);
	FUZZ_PROMISE(meeting.keyed == (strncmp(text, "1,-,", 4) != 0));
}

static void check_field(const char *line)
{
	char value[32];

	if (!tt_pmi_field(line, "value", value, sizeof(value)))
		return;
	FUZZ_PROMISE(strlen(value) < sizeof(value) && !strchr(value, ' '));
	FUZZ_PROMISE(strstr(line, "value="));
}

FUZZ(meeting)
{
	char *text = fuzz_text(data, size);

	check_place(text);
	check_field(text);
	free(text);
}

/* ---- the file of a machine's figures, by which algorithms are chosen */

FUZZ(model)
{
	struct tt_model model = { 0 };
	const tutti_result_t result = tt_model_read(fuzz_file(data, size), &model);

	FUZZ_PROMISE(result == TUTTI_OK || result == TUTTI_ERR_INVALID);
	if (result)
		FUZZ_PROMISE(tt_thread_error()[0]);
	else
		FUZZ_PROMISE(model.line > 0 && model.handover > 0 && model.copy > 0 &&
			     model.reduce > 0 && model.message > 0 && model.stream > 0 &&
			     model.stream < 0.01);
}
