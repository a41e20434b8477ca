/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of settings. */
#include "settings.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "key_read.h"
#include "log.h"
#include "machine.h"
#include "narrow.h"
#include "nearest.h"
#include "numbers.h"
#include "registry.h"
#include "variables.h"

#define DEFAULT_TIMEOUT_S    300.0
#define DEFAULT_SILENCE_S    5.0
#define LONGEST_SILENCE_S    3600.0
#define MOST_BYTES	     ((size_t)1 << 30)
#define DEFAULT_ENGINE_BYTES ((size_t)1 << 20) /* a guess, not measured yet */
#define MOST_EXCHANGE_BYTES  ((size_t)1 << 20) /* a quarter of TT_CUDA_LINES_BYTES */
#define DEFAULT_CUDA_BLOCKS  32		       /* as many as NCCL takes at most */

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static tutti_result_t read_timeout(double configured, uint64_t *ns)
{
	const char *text = environment("TUTTI_TIMEOUT");
	double seconds = configured;

	if (seconds == 0) {
		seconds = DEFAULT_TIMEOUT_S;
		if (text && !tt_decimal_read(text, &seconds))
			seconds = -1;
	}
	const bool sound = seconds != 0 && tt_seconds_sound(seconds);
	if (!sound && configured != 0)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"timeout_s of the config is %g: expected seconds, more than 0 and at most 1e9, or 0 "
			"for the default",
			configured);
	if (!sound)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_TIMEOUT is \"%s\": expected seconds, more than 0 and at most 1e9, for example 30",
			text);
	*ns = tt_nanoseconds(seconds);
	return TUTTI_OK;
}

static tutti_result_t read_silence(double *seconds)
{
	const char *text = environment("TUTTI_SILENCE");

	*seconds = DEFAULT_SILENCE_S;
	if (!text)
		return TUTTI_OK;
	if (tt_decimal_read(text, seconds) && *seconds >= 1 &&
	    *seconds <= LONGEST_SILENCE_S) /* not so for a NaN */
		return TUTTI_OK;
	return tt_fail(TUTTI_ERR_INVALID, COMM,
		       "TUTTI_SILENCE is \"%s\": expected seconds, 1 to %g, for example 5", text,
		       LONGEST_SILENCE_S);
}

static tutti_result_t copy(const char *what, const char *value, char *out, size_t size)
{
	if (value && strlen(value) >= size)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "%s has %zu bytes, expected at most %zu",
			       what, strlen(value), size - 1);
	snprintf(out, size, "%s", value ? value : "");
	return TUTTI_OK;
}

static bool contains(const char *list, const char *name)
{
	const size_t length = strlen(name);

	while (*list) {
		const size_t part = strcspn(list, ",");

		if (part == length && strncmp(list, name, length) == 0)
			return true;
		list += part;
		list += *list == ',';
	}
	return false;
}

bool tt_settings_allow(const char *list, const struct tt_transport *transport)
{
	return *list ? contains(list, transport->name) : !transport->for_tests;
}

/* `from`: where the list comes from. */
static tutti_result_t check_transports(const char *from, const char *list)
{
	char known[64] = "";

	for (int i = 0; tt_transports[i]; i++)
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", tt_transports[i]->name);
	for (const char *part = list; *part;) {
		char name[64];
		const size_t length = strcspn(part, ",");
		char hint[TT_NEAREST_HINT];
		struct tt_nearest nearest =
			tt_nearest_to(name, length < sizeof(name) ? length : sizeof(name) - 1);
		bool found = false;

		snprintf(name, sizeof(name), "%.*s", (int)length, part);
		for (int i = 0; tt_transports[i]; i++) {
			found |= strcmp(tt_transports[i]->name, name) == 0;
			tt_nearest_offer(&nearest, tt_transports[i]->name);
		}
		if (!found)
			return tt_fail(TUTTI_ERR_INVALID, COMM,
				       "%s has \"%s\"%s: expected a list of %s, such as shm,tcp",
				       from, name, tt_nearest_hint(&nearest, hint), known);
		part += length;
		part += *part == ',';
	}
	return TUTTI_OK;
}

static tutti_result_t check_algorithm(const char *from, const char *name)
{
	struct tt_nearest nearest = tt_nearest_to(name, strlen(name));
	char known[256] = "", hint[TT_NEAREST_HINT];

	if (!*name || tt_algorithm_by_name(name))
		return TUTTI_OK;
	for (int i = 0; tt_algorithms[i]; i++) {
		snprintf(known + strlen(known), sizeof(known) - strlen(known), "%s%s",
			 i ? ", " : "", tt_algorithms[i]->name);
		tt_nearest_offer(&nearest, tt_algorithms[i]->name);
	}
	return tt_fail(TUTTI_ERR_INVALID, COMM, "%s is \"%s\"%s: expected one of %s", from, name,
		       tt_nearest_hint(&nearest, hint), known);
}

/* What the config says, in `field`, or else the variable. */
static tutti_result_t read_names(const char *field, const char *configured, const char *variable,
				 tutti_result_t (*check)(const char *from, const char *names),
				 char *out, size_t size)
{
	const char *from = configured ? field : variable;
	const tutti_result_t result =
		copy(from, configured ? configured : environment(variable), out, size);

	return result ? result : check(from, out);
}

static tutti_result_t read_flag(const char *name, bool *out)
{
	const char *text = environment(name);

	*out = text && strcmp(text, "0") != 0;
	if (text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "%s is \"%s\": expected 0 or 1", name,
			       text);
	return TUTTI_OK;
}

static tutti_result_t read_reproducible(int configured, bool *out)
{
	if (configured < -1 || configured > 1)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "reproducible of the config is %d: expected 1 for yes, -1 for no, "
			       "or 0 for what TUTTI_REPRODUCIBLE says",
			       configured);
	if (!configured)
		return read_flag("TUTTI_REPRODUCIBLE", out);
	*out = configured > 0;
	return TUTTI_OK;
}

static tutti_result_t read_wire(tutti_wire_t configured, tutti_wire_t *out)
{
	const char *text = environment("TUTTI_WIRE");
	const tutti_result_t result = tt_narrow_check("wire of the config", configured);

	*out = configured ? configured : TUTTI_WIRE_FLOAT32;
	if (result || configured || !text)
		return result;
	return tt_narrow_parse("TUTTI_WIRE", text, out);
}

/* `of`: what is counted. */
static tutti_result_t read_count(const char *name, const char *of, size_t least, size_t most,
				 size_t otherwise, size_t *count)
{
	const char *text = environment(name);
	char *end;

	*count = otherwise;
	if (!text)
		return TUTTI_OK;
	errno = 0;
	const unsigned long long value = strtoull(text, &end, 10);
	if (errno || *end || *text == '-' || value < least || value > most)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "%s is \"%s\": expected %s, %zu to %zu",
			       name, text, of, least, most);
	*count = (size_t)value;
	return TUTTI_OK;
}

/* Ranks of one boot and one set of namespaces share a host. */
static tutti_result_t make_host_id(char *out, size_t size)
{
	struct tt_machine here;
	const tutti_result_t result = tt_machine_here(&here);
	char name[TT_MACHINE_NAME];

	if (result)
		return result;
	tt_machine_name(&here, name);
	return copy("the name of this machine", name, out, size);
}

tutti_result_t tt_settings_read(const tutti_config_t *config, struct tt_settings *out)
{
	const tutti_config_t defaults = TUTTI_CONFIG_INIT;
	const char *host_id;
	tutti_result_t result;

	if (!config)
		config = &defaults;
	if (config->size != sizeof(*config))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"the config's size is %zu, expected sizeof(tutti_config_t), %zu: start from "
			"TUTTI_CONFIG_INIT",
			config->size, sizeof(*config));
	memset(out, 0, sizeof(*out));
	result = read_timeout(config->timeout_s, &out->timeout_ns);
	if (!result)
		result = read_silence(&out->silence_s);
	if (!result)
		result = read_names("transports of the config", config->transports,
				    "TUTTI_TRANSPORT", check_transports, out->transports,
				    sizeof(out->transports));
	if (!result)
		result = read_names("algorithm of the config", config->algorithm, "TUTTI_ALGORITHM",
				    check_algorithm, out->algorithm, sizeof(out->algorithm));
	if (!result)
		result = read_count("TUTTI_SEGMENT", "bytes", 64, MOST_BYTES, 0,
				    &out->segment_bytes);
	if (!result)
		result = read_count("TUTTI_CUDA_ENGINES", "bytes", 0, MOST_BYTES,
				    DEFAULT_ENGINE_BYTES, &out->engine_bytes);
	if (!result)
		result = read_count("TUTTI_CUDA_EXCHANGE", "bytes", 0, MOST_EXCHANGE_BYTES,
				    MOST_EXCHANGE_BYTES, &out->exchange_bytes);
	if (!result)
		result = read_count("TUTTI_CUDA_BLOCKS", "blocks", 1, 1024, DEFAULT_CUDA_BLOCKS,
				    &out->cuda_blocks);
	if (!result)
		result = read_count("TUTTI_CUDA_MULTICAST", "0 for no or 1 for yes", 0, 1, 1,
				    &out->cuda_multicast);
	if (!result)
		result = read_reproducible(config->reproducible, &out->reproducible);
	if (!result)
		result = read_wire(config->wire, &out->wire);
	if (!result)
		result = tt_key_read(config->key, config->encrypt, &out->key);
	if (!result)
		result = copy("TUTTI_TRACE", environment("TUTTI_TRACE"), out->trace,
			      sizeof(out->trace));
	if (environment("TUTTI_JOB")) /* a longer one is still a name */
		snprintf(out->job, sizeof(out->job), "%s", environment("TUTTI_JOB"));
	host_id = config->host_id ? config->host_id : environment("TUTTI_HOST_ID");
	if (!result && host_id && *host_id)
		result = copy(config->host_id ? "host_id of the config" : "TUTTI_HOST_ID", host_id,
			      out->host_id, sizeof(out->host_id));
	else if (!result)
		result = make_host_id(out->host_id, sizeof(out->host_id));
	if (result)
		tt_key_wipe(&out->key);
	return result;
}

void tt_settings_warn(int rank)
{
	static atomic_flag done = ATOMIC_FLAG_INIT;
	struct tt_variable unknown;

	if (atomic_flag_test_and_set_explicit(&done, memory_order_relaxed) || rank != 0)
		return;
	for (char **entry = environ; *entry; entry++)
		if (tt_variable_unknown(*entry, &unknown))
			tt_log(WARN, COMM,
			       "the environment has %.*s%s, which tutti does not read: expected a "
			       "variable of docs/reference/environment.md; correct or unset it",
			       unknown.length, unknown.name, unknown.hint);
}

TUTTI_API tutti_result_t tutti_config_check(const tutti_config_t *config)
{
	struct tt_settings settings;
	const tutti_result_t result = tt_settings_read(config, &settings);

	tt_key_wipe(&settings.key);
	return result;
}
