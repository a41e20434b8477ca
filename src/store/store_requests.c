/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what the requests of a store's clients do: set and get, with those who wait for a key,
 * and end, attend and leave, with the last word of those who are lost. */
#include "store_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "store_session.h"

static void handle_set(struct tt_store_clients *s, struct tt_store_client *c,
		       struct tt_store_entry *entry)
{
	const uint8_t *value = c->in + c->header.key_length + 1;

	if (!tt_store_keys_put(&s->keys, entry, value, c->header.value_length)) {
		tt_store_keys_trim(&s->keys, entry);
		tt_store_client_answer(s, c, TT_WIRE_FULL);
		return;
	}
	/* waiters first: whoever sets tends to wait for them next */
	while (entry->waiters) {
		struct tt_store_client *waiter = entry->waiters;

		tt_store_client_unpark(s, waiter);
		tt_store_client_answer_entry(s, waiter, entry);
	}
	tt_store_client_answer(s, c, TT_WIRE_DONE);
}

static void note_news(struct tt_store_clients *s, struct tt_store_client *c)
{
	if (c->attended && !c->attended->told)
		c->news = tt_store_keys_ending(&s->keys, c->attended->prefix);
}

/* Why a wait of the client for the key is over; NULL: it is not. */
static const struct tt_store_ending *ending_of(const struct tt_store_clients *s,
					       const struct tt_store_client *c, const char *key)
{
	const struct tt_store_ending *ending = tt_store_keys_ending(&s->keys, key);

	return ending || !c->attended ? ending
				      : tt_store_keys_ending(&s->keys, c->attended->prefix);
}

/* Tell those who wait below the prefix or attend it, but for who said so. False without memory. */
static bool end_below(struct tt_store_clients *s, const struct tt_store_client *by,
		      const char *prefix, const uint8_t *word, size_t length)
{
	if (!tt_store_keys_end(&s->keys, prefix, word, length))
		return false;
	for (struct tt_store_client *c = s->first, *next; c; c = next) {
		const struct tt_store_ending *ending =
			c->entry ? ending_of(s, c, c->entry->key) : NULL;

		next = c->next;
		if (c == by)
			continue;
		note_news(s, c);
		if (ending) {
			tt_store_client_unpark(s, c);
			tt_store_client_answer_ending(s, c, ending);
		} else {
			tt_store_client_send_news(s, c);
		}
	}
	return true;
}

static void handle_end(struct tt_store_clients *s, struct tt_store_client *c, const char *prefix)
{
	struct tt_store_attended *own = c->attended;

	if (!end_below(s, c, prefix, c->in + c->header.key_length + 1, c->header.value_length)) {
		tt_store_client_answer(s, c, TT_WIRE_FULL);
		return;
	}
	if (own && tt_store_keys_ending(&s->keys, own->prefix))
		own->told = true;
	tt_store_client_answer(s, c, TT_WIRE_DONE);
}

void tt_store_client_leave(struct tt_store_client *c)
{
	free(c->attended);
	c->attended = NULL;
	c->news = NULL;
}

static size_t group_length(const struct tt_store_attended *a)
{
	size_t at = a->length;

	while (at > 0 && a->prefix[at - 1] != '/')
		at--;
	return at;
}

/* Have all come whom `a` waits for? */
static bool has_met(struct tt_store_clients *s, const struct tt_store_attended *a)
{
	char key[sizeof(a->prefix) + sizeof(TT_STORE_MET)];

	snprintf(key, sizeof(key), "%s" TT_STORE_MET, a->prefix);
	struct tt_store_entry *entry = tt_store_keys_entry(&s->keys, key);
	const bool met = entry && entry->present;
	if (entry)
		tt_store_keys_trim(&s->keys, entry);
	return met;
}

/* Two that attend, both at one prefix of the group, or each at one of its own while neither has
 * what it waits for. */
static bool is_double(struct tt_store_clients *s, const struct tt_store_attended *a,
		      const struct tt_store_attended *b)
{
	const size_t group = group_length(a);

	if (a->member == 0 || a->member != b->member || group != group_length(b) ||
	    memcmp(a->prefix, b->prefix, group) != 0)
		return false;
	return strcmp(a->prefix, b->prefix) == 0 || (!has_met(s, a) && !has_met(s, b));
}

static void end_double(struct tt_store_clients *s, const struct tt_store_client *by,
		       const struct tt_store_attended *other)
{
	const struct tt_store_attended *both[] = { other, by->attended };
	char error_text[TT_ERROR_MAX], prefix[sizeof(other->prefix)];
	uint8_t word[TT_WIRE_WORD_MAX];

	tt_store_report_twice((int)other->member - 1, other->who, by->attended->who, error_text,
			      sizeof(error_text));
	const uint32_t length = tt_wire_put_word(TUTTI_ERR_INVALID, error_text, word);
	tt_log(INFO, STORE, "%s", error_text);
	for (int i = 0; i < 2; i++) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)both[i]->length, both[i]->prefix);
		if (!end_below(s, by, prefix, word, length))
			tt_log(WARN, STORE, "no memory to report that %s", error_text);
	}
}

/* The first other that is the same member: those before it have been told. */
static void find_double(struct tt_store_clients *s, const struct tt_store_client *by)
{
	struct tt_store_client *c = s->first;

	while (c && (c == by || !c->attended || !is_double(s, c->attended, by->attended)))
		c = c->next;
	if (c) {
		/* who is told may be dropped */
		const struct tt_store_attended other = *c->attended;

		end_double(s, by, &other);
	}
}

static bool attends(const struct tt_store_clients *s, uint32_t member, const char *prefix)
{
	const struct tt_store_client *c = s->first;

	while (c && (!c->attended || c->attended->member != member ||
		     strcmp(c->attended->prefix, prefix) != 0))
		c = c->next;
	return c;
}

/* Some client attends what the rank that was turned away does not; NULL: none that does not
 * know. */
static const struct tt_store_attended *find_waiting(const struct tt_store_clients *s)
{
	for (const struct tt_store_client *c = s->first; c; c = c->next)
		if (c->attended && c->attended->member > 0 &&
		    !tt_store_keys_ending(&s->keys, c->attended->prefix) &&
		    !attends(s, s->unfit.member, c->attended->prefix))
			return c->attended;
	return NULL;
}

static void report_unfit(struct tt_store_clients *s, const struct tt_store_client *by)
{
	const struct tt_store_attended *waiting;
	char prefix[sizeof(waiting->prefix)];

	while (s->unfit.member && (waiting = find_waiting(s))) {
		snprintf(prefix, sizeof(prefix), "%.*s", (int)waiting->length, waiting->prefix);
		if (!end_below(s, by, prefix, s->unfit.word, s->unfit.length))
			return;
	}
}

void tt_store_client_unfit(struct tt_store_clients *s, const struct tt_store_client *c,
			   const char *why, bool believed)
{
	struct tt_store_entry *entry = tt_store_keys_entry(&s->keys, TT_STORE_TURNED_AWAY);
	char error_text[TT_ERROR_MAX], who[sizeof(c->name) + 32];

	if (c->handshake.says.from >= 0)
		snprintf(who, sizeof(who), "rank %d (%s)", c->handshake.says.from, c->name);
	else
		snprintf(who, sizeof(who), "%s", c->name);
	snprintf(error_text, sizeof(error_text), "the host of the store turned %s away: it %s", who,
		 why);
	if (entry)
		tt_store_keys_put(&s->keys, entry, (const uint8_t *)error_text, strlen(error_text));
	if (!believed)
		return;
	s->unfit.member = (uint32_t)c->handshake.says.from + 1;
	s->unfit.length = tt_wire_put_word(TUTTI_ERR_INVALID, error_text, s->unfit.word);
	report_unfit(s, NULL);
}

/* What it attends may have been ended before it came. */
static void handle_attend(struct tt_store_clients *s, struct tt_store_client *c, const char *prefix)
{
	struct tt_store_attended *attended = malloc(sizeof(*attended));

	if (!attended) {
		tt_store_client_drop(s, c, "attends something for which there is no memory");
		return;
	}
	tt_store_client_leave(c);
	attended->told = false;
	attended->length = c->header.key_length;
	attended->member = c->header.member;
	attended->word_length = tt_wire_split_will(c->in + c->header.key_length + 1,
						   c->header.value_length, attended->who);
	memcpy(attended->word, c->in + c->header.key_length + 1, attended->word_length);
	snprintf(attended->prefix, sizeof(attended->prefix), "%s/", prefix);
	c->attended = attended;
	find_double(s, c);
	if (attended->member == s->unfit.member)
		s->unfit.member = 0; /* it has come after all */
	report_unfit(s, c);
	note_news(s, c);
	tt_store_client_read_next(s, c);
}

/* It may have closed before it heard that it was to be dropped. */
void tt_store_client_mourn(struct tt_store_clients *s, struct tt_store_client *c)
{
	struct tt_store_attended *attended = c->attended;

	if (!attended)
		return;
	attended->prefix[attended->length] = 0;
	tt_log(INFO, STORE, "%s was lost while it attended %s", c->name, attended->prefix);
	if (!end_below(s, c, attended->prefix, attended->word, attended->word_length))
		tt_log(WARN, STORE, "no memory to report that %s was lost", c->name);
}

static void handle_get(struct tt_store_clients *s, struct tt_store_client *c,
		       struct tt_store_entry *entry)
{
	const struct tt_store_ending *ending = ending_of(s, c, entry->key);

	if (entry->present) {
		tt_store_client_answer_entry(s, c, entry);
		return;
	}
	if (c->header.timeout_ms == 0 || ending) {
		tt_store_keys_trim(&s->keys, entry);
		if (c->header.timeout_ms == 0)
			tt_store_client_answer(s, c, TT_WIRE_MISSING);
		else
			tt_store_client_answer_ending(s, c, ending);
		return;
	}
	tt_store_client_park(s, c, entry);
}

void tt_store_client_request(struct tt_store_clients *s, struct tt_store_client *c)
{
	const char *key = (const char *)c->in;

	if (strlen(key) != c->header.key_length) {
		tt_store_client_drop(s, c, "names a key with a zero byte");
		return;
	}
	if (c->header.kind == TT_WIRE_END || c->header.kind == TT_WIRE_ATTEND) {
		(c->header.kind == TT_WIRE_END ? handle_end : handle_attend)(s, c, key);
		return;
	}
	struct tt_store_entry *entry = tt_store_keys_entry(&s->keys, key);
	if (!entry)
		tt_store_client_answer(s, c, TT_WIRE_FULL);
	else if (c->header.kind == TT_WIRE_SET)
		handle_set(s, c, entry);
	else
		handle_get(s, c, entry);
}
