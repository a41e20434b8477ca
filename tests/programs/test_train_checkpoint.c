/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's checkpoints: what comes back, what is refused, and that an old one stays. */
#include <stdbool.h>
#include "tests.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "bits.h"
#include "checkpoint.h"
#include "replace.h"
#include "train_files.h"

enum { PARAMETERS = (3 + 1) * 2 + (2 + 1) * 2, NUMBERS = 2 * PARAMETERS, FILE_ROOM = 1024 };

/* A checkpoint of 3 features, 2 hidden units, 2 classes after two epochs, and what it points to. */
struct sample {
	struct checkpoint c;
	struct epoch epochs[2];
	double mean[3], inverse[3];
	double state[NUMBERS + SUMS_NUMBERS]; /* room for that of either type */
};

static void sample_make(struct sample *s, const struct numbers *numbers)
{
	static const double sums[SUMS_NUMBERS] = { 1.5, 2, 3 };
	double values[NUMBERS];

	*s = (struct sample){
		.epochs = { { 1, 0.7, 0.5, 0.8, 0.4, 0.1, 1.25 },
			    { 2, 0.1 + 0.2, 1, NAN, NAN, 1e-300, 2.5 } },
		.mean = { -1.5, 0, 1e10 },
		.inverse = { 2, 0, 1.0 / 3 },
	};
	for (int i = 0; i < NUMBERS; i++)
		values[i] = (i - 9) / 7.0;
	numbers->store(s->state, values, NUMBERS);
	memcpy((char *)s->state + NUMBERS * numbers->size, sums, sizeof(sums));
	s->c = (struct checkpoint){
		.numbers = numbers,
		.layers = 2,
		.velocities = 1,
		.width = { 3, 2, 2 },
		.options = 0x0123456789abcdef,
		.data = UINT64_MAX,
		.step = 42,
		.epoch_count = 2,
		.seconds = 2.75,
		.ranks = 4,
		.epochs = s->epochs,
		.state = s->state,
		.state_bytes = NUMBERS * numbers->size + sizeof(sums),
		.mean = s->mean,
		.inverse = s->inverse,
	};
}

/* Its file, at `bytes`. */
static size_t sample_file(const struct numbers *numbers, unsigned char *bytes)
{
	struct sample s;

	sample_make(&s, numbers);
	assert_true(checkpoint_bytes(&s.c) <= FILE_ROOM);
	checkpoint_put(&s.c, bytes);
	return checkpoint_bytes(&s.c);
}

static void repair_checksum(unsigned char *bytes, size_t length)
{
	const uint64_t sum = hash_bytes(0, bytes, length - sizeof(sum));

	memcpy(bytes + length - sizeof(sum), &sum, sizeof(sum));
}

static void refuses_checkpoint(const void *bytes, size_t length, const char *error_text)
{
	void *copy = malloc(length + !length);
	struct checkpoint c;
	struct why why;

	memcpy(copy, bytes, length);
	assert_int_equal(checkpoint_parse("t.ck", copy, length, &c, &why), TUTTI_ERR_INVALID);
	if (!strstr(why.text, error_text))
		fail_msg("found \"%s\", expected \"%s\"", why.text, error_text);
	assert_true(!c.epochs && !c.state && !c.mean && !c.inverse && !c.numbers);
	free(copy);
}

static void same_checkpoint(const struct checkpoint *a, const struct checkpoint *b)
{
	assert_ptr_equal(a->numbers, b->numbers);
	assert_int_equal(a->layers, b->layers);
	assert_int_equal(a->velocities, b->velocities);
	assert_memory_equal(a->width, b->width, sizeof(a->width));
	assert_true(a->options == b->options && a->data == b->data && a->step == b->step);
	assert_true(a->seconds == b->seconds && a->ranks == b->ranks);
	assert_int_equal(a->epoch_count, b->epoch_count);
	for (unsigned i = 0; i < a->epoch_count; i++) {
		assert_int_equal(a->epochs[i].number, b->epochs[i].number);
		assert_memory_equal(&a->epochs[i].train_loss, &b->epochs[i].train_loss,
				    6 * sizeof(double));
	}
	assert_int_equal(a->state_bytes, b->state_bytes);
	assert_memory_equal(a->state, b->state, a->state_bytes);
	assert_memory_equal(a->mean, b->mean, a->width[0] * sizeof(double));
	assert_memory_equal(a->inverse, b->inverse, a->width[0] * sizeof(double));
}

static void comes_back(const struct checkpoint *c)
{
	const char *path = path_of("ck");
	struct checkpoint again;
	struct why why;

	assert_int_equal(checkpoint_write(path, c, &why), TUTTI_OK);
	assert_int_equal(checkpoint_read(path, &again, &why), TUTTI_OK);
	same_checkpoint(c, &again);
	checkpoint_finish(&again);
	assert_null(again.state);
	unlink(path);
}

TEST(checkpoint_comes_back_bit_for_bit)
{
	struct sample s;

	sample_make(&s, &numbers_f32);
	comes_back(&s.c);
	sample_make(&s, &numbers_f64);
	comes_back(&s.c);
	sample_make(&s, &numbers_bf16);
	comes_back(&s.c);
	s.c.epoch_count = 0;
	s.c.step = 0;
	comes_back(&s.c);
}

TEST(checkpoint_of_data_as_they_are_has_means_0_and_factors_1)
{
	const char *path = path_of("ck");
	struct sample s;
	struct checkpoint c;
	struct why why;

	sample_make(&s, &numbers_f32);
	s.c.mean = s.c.inverse = NULL;
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
	assert_int_equal(checkpoint_read(path, &c, &why), TUTTI_OK);
	for (int i = 0; i < 3; i++)
		assert_true(c.mean[i] == 0 && c.inverse[i] == 1);
	checkpoint_finish(&c);
	unlink(path);
}

TEST(checkpoint_cut_anywhere_is_refused)
{
	unsigned char bytes[FILE_ROOM];
	const size_t length = sample_file(&numbers_f32, bytes);
	char expected[64];

	for (size_t cut = 0; cut < 8; cut++)
		refuses_checkpoint(bytes, cut, "is not a checkpoint of tutti-train");
	for (size_t cut = 8; cut < length; cut++) {
		snprintf(expected, sizeof(expected), "truncated: found %zu bytes, expected %s", cut,
			 cut < 88 ? "at least" : "384");
		refuses_checkpoint(bytes, cut, expected);
	}
	assert_int_equal(length, 384);
}

TEST(checkpoint_with_any_byte_changed_is_refused)
{
	static const unsigned char changes[] = { 1, 0x80, 0xff };
	static const struct numbers *const types[] = { &numbers_f32, &numbers_f64, &numbers_bf16 };
	unsigned char bytes[FILE_ROOM];

	for (int t = 0; t < 3; t++) {
		const size_t length = sample_file(types[t], bytes);

		for (size_t i = 0; i < length; i++)
			for (size_t k = 0; k < sizeof(changes); k++) {
				bytes[i] ^= changes[k];
				refuses_checkpoint(bytes, length, "t.ck: ");
				bytes[i] ^= changes[k];
			}
	}
}

TEST(checkpoint_that_is_none_is_told_apart)
{
	unsigned char bytes[FILE_ROOM] = { 0 };
	const size_t length = sample_file(&numbers_f32, bytes);
	static const char csv[] = "1,2,0\n3,4,1\n";

	refuses_checkpoint(csv, strlen(csv), "is not a checkpoint of tutti-train");
	refuses_checkpoint(bytes, length + 3, "3 bytes longer than its header says");
	bytes[8] = 3;
	refuses_checkpoint(
		bytes, length,
		"was written by a newer tutti-train (format 3), expected at most 2; use that one");
	bytes[8] = 1;
	refuses_checkpoint(bytes, length,
			   "was written by an older tutti-train (format 1), "
			   "expected format 2; use that one, or begin anew");
}

/* The checksum is right: it is the fields that nobody trusts. */
TEST(checkpoint_header_that_lies_is_refused)
{
	static const struct {
		size_t offset, length;
		uint64_t value;
		const char *error_text;
	} cases[] = {
		{ 12, 4, 3, "type: found 3, expected 4 (f32), 8 (f64) or 2 (bf16)" },
		{ 12, 4, 8, "truncated: found 384 bytes, expected 496" },
		{ 16, 4, 0, "layers: found 0, expected 1 to 16" },
		{ 16, 4, 17, "layers: found 17, expected 1 to 16" },
		{ 16, 4, UINT32_MAX, "layers: found 4294967295, expected 1 to 16" },
		{ 20, 4, 3, "numbers kept for each weight: found 3, expected 0 to 2" },
		{ 20, 4, 0, "56 bytes longer than its header says" },
		{ 20, 4, 2, "truncated: found 384 bytes, expected 440" },
		{ 24, 4, 1, "52 bytes longer than its header says" },
		{ 24, 4, UINT32_MAX, "steps: found 42, expected 4294967295" },
		{ 28, 4, 0, "ranks: found 0, expected 1 to 2147483647" },
		{ 28, 4, (uint64_t)1 << 31, "ranks: found 2147483648" },
		{ 48, 8, 1, "steps: found 1, expected 2" },
		{ 56, 8, 0x7ff0000000000000, "seconds: found inf, expected a finite number" },
		{ 64, 8, 0, "features: found 0, expected 1 to 4294967296" },
		{ 64, 8, ((uint64_t)1 << 32) + 1, "features: found 4294967297" },
		{ 64, 8, (uint64_t)1 << 32, "truncated: found 384 bytes, expected 137438953760" },
		{ 72, 8, 0, "width of hidden layer 1: found 0, expected 1 to 65536" },
		{ 72, 8, 65537, "width of hidden layer 1: found 65537" },
		{ 72, 8, UINT64_MAX, "width of hidden layer 1: found 18446744073709551615" },
		{ 80, 8, 1, "classes: found 1, expected 2 to 65536" },
		{ 80, 8, 65537, "classes: found 65537" },
		{ 88, 4, 2, "epochs: found number 2, expected 1" },
		{ 140, 4, 3, "epochs: found number 3, expected 2" },
	};
	unsigned char bytes[FILE_ROOM];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const size_t length = sample_file(&numbers_f32, bytes);

		memcpy(bytes + cases[i].offset, &cases[i].value, cases[i].length);
		repair_checksum(bytes, length);
		refuses_checkpoint(bytes, length, cases[i].error_text);
	}
}

TEST(checkpoint_of_the_largest_model_overflows_nothing)
{
	unsigned char bytes[FILE_ROOM] = { 0 };
	const uint64_t features = (uint64_t)1 << 32, layers = 16, eight = 8, most = 65536;

	sample_file(&numbers_f64, bytes);
	memcpy(bytes + 12, &eight, 4);
	memcpy(bytes + 16, &layers, 4);
	memcpy(bytes + 64, &features, 8);
	for (int i = 1; i <= 16; i++)
		memcpy(bytes + 64 + 8 * i, &most, 8);
	refuses_checkpoint(bytes, sizeof(bytes),
			   "truncated: found 1024 bytes, expected 4504699155775824");
}

/* 192: the epochs end; 240: the means and factors; then 14 weights, 14 of their velocity, 3 sums */
TEST(checkpoint_numbers_that_are_not_finite_are_refused)
{
	static const struct {
		size_t offset;
		const char *error_text;
	} reals[] = {
		{ 92, "epoch 1, training loss: found nan" },
		{ 100, "epoch 1, training accuracy: found nan" },
		{ 124, "epoch 1, rate: found nan" },
		{ 184, "epoch 2, seconds: found nan" },
		{ 192, "mean of feature 0: found nan" },
		{ 232, "factor of feature 2: found nan" },
		{ 352, "sum of the epoch 0: found nan" },
		{ 368, "sum of the epoch 2: found nan" },
	}, numbers[] = {
		{ 240, "weight 0: found nan" },
		{ 240 + 13 * 4, "weight 13: found nan" },
		{ 240 + 14 * 4, "velocity 0: found nan" },
		{ 240 + 27 * 4, "velocity 13: found nan" },
	};
	static const double not_a_number = NAN;
	static const float neither = NAN;
	unsigned char bytes[FILE_ROOM];

	for (size_t i = 0; i < sizeof(reals) / sizeof(reals[0]); i++) {
		const size_t length = sample_file(&numbers_f32, bytes);

		memcpy(bytes + reals[i].offset, &not_a_number, 8);
		repair_checksum(bytes, length);
		refuses_checkpoint(bytes, length, reals[i].error_text);
	}
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		const size_t length = sample_file(&numbers_f32, bytes);

		memcpy(bytes + numbers[i].offset, &neither, 4);
		repair_checksum(bytes, length);
		refuses_checkpoint(bytes, length, numbers[i].error_text);
	}
}

/* Not read, for this reason. */
static void refuses_file(const char *path, tutti_result_t result, const char *error_text)
{
	struct checkpoint c;
	struct why why;

	assert_int_equal(checkpoint_read(path, &c, &why), result);
	if (!strstr(why.text, error_text))
		fail_msg("found \"%s\", expected \"%s\"", why.text, error_text);
	assert_null(c.state);
}

/* That what was read is parsed: what it may be is shown above. */
TEST(checkpoint_file_that_is_damaged_is_refused)
{
	const char *path = path_of("ck");
	unsigned char bytes[FILE_ROOM] = { 0 };
	const size_t length = sample_file(&numbers_f64, bytes);

	write_file(path, bytes, length - 1);
	refuses_file(path, TUTTI_ERR_INVALID, "ck: truncated: found 495 bytes, expected 496");
	write_file(path, bytes, length + 1);
	refuses_file(path, TUTTI_ERR_INVALID, "ck: 1 bytes longer than its header says");
	unlink(path);
}

TEST(checkpoint_that_is_no_file_is_not_read)
{
	const char *path = path_of("fifo");

	refuses_file(path, TUTTI_ERR_SYSTEM, "fifo: cannot be read: No such file");
	assert_int_equal(mkfifo(path, 0600), 0);
	refuses_file(path, TUTTI_ERR_INVALID, "fifo: is not a regular file");
	refuses_file(directory, TUTTI_ERR_INVALID, "is not a regular file");
	unlink(path);
}

/* The files that are in the tests' directory. */
static int files_left(void)
{
	DIR *entries = opendir(directory);
	int count = 0;

	assert_non_null(entries);
	for (const struct dirent *e = readdir(entries); e; e = readdir(entries))
		count += e->d_name[0] != '.';
	closedir(entries);
	return count;
}

/* replace_check() knows beforehand. */
static void refuses_target(const char *path, const char *error_text)
{
	struct sample s;
	struct why why = { "" }, check_why = { "" };
	const int before = files_left();

	sample_make(&s, &numbers_f32);
	assert_true(checkpoint_write(path, &s.c, &why) < 0);
	if (!strstr(why.text, error_text))
		fail_msg("found \"%s\", expected \"%s\"", why.text, error_text);
	assert_true(replace_check(path, &check_why) < 0);
	assert_string_equal(check_why.text, why.text);
	assert_int_equal(files_left(), before);
}

TEST(checkpoint_replaces_nothing_but_a_file)
{
	char fifo[64], link[64], name[400];
	struct stat status;

	snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
	snprintf(link, sizeof(link), "%s/link", directory);
	snprintf(name, sizeof(name), "%s/%0300d", directory, 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("fifo", link), 0);
	refuses_target(directory, "is a directory, expected a regular file");
	refuses_target("/", "names a directory");
	refuses_target(path_of(""), "names a directory");
	refuses_target(path_of("."), "is a directory");
	refuses_target(path_of("nowhere/ck"), "No such file or directory");
	refuses_target(path_of("fifo/ck"), "Not a directory");
	refuses_target("", "names a directory");
	refuses_target(name, "File name too long");
	refuses_target(fifo, "is a device, a pipe or a socket");
	refuses_target(link, "is a symbolic link");
	refuses_target("/dev/full", "is a device, a pipe or a socket");
	assert_true(stat("/dev/full", &status) == 0 && S_ISCHR(status.st_mode));
	assert_true(lstat(fifo, &status) == 0 && S_ISFIFO(status.st_mode));
	assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
	unlink(fifo);
	unlink(link);
}

/* A checkpoint's name in the directory one is in needs no '/'. */
TEST(checkpoint_may_be_written_beside_the_program)
{
	char *was = getcwd(NULL, 0);
	struct sample s;
	struct why why;

	assert_non_null(was);
	sample_make(&s, &numbers_f32);
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(replace_check("ck", &why), TUTTI_OK);
	assert_int_equal(files_left(), 0);
	assert_int_equal(checkpoint_write("ck", &s.c, &why), TUTTI_OK);
	assert_int_equal(unlink("ck"), 0);
	assert_int_equal(chdir(was), 0);
	free(was);
}

TEST(checkpoint_has_the_mode_that_the_umask_leaves)
{
	const char *path = path_of("ck");
	const mode_t was = umask(026);
	struct sample s;
	struct stat status;
	struct why why;

	sample_make(&s, &numbers_f32);
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
	umask(was);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0640);
	unlink(path);
}

/* A write of `limit` bytes at most, as on a disk that is full. */
static tutti_result_t write_limited(const char *path, const struct checkpoint *c, rlim_t limit,
				    struct why *why)
{
	struct rlimit was, low;
	tutti_result_t result;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	low = (struct rlimit){ limit, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	result = checkpoint_write(path, c, why);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_DFL);
	return result;
}

TEST(checkpoint_stays_where_a_later_one_cannot_be_written)
{
	static const rlim_t limits[] = { 0, 1, 100, 383 };
	const char *path = path_of("ck");
	char expected[64];
	struct sample old, new;
	struct checkpoint c;
	struct why why;

	sample_make(&old, &numbers_f64);
	sample_make(&new, &numbers_f32);
	assert_int_equal(checkpoint_write(path, &old.c, &why), TUTTI_OK);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		assert_int_equal(write_limited(path, &new.c, limits[i], &why), TUTTI_ERR_SYSTEM);
		snprintf(expected, sizeof(expected), "failed after %d of 384 bytes: %s",
			 (int)limits[i], strerror(EFBIG));
		assert_non_null(strstr(why.text, expected));
		assert_non_null(strstr(why.text, path));
		assert_int_equal(files_left(), 1);
		assert_int_equal(checkpoint_read(path, &c, &why), TUTTI_OK);
		same_checkpoint(&c, &old.c);
		checkpoint_finish(&c);
	}
	assert_int_equal(write_limited(path, &new.c, 384, &why), TUTTI_OK);
	unlink(path);
}

TEST(checkpoint_of_a_training_that_diverged_replaces_none)
{
	const char *path = path_of("ck");
	struct sample s;
	struct checkpoint c;
	struct why why;

	sample_make(&s, &numbers_f64);
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
	s.state[5] = INFINITY;
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_ERR_INVALID);
	assert_non_null(strstr(why.text, "weight 5: found inf, expected a finite number; the "
					 "training has diverged"));
	assert_int_equal(checkpoint_read(path, &c, &why), TUTTI_OK);
	checkpoint_finish(&c);
	assert_int_equal(files_left(), 1);
	unlink(path);
}

/* A file beside `path` whose name ends in `ending`. */
static void write_beside(const char *path, const char *ending)
{
	char name[100];

	snprintf(name, sizeof(name), "%s%s", path, ending);
	write_file(name, "", 0);
}

static void remove_beside(const char *path, const char *ending)
{
	char name[100];

	snprintf(name, sizeof(name), "%s%s", path, ending);
	assert_int_equal(unlink(name), 0);
}

TEST(checkpoint_removes_what_a_killed_one_left)
{
	static const char *const left[] = { ".7-0.tmp", ".7-1.tmp", ".123456-99.tmp" };
	static const char *const others[] = { ".tmp", ".7.tmp", ".7-x.tmp", ".7-0.tmp1",
					      "2.7-0.tmp" };
	char path[64];
	struct sample s;
	struct why why;

	snprintf(path, sizeof(path), "%s/ck", directory);
	sample_make(&s, &numbers_f32);
	for (size_t i = 0; i < 3; i++)
		write_beside(path, left[i]);
	for (size_t i = 0; i < 5; i++)
		write_beside(path, others[i]);
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
	for (size_t i = 0; i < 5; i++)
		remove_beside(path, others[i]);
	assert_int_equal(files_left(), 1);
	unlink(path);
}

/* In a container processes have the same number each time. */
TEST(checkpoint_is_written_beside_those_that_others_write)
{
	char path[64], draft[100];
	int drafts[100];
	struct sample s;
	struct why why;

	snprintf(path, sizeof(path), "%s/ck", directory);
	sample_make(&s, &numbers_f32);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
		snprintf(draft, sizeof(draft), "%s.%ld-%d.tmp", path, (long)getpid(), i);
		drafts[i] = open(draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_int_equal(flock(drafts[i], LOCK_EX), 0);
	}
	refuses_target(path, "found 100 temporary files beside it");
	assert_int_equal(files_left(), 101);
	for (int i = 0; i < 100; i++)
		close(drafts[i]);
	assert_int_equal(checkpoint_write(path, &s.c, &why), TUTTI_OK);
	assert_int_equal(files_left(), 1);
	unlink(path);
}

int main(void)
{
	return run_claims(make_directory, remove_directory);
}
