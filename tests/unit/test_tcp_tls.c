/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that encrypts and one that does not: each is told so, and neither waits. */
#include "test_tcp_fabric.h"

#include "log.h"

static const struct tt_key encrypts = { .set = true, .bytes = { 'k' }, .encrypt = true };
static const struct tt_key plain = { .set = true, .bytes = { 'k' } };

static char lines[8192];

static void keep(tutti_log_level_t level, const char *subsystem, const char *line, void *context)
{
	strncat(lines, line, sizeof(lines) - strlen(lines) - 2);
	strcat(lines, "\n");
}

/* Rank 0 dials; those who do not meet wait for all of the time. */
static void meet(const struct tt_key *dialer, const struct tt_key *listener, unsigned seconds,
		 struct fabric *f)
{
	const struct tt_key *keys[RANKS_MAX] = { dialer, listener };

	lines[0] = '\0';
	tutti_log_set_sink(keep, NULL);
	fabric_open_with(f, 2, 0, keys);
	fabric_join(f, tt_now() + seconds * SECOND);
	tutti_log_set_sink(NULL, NULL);
}

TEST(alike_they_meet)
{
	struct fabric f;

	meet(&encrypts, &encrypts, 30, &f);
	assert_int_equal(f.joined[0], TUTTI_OK);
	assert_int_equal(f.joined[1], TUTTI_OK);
	fabric_stop(&f);
}

TEST(a_dialer_that_does_not_encrypt_is_told)
{
	struct fabric f;

	meet(&plain, &encrypts, 3, &f);
	assert_true(f.joined[0] < 0);
	assert_non_null(strstr(f.endpoint[0]->fault.text, "encrypts, and this end does not"));
	assert_non_null(strstr(lines, "does not encrypt, and this end does"));
	fabric_stop(&f);
}

TEST(a_listener_that_does_not_encrypt_says_so)
{
	struct fabric f;

	meet(&encrypts, &plain, 3, &f);
	assert_true(f.joined[0] < 0);
	assert_non_null(strstr(f.endpoint[0]->fault.text, "TUTTI_ENCRYPT"));
	assert_non_null(strstr(lines, "encrypts, and this end does not"));
	fabric_stop(&f);
}
