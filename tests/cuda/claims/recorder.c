/* SPDX-License-Identifier: BSD-3-Clause */
/* Claims about what the flight recorder has of calls on streams. */
#include "claims.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *whole_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (file && getdelim(&text, &room, '\0', file) < 0) {
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	return text;
}

/* The rank's own report, made now, of the communicator that has calls on streams; to be freed,
 * NULL: there is none. */
static char *report_now(const struct gpu_rank *r)
{
	const char *directory = getenv("TUTTI_TRACE");
	const struct dirent *entry;
	char end[48], path[512], *text = NULL;

	raise(SIGUSR1);
	snprintf(end, sizeof(end), ".%d.flight.json", r->rank);
	DIR *handle = opendir(directory);
	while (handle && !text && (entry = readdir(handle))) {
		const size_t length = strlen(entry->d_name);

		if (length < strlen(end) || strcmp(entry->d_name + length - strlen(end), end) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		text = whole_file(path);
		if (text && !strstr(text, "\"streams\":[\n")) {
			free(text);
			text = NULL;
		}
	}
	if (handle)
		closedir(handle);
	return text;
}

/* Look until the call with so many elements is said to be so: what has ended is known a few
 * milliseconds later. */
static void await_said(const struct gpu_rank *r, size_t count, const char *words)
{
	char key[48];
	bool said = false;

	snprintf(key, sizeof(key), "\"count\":%zu,", count);
	while (!said) {
		char *text = report_now(r), *streams = text ? strstr(text, "\"streams\":[") : NULL,
		     *call = streams ? strstr(streams, key) : NULL,
		     *end = call ? strchr(call, '}') : NULL;

		if (end)
			*end = '\0';
		said = end && strstr(call, words);
		free(text);
	}
}

/* One that has ended, one that has behind which another waits for the last rank, and one in a
 * graph. */
static int calls_are_in_the_flight_recorder(struct gpu_rank *r, void *argument)
{
	const char *way = by_cliques() ? "\"way\":\"cliques\",\"captured\":false"
			  : by_host()  ? "\"way\":\"host\",\"captured\":false"
				       : "\"way\":\"stages\",\"captured\":false";
	const int absent = r->size - 1;
	tutti_comm_t comm = r->comm;
	struct vector x;

	if (begin(r, &x, argument))
		return 1;
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	WORKS(gpu_finish(r->stream));
	await_said(r, few, way);
	await_said(r, few, "\"ended\":true");
	meet_at(argument, 2 * r->size);
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - 1, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	if (r->rank != absent) {
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - 2, TUTTI_FLOAT32,
					       TUTTI_MAX, r->stream));
		if (!by_host()) /* there only all or nothing is known */
			await_said(r, few - 1, "\"ended\":true");
		await_said(r, few - 2, "\"ended\":false");
	}
	meet_at(argument, 3 * r->size);
	if (r->rank == absent)
		SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - 2, TUTTI_FLOAT32,
					       TUTTI_MAX, r->stream));
	WORKS(gpu_finish(r->stream));
	await_said(r, few - 2, "\"ended\":true");
	WORKS(gpu_capture(r->stream));
	SUCCEEDS(tutti_cuda_all_reduce(comm, x.gpu, x.gpu, few - 3, TUTTI_FLOAT32, TUTTI_MAX,
				       r->stream));
	gpu_graph_t graph = gpu_captured(r->stream);
	CLAIM(graph, "%s", gpu_error());
	await_said(r, few - 3, "\"captured\":true");
	await_said(r, few - 3, "\"ended\":null");
	WORKS(gpu_graph_free(graph));
	give(&x);
	return 0;
}

const struct claim recorder_claims[] = {
	{ "calls_are_in_the_flight_recorder", calls_are_in_the_flight_recorder, .recorded = true },
	{ NULL },
};
