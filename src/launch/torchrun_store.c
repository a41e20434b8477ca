/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the way through the store that torchrun's agent serves at MASTER_ADDR:MASTER_PORT: PyTorch's
 * TCPStore, a byte that says what is asked for, then lengths of 8 bytes and what they count, in the order
 * of bytes that both machines have. Set, wait and get are what is used of it. (PyTorch 2.1 and
 * later greet so.) */
#include <errno.h>
#include <netdb.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "fork.h"
#include "kvs.h"
#include "log.h"

#define VALIDATE 0
#define SET	 1
#define GET	 3
#define WAIT	 6
#define MAGIC	 UINT32_C(0x3c85f7ce)
#define COME	 0 /* the answer to WAIT */

#define PATIENCE_US 3000000 /* for the host to answer */

/* A request, put together. */
struct request {
	uint8_t bytes[1024];
	size_t length;
};

static void put(struct request *request, const void *bytes, size_t length)
{
	memcpy(request->bytes + request->length, bytes, length);
	request->length += length;
}

static void put_kind(struct request *request, uint8_t kind)
{
	put(request, &kind, 1);
}

static void put_text(struct request *request, const char *text)
{
	const uint64_t length = strlen(text);

	put(request, &length, sizeof(length));
	put(request, text, length);
}

static const char *lacks(void)
{
	const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"), *host = getenv("MASTER_ADDR"),
		   *port = getenv("MASTER_PORT");

	if (!agent || (strcasecmp(agent, "true") != 0 && strcmp(agent, "1") != 0))
		return "TORCHELASTIC_USE_AGENT_STORE is not True";
	return host && *host && port && *port ? NULL : "MASTER_ADDR or MASTER_PORT is not set";
}

static tutti_result_t fail_agent(const char *what, const char *why)
{
	return tt_fail(TUTTI_ERR_SYSTEM, COMM,
		       "%s torchrun's store at %.200s, port %.20s (MASTER_ADDR, MASTER_PORT): %s",
		       what, getenv("MASTER_ADDR"), getenv("MASTER_PORT"), why);
}

static tutti_result_t fail_dial(const char *why)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "%.60s; name the first node there by an address that all reach (--local-addr, "
		 "--master-addr)",
		 why);
	return fail_agent("connect to", text);
}

/* MASTER_ADDR, without the brackets that an IPv6 address has in a URL. */
static void read_host(char out[NI_MAXHOST])
{
	const char *text = getenv("MASTER_ADDR");
	const size_t length = strlen(text);
	const bool brackets = length > 2 && *text == '[' && text[length - 1] == ']';

	snprintf(out, NI_MAXHOST, "%.*s", (int)(length - 2 * brackets), text + brackets);
}

/* For an address to answer: less for each of several. */
static struct timeval patience_for(const struct addrinfo *list)
{
	long addresses = 0;

	for (; list; list = list->ai_next)
		addresses++;
	const long each = PATIENCE_US / addresses;
	return (struct timeval){ .tv_sec = each / 1000000, .tv_usec = each % 1000000 };
}

/* The agent served it before it started this process. */
static tutti_result_t dial(int *out)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list;
	char host[NI_MAXHOST];

	read_host(host);
	const int error = getaddrinfo(host, getenv("MASTER_PORT"), &hints, &list);
	if (error)
		return fail_dial(error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error));
	const struct timeval patience = patience_for(list);
	int fd = -1, why = 0;
	for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = TT_FD(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		if (fd >= 0) /* connect() has that time, too */
			setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0)
			break;
		why = errno == EINPROGRESS || errno == EAGAIN ? ETIMEDOUT : errno;
		tt_fd_close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	*out = fd;
	return fd < 0 ? fail_dial(strerror(why)) : TUTTI_OK;
}

static tutti_result_t send_all(int fd, const struct request *request)
{
	for (size_t done = 0; done < request->length;) {
		const ssize_t n =
			send(fd, request->bytes + done, request->length - done, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			return fail_agent("write to", strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	return TUTTI_OK;
}

static tutti_result_t receive_all(int fd, void *out, size_t length)
{
	for (size_t done = 0; done < length;) {
		const ssize_t n = recv(fd, (char *)out + done, length - done, 0);

		if (n == 0)
			return fail_agent("read from", "it ended the connection");
		if (n < 0 && errno != EINTR)
			return fail_agent("read from", strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	return TUTTI_OK;
}

static tutti_result_t receive_text(int fd, char text[TT_KVS_TEXT_MAX])
{
	uint64_t length;
	tutti_result_t result = receive_all(fd, &length, sizeof(length));

	if (!result && length >= TT_KVS_TEXT_MAX)
		return fail_agent("read from", "a value is longer than tutti's are");
	if (!result)
		result = receive_all(fd, text, (size_t)length);
	if (!result)
		text[length] = 0;
	return result;
}

static tutti_result_t wait_and_get(int fd, const char *key, char text[TT_KVS_TEXT_MAX])
{
	struct request wait = { .length = 0 }, get = { .length = 0 };
	const uint64_t keys = 1;
	uint8_t answer;

	put_kind(&wait, WAIT);
	put(&wait, &keys, sizeof(keys));
	put_text(&wait, key);
	put_kind(&get, GET);
	put_text(&get, key);
	tutti_result_t result = send_all(fd, &wait);
	if (!result)
		result = receive_all(fd, &answer, sizeof(answer));
	if (!result && answer != COME)
		return fail_agent("wait at", "it gave up");
	if (!result)
		result = send_all(fd, &get);
	return result ? result : receive_text(fd, text);
}

static tutti_result_t set(int fd, const char *key, const char *text)
{
	struct request request = { .length = 0 };

	put_kind(&request, SET);
	put_text(&request, key);
	put_text(&request, text);
	const tutti_result_t result = send_all(fd, &request);
	OPENSSL_cleanse(&request, sizeof(request));
	return result;
}

/* An agent's store outlives its ranks, which may be started again; agents do not count that alike. */
static void name_key(const char *key, char *out, size_t size)
{
	const char *run = getenv("TORCHELASTIC_RUN_ID");

	snprintf(out, size, "/tutti/%.64s/%s", run ? run : "", key);
}

static tutti_result_t bring(int rank, int size, const char *key, char text[TT_KVS_TEXT_MAX])
{
	struct request hello = { .length = 0 };
	const uint32_t magic = MAGIC;
	char name[192];
	int fd;
	tutti_result_t result = dial(&fd);

	if (result)
		return result;
	name_key(key, name, sizeof(name));
	put_kind(&hello, VALIDATE);
	put(&hello, &magic, sizeof(magic));
	result = send_all(fd, &hello);
	if (!result && rank == 0)
		result = set(fd, name, text);
	if (!result) /* rank 0, too: then it is there */
		result = wait_and_get(fd, name, text);
	tt_fd_close(fd);
	return result;
}

const struct tt_kvs tt_kvs_torchrun = {
	.name = "torchrun's store", .lacks = lacks, .bring = bring, .may_be_old = true
};
