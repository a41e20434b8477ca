/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what those who attend something tell each other by keys alone, in a store that has set
 * and get and nobody who sees others come and go.
 *
 * PREFIX/ended has the word with which somebody ended the prefix. GROUP/here/MEMBER has what the
 * member attends and who it is; the last process to write it stays, and one that attends and
 * finds another's there knows of two, unless its own prefix waits for nobody any more and the
 * other attends the next. Those who attend look at both keys now and then. The death of a
 * process leaves no trace. */
#include "store_unseen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store_wire.h"

#define KEY_ROOM  (TT_STORE_KEY_MAX + 32)
#define HERE_ROOM (2 * TT_STORE_KEY_MAX)

struct tt_unseen_attendance {
	struct tt_unseen_attendance *next;
	pthread_t thread;
	int member;
	char prefix[TT_STORE_KEY_MAX + 1];
	char here[HERE_ROOM]; /* prefix, 0, who, 0, random bytes */
	size_t here_length;
	uint8_t word[TT_WIRE_WORD_MAX]; /* why it was ended */
	size_t word_length;		/* 0: it was not, as far as is known */
};

static struct tt_unseen *unseen_of(tutti_store_t store)
{
	return (struct tt_unseen *)store;
}

void tt_unseen_init(struct tt_unseen *s)
{
	pthread_mutex_init(&s->lock, NULL);
	s->first = NULL;
}

void tt_unseen_finish(struct tt_unseen *s)
{
	while (s->first) {
		struct tt_unseen_attendance *a = s->first;

		s->first = a->next;
		free(a);
	}
	pthread_mutex_destroy(&s->lock);
}

/* What the caller's thread attends, in the list or out of it; no other thread touches that. */
static struct tt_unseen_attendance *own(struct tt_unseen *s, bool take)
{
	struct tt_unseen_attendance **at = &s->first, *a;

	pthread_mutex_lock(&s->lock);
	while (*at && !pthread_equal((*at)->thread, pthread_self()))
		at = &(*at)->next;
	a = *at;
	if (a && take)
		*at = a->next;
	pthread_mutex_unlock(&s->lock);
	return a;
}

static const char *ended_key(const char *prefix, char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "%s/ended", prefix);
	return key;
}

static size_t group_length(const char *prefix)
{
	const char *end = strrchr(prefix, '/');

	return end ? (size_t)(end - prefix) : 0;
}

static const char *here_key(const struct tt_unseen_attendance *a, char key[KEY_ROOM])
{
	snprintf(key, KEY_ROOM, "%.*s/here/%d", (int)group_length(a->prefix), a->prefix, a->member);
	return key;
}

/* The value under `key`; 0 bytes if there is none, or none that fits. */
static size_t value_of(tutti_store_t store, const char *key, void *value, size_t capacity)
{
	size_t length = capacity;

	return store->ops->get(store, key, value, &length, 0, TT_STORE_ANSWER_NS) == TUTTI_OK
		       ? length
		       : 0;
}

void tt_unseen_end(tutti_store_t store, const char *prefix, tutti_result_t result,
		   const char *error_text)
{
	uint8_t word[TT_WIRE_WORD_MAX];
	char key[KEY_ROOM];

	ended_key(prefix, key);
	if (strlen(key) > TT_STORE_KEY_MAX || value_of(store, key, word, sizeof(word)) > 0)
		return;
	store->ops->set(store, key, word, tt_wire_put_word(result, error_text, word), 0);
}

void tt_unseen_attend(tutti_store_t store, const struct tt_attendance *attendance)
{
	struct tt_unseen *s = unseen_of(store);
	struct tt_unseen_attendance *a = calloc(1, sizeof(*a));
	char key[KEY_ROOM];
	uint64_t random = 0;

	tt_unseen_leave(store);
	if (!a || tt_random(&random, sizeof(random))) {
		free(a); /* then it is told nothing before its deadline */
		return;
	}
	a->thread = pthread_self();
	a->member = attendance->member;
	snprintf(a->prefix, sizeof(a->prefix), "%s", attendance->prefix);
	a->here_length = (size_t)snprintf(a->here, sizeof(a->here), "%s%c%.100s", a->prefix, 0,
					  attendance->who) +
			 1;
	memcpy(a->here + a->here_length, &random, sizeof(random));
	a->here_length += sizeof(random);
	if (a->member >= 0)
		store->ops->set(store, here_key(a, key), a->here, a->here_length,
				attendance->timeout_ns);
	pthread_mutex_lock(&s->lock);
	a->next = s->first;
	s->first = a;
	pthread_mutex_unlock(&s->lock);
}

void tt_unseen_leave(tutti_store_t store)
{
	free(own(unseen_of(store), true));
}

/* Is it what a member of this group writes? Then its prefix is at the beginning, and who it is
 * behind that. */
static bool is_here(const struct tt_unseen_attendance *a, const char *value, size_t length)
{
	const size_t group = group_length(a->prefix), prefix = strnlen(value, length);

	return length <= HERE_ROOM && prefix < length && prefix <= TT_STORE_KEY_MAX &&
	       memchr(value + prefix + 1, 0, length - prefix - 1) &&
	       strncmp(value, a->prefix, group + 1) == 0;
}

/* Have all come whom it waits for? */
static bool has_met(tutti_store_t store, const char *prefix)
{
	char key[KEY_ROOM];
	size_t none = 0;

	snprintf(key, sizeof(key), "%s/" TT_STORE_MET, prefix);
	return store->ops->get(store, key, NULL, &none, 0, TT_STORE_ANSWER_NS) != TUTTI_IN_PROGRESS;
}

/* Another process that has the same number has come after this one. */
static void find_double(tutti_store_t store, struct tt_unseen_attendance *a)
{
	char key[KEY_ROOM], value[HERE_ROOM], error_text[TT_ERROR_MAX];
	const size_t length =
		a->member < 0 ? 0 : value_of(store, here_key(a, key), value, sizeof(value));

	if (length == 0 || (length == a->here_length && memcmp(value, a->here, length) == 0) ||
	    !is_here(a, value, length))
		return;
	if (strcmp(value, a->prefix) != 0 && has_met(store, a->prefix))
		return;
	tt_store_report_twice(a->member, a->here + strlen(a->prefix) + 1, value + strlen(value) + 1,
			      error_text, sizeof(error_text));
	tt_unseen_end(store, value, TUTTI_ERR_INVALID, error_text);
	tt_unseen_end(store, a->prefix, TUTTI_ERR_INVALID, error_text);
	/* the other may have ended the prefix before, as if nobody were left there */
	a->word_length = tt_wire_put_word(TUTTI_ERR_INVALID, error_text, a->word);
}

/* What was found once stays. */
static tutti_result_t check(tutti_store_t store, struct tt_unseen_attendance *a)
{
	char key[KEY_ROOM], error_text[TT_WIRE_WORD_MAX], before[TT_ERROR_MAX];
	tutti_result_t result;

	snprintf(before, sizeof(before), "%s", tt_thread_error());
	if (!a->word_length)
		find_double(store, a);
	if (!a->word_length)
		a->word_length =
			value_of(store, ended_key(a->prefix, key), a->word, sizeof(a->word));
	if (a->word_length && tt_wire_get_word(a->word, a->word_length, &result, error_text))
		return tt_store_fail_ended(result, error_text);
	a->word_length = 0; /* what is no word hides none that comes */
	tt_thread_error_set(before);
	return TUTTI_OK;
}

tutti_result_t tt_unseen_poll(tutti_store_t store)
{
	struct tt_unseen_attendance *a = own(unseen_of(store), false);

	return a ? check(store, a) : TUTTI_OK;
}
