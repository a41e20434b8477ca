/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of how ranks ended, and the words for it. */
#include "exits.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "analysis.h"

#define FORMAT	    1
#define EXITS_MAX   (1 << 20) /* ranks, and those that took the place of others */
#define AFTER_MAX   ((int64_t)1 << 60)
#define SIGNALS_MAX 64

bool exits_are_in(const json_t *object)
{
	return json_is_integer(json_object_get(object, "tutti_exits"));
}

/* What a job is called is said where there are no reports of it: characters that a terminal only
 * shows. */
static bool is_name(const char *text)
{
	size_t length = 0;

	for (; text[length] > ' ' && text[length] < 0x7f; length++)
		continue;
	return length > 0 && length < 64 && text[length] == '\0';
}

static const char *reason_named(const char *name)
{
	if (strcmp(name, "timeout") == 0)
		return " as its --timeout had passed";
	if (strcmp(name, "signal") == 0)
		return " as it got a signal that ends the job";
	return "";
}

/* Shells say by their exit status that a signal ended what they have started. */
static bool is_by_launcher(bool asked, int asked_with, bool by_signal, int code)
{
	const int sig = by_signal ? code : code - 128;

	return asked && (sig == asked_with || sig == SIGKILL);
}

static bool read_exit(struct rank_exit *one, json_t *object, int asked_with, json_error_t *error)
{
	int code = -1, sig = 0, asked;

	if (json_unpack_ex(object, error, 0, "{s:i,s:i,s:I,s:b,s?:i,s?:i}", "rank", &one->rank,
			   "pid", &one->pid, "after_ns", &one->after, "asked", &asked, "status",
			   &code, "signal", &sig))
		return false;
	if (one->rank < 0 || one->pid <= 0 || one->after < 0 || one->after > AFTER_MAX || sig < 0 ||
	    sig > SIGNALS_MAX || (sig == 0) == (code < 0) || code > 255)
		return false;
	one->core = json_is_true(json_object_get(object, "core"));
	one->code = sig ? sig : code;
	if (is_by_launcher(asked, asked_with, sig != 0, one->code)) {
		one->code = sig ? sig : code - 128;
		one->how = ENDED_BY_LAUNCHER;
	} else {
		one->how = sig ? ENDED_BY_SIGNAL : code ? ENDED_BY_ERROR : ENDED_WELL;
	}
	return true;
}

bool exits_read(struct exits *exits, json_t *object, json_error_t *error)
{
	const char *job, *hostname, *reason;
	json_int_t format;
	int asked_with;
	json_t *list, *member;
	size_t i;

	*exits = (struct exits){ 0 };
	if (json_unpack_ex(object, error, 0, "{s:I,s:s,s:s,s:I,s:s,s:i,s:o}", "tutti_exits",
			   &format, "job", &job, "hostname", &hostname, "realtime_ns",
			   &exits->realtime, "ended_for", &reason, "asked_with", &asked_with,
			   "exits", &list))
		return false;
	if (format != FORMAT || !is_name(job) || strlen(hostname) > 64 || exits->realtime < 0 ||
	    json_array_size(list) == 0 || json_array_size(list) > EXITS_MAX)
		return false;
	exits->job = need(strdup(job));
	exits->hostname = need(strdup(hostname));
	exits->because = reason_named(reason);
	exits->at = need(calloc(json_array_size(list) + 1, sizeof(*exits->at)));
	json_array_foreach(list, i, member)
		if (!read_exit(&exits->at[exits->n++], member, asked_with, error))
			return false;
	return true;
}

void exits_finish(struct exits *exits)
{
	free(exits->job);
	free(exits->hostname);
	free(exits->at);
}

/* A rank may be what a script has started, whose own number tutti-run knows. */
const struct rank_exit *exits_of(const struct exits *exits, const struct flight *flight)
{
	const struct rank_exit *of_rank = NULL;

	if (!exits || strcmp(exits->hostname, flight->hostname) != 0)
		return NULL;
	for (size_t i = 0; i < exits->n; i++) {
		if (exits->at[i].pid == flight->pid)
			return &exits->at[i];
		if (exits->at[i].rank == flight->launched_as)
			of_rank = &exits->at[i];
	}
	return of_rank;
}

const struct rank_exit *exits_first_failure(const struct exits *exits)
{
	for (size_t i = 0; exits && i < exits->n; i++)
		if (exits->at[i].how == ENDED_BY_ERROR || exits->at[i].how == ENDED_BY_SIGNAL)
			return &exits->at[i];
	return NULL;
}

void exit_describe(const struct rank_exit *one, char *out, size_t size)
{
	char how[96], after[32];

	if (one->how == ENDED_BY_SIGNAL || one->how == ENDED_BY_LAUNCHER)
		snprintf(how, sizeof(how), "killed by signal %d (%.40s%s)", one->code,
			 strsignal(one->code), one->core ? ", core dumped" : "");
	else
		snprintf(how, sizeof(how), "exited with status %d", one->code);
	snprintf(out, size, "%s, %s after the start of the job", how,
		 duration((double)one->after, after));
}
