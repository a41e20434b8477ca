/* SPDX-License-Identifier: BSD-3-Clause */
/* The key: what is taken for one and what is not, and that proofs are HMAC-SHA256 of what they
 * are said to be of. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests.h"
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "key_read.h"
#include "log.h"

#define GOOD "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

static const struct tt_key key = { true, { 0, 1, 2, 3, 4, 5, 6, 7, 250 } };

/* ---------------------------------------------------------------- reading */

static void expect_good(const struct tt_key *read)
{
	assert_true(read->set);
	for (int i = 0; i < TT_KEY_BYTES; i++)
		assert_int_equal(read->bytes[i], i);
}

static void a_key_is_read_from_the_config_the_variable_or_neither(void **state)
{
	struct tt_key read;

	unsetenv("TUTTI_KEY");
	assert_int_equal(tt_key_read(NULL, 0, &read), TUTTI_OK);
	assert_false(read.set);
	assert_int_equal(tt_key_read(GOOD, 0, &read), TUTTI_OK);
	expect_good(&read);
	setenv("TUTTI_KEY", "", 1);
	assert_int_equal(tt_key_read(NULL, 0, &read), TUTTI_OK);
	assert_false(read.set);
	setenv("TUTTI_KEY", GOOD, 1);
	assert_int_equal(tt_key_read(NULL, 0, &read), TUTTI_OK);
	expect_good(&read);
	setenv("TUTTI_KEY", "nonsense", 1);
	assert_int_equal(tt_key_read(GOOD, 0, &read), TUTTI_OK); /* the config wins */
	expect_good(&read);
	unsetenv("TUTTI_KEY");
}

static void keys_that_are_made_are_keys_and_differ(void **state)
{
	char made[2][TUTTI_KEY_LENGTH + 1];
	struct tt_key read[2];

	for (int i = 0; i < 2; i++) {
		assert_int_equal(tutti_key_make(made[i]), TUTTI_OK);
		assert_int_equal(tt_key_read(made[i], 0, &read[i]), TUTTI_OK);
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
	assert_non_null(strstr(tt_thread_error(), says));
	assert_null(strstr(tt_thread_error(), "0102"));
	assert_false(read.set);
	assert_memory_equal(read.bytes, none, sizeof(none));
}

static void what_is_no_key_is_refused_and_not_repeated(void **state)
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

static char path[64];

static void write_file(const char *text, mode_t mode)
{
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int make_directory(void **state)
{
	static char directory[] = "/tmp/tutti-test-key-XXXXXX";

	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/key", directory);
	setenv("TUTTI_KEY_FILE", path, 1);
	*state = directory;
	return 0;
}

static int remove_directory(void **state)
{
	unsetenv("TUTTI_KEY_FILE");
	unlink(path);
	return rmdir(*state);
}

static void a_key_is_read_from_a_file_that_nobody_else_can_use(void **state)
{
	struct tt_key read;

	write_file(GOOD "\n", 0600);
	assert_int_equal(tt_key_read(NULL, 0, &read), TUTTI_OK);
	expect_good(&read);
	write_file(GOOD, 0400);
	assert_int_equal(tt_key_read(NULL, 0, &read), TUTTI_OK);
	expect_good(&read);
	setenv("TUTTI_KEY", "nonsense", 1); /* the variable wins, right or wrong */
	expect_refused("TUTTI_KEY has 8 characters");
	unsetenv("TUTTI_KEY");
	unlink(path);
}

static void a_file_that_others_can_use_is_refused(void **state)
{
	static const mode_t modes[] = { 0640, 0604, 0620, 0602, 0601, 0666 };

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		write_file(GOOD "\n", modes[i]);
		expect_refused("can be used by others");
		unlink(path);
	}
}

static void what_is_no_file_with_a_key_is_refused(void **state)
{
	expect_refused("No such file");
	assert_int_equal(mkdir(path, 0700), 0);
	expect_refused("no regular file");
	rmdir(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_refused("no regular file"); /* at once: nobody writes */
	unlink(path);
	write_file("", 0600);
	expect_refused("has 0 characters");
	write_file(GOOD GOOD, 0600);
	expect_refused("has at least 66 characters");
	write_file(GOOD "\n\n", 0600);
	expect_refused("has at least 66 characters");
	unlink(path);
	if (geteuid() == 0) {
		write_file(GOOD, 0600);
		assert_int_equal(chown(path, 12345, 12345), 0);
		expect_refused("belongs to user 12345");
		unlink(path);
	}
}

/* ---------------------------------------------------------------- proofs */

/* What OpenSSL makes of `length` bytes. */
static void hmac(const struct tt_key *by, const uint8_t *data, size_t length,
		 uint8_t out[TT_PROOF_BYTES])
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST,
								       digest, 0),
				      OSSL_PARAM_construct_end() };
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	EVP_MAC_CTX *context = EVP_MAC_CTX_new(mac);
	size_t made;

	assert_int_equal(EVP_MAC_init(context, by->bytes, TT_KEY_BYTES, params), 1);
	assert_int_equal(EVP_MAC_update(context, data, length), 1);
	assert_int_equal(EVP_MAC_final(context, out, &made, TT_PROOF_BYTES), 1);
	assert_int_equal(made, TT_PROOF_BYTES);
	EVP_MAC_CTX_free(context);
	EVP_MAC_free(mac);
}

static size_t put(uint8_t *out, size_t at, const void *bytes, size_t length)
{
	for (int i = 0; i < 8; i++)
		out[at++] = (uint8_t)((uint64_t)length >> (8 * i));
	memcpy(out + at, bytes, length);
	return at + length;
}

static void a_proof_is_the_hmac_of_role_and_parts(void **state)
{
	uint8_t data[1000], part[300], proof[TT_PROOF_BYTES], expected[TT_PROOF_BYTES];

	for (size_t i = 0; i < sizeof(part); i++)
		part[i] = (uint8_t)(i * 7);
	for (size_t n = 0; n < sizeof(part); n += 13) {
		const struct iovec parts[] = { { part, n }, { part + 3, sizeof(part) - 3 } };
		size_t length = put(data, 0, "role", 4);

		length = put(data, length, part, n);
		length = put(data, length, part + 3, sizeof(part) - 3);
		tt_key_prove(&key, "role", parts, 2, proof);
		hmac(&key, data, length, expected);
		assert_memory_equal(proof, expected, TT_PROOF_BYTES);
		assert_true(tt_proof_equal(proof, expected));
	}
}

static void another_key_role_or_cut_gives_another_proof(void **state)
{
	uint8_t data[] = "abcdef", all[5][TT_PROOF_BYTES];
	const struct iovec parts[] = { { data, 2 }, { data + 2, 4 } },
			   cut[] = { { data, 3 }, { data + 3, 3 } };
	struct tt_key other = key;

	other.bytes[TT_KEY_BYTES - 1] ^= 1;
	tt_key_prove(&key, "a", parts, 2, all[0]);
	tt_key_prove(&other, "a", parts, 2, all[1]);
	tt_key_prove(&key, "b", parts, 2, all[2]);
	tt_key_prove(&key, "a", cut, 2, all[3]);
	tt_key_prove(&key, "a", parts, 1, all[4]);
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < i; k++)
			assert_false(tt_proof_equal(all[i], all[k]));
}

static void without_a_key_proofs_are_zeros(void **state)
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

static void a_key_that_is_wiped_is_gone(void **state)
{
	struct tt_key wiped = key;
	const uint8_t zeros[TT_KEY_BYTES] = { 0 };

	tt_key_wipe(&wiped);
	assert_false(tt_key_is_set(&wiped));
	assert_memory_equal(wiped.bytes, zeros, sizeof(zeros));
}

static void nonces_differ(void **state)
{
	uint8_t a[TT_NONCE_BYTES], b[TT_NONCE_BYTES];

	assert_int_equal(tt_nonce_make(a), TUTTI_OK);
	assert_int_equal(tt_nonce_make(b), TUTTI_OK);
	assert_memory_not_equal(a, b, sizeof(a));
}

int main(void)
{
	const struct CMUnitTest reading[] = {
		cmocka_unit_test(a_key_is_read_from_the_config_the_variable_or_neither),
		cmocka_unit_test(keys_that_are_made_are_keys_and_differ),
		cmocka_unit_test(what_is_no_key_is_refused_and_not_repeated),
		cmocka_unit_test(a_proof_is_the_hmac_of_role_and_parts),
		cmocka_unit_test(another_key_role_or_cut_gives_another_proof),
		cmocka_unit_test(without_a_key_proofs_are_zeros),
		cmocka_unit_test(a_key_that_is_wiped_is_gone),
		cmocka_unit_test(nonces_differ),
	};
	const struct CMUnitTest files[] = {
		cmocka_unit_test(a_key_is_read_from_a_file_that_nobody_else_can_use),
		cmocka_unit_test(a_file_that_others_can_use_is_refused),
		cmocka_unit_test(what_is_no_file_with_a_key_is_refused),
	};
	const int failed = cmocka_run_group_tests(reading, NULL, NULL);

	return failed + cmocka_run_group_tests(files, make_directory, remove_directory);
}
