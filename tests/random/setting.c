/* SPDX-License-Identifier: BSD-3-Clause */
#include "setting.h"

#include <string.h>

#include "calls/random.h"

#define KEY "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

#define BYTES	 (384u << 10)
#define LARGE	 13
#define SEGMENTS 512 /* of the shortest ones: each takes as long as any */

const char *const transports[] = { "shm", "tcp", "mixed", "tls", "loop", NULL };

static bool is(const struct setting *s, const char *transport)
{
	return strcmp(s->transport, transport) == 0;
}

static void draw_ranks(struct setting *s, struct random *random, const struct wish *wish)
{
	const int few = (int)random_between(random, 2, 5), any = (int)random_between(random, 1, 9);
	const bool many = random_one_in(random, 3), threads = random_one_in(random, 4);
	const int hosts = random_one_in(random, 3) ? 3 : 2;

	s->ranks = wish->ranks ? wish->ranks : many ? any : few;
	s->hosts = is(s, "mixed") ? hosts : 1;
	if (s->ranks <= s->hosts && !wish->ranks && is(s, "mixed"))
		s->ranks = s->hosts + 1;
	s->as_threads = is(s, "loop") || (wish->threads ? wish->threads > 0 : threads);
}

static void draw_transport(struct setting *s, struct random *random, const struct wish *wish)
{
	const uint64_t faults = random_below(random, 4), encrypted = random_below(random, 4);
	/* loop joins threads of one process */
	const uint64_t drawn = random_below(random, wish->threads < 0 ? 4 : 5);

	s->transport = wish->transport ? wish->transport : transports[drawn];
	environment_add(&s->environment, "TUTTI_TRANSPORT=%s",
			is(s, "tls")	 ? "tcp"
			: is(s, "mixed") ? "shm,tcp"
					 : s->transport);
	if (is(s, "tls") || (is(s, "mixed") && encrypted == 0)) {
		environment_add(&s->environment, "TUTTI_KEY=%s", KEY);
		environment_add(&s->environment, "TUTTI_ENCRYPT=1");
	}
	if (is(s, "loop") && faults)
		environment_add(&s->environment, "TUTTI_LOOP=short=%d,stall=%d,capacity=%d,seed=%d",
				faults == 1 ? 100 : 100000, faults == 2 ? 3 : 50,
				faults == 3 ? 4096 : 65536, (int)(s->seed % 1000));
}

static void draw_environment(struct setting *s, struct random *random)
{
	const char *algorithm = call_any_algorithm(random);
	const bool forced = random_one_in(random, 2), cut = random_one_in(random, 3),
		   plain = random_one_in(random, 8);
	const uint64_t segment = UINT64_C(64) << random_below(random, 15),
		       odd = random_below(random, 64);

	s->reproducible = random_one_in(random, 4);
	s->bytes = cut && segment * SEGMENTS < BYTES ? segment * SEGMENTS : BYTES;
	/* operations keep the memory of the largest one that they were used for */
	s->most_bytes = s->watched ? s->bytes : LARGE * s->bytes;
	if (forced)
		environment_add(&s->environment, "TUTTI_ALGORITHM=%s", algorithm);
	if (cut)
		environment_add(&s->environment, "TUTTI_SEGMENT=%llu",
				(unsigned long long)(segment + (odd % 2 ? odd : 0)));
	if (s->reproducible)
		environment_add(&s->environment, "TUTTI_REPRODUCIBLE=1");
	if (plain)
		environment_add(&s->environment, "TUTTI_ISA=c");
}

void setting_draw(struct setting *s, uint64_t seed, const struct wish *wish)
{
	struct random random = random_stream(seed, 1);
	const bool several = random_one_in(&random, 3);
	const int callers = (int)random_between(&random, 2, 3);

	*s = (struct setting){ .seed = seed,
			       .steps = wish->steps ? wish->steps : 250,
			       .callers = several ? callers : 1 };
	s->watched = s->steps >= WATCHED;
	draw_transport(s, &random, wish);
	draw_ranks(s, &random, wish);
	draw_environment(s, &random);
	if (s->hosts > 1)
		environment_add(&s->environment, "TEST_HOSTS=%d", s->hosts);
	environment_add(&s->environment, "TUTTI_TIMEOUT=150");
}

int setting_host(const struct setting *s, int rank)
{
	return rank % s->hosts;
}

void setting_describe(const struct setting *s, FILE *out)
{
	fprintf(out, "%d %s over %s, %d calling in each, %ld steps:", s->ranks,
		s->as_threads ? "threads" : "processes", s->transport, s->callers, s->steps);
	for (int i = 0; s->environment.env[i]; i++)
		if (strncmp(s->environment.env[i], "TUTTI_KEY", 9) != 0)
			fprintf(out, " %s", s->environment.env[i]);
}
