/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of TUTTI_LOOP. The text set by a test is the only state of the process here. */
#include <ctype.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"
#include "log.h"
#include "loop.h"

#define CAPACITY_DEFAULT 65536u
#define CAPACITY_LEAST	 4096u /* what a peek may want in one piece */
#define CAPACITY_MOST	 (1u << 30)

static struct {
	pthread_mutex_t lock;
	const char *text;
} chosen = { .lock = PTHREAD_MUTEX_INITIALIZER };

void tt_loop_set_faults(const char *text)
{
	pthread_mutex_lock(&chosen.lock);
	chosen.text = text;
	pthread_mutex_unlock(&chosen.lock);
}

/* A decimal number of at least `least` and at most `most` at *at, which moves behind it. */
static bool parse_number(const char **at, uint64_t least, uint64_t most, uint64_t *out)
{
	char *end;

	if (!isdigit((unsigned char)**at))
		return false;
	errno = 0;
	const unsigned long long value = strtoull(*at, &end, 10);
	if (errno || value < least || value > most)
		return false;
	*at = end;
	*out = value;
	return true;
}

static bool parse_char(const char **at, char wanted)
{
	if (**at != wanted)
		return false;
	(*at)++;
	return true;
}

static bool parse_rank(const char **at, int *rank)
{
	uint64_t value;

	if (!parse_number(at, 0, INT_MAX, &value))
		return false;
	*rank = (int)value;
	return true;
}

/* A-B, and @BYTES if `bytes`. */
static bool parse_pair(const char **at, bool bytes, struct loop_pairs *pairs)
{
	struct loop_pair pair = { 0 };

	if (pairs->count == LOOP_PAIRS_MAX || !parse_rank(at, &pair.from) || !parse_char(at, '-') ||
	    !parse_rank(at, &pair.to))
		return false;
	if (bytes && (!parse_char(at, '@') || !parse_number(at, 0, UINT64_MAX, &pair.after)))
		return false;
	pairs->pair[pairs->count++] = pair;
	return true;
}

static bool parse_short(const char **at, struct loop_faults *out)
{
	return parse_number(at, 1, CAPACITY_MOST, &out->longest);
}

static bool parse_stall(const char **at, struct loop_faults *out)
{
	return parse_number(at, 2, UINT32_MAX, &out->stall);
}

static bool parse_capacity(const char **at, struct loop_faults *out)
{
	return parse_number(at, CAPACITY_LEAST, CAPACITY_MOST, &out->capacity);
}

static bool parse_time(const char **at, uint64_t *ns)
{
	uint64_t us;

	if (!parse_number(at, 0, 60u * 1000000u, &us))
		return false;
	*ns = us * 1000;
	return true;
}

static bool parse_delay(const char **at, struct loop_faults *out)
{
	return parse_time(at, &out->delay_ns);
}

static bool parse_jitter(const char **at, struct loop_faults *out)
{
	return parse_time(at, &out->jitter_ns);
}

static bool parse_news(const char **at, struct loop_faults *out)
{
	return parse_time(at, &out->news_ns);
}

static bool parse_cut(const char **at, struct loop_faults *out)
{
	return parse_pair(at, true, &out->cuts);
}

static bool parse_refuse(const char **at, struct loop_faults *out)
{
	return parse_pair(at, false, &out->refusals);
}

static bool parse_die(const char **at, struct loop_faults *out)
{
	return parse_rank(at, &out->mortal) && parse_char(at, '@') &&
	       parse_number(at, 0, UINT64_MAX, &out->dies_after);
}

static bool parse_seed(const char **at, struct loop_faults *out)
{
	return parse_number(at, 0, UINT64_MAX, &out->seed);
}

static const struct {
	const char *key;
	const char *expected;
	bool (*parse)(const char **at, struct loop_faults *out);
} keys[] = {
	{ "short=", "short=N with N from 1 to 1073741824", parse_short },
	{ "stall=", "stall=N with N from 2 to 4294967295", parse_stall },
	{ "capacity=", "capacity=BYTES from 4096 to 1073741824", parse_capacity },
	{ "delay=", "delay=US from 0 to 60000000", parse_delay },
	{ "jitter=", "jitter=US from 0 to 60000000", parse_jitter },
	{ "news=", "news=US from 0 to 60000000", parse_news },
	{ "cut=", "cut=RANK-RANK@BYTES, 8 times at most", parse_cut },
	{ "refuse=", "refuse=RANK-RANK, 8 times at most", parse_refuse },
	{ "die=", "die=RANK@BYTES", parse_die },
	{ "seed=", "seed=N", parse_seed },
};

/* The part at *at, which moves behind it; the error message of what was expected on failure. */
static const char *parse_part(const char **at, struct loop_faults *out)
{
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const size_t length = strlen(keys[i].key);

		if (strncmp(*at, keys[i].key, length) != 0)
			continue;
		*at += length;
		if (!keys[i].parse(at, out) || (**at != '\0' && **at != ','))
			return keys[i].expected;
		return NULL;
	}
	return "a KEY=VALUE with a key of short, stall, capacity, delay, jitter, news, cut, refuse, die, seed";
}

static tutti_result_t parse(const char *text, struct loop_faults *out)
{
	for (const char *at = text; *at != '\0';) {
		const char *part = at;
		const char *expected = parse_part(&at, out);

		if (expected)
			return tt_fail(TUTTI_ERR_INVALID, LOOP,
				       "TUTTI_LOOP has \"%.*s\": expected %s",
				       (int)strcspn(part, ","), part, expected);
		at += *at == ',';
	}
	return TUTTI_OK;
}

tutti_result_t tt_loop_faults_read(struct loop_faults *out)
{
	const char *text;
	tutti_result_t result;

	*out = (struct loop_faults){ .capacity = CAPACITY_DEFAULT, .seed = 1, .mortal = -1 };
	pthread_mutex_lock(&chosen.lock);
	text = chosen.text ? chosen.text : getenv("TUTTI_LOOP");
	result = text ? parse(text, out) : TUTTI_OK;
	pthread_mutex_unlock(&chosen.lock);
	return result;
}

const struct loop_pair *tt_loop_pairs_find(const struct loop_pairs *pairs, int from, int to)
{
	for (int i = 0; i < pairs->count; i++)
		if (pairs->pair[i].from == from && pairs->pair[i].to == to)
			return &pairs->pair[i];
	return NULL;
}
