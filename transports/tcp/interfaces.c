/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the look at this machine: its interfaces and their addresses, which of them are offered to
 * peers. Names are never resolved. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "log.h"
#include "machine.h"
#include "numbers.h"
#include "transport.h"

#define PAUSE_NS 50000000   /* between looks at interfaces that are coming up */
#define LOCAL_NS 1500000000 /* from a link-local address to another, where there is one */

/* Is `name` allowed by a comma list of prefixes, of which those after ^ exclude? */
static bool allowed(const char *list, const char *name)
{
	bool listed = false, includes = false;

	while (list && *list) {
		const size_t length = strcspn(list, ",");
		const bool exclude = *list == '^';
		const char *prefix = list + exclude;
		const size_t n = length - exclude;
		const bool match = n > 0 && strncmp(name, prefix, n) == 0;

		if (exclude && match)
			return false;
		includes |= !exclude && n > 0;
		listed |= match;
		list += length;
		list += *list == ',';
	}
	return listed || !includes;
}

/* Mbit/s; unknown, as for many virtual interfaces: 0. */
static uint32_t speed_of(const char *name)
{
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ethtool_cmd ask = { .cmd = ETHTOOL_GSET };
	struct ifreq request = { .ifr_data = (void *)&ask };
	uint32_t speed = 0;

	if (fd < 0)
		return 0;
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(fd, SIOCETHTOOL, &request) == 0)
		speed = (uint32_t)ask.speed_hi << 16 | ask.speed;
	close(fd);
	return speed == (uint32_t)SPEED_UNKNOWN ? 0 : speed;
}

static uint8_t prefix_of(const uint8_t *mask, int bytes)
{
	uint8_t bits = 0;

	for (int i = 0; i < bytes; i++)
		bits += (uint8_t)__builtin_popcount(mask[i]);
	return bits;
}

static bool address_of(const struct ifaddrs *i, struct tcp_address *out)
{
	const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;

	memset(out, 0, sizeof(*out));
	out->scope = if_nametoindex(i->ifa_name);
	if (family == AF_INET) {
		out->family = 4;
		memcpy(out->bytes, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
		out->prefix = 32;
		if (i->ifa_netmask)
			out->prefix = prefix_of(
				(uint8_t *)&((struct sockaddr_in *)i->ifa_netmask)->sin_addr, 4);
	} else if (family == AF_INET6) {
		out->family = 6;
		memcpy(out->bytes, &((struct sockaddr_in6 *)i->ifa_addr)->sin6_addr, 16);
		out->prefix = 128;
		if (i->ifa_netmask)
			out->prefix = prefix_of(
				(uint8_t *)&((struct sockaddr_in6 *)i->ifa_netmask)->sin6_addr, 16);
	}
	return out->family != 0;
}

static const char *unfit(const struct ifaddrs *i, const char *list, const struct tcp_card *card)
{
	if (!allowed(list, i->ifa_name))
		return "TUTTI_INTERFACE leaves it out";
	if (!(i->ifa_flags & IFF_UP))
		return "the interface is down";
	if (!(i->ifa_flags & IFF_RUNNING))
		return "the interface has no carrier";
	if (card->count == TCP_ADDRESSES_MAX)
		return "there are more addresses than fit into what peers receive";
	return NULL;
}

/* Offers what is fit of `all`. */
static void gather(const struct ifaddrs *all, const char *list, struct tcp_card *card)
{
	char text[TCP_ADDRESS_TEXT];

	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		struct tcp_address address;
		const char *why;

		if (!address_of(i, &address))
			continue;
		why = unfit(i, list, card);
		tt_log(DEBUG, TCP, "interface %s address %s %s%s", i->ifa_name,
		       tt_tcp_address_text(&address, text), why ? "not used: " : "used",
		       why ? why : "");
		if (why)
			continue;
		address.speed = speed_of(i->ifa_name);
		card->at[card->count++] = address;
	}
}

static bool is_named(const char *list, const char *name)
{
	return list && *list && *list != '^' && allowed(list, name);
}

static bool has_address(const struct ifaddrs *all, const char *name)
{
	struct tcp_address address;

	for (const struct ifaddrs *i = all; i; i = i->ifa_next)
		if (strcmp(i->ifa_name, name) == 0 && address_of(i, &address))
			return true;
	return false;
}

/* Can another machine reach one of them? Link-local ones, within one network alone, and not
 * while that one is being set up. */
static bool is_reachable(const struct tcp_card *card, bool or_link_local)
{
	bool reachable = false;

	for (int i = 0; i < card->count; i++)
		reachable |= !tt_tcp_is_loopback(&card->at[i]) &&
			     (or_link_local || !tt_tcp_is_link_local(&card->at[i]));
	return reachable;
}

/* Why the interface offers nothing, and whether that may change by itself; NULL: it does, or is
 * not to. */
static const char *find_lack(const struct ifaddrs *all, const struct ifaddrs *i, const char *list,
			     bool *coming)
{
	if (!i->ifa_addr || i->ifa_addr->sa_family != AF_PACKET || (i->ifa_flags & IFF_LOOPBACK) ||
	    !allowed(list, i->ifa_name))
		return NULL;
	*coming |= (i->ifa_flags & IFF_UP) || is_named(list, i->ifa_name);
	if (!(i->ifa_flags & IFF_UP))
		return "down";
	if (!(i->ifa_flags & IFF_RUNNING))
		return "no carrier";
	return has_address(all, i->ifa_name) ? NULL : "no address";
}

static void find_lacks(const struct ifaddrs *all, const char *list, const struct tcp_card *card,
		       struct tcp_lack *lack)
{
	size_t used = 0;
	bool coming = false;

	lack->text[0] = 0;
	for (const struct ifaddrs *i = all; i && used < sizeof(lack->text); i = i->ifa_next) {
		bool may_come = false;
		const char *why = find_lack(all, i, list, &may_come);

		if (!why)
			continue;
		coming |= may_come;
		used += (size_t)snprintf(lack->text + used, sizeof(lack->text) - used, "%s%s: %s",
					 used ? ", " : "", i->ifa_name, why);
	}
	lack->coming = coming && !is_reachable(card, true);
}

static void names_of(const struct ifaddrs *all, char *out, size_t capacity)
{
	size_t used = 0;

	out[0] = 0;
	for (const struct ifaddrs *i = all; i && used < capacity; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET)
			used += (size_t)snprintf(out + used, capacity - used, "%s%s",
						 used ? ", " : "", i->ifa_name);
}

static tutti_result_t begin_card(struct tcp_card *card)
{
	struct tt_machine here;
	const tutti_result_t result = tt_machine_here(&here);

	if (result)
		return result;
	card->count = 0;
	card->machine = here.boot;
	card->network = here.network;
	return TUTTI_OK;
}

tutti_result_t tt_tcp_only(const struct sockaddr_storage *address, struct tcp_card *card)
{
	struct tcp_address *only = &card->at[0];
	const tutti_result_t result = begin_card(card);

	if (result)
		return result;
	memset(only, 0, sizeof(*only));
	if (address->ss_family == AF_INET) {
		only->family = 4;
		only->prefix = 32;
		memcpy(only->bytes, &((const struct sockaddr_in *)address)->sin_addr, 4);
	} else {
		only->family = 6;
		only->prefix = 128;
		memcpy(only->bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, 16);
	}
	card->count = 1;
	return TUTTI_OK;
}

tutti_result_t tt_tcp_interfaces(struct tcp_card *card, struct tcp_lack *lack)
{
	const char *list = getenv("TUTTI_INTERFACE");
	tutti_result_t result = begin_card(card);
	struct ifaddrs *all;
	char names[128];

	if (result)
		return result;
	if (getifaddrs(&all) < 0)
		return tt_fail_errno(TCP, "list the network interfaces");
	gather(all, list, card);
	find_lacks(all, list, card, lack);
	names_of(all, names, sizeof(names));
	if (card->count == 0 && !lack->coming && list && *list)
		result = tt_fail(
			TUTTI_ERR_INVALID, TCP,
			"TUTTI_INTERFACE is \"%s\" and leaves no interface with an address that is "
			"up: expected a comma list of names or prefixes, ^ before those to "
			"exclude; "
			"this machine has %s",
			list, names);
	freeifaddrs(all);
	return result;
}

static void note_wait(struct tcp_lack *lack, uint64_t start)
{
	const size_t used = strlen(lack->text);

	if (used > 0)
		tt_print(lack->text + used, sizeof(lack->text) - used, ", %.1f s after the start",
			 (double)(tt_now() - start) * 1e-9);
}

/* An interface that is being set up has its link-local address first. */
void tt_tcp_await_interface(struct tcp_card *card, struct tcp_lack *lack, uint64_t deadline)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	const uint64_t start = tt_now();
	const uint16_t port = card->port;
	uint64_t local_since = 0;

	tt_log(INFO, TCP, "waits for an interface that comes up: %s", lack->text);
	for (uint64_t now = start; now < deadline; now = tt_now()) {
		if (tt_tcp_interfaces(card, lack) || is_reachable(card, false))
			break;
		if (is_reachable(card, true) && !local_since)
			local_since = now;
		if (local_since && now - local_since > LOCAL_NS)
			break;
		nanosleep(&pause, NULL);
	}
	card->port = port;
	lack->coming = false;
	note_wait(lack, start);
}

static bool is_for_others(const struct tcp_address *address)
{
	return !tt_tcp_is_loopback(address) && !tt_tcp_is_link_local(address);
}

/* What fits. */
static void write_hosts(const struct tcp_card *card, bool (*fit)(const struct tcp_address *),
			char *out, size_t size)
{
	size_t used = 0;
	int written = 0;

	for (int i = 0; i < card->count && written < TT_HOSTS_MAX; i++) {
		const int family = card->at[i].family == 4 ? AF_INET : AF_INET6;
		char text[INET6_ADDRSTRLEN];

		if (!fit(&card->at[i]) || !inet_ntop(family, card->at[i].bytes, text, sizeof(text)))
			continue;
		if (used + strlen(text) + 2 > size)
			break;
		used += (size_t)sprintf(out + used, "%s%s", used ? "," : "", text);
		written++;
	}
}

tutti_result_t tt_tcp_hosts(char *out, size_t size, uint64_t deadline)
{
	struct tcp_lack lack;
	struct tcp_card card;
	const tutti_result_t result = tt_tcp_interfaces(&card, &lack);

	*out = 0;
	if (result)
		return result;
	if (lack.coming)
		tt_tcp_await_interface(&card, &lack, deadline);
	write_hosts(&card, is_for_others, out, size);
	if (!*out)
		write_hosts(&card, tt_tcp_is_loopback, out, size);
	return TUTTI_OK;
}
