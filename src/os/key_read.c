/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of the key. No error message shows anything of it but its length. */
#include "key_read.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"

#define DIGITS	 (2 * TT_KEY_BYTES)
#define FILE_MAX (DIGITS + 2) /* a line's end, and one more to tell that there is too much */

static const char *environment(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* `what` names the source. */
static tutti_result_t parse(const char *what, const char *text, size_t length, struct tt_key *out)
{
	if (length != DIGITS)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"%s has %s%zu characters: expected a key of %d hexadecimal digits, such as `openssl "
			"rand -hex %d` makes",
			what, length == FILE_MAX ? "at least " : "", length, DIGITS, TT_KEY_BYTES);
	for (int i = 0; i < TT_KEY_BYTES; i++) {
		const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);

		if (high < 0 || low < 0) {
			tt_key_wipe(out);
			return tt_fail(
				TUTTI_ERR_INVALID, COMM,
				"%s has something else than a hexadecimal digit as character %d: expected a key of "
				"%d, such as `openssl rand -hex %d` makes",
				what, 2 * i + (high < 0 ? 1 : 2), DIGITS, TT_KEY_BYTES);
		}
		out->bytes[i] = (uint8_t)(high << 4 | low);
	}
	out->set = true;
	return TUTTI_OK;
}

/* Is it a file that nobody else can read or write? */
static tutti_result_t check_file(const char *path, int fd)
{
	struct stat info;

	if (fstat(fd, &info) < 0)
		return tt_fail_errno(COMM, "inspect TUTTI_KEY_FILE %s", path);
	if (!S_ISREG(info.st_mode))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_KEY_FILE %s is no regular file: expected one that holds the key",
			path);
	if (info.st_uid != geteuid() && info.st_uid != 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "TUTTI_KEY_FILE %s belongs to user %ld: expected user %ld or root",
			       path, (long)info.st_uid, (long)geteuid());
	if (info.st_mode & 077)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_KEY_FILE %s can be used by others (mode %03o): expected 600 or 400; chmod 600 it, "
			"and make a new key if others may have seen this one",
			path, (unsigned)(info.st_mode & 0777));
	return TUTTI_OK;
}

/* At most FILE_MAX bytes; without the end of the line. */
static tutti_result_t read_all(const char *path, int fd, char text[FILE_MAX], size_t *length)
{
	size_t used = 0;

	while (used < FILE_MAX) {
		const ssize_t n = read(fd, text + used, FILE_MAX - used);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tt_fail_errno(COMM, "read TUTTI_KEY_FILE %s", path);
		if (n == 0)
			break;
		used += (size_t)n;
	}
	if (used < FILE_MAX && used > 0 && text[used - 1] == '\n')
		used--;
	*length = used;
	return TUTTI_OK;
}

static tutti_result_t read_file(const char *path, struct tt_key *out)
{
	/* not to wait for the other end of a pipe */
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	char text[FILE_MAX], what[256];
	size_t length = 0;

	snprintf(what, sizeof(what), "TUTTI_KEY_FILE %s", path);
	if (fd < 0)
		return tt_fail_errno(COMM, "open TUTTI_KEY_FILE %s", path);
	tutti_result_t result = check_file(path, fd);
	if (result == TUTTI_OK)
		result = read_all(path, fd, text, &length);
	close(fd);
	if (result == TUTTI_OK)
		result = parse(what, text, length, out);
	OPENSSL_cleanse(text, sizeof(text));
	return result;
}

static tutti_result_t read_encrypt(int configured, struct tt_key *out)
{
	const char *text = environment("TUTTI_ENCRYPT");

	if (configured < -1 || configured > 1)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "encrypt of the config is %d: expected 1 for yes, -1 for no, or 0 "
			       "for what TUTTI_ENCRYPT says",
			       configured);
	if (!configured && text && strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM, "TUTTI_ENCRYPT is \"%s\": expected 0 or 1",
			       text);
	out->encrypt = configured ? configured > 0 : text && *text == '1';
	return TUTTI_OK;
}

tutti_result_t tt_key_check(const struct tt_key *key)
{
	if (key->encrypt && !key->set)
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_ENCRYPT (or encrypt) asks for encryption, which needs a key, and there is none: give all ranks "
			"the same TUTTI_KEY or TUTTI_KEY_FILE");
	return TUTTI_OK;
}

static tutti_result_t read_key(const char *configured, struct tt_key *out)
{
	const char *given = environment("TUTTI_KEY"), *path = environment("TUTTI_KEY_FILE");

	if (configured)
		return parse("the key of the config", configured, strlen(configured), out);
	if (given)
		return parse("TUTTI_KEY", given, strlen(given), out);
	return path ? read_file(path, out) : TUTTI_OK;
}

tutti_result_t tt_key_read(const char *configured, int encrypt, struct tt_key *out)
{
	*out = (struct tt_key){ 0 };
	const tutti_result_t result = read_key(configured, out);

	return result ? result : read_encrypt(encrypt, out);
}
