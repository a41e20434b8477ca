/* SPDX-License-Identifier: BSD-3-Clause */
/* The trainer's checkpoints: what comes back, what is refused, and that an old file stays. */
#include "tests.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

#include "checkpoint.h"
#include "held.h"
#include "replace.h"
#include "train_files.h"

enum { PARAMETERS = (3 + 1) * 2 + (2 + 1) * 2, FILE_ROOM = 4096 };

/* A checkpoint of 3 features, 2 hidden units, 2 classes after two epochs, and what it points to. */
struct sample {
	struct checkpoint c;
	struct epoch epochs[2];
	double mean[3], factor[3];
	double weights[PARAMETERS], velocity[PARAMETERS]; /* room for those of either type */
};

static void sample_make(struct sample *s, const struct numbers *numbers)
{
	double values[PARAMETERS];

	*s = (struct sample){
		.epochs = { { 1, 0.7, 0.5, 0.8, 0.4, 0.1, 1.25, 0.25, 0.75 },
			    { 2, 0.1 + 0.2, 1, NAN, NAN, 1e-300, 2.5 } },
		.mean = { -1.5, 0, 1e10 },
		.factor = { 2, 0, 1.0 / 3 },
	};
	for (int i = 0; i < PARAMETERS; i++)
		values[i] = (i - 9) / 7.0;
	numbers->store(s->weights, values, PARAMETERS);
	numbers->store(s->velocity, values, PARAMETERS);
	s->c = (struct checkpoint){
		.options = json_pack("{s:s,s:s,s:f}", "dtype", numbers->name, "optimizer",
				     "momentum", "lr", 0.1),
		.numbers = numbers,
		.velocities = 1,
		.data = UINT64_MAX,
		.layers = 2,
		.width = { 3, 2, 2 },
		.step = 42,
		.ranks = 4,
		.seconds = 2.75,
		.epoch_count = 2,
		.epochs = s->epochs,
		.array = { s->mean, s->factor, s->weights, s->velocity },
	};
}

/* Its file, at `bytes`. */
static size_t sample_file(const struct numbers *numbers, char *bytes)
{
	struct sample s;
	void *packed;
	size_t length;

	sample_make(&s, numbers);
	assert_true(checkpoint_pack("t.ck", &s.c, &packed, &length));
	assert_true(length <= FILE_ROOM);
	memcpy(bytes, packed, length);
	free(packed);
	json_decref(s.c.options);
	return length;
}

static void put_checksum(char *bytes, size_t length)
{
	const uint32_t sum =
		(uint32_t)crc32_z(0, (unsigned char *)bytes, length - sizeof(uint32_t));

	memcpy(bytes + length - sizeof(sum), &sum, sizeof(sum));
}

/* `text` instead of `was`, under a right checksum: how long it is then. */
static size_t edit(char *bytes, size_t length, const char *was, const char *text)
{
	char *const at = memmem(bytes, length, was, strlen(was));
	const size_t behind = length - (size_t)(at - bytes) - strlen(was);

	assert_non_null(at);
	memmove(at + strlen(text), at + strlen(was), behind);
	memcpy(at, text, strlen(text));
	length = length - strlen(was) + strlen(text);
	put_checksum(bytes, length);
	return length;
}

static void refuses(const void *bytes, size_t length, const char *error_text)
{
	void *copy = malloc(length + !length);
	struct checkpoint c;

	memcpy(copy, bytes, length);
	assert_false(checkpoint_parse("t.ck", copy, length, &c));
	assert_int_equal(why.result, TUTTI_ERR_INVALID);
	assert_says(why.text, error_text);
	assert_memory_equal(&c, &(struct checkpoint){ 0 }, sizeof(c));
	free(copy);
}

static void same_checkpoint(const struct checkpoint *a, const struct checkpoint *b)
{
	const size_t of_weights = PARAMETERS * a->numbers->size;

	assert_true(json_equal(a->options, b->options));
	assert_ptr_equal(a->numbers, b->numbers);
	assert_int_equal(a->velocities, b->velocities);
	assert_int_equal(a->layers, b->layers);
	assert_memory_equal(a->width, b->width, sizeof(a->width));
	assert_true(a->data == b->data && a->step == b->step);
	assert_true(a->seconds == b->seconds && a->ranks == b->ranks);
	assert_int_equal(a->epoch_count, b->epoch_count);
	for (unsigned i = 0; i < a->epoch_count; i++) {
		const struct epoch *x = &a->epochs[i], *y = &b->epochs[i];

		assert_true(x->number == y->number && x->train_loss == y->train_loss);
		assert_true(x->test_loss == y->test_loss ||
			    (isnan(x->test_loss) && isnan(y->test_accuracy)));
		assert_memory_equal(&x->rate, &y->rate, sizeof(*x) - offsetof(struct epoch, rate));
	}
	for (int i = MEAN; i <= FACTOR; i++)
		assert_memory_equal(a->array[i], b->array[i], 3 * sizeof(double));
	for (int i = WEIGHTS; i <= VELOCITY; i++)
		assert_memory_equal(a->array[i], b->array[i], of_weights);
}

static void comes_back(const struct checkpoint *c)
{
	const char *path = path_of("ck");
	struct checkpoint again;

	assert_true(checkpoint_write(path, c));
	assert_true(checkpoint_read(path, &again));
	same_checkpoint(c, &again);
	checkpoint_finish(&again);
	assert_null(again.array[WEIGHTS]);
	unlink(path);
}

TEST(checkpoint_comes_back_bit_for_bit)
{
	struct sample s;

	for (int i = 0; numbers_types[i]; i++) {
		sample_make(&s, numbers_types[i]);
		comes_back(&s.c);
		s.c.epoch_count = 0;
		comes_back(&s.c);
		json_decref(s.c.options);
	}
}

TEST(checkpoint_cut_or_changed_anywhere_is_refused)
{
	static const char changes[] = { 1, (char)0x80, (char)0xff };
	char bytes[FILE_ROOM] = "";
	const size_t length = sample_file(&numbers_f32, bytes);
	const size_t header = (size_t)((char *)memchr(bytes, '\n', length) - bytes);

	for (size_t cut = 0; cut < length; cut++)
		refuses(bytes, cut,
			cut < 26 ? "is not a checkpoint of tutti-train"
			: cut <= header
				? "t.ck: the header is damaged: it has no end; use another copy"
				: "t.ck: is truncated or damaged: found checksum ");
	assert_true(header > 26 && length == header + 1 + 6 * 8 + 2 * PARAMETERS * 4 + 4);
	for (size_t i = 0; i < length; i++)
		for (size_t k = 0; k < sizeof(changes); k++) {
			bytes[i] ^= changes[k];
			refuses(bytes, length, "t.ck: ");
			bytes[i] ^= changes[k];
		}
	refuses(bytes, length + 3, "is truncated or damaged: found checksum ");
	put_checksum(bytes, length + 3);
	refuses(bytes, length + 3, "bytes behind the header, expected ");
}

TEST(checkpoint_that_is_none_is_told_apart)
{
	static const char csv[] = "1,2,0\n3,4,1\n";
	static const char old[] = "\x89tuttick\x02\0\0\0\x04\0\0\0";

	refuses(csv, strlen(csv), "is not a checkpoint of tutti-train");
	refuses(old, sizeof(old),
		"was written by another tutti-train (format 2), expected format 3; use "
		"that one, or begin anew");
}

/* The checksum is right: it is the fields that nobody trusts. */
TEST(checkpoint_header_that_lies_is_refused)
{
	static const struct {
		const char *was, *text, *error_text;
	} cases[] = {
		{ "point\":3", "point\":4", "another tutti-train (format 4), expected format 3" },
		{ "point\":3", "point\":\"3\"", "header is damaged: Expected integer, got string" },
		{ "\"f32\"", "\"f16\"", "its dtype or optimizer is none of tutti-train's" },
		{ "\"momentum\"", "\"impulse\"", "its dtype or optimizer is none of" },
		{ "\"optimizer\"", "\"optimiser\"", "Object item not found: optimizer" },
		{ "\"f32\"", "\"f64\"", "arrays: found others than those of its widths" },
		{ "\"momentum\"", "\"adam\"", "arrays: found others than those of its widths" },
		{ "[3,2,2]", "[3,3,2]", "arrays: found others than those of its widths" },
		{ "[3,2,2]", "[3]", "its widths are none of a model" },
		{ "[3,2,2]", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18]",
		  "its widths are none of a model" },
		{ "[3,2,2]", "null", "its widths are none of a model" },
		{ "[3,2,2]", "[0,2,2]", "its widths are none of a model" },
		{ "[3,2,2]", "[4294967297,2,2]", "its widths are none of a model" },
		{ "[3,2,2]", "[3,65537,2]", "its widths are none of a model" },
		{ "[3,2,2]", "[3,-1,2]", "its widths are none of a model" },
		{ "[3,2,2]", "[3,2,1]", "its widths are none of a model" },
		{ "\"weights\",\"<f4\",14", "\"weights\",\"<f4\",15", "arrays: found others" },
		{ "\"steps\":42", "\"steps\":1", "fewer steps than epochs, or no rank" },
		{ "\"steps\":42", "\"steps\":-1", "fewer steps than epochs, or no rank" },
		{ "\"ranks\":4", "\"ranks\":0", "fewer steps than epochs, or no rank" },
		{ "\"seconds\":2.75", "\"seconds\":null", "Expected real or integer, got null" },
		{ "\"test_loss\"", "\"test_lost\"", "its epochs lack numbers" },
		{ "{\"dtype\"", "{\"dtype\":1,\"dtype\"", "duplicate object key" },
	};
	char bytes[FILE_ROOM];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const size_t length = sample_file(&numbers_f32, bytes);

		refuses(bytes, edit(bytes, length, cases[i].was, cases[i].text),
			cases[i].error_text);
	}
}

TEST(checkpoint_of_the_largest_model_overflows_nothing)
{
	const uint64_t features = (uint64_t)1 << 32,
		       parameters = (features + 1) * 65536 + 15 * (uint64_t)65537 * 65536;
	char bytes[FILE_ROOM], text[400] = "[4294967296", counts[200];
	size_t length = sample_file(&numbers_f64, bytes);

	for (int i = 0; i < 16; i++)
		strcat(text, ",65536");
	length = edit(bytes, length, "[3,2,2", text);
	snprintf(counts, sizeof(counts),
		 "[[\"mean\",\"<f8\",4294967296],[\"factor\",\"<f8\",4294967296],"
		 "[\"weights\",\"<f8\",%llu],[\"velocity\",\"<f8\",%llu]]",
		 (unsigned long long)parameters, (unsigned long long)parameters);
	length = edit(bytes, length,
		      "[[\"mean\",\"<f8\",3],[\"factor\",\"<f8\",3],[\"weights\",\"<f8\",14],"
		      "[\"velocity\",\"<f8\",14]]",
		      counts);
	snprintf(text, sizeof(text), "bytes behind the header, expected %llu",
		 (unsigned long long)(2 * features + 2 * parameters) * sizeof(double) + 4);
	refuses(bytes, length, text);
}

TEST(checkpoint_numbers_that_are_not_finite_are_refused)
{
	static const char *const names[] = { "mean", "factor", "weights", "velocity" };
	const char *path = path_of("ck");
	char text[100];
	struct sample s;
	struct checkpoint c;

	sample_make(&s, &numbers_f64);
	assert_true(checkpoint_write(path, &s.c));
	for (int i = 0; i < CHECKPOINT_ARRAYS; i++) {
		double *const last = (double *)s.c.array[i] + (i < WEIGHTS ? 3 : PARAMETERS) - 1;
		const double was = *last;
		void *bytes;
		size_t length;

		*last = INFINITY;
		snprintf(text, sizeof(text), "%s: found a number that is not finite; the",
			 names[i]);
		assert_false(checkpoint_write(path, &s.c));
		assert_int_equal(why.result, TUTTI_ERR_INVALID);
		assert_says(why.text, text);
		assert_true(checkpoint_pack(path, &s.c, &bytes, &length));
		refuses(bytes, length, text);
		free(bytes);
		*last = was;
	}
	/* that of a training that diverged replaces none */
	assert_true(checkpoint_read(path, &c));
	same_checkpoint(&c, &s.c);
	checkpoint_finish(&c);
	json_decref(s.c.options);
	unlink(path);
}

/* ---- files that are whole or as they were */

/* The files that are in the tests' directory, beside "." and "..". */
static int files_left(void)
{
	return count_entries(directory) - 2;
}

static void writes(const char *path, const char *text)
{
	if (!replace_file(path, text, strlen(text)))
		fail_msg("%s", why.text);
}

/* Also beforehand, without bytes. */
static void refuses_target(const char *path, const char *error_text)
{
	const int before = files_left();

	for (int i = 0; i < 2; i++) {
		assert_false(replace_file(path, i ? "1" : NULL, 1));
		assert_says(why.text, error_text);
	}
	assert_int_equal(files_left(), before);
}

TEST(a_file_replaces_nothing_but_a_file)
{
	char fifo[64], link[64], linked[64], open_file[64], name[400];
	FILE *const file = fopen(path_of("open"), "w");
	struct stat status;

	snprintf(open_file, sizeof(open_file), "/dev/fd/%d", fileno(file));
	strcpy(linked, path_of("linked"));
	assert_int_equal(symlink(open_file, linked), 0);
	strcpy(fifo, path_of("fifo"));
	strcpy(link, path_of("link"));
	snprintf(name, sizeof(name), "%s/%0300d", directory, 0);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	assert_int_equal(symlink("fifo", link), 0);
	refuses_target(directory, "is a directory, expected a regular file");
	refuses_target("/", "is a directory");
	refuses_target(path_of(""), "is a directory");
	refuses_target(path_of("."), "is a directory");
	refuses_target(path_of("nowhere/ck"), "No such file or directory");
	refuses_target(path_of("fifo/ck"), "Not a directory");
	refuses_target("", "Is a directory");
	refuses_target(name, "File name too long");
	refuses_target(fifo, "is a device, a pipe or a socket");
	refuses_target(link, "is a device, a pipe or a socket");
	refuses_target("/dev/full", "is a device, a pipe or a socket");
	refuses_target(open_file, "is a link of /proc to what is open, expected a regular file");
	refuses_target(linked, "is a link of /proc to what is open");
	assert_true(stat("/dev/full", &status) == 0 && S_ISCHR(status.st_mode));
	assert_true(lstat(fifo, &status) == 0 && S_ISFIFO(status.st_mode));
	assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
	fclose(file);
	unlink(path_of("open"));
	unlink(linked);
	unlink(fifo);
	unlink(link);
}

/* A name in the directory one is in needs no '/'. */
TEST(a_file_may_be_written_beside_the_program)
{
	char *was = getcwd(NULL, 0);

	assert_non_null(was);
	assert_int_equal(chdir(directory), 0);
	assert_true(replace_file("ck", NULL, 0));
	assert_int_equal(files_left(), 0);
	writes("ck", "text");
	assert_int_equal(unlink("ck"), 0);
	assert_int_equal(chdir(was), 0);
	free(was);
}

TEST(a_file_has_the_mode_that_the_umask_leaves)
{
	const char *path = path_of("ck");
	const mode_t was = umask(026);
	struct stat status;

	writes(path, "text");
	umask(was);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0640);
	unlink(path);
}

/* A write of `limit` bytes at most, as on a disk that is full. */
static bool write_limited(const char *path, const char *text, rlim_t limit)
{
	struct rlimit was, low;
	bool ok;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	low = (struct rlimit){ limit, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	ok = replace_file(path, text, strlen(text));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	signal(SIGXFSZ, SIG_DFL);
	return ok;
}

static void has(const char *path, const char *text)
{
	char found[16] = { 0 };
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_int_equal(fread(found, 1, sizeof(found) - 1, file), strlen(text));
	fclose(file);
	assert_string_equal(found, text);
}

TEST(a_file_stays_where_a_later_one_cannot_be_written)
{
	static const rlim_t limits[] = { 0, 1, 7 };
	const char *path = path_of("ck");
	char expected[100];

	writes(path, "old");
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		assert_false(write_limited(path, "8 bytes.", limits[i]));
		assert_int_equal(why.result, TUTTI_ERR_SYSTEM);
		snprintf(expected, sizeof(expected), "ck: writing failed: %s", strerror(EFBIG));
		assert_says(why.text, expected);
		assert_int_equal(files_left(), 1);
		has(path, "old");
	}
	assert_true(write_limited(path, "8 bytes.", 8));
	has(path, "8 bytes.");
	unlink(path);
}

/* Also one to a file that is not there yet. One that leads nowhere is not replaced, either. */
TEST(a_link_to_a_file_stays)
{
	const char *link = path_of("link"), *loop = path_of("loop");
	struct stat status;

	assert_int_equal(symlink("./ck", link), 0);
	assert_int_equal(symlink("loop", loop), 0);
	writes(link, "old");
	has(path_of("ck"), "old");
	writes(link, "new");
	assert_true(lstat(link, &status) == 0 && S_ISLNK(status.st_mode));
	has(path_of("ck"), "new");
	refuses_target(loop, strerror(ELOOP));
	assert_true(lstat(loop, &status) == 0 && S_ISLNK(status.st_mode));
	unlink(path_of("ck"));
	unlink(link);
	unlink(loop);
}

TEST(a_file_keeps_who_may_read_it)
{
	const char *path = path_of("ck");
	struct stat status;

	writes(path, "old");
	assert_int_equal(chmod(path, 0600), 0);
	writes(path, "new");
	assert_true(stat(path, &status) == 0 && (status.st_mode & 0777) == 0600);
	unlink(path);
}

TEST(a_file_removes_what_a_killed_process_left)
{
	static const char *const left[] = { "ck.7-0.tmp", "ck.7-1.tmp", "ck.123456-99.tmp" };
	static const char *const others[] = { "ck.tmp", "ck.7.tmp", "ck.7-x.tmp", "ck.7-0.tmp1",
					      "ck2.7-0.tmp" };

	for (size_t i = 0; i < 3; i++)
		text_file(left[i], "");
	for (size_t i = 0; i < 5; i++)
		text_file(others[i], "");
	writes(path_of("ck"), "text");
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(unlink(path_of(others[i])), 0);
	assert_int_equal(files_left(), 1);
	unlink(path_of("ck"));
}

/* In a container processes have the same number each time. */
TEST(a_file_is_written_beside_those_that_others_write)
{
	enum { OTHERS = 20 };
	char draft[100], path[64];
	int drafts[OTHERS];

	snprintf(path, sizeof(path), "%s/ck", directory);
	for (int i = 0; i < OTHERS; i++) {
		writes(path, "text");
		snprintf(draft, sizeof(draft), "%s.%ld-%d.tmp", path, (long)getpid(), i);
		drafts[i] = open(draft, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_int_equal(flock(drafts[i], LOCK_EX), 0);
	}
	assert_int_equal(files_left(), 1 + OTHERS);
	for (int i = 0; i < OTHERS; i++)
		close(drafts[i]);
	writes(path, "text");
	assert_int_equal(files_left(), 1);
	unlink(path);
}

int main(void)
{
	return run_claims(make_directory, remove_directory);
}
