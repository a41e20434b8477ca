/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what is said about network interfaces, and tells by the library's rule which of them it
 * offers to peers for TCP: those that TUTTI_INTERFACE leaves in, that are up, have a carrier and an
 * address. Also whether the kernel offers to encrypt. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "sections.h"

/* What an interface has to offer, gathered from its entries in the list of addresses. */
struct card {
	unsigned flags;
	int addresses;	/* that peers can connect to */
	int link_local; /* IPv6, which mean something on one link only */
};

static int prefix_length(const struct sockaddr *mask, size_t offset, size_t size)
{
	const uint8_t *bytes = (const uint8_t *)mask + offset;
	int bits = 0;

	for (size_t i = 0; mask && i < size; i++)
		bits += __builtin_popcount(bytes[i]);
	return bits;
}

/* Add the address of `entry`, if it is an IP address, to `list` as "ADDRESS/PREFIX". */
static void add_address(json_t *list, struct card *card, const struct ifaddrs *entry)
{
	char address[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 8];
	int bits;

	if (!entry->ifa_addr)
		return;
	if (entry->ifa_addr->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(void *)entry->ifa_addr;

		inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address));
		bits = prefix_length(entry->ifa_netmask, offsetof(struct sockaddr_in, sin_addr), 4);
		card->addresses++;
	} else if (entry->ifa_addr->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 =
			(const struct sockaddr_in6 *)(void *)entry->ifa_addr;

		inet_ntop(AF_INET6, &in6->sin6_addr, address, sizeof(address));
		bits = prefix_length(entry->ifa_netmask, offsetof(struct sockaddr_in6, sin6_addr),
				     16);
		if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
			card->link_local++;
		else
			card->addresses++;
	} else {
		return;
	}
	snprintf(text, sizeof(text), "%s/%d", address, bits);
	json_array_append_new(list, json_string(text));
}

/* Is `name` left in by TUTTI_INTERFACE: a comma list of prefixes, of which those after ^ exclude?
 */
static bool left_in(const char *list, const char *name)
{
	bool listed = false, includes = false;

	for (const char *item = list; item && *item; item += strspn(item, ",")) {
		const bool excludes = *item == '^';
		const size_t length = strcspn(item + excludes, ",");
		const bool match = length > 0 && strncmp(name, item + excludes, length) == 0;

		if (excludes && match)
			return false;
		includes |= !excludes && length > 0;
		listed |= match;
		item += excludes + length;
	}
	return listed || !includes;
}

/* Whether ranks use it for TCP, and why. */
static bool is_used(const char *name, const struct card *card, const char **reason)
{
	if (!left_in(getenv("TUTTI_INTERFACE"), name))
		*reason = "not used: TUTTI_INTERFACE leaves it out";
	else if (!(card->flags & IFF_UP))
		*reason = "not used: it is down";
	else if (!(card->flags & IFF_RUNNING))
		*reason = "not used: it has no carrier";
	else if (card->addresses == 0 && card->link_local == 0)
		*reason = "not used: it has no IP address";
	else if (card->flags & IFF_LOOPBACK)
		*reason = "used between ranks of this host";
	else if (card->addresses == 0)
		*reason = "used with peers on the same link: it has link-local addresses only";
	else
		*reason = "used: it is up and has an address that peers can try";
	return strncmp(*reason, "used", 4) == 0;
}

static json_t *describe(const char *name, const struct ifaddrs *all)
{
	json_t *entry = value_section();
	struct card card = { 0 };
	int64_t number = 0;
	const char *reason;
	bool known;

	value_text(entry, "name", name);
	value_take_text(entry, "state", files_read("sys/class/net/%s/operstate", name));
	known = files_read_number(&number, "sys/class/net/%s/mtu", name);
	value_number_if(entry, "mtu", known, number);
	/* virtual interfaces have no speed: an error, or -1 */
	known = files_read_number(&number, "sys/class/net/%s/speed", name) && number > 0;
	value_number_if(entry, "speed_mbit", known, number);
	json_t *list = value_list(entry, "addresses");
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (strcmp(i->ifa_name, name) != 0)
			continue;
		card.flags = i->ifa_flags;
		add_address(list, &card, i);
	}
	value_bool(entry, "used", is_used(name, &card, &reason));
	value_text(entry, "reason", reason);
	if ((card.flags & IFF_LOOPBACK) && !(card.flags & IFF_UP))
		value_hint(entry, "used",
			   "ranks of this host cannot meet over TCP: ip link set %s up", name);
	return entry;
}

static bool listed(const json_t *list, const char *name)
{
	size_t i;
	json_t *entry;

	json_array_foreach(list, i, entry)
		if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
			return true;
	return false;
}

static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

/* Does the kernel encrypt what is sent over TCP, when asked to? */
static void put_kernel_tls(json_t *section)
{
	char *offered = files_read("proc/sys/net/ipv4/tcp_available_ulp");
	const char *asked = getenv("TUTTI_ENCRYPT");
	const bool tls = files_has_word(offered, "tls");

	free(offered);
	value_bool(section, "kernel_tls", tls);
	if (!tls && asked && *asked == '1')
		value_hint(
			section, "kernel_tls",
			"OpenSSL encrypts all: where the kernel has the module tls, modprobe tls (as root) lets it "
			"encrypt what is sent");
}

json_t *section_network(void)
{
	json_t *section = value_section();
	json_t *list = value_list(section, "interfaces");
	struct ifaddrs *all = NULL;
	int usable = 0;

	if (getifaddrs(&all) < 0)
		value_hint(section, "interfaces", "the interfaces cannot be listed: %s",
			   strerror(errno));
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (listed(list, i->ifa_name))
			continue;
		json_t *entry = describe(i->ifa_name, all);
		usable += json_is_true(json_object_get(entry, "used")) &&
			  !(i->ifa_flags & IFF_LOOPBACK);
		json_array_append_new(list, entry);
	}
	freeifaddrs(all);
	value_number(section, "usable_between_hosts", usable);
	if (usable == 0)
		value_hint(
			section, "usable_between_hosts",
			"other hosts cannot be reached over TCP: bring an interface up, give it an "
			"address, and let TUTTI_INTERFACE leave it in");
	else if (!is_set("TUTTI_KEY") && !is_set("TUTTI_KEY_FILE"))
		value_hint(
			section, "usable_between_hosts",
			"ranks of several hosts need a key, which mpirun, srun, mpiexec.hydra and torchrun bring; else give all "
			"of them the same TUTTI_KEY or TUTTI_KEY_FILE; without one they listen on the loopback interface only");
	put_kernel_tls(section);
	return section;
}
