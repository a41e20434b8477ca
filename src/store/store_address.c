/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the reading of store addresses. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "store_address.h"

static tutti_result_t parse_unix(const char *text, struct tt_store_address *out)
{
	struct sockaddr_un *name = (struct sockaddr_un *)&out->name;
	const char *rest = text + strlen("unix:");
	const size_t length = strlen(rest);

	if (length == 0 || length >= sizeof(name->sun_path))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the store address \"%s\" has a name of %zu bytes: expected "
			       "unix:NAME with 1 "
			       "to %zu",
			       text, length, sizeof(name->sun_path) - 1);
	name->sun_family = AF_UNIX;
	memcpy(name->sun_path + 1, rest, length); /* the leading zero makes it abstract */
	out->name_length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
	out->local = true;
	return TUTTI_OK;
}

/* One HOST of HOST[,HOST…]:PORT, or [HOST] from `*host` on, its length, and what stands behind it; NULL:
 * there is none. */
static const char *host_end(const char **host, size_t *length)
{
	const bool bracket = **host == '[';

	*host += bracket;
	*length = strcspn(*host, bracket ? "]" : ",:");
	return *length == 0 || (bracket && (*host)[*length] != ']') ? NULL
								    : *host + *length + bracket;
}

static bool port_good(const char *port)
{
	const size_t length = strlen(port);

	return length > 0 && length <= 5 && strspn(port, "0123456789") == length &&
	       atoi(port) <= 65535;
}

static tutti_result_t fail_form(const char *text)
{
	return tt_fail(TUTTI_ERR_INVALID, STORE,
		       "the store address is \"%s\": expected tcp://HOST:PORT, an IPv6 address in "
		       "brackets, such as tcp://[fd00::1]:29500, or several hosts with commas",
		       text);
}

static tutti_result_t parse_tcp(const char *text, struct tt_store_address *out)
{
	static const char scheme[] = "tcp://";
	const char *at = text + strlen(scheme);
	size_t used = 0;

	if (strncmp(text, scheme, strlen(scheme)) != 0)
		return fail_form(text);
	for (bool more = true; more;) {
		size_t length;
		const char *end = host_end(&at, &length);

		if (!end || (*end != ',' && *end != ':'))
			return fail_form(text);
		if (used + length + 2 > sizeof(out->host))
			return tt_fail(
				TUTTI_ERR_INVALID, STORE,
				"the store address \"%s\" has %s of %zu bytes: expected at most %zu",
				text, used ? "host names" : "a host name", used + length,
				sizeof(out->host) - 2);
		memcpy(out->host + used, at, length);
		used += length + 1;
		more = *end == ',';
		at = end + 1;
	}
	if (strchr(at, ':'))
		return fail_form(text);
	if (!port_good(at))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the store address \"%s\" has port \"%s\": expected 0 to 65535",
			       text, at);
	memcpy(out->port, at, strlen(at) + 1);
	return TUTTI_OK;
}

const char *tt_store_next_host(const struct tt_store_address *address, const char *host)
{
	const char *next = host ? host + strlen(host) + 1 : address->host;

	return *next ? next : NULL;
}

tutti_result_t tt_store_address_parse(const char *text, struct tt_store_address *out)
{
	memset(out, 0, sizeof(*out));
	return strncmp(text, "unix:", 5) == 0 ? parse_unix(text, out) : parse_tcp(text, out);
}

const char *tt_store_address_resolve(const struct tt_store_address *address, bool passive,
				     struct tt_store_targets *out)
{
	const struct addrinfo hints = {
		.ai_family = AF_UNSPEC,
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0),
	};
	const char *why = NULL;

	out->count = 0;
	if (address->local) {
		out->at[0] = address->name;
		out->length[0] = address->name_length;
		out->count = 1;
		return NULL;
	}
	for (const char *host = NULL; (host = tt_store_next_host(address, host)) != NULL;) {
		struct addrinfo *list;
		const int error = getaddrinfo(host, address->port, &hints, &list);

		if (error != 0) {
			why = error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
			continue;
		}
		for (const struct addrinfo *a = list; a && out->count < TT_STORE_SOCKADDRS;
		     a = a->ai_next) {
			memcpy(&out->at[out->count], a->ai_addr, a->ai_addrlen);
			out->length[out->count++] = a->ai_addrlen;
		}
		freeaddrinfo(list);
	}
	return out->count > 0 ? NULL : why;
}

bool tt_store_is_loopback(const struct sockaddr_storage *at)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)at)->sin6_addr;

	if (at->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)at)->sin_addr.s_addr) >> 24 == 127;
	return at->ss_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(six) ||
		(IN6_IS_ADDR_V4MAPPED(six) && six->s6_addr[12] == 127));
}

bool tt_store_loopback_only(struct tt_store_targets *targets)
{
	const int all = targets->count;

	targets->count = 0;
	for (int i = 0; i < all; i++) {
		if (targets->at[i].ss_family != AF_UNIX && !tt_store_is_loopback(&targets->at[i]))
			continue;
		targets->at[targets->count] = targets->at[i];
		targets->length[targets->count++] = targets->length[i];
	}
	return all > 0 && targets->count == 0;
}

void tt_store_sockaddr_name(const struct sockaddr_storage *at, char *out, size_t size)
{
	char host[INET6_ADDRSTRLEN] = "?";

	if (at->ss_family == AF_INET6) {
		const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)at;

		inet_ntop(AF_INET6, &six->sin6_addr, host, sizeof(host));
		snprintf(out, size, "[%s]:%d", host, ntohs(six->sin6_port));
	} else {
		const struct sockaddr_in *four = (const struct sockaddr_in *)at;

		inet_ntop(AF_INET, &four->sin_addr, host, sizeof(host));
		snprintf(out, size, "%s:%d", host, ntohs(four->sin_port));
	}
}
