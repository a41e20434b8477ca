/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange of records by the real code through a real store, all ranks played in turn by one
 * process: what each sends and gets is counted. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "calls/random.h"
#include "address.h"
#include "bootstrap.h"
#include "gather.h"
#include "grow.h"
#include "log.h"
#include "store.h"
#include "test_bytes_in_use.h"

#define PATIENCE_NS 10000000000u

static const struct tt_key job_key = { .set = true, .bytes = { 'j', 'o', 'b' } };

/* ---- a store that counts */

static struct {
	uint64_t calls, bytes;
} count;

static int counted_set(void *context, const char *key, const void *value, size_t length)
{
	count.calls++;
	count.bytes += length;
	return tutti_store_set(context, key, value, length) ? EIO : 0;
}

static int counted_get(void *context, const char *key, void *value, size_t *length,
		       double timeout_s)
{
	const tutti_result_t result = tutti_store_get(context, key, value, length, timeout_s);

	if (result)
		return result == TUTTI_ERR_TIMEOUT ? ETIMEDOUT : EIO;
	count.calls++;
	count.bytes += *length;
	return 0;
}

/* A served one, behind one of the user's. */
struct stores {
	tutti_store_t served, counted;
};

static struct stores open_stores(void)
{
	static const tutti_store_ops_t ops = { sizeof(ops), counted_set, counted_get, NULL };
	static int number;
	struct stores stores;
	char address[64];

	snprintf(address, sizeof(address), "unix:tutti-test-gather-%d-%d", (int)getpid(), number++);
	assert_ok(tt_store_open(address, &job_key, 0, true, PATIENCE_NS, &stores.served));
	assert_ok(tutti_store_create(&ops, stores.served, &stores.counted));
	return stores;
}

static void close_stores(struct stores stores)
{
	tutti_store_close(stores.counted);
	tutti_store_close(stores.served);
}

/* ---- records as ranks give them */

struct job {
	int size, per_host;
	struct stores stores;
};

static uint64_t scramble(uint64_t number)
{
	struct random random = { number };

	return random_next(&random);
}

static uint8_t *add_entry(uint8_t *at, const char *transport, const void *address, size_t length)
{
	struct tt_record_entry entry = { .length = (uint32_t)length };

	snprintf(entry.transport, sizeof(entry.transport), "%s", transport);
	memcpy(at, &entry, sizeof(entry));
	memcpy(at + sizeof(entry), address, length);
	return at + sizeof(entry) + length;
}

/* What differs between two ranks of a host, and of two hosts, as in real records: numbers of
 * processes, sockets and ports; names and addresses. */
static size_t make_record(const struct job *job, int rank, uint8_t record[TT_RECORD_MAX])
{
	const int host = rank / job->per_host;
	struct tt_record self = {
		.version = TT_RECORD_VERSION,
		.pid = 10000 + rank % job->per_host * 3,
		.process = scramble((uint64_t)rank),
		.machine = { scramble((uint64_t)host << 32), 4026531840, 4026531836 },
		.cpus = { UINT64_MAX },
		.entries = 2,
		.keyed = 1,
	};
	struct {
		struct tt_machine machine;
		uint64_t socket;
	} shm = { self.machine, scramble((uint64_t)rank << 16) };
	struct tcp_card card = {
		.machine = self.machine.boot,
		.network = self.machine.network,
		.port = (uint16_t)scramble((uint64_t)rank << 8),
		.count = 2,
		.at = { { 4, 8, 2, 0, { 10 } }, { 6, 64, 2, 0, { 0xfd } } },
	};
	uint8_t tcp[TT_ADDRESS_MAX];

	if (rank == 0)
		self.model = tt_model_builtin;
	for (int i = 0; i < 3; i++)
		card.at[0].bytes[1 + i] = card.at[1].bytes[13 + i] =
			(uint8_t)((host + 1) >> (16 - 8 * i));
	memcpy(record, &self, sizeof(self));
	uint8_t *end = add_entry(record + sizeof(self), "shm", &shm, sizeof(shm));
	end = add_entry(end, "tcp", tcp, tt_tcp_card_write(&card, tcp));
	return (size_t)(end - record);
}

static struct tt_rendezvous rendezvous_of(const struct job *job, int rank)
{
	return (struct tt_rendezvous){
		.rank = rank, .size = job->size, .group = "test", .id = 4711, .prefix = "test/4711"
	};
}

static void check_records(const struct job *job, const struct tt_records *all)
{
	assert_true(all->proven);
	for (int rank = 0; rank < job->size; rank++) {
		uint8_t record[TT_RECORD_MAX];
		const size_t length = make_record(job, rank, record);

		assert_int_equal(all->length[rank], length);
		assert_memory_equal(all->bytes + all->offset[rank], record, length);
	}
}

/* Those with a higher number come first: what a rank waits for is there. */
static void gather_up(struct job *job, uint64_t *most_calls)
{
	const uint64_t deadline = tt_now() + 60 * (uint64_t)PATIENCE_NS;

	*most_calls = 0;
	for (int rank = job->size - 1; rank >= 0; rank--) {
		struct tt_rendezvous rendezvous = rendezvous_of(job, rank);
		struct tt_records all = { 0 };
		uint8_t record[TT_RECORD_MAX];
		const size_t length = make_record(job, rank, record);

		count.calls = 0;
		assert_ok(tt_gather_up(job->stores.counted, &rendezvous, &job_key, record, length,
				       deadline, &all));
		if (count.calls > *most_calls)
			*most_calls = count.calls;
		if (rank == 0)
			check_records(job, &all);
		tt_records_free(&all);
	}
}

/* Gives the bytes for each other rank. */
static double gather_down(struct job *job, int rank)
{
	struct tt_rendezvous rendezvous = rendezvous_of(job, rank);
	struct tt_records all = { 0 };

	count.calls = count.bytes = 0;
	assert_ok(tt_gather_down(job->stores.counted, &rendezvous, &job_key, tt_now() + PATIENCE_NS,
				 &all));
	check_records(job, &all);
	tt_records_free(&all);
	return (double)count.bytes / (job->size - 1);
}

/* Some of the readers: all of them get the same bytes. */
static void count_setup(int size, int per_host, double most_bytes)
{
	struct job job = { size, per_host, open_stores() };
	const int readers[] = { 1, size / 2, size - 1 };
	uint64_t calls, down;
	double bytes = 0;

	gather_up(&job, &calls);
	for (int i = 0; i < 3; i++)
		bytes = gather_down(&job, readers[i]);
	down = count.calls;
	print_message("%6d ranks, %d on a host: each gets %5.1f bytes for each other rank by %llu "
		      "requests; the most that a rank makes before: %llu\n",
		      size, per_host, bytes, (unsigned long long)down, (unsigned long long)calls);
	assert_true(bytes <= most_bytes);
	close_stores(job.stores);
}

TEST(records_of_all_come_to_all)
{
	for (int size = 2; size <= 40; size++)
		count_setup(size, 3, 1000); /* mostly heads, and what is of rank 0 alone */
	count_setup(273, 16, 64);
	count_setup(4096, 8, 64);
}

TEST(setup_of_65536_ranks_is_counted)
{
	count_setup(65536, 1, 64);
}

/* ---- what a rank keeps */

static struct tt_records records_of(const struct job *job)
{
	struct tt_records records = { 0 };

	assert_ok(tt_records_make(job->size, (size_t)job->size * TT_RECORD_MAX, &records));
	for (int rank = 0; rank < job->size; rank++) {
		records.offset[rank] = (size_t)rank * TT_RECORD_MAX;
		records.length[rank] = make_record(job, rank, records.bytes + records.offset[rank]);
	}
	records.proven = true;
	return records;
}

/* The last rank: all others would call it, so it calls none of these addresses, and waits for the
 * first of them until its deadline. */
TEST(state_of_65536_ranks_is_counted)
{
	const struct job job = { .size = 65536, .per_host = 1 };
	tutti_config_t config = TUTTI_CONFIG_INIT;
	struct tt_records records = records_of(&job);
	struct tt_settings settings;
	struct tutti_comm *comm;
	uint8_t record[TT_RECORD_MAX];
	size_t length;

	config.transports = "tcp";
	assert_ok(tt_settings_read(&config, &settings));
	const size_t before = bytes_in_use();
	assert_ok(tt_comm_new(&settings, job.size - 1, job.size, 4711, &comm));
	assert_ok(tt_bootstrap_open(comm, NULL, record, &length));
	assert_int_equal(tt_bootstrap_join(comm, &records, tt_now()), TUTTI_ERR_TIMEOUT);
	const double each = ((double)bytes_in_use() - (double)before) / (job.size - 1);
	print_message("%6d ranks: a rank keeps %.0f bytes of each other one\n", job.size, each);
	assert_int_equal(comm->topology.hosts, job.size);
	assert_true(each <= 256);
	tutti_comm_destroy(comm);
	tt_records_free(&records);
}

/* ---- what is refused */

static void pack(const struct job *job, const struct tt_key *key, struct tt_bundle *out)
{
	const struct tt_record_from maker = { key, 4711, 0 };
	struct tt_records records = records_of(job);

	assert_ok(tt_bundle_pack(&maker, job->size, &records, out));
	tt_records_free(&records);
}

static tutti_result_t unpack(const struct job *job, const struct tt_bundle *bundle, size_t length)
{
	const struct tt_record_from maker = { &job_key, 4711, 0 };
	struct tt_records records = { 0 };
	const tutti_result_t result =
		tt_bundle_unpack(&maker, job->size, bundle->bytes, length, 3, &records);

	tt_records_free(&records);
	return result;
}

TEST(a_bundle_of_another_key_is_refused)
{
	static const struct tt_key other = { .set = true, .bytes = { 'x' } };
	const struct job job = { .size = 5, .per_host = 2 };
	struct tt_bundle bundle;

	pack(&job, &other, &bundle);
	assert_fails(unpack(&job, &bundle, bundle.length), TUTTI_ERR_INVALID,
		     "ranks 0 and 3 have different keys");
	free(bundle.bytes);
	pack(&job, NULL, &bundle);
	assert_fails(unpack(&job, &bundle, bundle.length), TUTTI_ERR_INVALID,
		     "rank 0 has no key, and rank 3 has one");
	free(bundle.bytes);
}

/* Each byte in turn, and each length. */
TEST(a_damaged_bundle_is_refused)
{
	const struct job job = { .size = 5, .per_host = 2 };
	struct tt_bundle bundle;

	pack(&job, &job_key, &bundle);
	assert_ok(unpack(&job, &bundle, bundle.length));
	for (size_t i = 0; i < bundle.length; i++) {
		assert_true(unpack(&job, &bundle, i) < 0);
		bundle.bytes[i] ^= 4;
		assert_true(unpack(&job, &bundle, bundle.length) < 0);
		bundle.bytes[i] ^= 4;
	}
	free(bundle.bytes);
}

/* All ranks are told by way of the store that a rank gave nonsense. */
TEST(what_is_no_bundle_is_about_all)
{
	struct job job = { 3, 1, open_stores() };
	struct tt_rendezvous rendezvous = rendezvous_of(&job, 2);
	struct tt_records all = { 0 };
	uint8_t record[TT_RECORD_MAX];
	size_t length = make_record(&job, 2, record);
	char key[TT_RANK_KEY_MAX];

	assert_ok(tt_gather_up(job.stores.counted, &rendezvous, &job_key, record, length,
			       tt_now() + PATIENCE_NS, &all));
	tt_rendezvous_rank_key(&rendezvous, 1, key);
	assert_ok(tutti_store_set(job.stores.counted, key, "nonsense of 27 bytes, or so", 27));
	rendezvous = rendezvous_of(&job, 0);
	length = make_record(&job, 0, record);
	assert_fails(tt_gather_up(job.stores.counted, &rendezvous, &job_key, record, length,
				  tt_now() + PATIENCE_NS, &all),
		     TUTTI_ERR_INVALID, "rank 1 left 27 bytes");
	assert_true(rendezvous.unfit);
	tt_records_free(&all);
	close_stores(job.stores);
}

/* That a coordinator says it gathered, in place of records or before them. */
TEST(a_coordinator_that_says_nonsense_is_not_believed)
{
	static const struct tt_grow_decision words[] = {
		{ .result = 7 },
		{ .result = -99, .text = "\033[2J and so on" },
		{ .result = TUTTI_OK, .length = UINT32_MAX },
		{ .result = TUTTI_OK, .length = 0 },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		assert_fails(tt_grow_read_decision(&words[i], tt_bundle_capacity(3)),
			     TUTTI_ERR_UNSUPPORTED, "version of tutti");
		assert_null(strchr(tt_thread_error(), '\033'));
	}
}

/* This thread and the store's take turns: on one core nobody is woken across cores. */
static void stay_here(void)
{
	cpu_set_t here;

	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	sched_setaffinity(0, sizeof(here), &here);
}

int main(void)
{
	stay_here();
	return run_claims(NULL, NULL);
}
