/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns PMI-1 on the socket that a launcher leaves open for each rank (PMI_FD): lines of NAME=VALUE, a
 * request and an answer in turn. Hydra, Flux and Slurm's mpi/pmi2 speak it. (Balaji et al., "PMI: A
 * Scalable Parallel Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010.) */
#include "pmi_wire.h"

#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fork.h"
#include "kvs.h"
#include "log.h"
#include "transport.h"

#define LINE_MAX_BYTES 2048
#define FINALIZE_NS    1000000000 /* for a launcher that is stopped */

static struct tt_owner owner; /* who has begun it */
static bool began;
static bool theirs;	     /* an MPI library's, which ends it */
static struct stat at_start; /* the socket: its number may become another's */
static char store_name[TT_KVS_TEXT_MAX];

bool tt_pmi_field(const char *line, const char *name, char *out, size_t size)
{
	const size_t length = strlen(name);

	while (*line) {
		const size_t word = strcspn(line, " ");

		if (word > length && strncmp(line, name, length) == 0 && line[length] == '=') {
			const size_t value = word - length - 1;

			if (value >= size)
				return false;
			memcpy(out, line + length + 1, value);
			out[value] = 0;
			return true;
		}
		line += word;
		line += strspn(line, " ");
	}
	return false;
}

/* ---- the socket */

static int descriptor(void)
{
	const char *text = getenv("PMI_FD");
	char *end = NULL;
	const long fd = text && *text ? strtol(text, &end, 10) : -1;

	return end && !*end && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

static bool look(struct stat *out)
{
	return fstat(descriptor(), out) == 0 && S_ISSOCK(out->st_mode);
}

static bool is_the_same(void)
{
	struct stat now;

	return look(&now) && now.st_dev == at_start.st_dev && now.st_ino == at_start.st_ino;
}

static const char *lacks(void)
{
	struct stat now;

	if (!getenv("PMI_FD"))
		return "PMI_FD is not set";
	if (began && !tt_owned_here(&owner))
		return "it is a parent's of this process";
	if (began && !is_the_same())
		return "the connection (PMI_FD) has been closed";
	return look(&now) ? NULL : "PMI_FD is no open socket";
}

static tutti_result_t fail_closed(void)
{
	return tt_fail(
		TUTTI_ERR_SYSTEM, COMM,
		"the launcher has closed its connection (PMI_FD): it serves one program of each rank, or has ended");
}

static tutti_result_t write_line(const char *line)
{
	size_t done = 0, length = strlen(line);

	while (done < length) {
		const ssize_t n = send(descriptor(), line + done, length - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EPIPE || errno == ECONNRESET
				       ? fail_closed()
				       : tt_fail_errno(COMM, "write to the launcher (PMI_FD)");
		done += (size_t)n;
	}
	return TUTTI_OK;
}

/* Until something can be read; `deadline` 0: for ever. */
static bool comes(uint64_t deadline)
{
	struct pollfd answer = { .fd = descriptor(), .events = POLLIN };
	int ready = 0;

	do
		ready = poll(&answer, 1, deadline ? (int)(tt_left(deadline) / 1000000) : -1);
	while (ready <= 0 && (errno == EINTR || ready == 0) && (!deadline || tt_now() < deadline));
	return ready > 0;
}

/* Byte by byte: what is behind the line is another reader's, perhaps. */
static tutti_result_t read_line(char line[LINE_MAX_BYTES], uint64_t deadline)
{
	size_t used = 0;

	for (;;) {
		if (!comes(deadline))
			return tt_fail(TUTTI_ERR_TIMEOUT, COMM, "the launcher (PMI_FD) is silent");
		const ssize_t n = read(descriptor(), line + used, 1);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return fail_closed();
		if (n < 0)
			return tt_fail_errno(COMM, "read from the launcher (PMI_FD)");
		if (line[used] == '\n')
			break;
		if (++used == LINE_MAX_BYTES)
			return tt_fail(
				TUTTI_ERR_INVALID, COMM,
				"the launcher (PMI_FD) said more than %d bytes in a line, expected PMI-1",
				LINE_MAX_BYTES);
	}
	line[used] = 0;
	return TUTTI_OK;
}

/* ---- requests */

/* Of the line no more is shown: it may have a key. */
static tutti_result_t judge(const char *line, const char *asked, const char *expected)
{
	char command[48] = "", code[16] = "0";

	tt_pmi_field(line, "cmd", command, sizeof(command));
	if (strcmp(command, expected) != 0)
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "the launcher (PMI_FD) answered cmd=%s to %s, expected cmd=%s",
			       command, asked, expected);
	if (tt_pmi_field(line, "rc", code, sizeof(code)) && strcmp(code, "0") != 0)
		return tt_fail(TUTTI_ERR_SYSTEM, COMM, "the launcher (PMI_FD) refused %s: rc=%s",
			       asked, code);
	return TUTTI_OK;
}

/* `line` is the request, then the answer, which is called `expected`. */
static tutti_result_t ask(char line[LINE_MAX_BYTES], const char *expected)
{
	char asked[48];
	tutti_result_t result = write_line(line);

	snprintf(asked, sizeof(asked), "%.*s", (int)strcspn(line, " \n"), line);
	if (!result)
		result = read_line(line, 0);
	return result ? result : judge(line, asked, expected);
}

/* A launcher takes a rank that does not say this for one that has failed. */
static void finalize(void)
{
	char line[LINE_MAX_BYTES];

	if (!tt_owned_here(&owner) || tt_kvs_mpi_began() || !is_the_same())
		return;
	if (tt_kvs_is_occupied()) /* a thread reads there: it has failed, and the launcher sees that */
		shutdown(descriptor(), SHUT_RDWR);
	else if (!write_line("cmd=finalize\n"))
		read_line(line, tt_now() + FINALIZE_NS);
}

static tutti_result_t begin(void)
{
	char line[LINE_MAX_BYTES] = "cmd=init pmi_version=1 pmi_subversion=1\n";

	if (!look(&at_start))
		return fail_closed();
	theirs = tt_kvs_mpi_began();
	tutti_result_t result = theirs ? TUTTI_OK : ask(line, "response_to_init");
	if (result)
		return result;
	owner = tt_owner_here();
	if (!theirs)
		atexit(finalize);
	snprintf(line, sizeof(line), "cmd=get_my_kvsname\n");
	result = ask(line, "my_kvsname");
	if (!result && !tt_pmi_field(line, "kvsname", store_name, sizeof(store_name)))
		result = tt_fail(TUTTI_ERR_INVALID, COMM,
				 "the launcher (PMI_FD) named no store, expected kvsname=");
	began = !result;
	return result;
}

static tutti_result_t put(const char *key, const char *text)
{
	char line[LINE_MAX_BYTES];

	snprintf(line, sizeof(line), "cmd=put kvsname=%s key=%s value=%s\n", store_name, key, text);
	const tutti_result_t result = ask(line, "put_result");
	OPENSSL_cleanse(line, sizeof(line));
	return result;
}

static tutti_result_t get(const char *key, char text[TT_KVS_TEXT_MAX])
{
	char line[LINE_MAX_BYTES];

	snprintf(line, sizeof(line), "cmd=get kvsname=%s key=%s\n", store_name, key);
	tutti_result_t result = ask(line, "get_result");
	if (!result && !tt_pmi_field(line, "value", text, TT_KVS_TEXT_MAX))
		result = tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"the launcher (PMI_FD) gave no value, or a longer one: expected at most %d bytes",
			TT_KVS_TEXT_MAX - 1);
	OPENSSL_cleanse(line, sizeof(line));
	return result;
}

static tutti_result_t bring(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX])
{
	char line[LINE_MAX_BYTES] = "cmd=barrier_in\n";
	tutti_result_t result = began ? TUTTI_OK : begin();

	if (!result && rank == 0)
		result = put(key, text);
	if (!result)
		result = ask(line, "barrier_out");
	return result || rank == 0 ? result : get(key, text);
}

const struct tt_kvs tt_kvs_pmi_wire = { .name = "PMI", .lacks = lacks, .bring = bring };
