/* SPDX-License-Identifier: BSD-3-Clause */
/* The key: what is taken for one and what is not, and that proofs are HMAC-SHA256 of what they
 * are said to be of. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tutti_asserts.h"
#include "test_folder.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "key_read.h"
#include "log.h"

#define GOOD "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

static const struct tt_key key = { true, { 0, 1, 2, 3, 4, 5, 6, 7, 250 } };

/* ---------------------------------------------------------------- reading */

/* GOOD, from wherever. */
static void expect_good(const char *config)
{
	struct tt_key read;

	assert_ok(tt_key_read(config, 0, &read));
	assert_true(read.set);
	for (int i = 0; i < TT_KEY_BYTES; i++)
		assert_int_equal(read.bytes[i], i);
}

static void expect_none(void)
{
	struct tt_key read;

	assert_ok(tt_key_read(NULL, 0, &read));
	assert_false(read.set);
}

TEST(a_key_is_read_from_the_config_the_variable_or_neither)
{
	unsetenv("TUTTI_KEY");
	expect_none();
	expect_good(GOOD);
	setenv("TUTTI_KEY", "", 1);
	expect_none();
	setenv("TUTTI_KEY", GOOD, 1);
	expect_good(NULL);
	setenv("TUTTI_KEY", "nonsense", 1);
	expect_good(GOOD); /* the config wins */
	unsetenv("TUTTI_KEY");
}

TEST(keys_that_are_made_are_keys_and_differ)
{
	char made[2][TUTTI_KEY_LENGTH + 1];
	struct tt_key read[2];

	for (int i = 0; i < 2; i++) {
		assert_ok(tutti_key_make(made[i]));
		assert_ok(tt_key_read(made[i], 0, &read[i]));
		assert_true(read[i].set);
	}
	assert_memory_not_equal(read[0].bytes, read[1].bytes, TT_KEY_BYTES);
	assert_int_equal(tutti_key_make(NULL), TUTTI_ERR_INVALID);
}

/* Refused, with an error message that has `says` and nothing of the key. */
static void expect_refused(const char *says)
{
	struct tt_key read;
	const uint8_t none[TT_KEY_BYTES] = { 0 };

	assert_true(tt_key_read(NULL, 0, &read) < 0);
	assert_says(tt_thread_error(), says);
	assert_null(strstr(tt_thread_error(), "0102"));
	assert_false(read.set);
	assert_memory_equal(read.bytes, none, sizeof(none));
}

TEST(what_is_no_key_is_refused_and_not_repeated)
{
	static const struct {
		const char *text, *says;
	} all[] = {
		{ "0102", "TUTTI_KEY has 4 characters: expected a key of 64" },
		{ GOOD "0", "has 65 characters" },
		{ GOOD " ", "has 65 characters" },
		{ "0102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F0x",
		  "something else than a hexadecimal digit as character 64" },
		{ "010203040506070809 a0b0c0d0e0f101112131415161718191A1B1C1D1E1F0f",
		  "something else than a hexadecimal digit as character 19" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		setenv("TUTTI_KEY", all[i].text, 1);
		expect_refused(all[i].says);
	}
	unsetenv("TUTTI_KEY");
}

static const char *path; /* of the file */

static int name_file(void **state)
{
	if (make_folder(state))
		return 1;
	path = path_of("key");
	return setenv("TUTTI_KEY_FILE", path, 1);
}

static int forget_file(void **state)
{
	unsetenv("TUTTI_KEY_FILE");
	return remove_folder(state);
}

static void write_file(const char *text, mode_t mode)
{
	file_with("key", text);
	assert_int_equal(chmod(path, mode), 0);
}

TEST_WITH(a_key_is_read_from_a_file_that_nobody_else_can_use, name_file, forget_file)
{
	write_file(GOOD "\n", 0600);
	expect_good(NULL);
	unlink(path);
	write_file(GOOD, 0400);
	expect_good(NULL);
	setenv("TUTTI_KEY", "nonsense", 1); /* the variable wins, right or wrong */
	expect_refused("TUTTI_KEY has 8 characters");
	unsetenv("TUTTI_KEY");
}

TEST_WITH(what_is_no_file_with_a_key_is_refused, name_file, forget_file)
{
	static const struct {
		const char *text;
		mode_t mode;
		const char *says;
	} files[] = {
		{ GOOD "\n", 0640, "can be used by others" },
		{ GOOD "\n", 0604, "can be used by others" },
		{ GOOD "\n", 0620, "can be used by others" },
		{ GOOD "\n", 0602, "can be used by others" },
		{ GOOD "\n", 0601, "can be used by others" },
		{ GOOD "\n", 0666, "can be used by others" },
		{ "", 0600, "has 0 characters" },
		{ GOOD GOOD, 0600, "has at least 66 characters" },
		{ GOOD "\n\n", 0600, "has at least 66 characters" },
	};

	expect_refused("No such file");
	assert_int_equal(mkdir(path, 0700), 0);
	expect_refused("no regular file");
	rmdir(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refused("no regular file"); /* at once: nobody writes */
	unlink(path);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_file(files[i].text, files[i].mode);
		expect_refused(files[i].says);
		unlink(path);
	}
	if (geteuid() == 0) {
		write_file(GOOD, 0600);
		assert_int_equal(chown(path, 12345, 12345), 0);
		expect_refused("belongs to user 12345");
	}
}

/* ---------------------------------------------------------------- proofs */

static size_t put(uint8_t *out, size_t at, const void *bytes, size_t length)
{
	for (int i = 0; i < 8; i++)
		out[at++] = (uint8_t)((uint64_t)length >> (8 * i));
	memcpy(out + at, bytes, length);
	return at + length;
}

/* The lengths that are in it tell apart what is cut elsewhere. */
TEST(a_proof_is_the_hmac_of_role_and_parts)
{
	static const char *const roles[] = { "role", "another" };
	uint8_t data[1000], part[300], proof[TT_PROOF_BYTES], expected[TT_PROOF_BYTES];

	for (size_t i = 0; i < sizeof(part); i++)
		part[i] = (uint8_t)(i * 7);
	for (size_t n = 0; n < sizeof(part); n += 13) {
		const char *role = roles[n % 2];
		const struct iovec parts[] = { { part, n }, { part + 3, sizeof(part) - 3 } };
		const int count = n % 3 ? 2 : 1;
		struct tt_key by = key;
		size_t length = put(data, 0, role, strlen(role));

		by.bytes[TT_KEY_BYTES - 1] = (uint8_t)n;
		for (int i = 0; i < count; i++)
			length = put(data, length, parts[i].iov_base, parts[i].iov_len);
		tt_key_prove(&by, role, parts, count, proof);
		assert_non_null(
			HMAC(EVP_sha256(), by.bytes, TT_KEY_BYTES, data, length, expected, NULL));
		assert_memory_equal(proof, expected, TT_PROOF_BYTES);
		assert_true(tt_proof_equal(proof, expected));
		proof[n % TT_PROOF_BYTES] ^= 1;
		assert_false(tt_proof_equal(proof, expected));
	}
}

TEST(without_a_key_proofs_are_zeros)
{
	const struct tt_key none = { 0 };
	const uint8_t zeros[TT_PROOF_BYTES] = { 0 };
	uint8_t proof[TT_PROOF_BYTES] = { 1 };

	tt_key_prove(&none, "role", NULL, 0, proof);
	assert_memory_equal(proof, zeros, sizeof(zeros));
	proof[0] = 1;
	tt_key_prove(NULL, "role", NULL, 0, proof);
	assert_memory_equal(proof, zeros, sizeof(zeros));
}

TEST(a_key_that_is_wiped_is_gone)
{
	struct tt_key wiped = key;
	const uint8_t zeros[TT_KEY_BYTES] = { 0 };

	tt_key_wipe(&wiped);
	assert_false(tt_key_is_set(&wiped));
	assert_memory_equal(wiped.bytes, zeros, sizeof(zeros));
}

TEST(nonces_differ)
{
	uint8_t a[TT_NONCE_BYTES], b[TT_NONCE_BYTES];

	assert_ok(tt_random(a, sizeof(a)));
	assert_ok(tt_random(b, sizeof(b)));
	assert_memory_not_equal(a, b, sizeof(a));
}
