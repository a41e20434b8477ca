/* SPDX-License-Identifier: BSD-3-Clause */
/* The flight recorder of one rank: what is kept, what a report says, where files go and what
 * becomes of them. */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "calls/random.h"
#include "test_folder.h"
#include "test_shortage.h"
#include <jansson.h>

#include "comm.h"
#include "flight_report.h"
#include "report_json.h"
#include "machine.h"
#include "recorder.h"
#include "tutti/tutti.h"

static int make_directory(void **state)
{
	if (make_folder(state))
		return 1;
	setenv("TUTTI_TRACE", folder, 1);
	return 0;
}

/* How many files end with `suffix`; the last one's path in `path`. */
static int count_files(const char *suffix, char *path)
{
	DIR *handle = opendir(folder);
	const struct dirent *entry;
	int n = 0;

	while ((entry = readdir(handle))) {
		const size_t length = strlen(entry->d_name), end = strlen(suffix);

		if (entry->d_name[0] == '.' || length < end ||
		    strcmp(entry->d_name + length - end, suffix) != 0)
			continue;
		n++;
		if (path)
			sprintf(path, "%s/%s", folder, entry->d_name);
	}
	closedir(handle);
	return n;
}

static json_t *read_report(void)
{
	static _Alignas(8) uint8_t bytes[TT_FLIGHT_REPORT_AT + sizeof(struct tt_flight) + 1];
	char path[512];
	const char *why;

	assert_int_equal(count_files(TT_FLIGHT_REPORT_SUFFIX, path), 1);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	const size_t length = fread(bytes, 1, sizeof(bytes), file);
	fclose(file);
	json_t *report = report_json(bytes, length, &why);
	if (!report)
		fail_msg("%s %s", path, why);
	unlink(path);
	return report;
}

static json_t *report_on_signal(void)
{
	raise(SIGUSR1);
	return read_report();
}

static tutti_comm_t alone(void)
{
	tutti_comm_t comm;

	assert_ok(tutti_comm_create(NULL, 0, 1, NULL, &comm));
	return comm;
}

static const char *text_in(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static const json_t *at(const json_t *object, const char *key, size_t i)
{
	return json_array_get(json_object_get(object, key), i);
}

static size_t count_in(const json_t *object, const char *key)
{
	return json_array_size(json_object_get(object, key));
}

static tutti_comm_t comm; /* of a rank alone */

static int make_comm(void **state)
{
	if (make_directory(state))
		return 1;
	comm = alone();
	return 0;
}

/* It leaves nothing. */
static int destroy_comm(void **state)
{
	tutti_comm_destroy(comm);
	assert_int_equal(count_files("", NULL), 0);
	return remove_folder(state);
}

static json_int_t number_in(const json_t *object, const char *key)
{
	assert_true(json_is_integer(json_object_get(object, key)));
	return json_integer_value(json_object_get(object, key));
}

/* Whatever `text` has, a JSON object with ' in place of "; null: null, or not there. */
static void assert_shows(const json_t *object, const char *text)
{
	char copy[256];
	const char *key;
	json_t *expected;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *quote = copy; (quote = strchr(quote, '\''));)
		*quote = '"';
	json_auto_t *all = json_loads(copy, 0, NULL);
	assert_non_null(all);
	json_object_foreach(all, key, expected) {
		json_t *shown = json_object_get(object, key);

		if (!(shown ? json_equal(shown, expected) : json_is_null(expected)))
			fail_msg("%s is not as in %s", key, copy);
	}
}

/* ---- a flight made by hand */

static struct tt_flight *flight;

static int make_flight(void **state)
{
	flight = aligned_alloc(4096, sizeof(*flight));
	if (!flight || make_directory(state))
		return 1;
	memset(flight, 0, sizeof(*flight));
	flight->magic = TT_FLIGHT_MAGIC;
	flight->size = 1;
	flight->boot = tt_machine_boot();
	flight->monotonic = flight->ticks = 1000;
	snprintf(flight->version, sizeof(flight->version), "%s", tutti_version());
	snprintf(flight->report, sizeof(flight->report), "%s/made" TT_FLIGHT_REPORT_SUFFIX, folder);
	return 0;
}

static int free_flight(void **state)
{
	free(flight);
	return remove_folder(state);
}

static json_t *report_of_flight(void)
{
	assert_true(tt_flight_write(flight, "test"));
	return read_report();
}

static void add_message(uint64_t number)
{
	struct tt_flight_op *op = &flight->ops[number % TT_FLIGHT_OPS];

	op->seq = number;
	op->posted = 2000 + number;
	op->kind = TT_FLIGHT_SEND;
	op->dtype = TUTTI_FLOAT32;
	op->what = 3;
	op->number = number;
}

/* ---- claims */

TEST_WITH(off_writes_nothing, make_directory, remove_folder)
{
	struct sigaction action;

	setenv("TUTTI_TRACE", "off", 1);
	comm = alone();
	setenv("TUTTI_TRACE", folder, 1);
	assert_ok(tutti_barrier(comm, NULL));
	assert_ok(tutti_comm_abort(comm, "for a test"));
	tutti_comm_destroy(comm);
	assert_int_equal(count_files("", NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, NULL, &action), 0);
	assert_true(action.sa_handler == SIG_DFL); /* this test comes first */
}

static void heard(int number)
{
}

TEST_WITH(a_signal_that_the_program_handles_is_its_own, make_directory, remove_folder)
{
	struct sigaction action;

	signal(SIGUSR1, heard);
	comm = alone();
	raise(SIGUSR1);
	assert_int_equal(count_files(TT_FLIGHT_REPORT_SUFFIX, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, NULL, &action), 0);
	assert_true(action.sa_handler == heard);
	signal(SIGUSR1, SIG_DFL);
	tutti_comm_destroy(comm);
}

TEST_WITH(the_last_4096_operations_are_kept, make_comm, destroy_comm)
{
	float in = 1, out;
	size_t i;
	const json_t *op;

	for (int k = 0; k < 5000; k++)
		assert_ok(tutti_all_reduce(comm, &in, &out, 1, TUTTI_FLOAT32,
					   k % 2 ? TUTTI_SUM : TUTTI_MAX, NULL));
	json_auto_t *report = report_on_signal();
	const json_t *ops = json_object_get(report, "operations");

	assert_shows(report, "{'why': 'signal', 'operations_called': 5000}");
	assert_int_equal(json_array_size(ops), 4096);
	assert_int_equal(count_in(report, "headers"), 2);
	json_array_foreach(ops, i, op) {
		assert_int_equal(number_in(op, "number"), 905 + i);
		assert_int_equal(number_in(op, "sequence"), 905 + i);
		assert_true(number_in(op, "posted") <= number_in(op, "first"));
		assert_true(number_in(op, "first") <= number_in(op, "done"));
		assert_true(number_in(op, "done") <= number_in(report, "monotonic_ns"));
	}
}

/* Of an operation; NULL: it is not there. */
static const json_t *header_of(const json_t *report, const json_t *op)
{
	const json_t *header, *found = NULL;
	size_t i;

	json_array_foreach(json_object_get(report, "headers"), i, header)
		if (number_in(header, "header") == number_in(op, "header"))
			found = header;
	return found;
}

TEST_WITH(operations_name_their_header, make_comm, destroy_comm)
{
	double in[3] = { 1, 2, 3 }, out[3];

	assert_ok(tutti_barrier(comm, NULL));
	assert_ok(tutti_reduce(comm, in, out, 3, TUTTI_FLOAT64, TUTTI_PROD, 0, NULL));
	json_auto_t *report = report_on_signal();
	const json_t *header = header_of(report, at(report, "operations", 1));

	assert_non_null(header);
	assert_shows(header, "{'collective': 'reduce', 'dtype': 'float64', 'op': 'prod', "
			     "'count': 3, 'root': 0}");
}

/* More plans than there is room for: the last operations have theirs, the first may not. */
TEST_WITH(headers_that_were_written_over_are_not_shown, make_comm, destroy_comm)
{
	static float in[6000], out[6000];
	size_t i;
	const json_t *op = NULL;
	int known = 0;

	for (size_t k = 1; k <= 4000; k++)
		assert_ok(tutti_all_reduce(comm, in, out, k, TUTTI_FLOAT32, TUTTI_SUM, NULL));
	json_auto_t *report = report_on_signal();
	json_t *counts = json_object();
	char name[32];

	json_array_foreach(json_object_get(report, "headers"), i, op) {
		sprintf(name, "%lld", (long long)number_in(op, "header"));
		assert_int_equal(
			json_object_set_new(counts, name, json_integer(number_in(op, "count"))), 0);
	}
	assert_int_equal(count_in(report, "operations"), 4000);
	json_array_foreach(json_object_get(report, "operations"), i, op) {
		sprintf(name, "%lld", (long long)number_in(op, "header"));
		if (!json_object_get(counts, name))
			continue;
		known++;
		assert_int_equal(number_in(counts, name), i + 1);
	}
	assert_in_range(known, 500, 3999);
	assert_int_equal(number_in(op, "sequence"), 4000);
	assert_non_null(json_object_get(counts, name));
	json_decref(counts);
}

/* What was noted of it at first is written over by then. */
TEST_WITH(a_call_that_comes_back_has_its_header, make_comm, destroy_comm)
{
	static float in[6000], out[6000];

	for (size_t k = 0; k <= 4000; k++)
		assert_ok(tutti_all_reduce(comm, in, out, k % 2 ? k : 5999, TUTTI_FLOAT32,
					   TUTTI_SUM, NULL));
	json_auto_t *report = report_on_signal();
	const json_t *header = header_of(report, at(report, "operations", 4000));

	assert_non_null(header);
	assert_shows(header, "{'count': 5999}");
}

TEST_WITH(a_record_that_is_being_written_over_does_not_count, make_flight, free_flight)
{
	const uint64_t place = 7 * TT_FLIGHT_PLACES;
	struct tt_flight_plan plan;

	flight->plans[place / 8] = place;
	flight->plans_end = place;
	/* left from before, or not yet written */
	assert_false(tt_flight_read_plan(flight, place, &plan));
	flight->plans_end = place + TT_FLIGHT_PLANS;
	assert_true(tt_flight_read_plan(flight, place, &plan));
	flight->plans_end = place + TT_FLIGHT_PLANS + TT_FLIGHT_PLACES;
	assert_false(tt_flight_read_plan(flight, place, &plan));
}

TEST_WITH(an_operation_that_is_being_written_is_left_out, make_flight, free_flight)
{
	for (uint64_t number = 1; number <= 5; number++)
		add_message(number);
	flight->ops[3].number = 0;
	json_auto_t *report = report_of_flight();

	assert_int_equal(count_in(report, "operations"), 4);
	assert_shows(at(report, "operations", 2), "{'number': 4}");
	assert_shows(at(report, "operations", 3), "{'number': 5, 'bytes': 12, 'done': null}");
}

static void add_caller(uint64_t number, const char *text)
{
	struct tt_flight_caller *line = &flight->callers[number % TT_FLIGHT_CALLERS];

	memset(line->text, 'x', sizeof(line->text));
	memcpy(line->text, text, strlen(text) + 1);
	line->number = number;
}

/* One line was written over by a later operation's, one has no end. */
TEST_WITH(operations_say_where_they_were_called, make_flight, free_flight)
{
	for (uint64_t number = 1; number <= 4; number++)
		add_message(number);
	add_caller(1, "train.py:1");
	add_caller(1 + TT_FLIGHT_CALLERS, "another");
	add_caller(2, "train.py:2 in \"step\"");
	add_caller(3, "x");
	flight->callers[3].text[1] = 'x';
	json_auto_t *report = report_of_flight();

	assert_shows(at(report, "operations", 0), "{'caller': null}");
	assert_string_equal(text_in(at(report, "operations", 1), "caller"),
			    "train.py:2 in \"step\"");
	assert_int_equal(strlen(text_in(at(report, "operations", 2), "caller")), TT_FLIGHT_CALLER);
	assert_shows(at(report, "operations", 3), "{'caller': null}");
}

static void add_on_stream(uint64_t number, uint64_t waits, bool captured)
{
	struct tt_flight_stream *line = &flight->streams[number % TT_FLIGHT_STREAMS];

	line->posted = 2000 + number;
	line->count = number;
	line->sequence = number % 2 ? 0 : number / 2;
	line->waits = waits;
	line->kind = number % 2 ? TT_FLIGHT_SEND : TT_FLIGHT_COLLECTIVE;
	line->dtype = TUTTI_FLOAT16;
	line->op = TUTTI_MIN;
	line->root = 5;
	line->captured = captured;
	line->number = number;
}

/* Those up to 1002 have; of the others those that had no more waits than have ended; of graphs
 * nobody knows. */
TEST_WITH(calls_on_streams_say_whether_they_have_ended, make_flight, free_flight)
{
	static const char *const ended[] = { "true", "true", "true", "null", "false", "false" };

	for (uint64_t number = 1; number <= 1001; number++)
		add_on_stream(number, 0, false);
	add_on_stream(1002, 71, false);
	add_on_stream(1003, 70, false);
	add_on_stream(1004, 0, true);
	add_on_stream(1005, 71, false);
	add_on_stream(1006, 0, false);
	flight->streams_ended = 1002;
	flight->streams_waits = 70;
	json_auto_t *report = report_of_flight();

	assert_shows(report, "{'streams_called': 1006}");
	assert_int_equal(count_in(report, "streams"), 256);
	for (size_t i = 0; i < 6; i++) {
		char text[32];

		snprintf(text, sizeof(text), "{'ended': %s}", ended[i]);
		assert_shows(at(report, "streams", 250 + i), text);
	}
	assert_shows(at(report, "streams", 254),
		     "{'kind': 'send', 'peer': 5, 'count': 1005, 'dtype': 'float16', 'op': null, "
		     "'sequence': null}");
	assert_shows(at(report, "streams", 255),
		     "{'number': 1006, 'op': 'min', 'root': 5, 'sequence': 503}");
}

/* Numbers that no writer leaves: a report is written all the same, and is JSON. */
TEST_WITH(garbage_in_the_mapping_does_no_harm, make_flight, free_flight)
{
	struct random random = { 1 };

	for (size_t i = offsetof(struct tt_flight, plans_end); i < sizeof(*flight); i++)
		((uint8_t *)flight)[i] = (uint8_t)random_next(&random);
	for (uint64_t number = 1; number < TT_FLIGHT_OPS; number++) {
		flight->ops[number].number = number;
		flight->ops[number].kind = TT_FLIGHT_COLLECTIVE;
		flight->ops[number].what = number * TT_FLIGHT_PLACES;
		flight->plans[number * TT_FLIGHT_PLACES % TT_FLIGHT_PLANS / 8] =
			number * TT_FLIGHT_PLACES;
	}
	flight->plans_end = TT_FLIGHT_OPS * TT_FLIGHT_PLACES;
	for (uint64_t number = 3000; number < TT_FLIGHT_OPS;
	     number++) /* sane numbers of peers, garbage behind */
		flight->plans[number * TT_FLIGHT_PLACES % TT_FLIGHT_PLANS / 8 + 1] = 20;
	json_auto_t *report = report_of_flight();

	assert_true(count_in(report, "headers") > 500);
}

TEST_WITH(text_that_is_none_is_made_printable, make_flight, free_flight)
{
	const json_t *fault;

	strcpy(flight->job, "a \"job\"\n\\ with\x01 \xff and \xc3\xa9");
	memset(flight->host, 'h', sizeof(flight->host)); /* without an end */
	flight->fault.result = TUTTI_ERR_MISMATCH;
	memset(flight->fault.text, 'x', sizeof(flight->fault.text));
	memcpy(flight->fault.text + sizeof(flight->fault.text) - 1, "\xc3",
	       1); /* a character that was cut */
	json_auto_t *report = report_of_flight();

	assert_string_equal(text_in(report, "job"), "a \"job\"?\\ with? ? and \xc3\xa9");
	assert_int_equal(json_string_length(json_object_get(report, "host")), sizeof(flight->host));
	fault = json_object_get(report, "fault");
	assert_int_equal(number_in(fault, "result"), TUTTI_ERR_MISMATCH);
	assert_int_equal(json_string_length(json_object_get(fault, "text")),
			 sizeof(flight->fault.text));
}

TEST_WITH(an_abort_is_reported_once_with_its_reason, make_comm, destroy_comm)
{
	assert_ok(tutti_comm_abort(comm, "as \"planned\""));
	json_auto_t *report = read_report(); /* removes it */

	assert_shows(report, "{'why': 'revoked'}");
	assert_says(text_in(json_object_get(report, "fault"), "text"), "as \"planned\"");
	assert_ok(tutti_comm_abort(comm, "again"));
}

/* As if it were killed while it writes its report. */
static void begin_a_report(void)
{
	char draft[TT_FLIGHT_PATH + 8];

	snprintf(draft, sizeof(draft), "%s.tmp1", comm->recorder->place.report);
	FILE *file = fopen(draft, "w");
	if (!file || fputs("{", file) < 0 || fclose(file) != 0)
		_exit(1);
}

static bool call_and_begin_a_report(void *unused)
{
	comm = alone();
	for (int i = 0; i < 10; i++)
		tutti_barrier(comm, NULL);
	begin_a_report();
	return true;
}

static void recovers(const char *directory, int expected)
{
	int count = -1;

	assert_ok(tutti_trace_recover(directory, &count));
	assert_int_equal(count, expected);
}

/* A process that is killed leaves its mapping, and only then is it anybody's to report. */
TEST_WITH(what_a_killed_process_did_is_recovered, make_directory, remove_folder)
{
	const pid_t pid = child_that(call_and_begin_a_report, NULL);
	int count;

	recovers(NULL, 0); /* it lives */
	end_child(pid);
	assert_int_equal(tutti_trace_recover("/dev/null", &count), TUTTI_ERR_SYSTEM);
	assert_fails(tutti_trace_recover("/nonexistent", &count), TUTTI_ERR_SYSTEM,
		     "\"/nonexistent\" is no directory here");
	assert_int_equal(access("/nonexistent", F_OK), -1);
	recovers(folder, 1);
	json_auto_t *report = read_report();

	assert_shows(report, "{'why': 'died'}");
	assert_int_equal(number_in(report, "pid"), pid);
	assert_int_equal(count_in(report, "operations"), 10);
	assert_int_equal(count_files("", NULL), 0);
}

/* Looks for what dead processes left until nothing can be read any more; 1: there was some. */
static int recover_until_closed(int fd)
{
	struct pollfd poller = { fd, POLLIN, 0 };
	int count = 0;

	while (count == 0 && poll(&poller, 1, 0) == 0)
		tutti_trace_recover(folder, &count);
	return count > 0;
}

/* However close another looks, also just between the removal of its mapping and its end. */
TEST_WITH(who_ends_well_is_not_taken_for_dead, make_directory, remove_folder)
{
	int running[2];

	assert_int_equal(pipe(running), 0);
	const pid_t pid = fork();
	if (pid == 0) {
		close(running[1]);
		_exit(recover_until_closed(running[0]));
	}
	close(running[0]);
	for (int i = 0; i < 2000; i++)
		tutti_comm_destroy(alone());
	close(running[1]);
	await_exit(pid, 0);
	assert_int_equal(count_files("", NULL), 0);
}

static void write_ring(const char *name, size_t bytes)
{
	const int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, flight, bytes), bytes);
	close(fd);
}

TEST_WITH(files_that_are_no_mapping_of_ours_are_left_alone, make_flight, free_flight)
{
	write_ring("short.flight", sizeof(*flight) - 1);
	flight->boot++;
	write_ring("reboot.flight", sizeof(*flight));
	flight->boot--;
	flight->magic++;
	write_ring("other.flight", sizeof(*flight));
	flight->magic--;
	strcpy(flight->report, "/dev/shm/made"); /* nothing but a report may be written */
	write_ring("elsewhere.flight", sizeof(*flight));
	recovers(folder, 0);
	assert_int_equal(count_files("", NULL), 4);
}

/* Whatever name it has: reports that go elsewhere are neither written nor counted. */
TEST_WITH(reports_of_another_directory_are_left_to_it, make_flight, free_flight)
{
	char other[96], link[96];

	snprintf(other, sizeof(other), "%s/other", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(folder, link), 0);
	write_ring("here.flight", sizeof(*flight));
	snprintf(flight->report, sizeof(flight->report), "%s/made" TT_FLIGHT_REPORT_SUFFIX, other);
	write_ring("there.flight", sizeof(*flight));
	recovers(link, 1);
	assert_int_equal(access(path_of("made" TT_FLIGHT_REPORT_SUFFIX), F_OK), 0);
	assert_int_equal(access(path_of("there.flight"), F_OK), 0);
	assert_int_equal(rmdir(other), 0);
	assert_int_equal(unlink(link), 0);
}

/* Old ones go when a communicator is destroyed, and before if they are many; one whose process
 * lives does not count. */
TEST_WITH(what_nobody_reads_is_bounded, make_flight, free_flight)
{
	char name[64];

	write_ring("live.flight", sizeof(*flight));
	const int live = open(path_of("live.flight"), O_RDONLY);
	assert_int_equal(flock(live, LOCK_EX), 0);
	for (int i = 0; i < 80; i++) {
		snprintf(name, sizeof(name), "dead%d.flight", i);
		write_ring(name, sizeof(*flight));
	}
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof(name), "old%d" TT_FLIGHT_REPORT_SUFFIX, i);
		write_ring(name, 1);
	}
	write_ring("foreign.json", 1);
	comm = alone();
	assert_int_equal(count_files(".flight", NULL), 32 + 1 + 1); /* and this communicator's */
	assert_int_equal(count_files(TT_FLIGHT_REPORT_SUFFIX, NULL), 256);
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "new%d" TT_FLIGHT_REPORT_SUFFIX, i);
		write_ring(name, 1);
	}
	tutti_comm_destroy(comm);
	assert_int_equal(count_files(TT_FLIGHT_REPORT_SUFFIX, NULL), 256);
	assert_int_equal(count_files("foreign.json", NULL), 1);
	assert_int_equal(access(path_of("live.flight"), F_OK), 0);
	close(live);
}

/* What cannot be had is done without: the record is kept in memory of the process. */
TEST_WITH(without_descriptors_nothing_but_the_file_is_missing, make_directory, remove_folder)
{
	struct shortage shortage;

	shortage_begin(&shortage);
	comm = alone();
	shortage_end(&shortage);
	assert_int_equal(count_files("", NULL), 0);
	assert_ok(tutti_barrier(comm, NULL));
	json_auto_t *report = report_on_signal();

	assert_int_equal(count_in(report, "operations"), 1);
	tutti_comm_destroy(comm);
}

TEST_WITH(where_the_file_cannot_grow_memory_takes_over, make_comm, destroy_comm)
{
	struct rlimit limit, small;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 4096;
	setrlimit(RLIMIT_FSIZE, &small);
	for (int i = 0; i < 5000; i++)
		assert_ok(tutti_barrier(comm, NULL));
	setrlimit(RLIMIT_FSIZE, &limit);
	json_auto_t *report = report_on_signal();

	assert_int_equal(count_in(report, "operations"), 4096);
	signal(SIGXFSZ, SIG_DFL);
}

/* The default directories are in places where anybody may have made them before. */
TEST_WITH(a_directory_that_others_can_enter_is_not_used, make_directory, remove_folder)
{
	const char *path = path_of("open");

	assert_false(tt_flight_have_directory("/", true));
	assert_true(tt_flight_have_directory(path, true));
	chmod(path, 0755);
	assert_false(tt_flight_have_directory(path, true));
	assert_true(tt_flight_have_directory(path, false));
}
