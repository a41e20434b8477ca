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

/* The end of HOST in HOST:PORT or [HOST]:PORT, NULL if there is no port. */
static const char *host_end(const char *rest)
{
	if (*rest == '[') {
		const char *bracket = strchr(rest, ']');

		return bracket && bracket[1] == ':' ? bracket : NULL;
	}
	const char *colon = strchr(rest, ':');
	return colon && !strchr(colon + 1, ':') ? colon : NULL;
}

static bool port_good(const char *port)
{
	const size_t length = strlen(port);

	return length > 0 && length <= 5 && strspn(port, "0123456789") == length &&
	       atoi(port) <= 65535;
}

static tutti_result_t parse_tcp(const char *text, struct tt_store_address *out)
{
	const char *rest = text + strlen("tcp://");
	const char *end = host_end(rest);
	const char *host = *rest == '[' ? rest + 1 : rest;

	if (!end || end == host)
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the store address is \"%s\": expected tcp://HOST:PORT, an IPv6 address in "
			"brackets, such as tcp://[fd00::1]:29500",
			text);
	const char *port = *end == ']' ? end + 2 : end + 1;
	if (!port_good(port))
		return tt_fail(TUTTI_ERR_INVALID, STORE,
			       "the store address \"%s\" has port \"%s\": expected 0 to 65535",
			       text, port);
	if ((size_t)(end - host) >= sizeof(out->host))
		return tt_fail(
			TUTTI_ERR_INVALID, STORE,
			"the store address \"%s\" has a host name of %zu bytes: expected at most "
			"%zu",
			text, (size_t)(end - host), sizeof(out->host) - 1);
	memcpy(out->host, host, (size_t)(end - host));
	memcpy(out->port, port, strlen(port) + 1);
	return TUTTI_OK;
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
	struct addrinfo *list;

	out->count = 0;
	if (address->local) {
		out->at[0] = address->name;
		out->length[0] = address->name_length;
		out->count = 1;
		return NULL;
	}
	const int error = getaddrinfo(address->host, address->port, &hints, &list);
	if (error != 0)
		return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
	for (const struct addrinfo *a = list; a && out->count < TT_STORE_SOCKADDRS;
	     a = a->ai_next) {
		memcpy(&out->at[out->count], a->ai_addr, a->ai_addrlen);
		out->length[out->count++] = a->ai_addrlen;
	}
	freeaddrinfo(list);
	return NULL;
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
