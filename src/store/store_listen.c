/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the making of a store's listening socket: binding, the port that was free, what to do when
 * it fails. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fork.h"
#include "log.h"
#include "port_range.h"
#include "store_address.h"
#include "store_server.h"
#include "transport.h"
#include "unix_peer.h"

#define IN_USE_NS 1000000000ull	 /* for an address to become free */
#define NAMED_NS  60000000000ull /* for a pod's name to have one */

/* Bound and listening, or -1 with errno. */
static int listen_at(const struct sockaddr_storage *at, socklen_t length)
{
	const int one = 1, zero = 0;
	const int fd = TT_FD(socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));

	if (fd < 0)
		return -1;
	/* a store that just ended leaves connections in TIME_WAIT, which must not keep the next one
	 * out */
	if (at->ss_family != AF_UNIX)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (at->ss_family == AF_INET6) /* [::] is for IPv4 as well, whatever the machine's custom */
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, (const struct sockaddr *)at, length) < 0 || listen(fd, 4096) < 0) {
		tt_fd_close(fd);
		return -1;
	}
	return fd;
}

static void set_port(struct sockaddr_storage *at, int port)
{
	if (at->ss_family == AF_INET6)
		((struct sockaddr_in6 *)at)->sin6_port = htons((uint16_t)port);
	else
		((struct sockaddr_in *)at)->sin_port = htons((uint16_t)port);
}

/* At any port of the range. */
static int listen_in_range(struct sockaddr_storage at, socklen_t length,
			   const struct tt_port_range *range)
{
	int fd = -1;

	for (int port = range->first; port <= range->last && fd < 0; port++) {
		set_port(&at, port);
		fd = listen_at(&at, length);
		if (fd < 0 && errno != EADDRINUSE && errno != EACCES)
			break;
	}
	return fd;
}

/* A program that is being started by another thread has copies of all descriptors until it
 * executes, and so may have that of the store that was here before. */
static int listen_in_time(const struct sockaddr_storage *at, socklen_t length)
{
	const uint64_t enough = tt_now() + IN_USE_NS;
	int fd;

	while ((fd = listen_at(at, length)) < 0 && errno == EADDRINUSE && tt_now() < enough)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	return fd;
}

/* A store on a unix socket has one address. */
static tutti_result_t fail_listen(const char *address, const struct tt_store_targets *targets)
{
	const int last = targets->count - 1;
	char who[TT_UNIX_PEER_TEXT] = "another process";

	if (errno == EADDRINUSE && last >= 0 && targets->at[last].ss_family == AF_UNIX)
		tt_unix_holder_text((const struct sockaddr *)&targets->at[last],
				    targets->length[last], who);
	if (errno == EADDRINUSE)
		return tt_fail_errno(
			STORE,
			"serve the store at %s: %s has this address; choose another port or name (TUTTI_STORE), or end that "
			"process",
			address, who);
	if (errno == EADDRNOTAVAIL)
		return tt_fail_errno(
			STORE,
			"serve the store at %s: this is no address of this machine; give one of "
			"the machine that rank 0 runs on",
			address);
	return tt_fail_errno(STORE, "serve the store at %s", address);
}

static int bound_port(int fd)
{
	struct sockaddr_storage at = { 0 };
	socklen_t length = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &length) < 0)
		return 0;
	return ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
					      : ((struct sockaddr_in *)&at)->sin_port);
}

static bool is_numeric(const struct tt_store_address *parsed)
{
	return strspn(parsed->host, "0123456789.") == strlen(parsed->host) ||
	       strchr(parsed->host, ':');
}

/* A machine's own name is often a loopback address in /etc/hosts: others then wait in vain. */
static void warn_if_unreachable(const struct tt_store_address *parsed,
				const struct sockaddr_storage *at)
{
	if (!is_numeric(parsed) && strcmp(parsed->host, "localhost") != 0 &&
	    tt_store_is_loopback(at))
		tt_log(WARN, STORE,
		       "the store's host name \"%s\" is a loopback address here: ranks on other "
		       "machines "
		       "cannot reach it; give the address of an interface instead",
		       parsed->host);
}

/* All hosts as they were given, and the port that it has. */
static void write_bound(const struct tt_store_address *parsed, const char *address, int fd,
			char *bound, size_t size)
{
	size_t used = 0;

	if (parsed->local) {
		snprintf(bound, size, "%s", address);
		return;
	}
	for (const char *host = NULL; (host = tt_store_next_host(parsed, host)) && used < size;)
		used += (size_t)snprintf(bound + used, size - used,
					 strchr(host, ':') ? "%s[%s]" : "%s%s",
					 used ? "," : "tcp://", host);
	if (used < size)
		snprintf(bound + used, size - used, ":%d", bound_port(fd));
}

static tutti_result_t fail_range(const struct tt_port_range *range)
{
	return tt_fail_errno(
		STORE,
		"serve the store: no port of TUTTI_PORT_RANGE %d-%d can be listened on; give a range with a free "
		"port for every rank of this machine, and one more on the machine of rank 0",
		range->first, range->last);
}

/* At the first address that can be; -1 with errno, of one that is this machine's if there is one. */
static int listen_at_first(const struct tt_store_address *parsed,
			   const struct tt_store_targets *targets,
			   const struct tt_port_range *range)
{
	int error = 0;

	for (int i = 0; i < targets->count; i++) {
		const int fd = range->last > 0
				       ? listen_in_range(targets->at[i], targets->length[i], range)
				       : listen_in_time(&targets->at[i], targets->length[i]);

		if (fd >= 0) {
			warn_if_unreachable(parsed, &targets->at[i]);
			return fd;
		}
		if (!error || error == EADDRNOTAVAIL || error == EAFNOSUPPORT)
			error = errno;
	}
	errno = error;
	return -1;
}

/* In Kubernetes a pod may begin before its name is known, or while it is that of the pod before it. */
static uint64_t named_by(const struct tt_store_address *parsed, uint64_t deadline)
{
	const uint64_t enough = tt_now() + NAMED_NS;

	if (!getenv("KUBERNETES_SERVICE_HOST") || is_numeric(parsed))
		return 0;
	return enough < deadline ? enough : deadline;
}

/* Each once. */
static void note_wait(const char *host, const char *fault, bool told[2])
{
	bool *before = &told[fault != NULL];

	if (!*before && fault)
		tt_log(INFO, STORE, "waits for the name %s, which has no address yet: %s", host,
		       fault);
	else if (!*before)
		tt_log(WARN, STORE,
		       "the name %s is another machine's: waits until it has an address of this pod; its Service "
		       "must be headless (clusterIP: None)",
		       host);
	*before = true;
}

/* TUTTI_IN_PROGRESS: the name has no address of this machine, which may still come. */
static tutti_result_t try_listen(const char *address, const struct tt_store_address *parsed,
				 bool keyed, const struct tt_port_range *range, uint64_t enough,
				 bool told[2], int *fd)
{
	struct tt_store_targets targets;
	const char *fault = tt_store_address_resolve(parsed, true, &targets);

	if (!fault && !keyed && tt_store_loopback_only(&targets))
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"serve the store at %s: this is no address of the loopback interface, and without a key "
			"nothing else is served; give all ranks the same TUTTI_KEY or TUTTI_KEY_FILE",
			address);
	*fd = fault ? -1 : listen_at_first(parsed, &targets, range);
	if (*fd >= 0)
		return TUTTI_OK;
	if ((fault || errno == EADDRNOTAVAIL) && tt_now() < enough) {
		note_wait(parsed->host, fault, told);
		return TUTTI_IN_PROGRESS;
	}
	if (fault)
		return tt_fail(TUTTI_ERR_SYSTEM, STORE,
			       "serve the store at %s: the host \"%s\" has no address: %s", address,
			       parsed->host, fault);
	return range->last > 0 ? fail_range(range) : fail_listen(address, &targets);
}

tutti_result_t tt_store_listen(const char *address, bool keyed, uint64_t deadline, char *bound,
			       size_t size, int *fd)
{
	struct tt_store_address parsed;
	struct tt_port_range range = { 0, 0 };
	tutti_result_t result = tt_store_address_parse(address, &parsed);

	if (result == TUTTI_OK && !parsed.local && atoi(parsed.port) == 0)
		result = tt_port_range_parse(getenv("TUTTI_PORT_RANGE"), &range);
	if (result != TUTTI_OK)
		return result;
	const uint64_t enough = named_by(&parsed, deadline);
	bool told[2] = { false, false };

	while ((result = try_listen(address, &parsed, keyed, &range, enough, told, fd)) ==
	       TUTTI_IN_PROGRESS)
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	if (result != TUTTI_OK)
		return result;
	write_bound(&parsed, address, *fd, bound, size);
	tt_log(INFO, STORE, "serves the store at %s, %s", bound,
	       keyed ? "to those who have the key" : "on this machine only: there is no key");
	return TUTTI_OK;
}
