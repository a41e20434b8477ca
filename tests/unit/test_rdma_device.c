/* SPDX-License-Identifier: BSD-3-Clause */
/* Which RDMA ports and GIDs are chosen, on made-up machines: trees of files like the kernel's. */
#include "tutti_asserts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "log.h"
#include "test_folder.h"
#include "test_shortage.h"

#define V4(text) "0000:0000:0000:0000:0000:ffff:" text

static int node = -1;	      /* of the calling thread */
static int networks_asked;    /* how often the addresses of interfaces were looked at */
static const char *interface; /* whose addresses these are */
static const struct rdma_settings any = { .gid = -1 };

/* ---------------------------------------------------------------- a machine */

static int node_now(void)
{
	return node;
}

/* 10.0.N.0/24 and 2001:db8::/32 are addresses of interfaces, others are not. */
static int network(const char *netdev, const uint8_t gid[16])
{
	static char last[64];

	networks_asked++;
	interface = strcpy(last, netdev);
	if (IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid))
		return gid[12] == 10 || gid[12] == 169 ? 96 + 24 : -1;
	return gid[0] == 0x20 ? 32 : -1;
}

static const struct rdma_sources machine = { .sys = folder, .node = node_now, .network = network };

__attribute__((format(printf, 2, 3))) static void make_file(const char *content, const char *format,
							    ...)
{
	char name[120], line[80];
	va_list args;

	va_start(args, format);
	vsnprintf(name, sizeof(name), format, args);
	va_end(args);
	snprintf(line, sizeof(line), "%s\n", content);
	file_with(name, line);
}

static void make_port(const char *device, int port, const char *layer, const char *state,
		      const char *rate, int of_node)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", of_node);
	make_file("1: CA", "class/infiniband/%s/node_type", device);
	make_file(text, "class/infiniband/%s/device/numa_node", device);
	make_file(state, "class/infiniband/%s/ports/%d/state", device, port);
	make_file(layer, "class/infiniband/%s/ports/%d/link_layer", device, port);
	make_file(rate, "class/infiniband/%s/ports/%d/rate", device, port);
	make_file("0x0", "class/infiniband/%s/ports/%d/lid", device, port);
}

static void make_gid(const char *device, int port, int index, const char *type, const char *gid)
{
	make_file(gid, "class/infiniband/%s/ports/%d/gids/%d", device, port, index);
	if (!type)
		return;
	make_file(type, "class/infiniband/%s/ports/%d/gid_attrs/types/%d", device, port, index);
	make_file("eth0", "class/infiniband/%s/ports/%d/gid_attrs/ndevs/%d", device, port, index);
}

/* A port like those of cards that speak RoCE: each address twice, once of either version. */
static void make_roce(const char *device, const char *rate, int of_node, const char *last_bytes)
{
	char gid[64];

	snprintf(gid, sizeof(gid), V4("%s"), last_bytes);
	make_port(device, 1, "Ethernet", "4: ACTIVE", rate, of_node);
	make_gid(device, 1, 0, "IB/RoCE v1", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001");
	make_gid(device, 1, 1, "RoCE v2", "fe80:0000:0000:0000:0e42:a1ff:fe00:0001");
	make_gid(device, 1, 2, "IB/RoCE v1", gid);
	make_gid(device, 1, 3, "RoCE v2", gid);
	make_gid(device, 1, 4, NULL, "0000:0000:0000:0000:0000:0000:0000:0000");
}

static int make_machine(void **state)
{
	node = -1;
	networks_asked = 0;
	return make_folder(state);
}

/* ---------------------------------------------------------------- what is chosen */

static struct rdma_port ports[RDMA_PORTS_MAX];
static char why[RDMA_WHY_MAX];

/* "mlx5_0/1:3 mlx5_1/1:3": devices, ports and GID indices in the order of choice */
static const char *choice_with(const struct rdma_settings *settings)
{
	static char text[RDMA_PORTS_MAX * 100];
	int n = -1;

	memset(why, 'x', sizeof(why));
	assert_ok(tt_rdma_ports(&machine, settings, ports, &n, why));
	assert_in_range(n, 0, RDMA_PORTS_MAX);
	assert_non_null(memchr(why, '\0', sizeof(why)));
	text[0] = '\0';
	for (int i = 0; i < n; i++)
		snprintf(text + strlen(text), 100, "%s%.63s/%d:%d", i ? " " : "", ports[i].device,
			 ports[i].number, ports[i].gid_index);
	return text;
}

static const char *choice(void)
{
	return choice_with(&any);
}

static void expect_none(const struct rdma_settings *settings, const char *because)
{
	assert_string_equal(choice_with(settings), "");
	assert_string_equal(why, because);
}

TEST_WITH(a_machine_without_devices_says_so, make_machine, remove_folder)
{
	for (int i = 0; i < 2; i++) {
		assert_string_equal(choice(), "");
		assert_says(why, "this machine has no RDMA device");
		make_file("", "class/infiniband/.hidden");
	}
	assert_int_equal(networks_asked, 0);
}

TEST_WITH(the_gid_of_roce_v2_and_ipv4_is_chosen, make_machine, remove_folder)
{
	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	assert_string_equal(choice(), "mlx5_0/1:3");
	assert_string_equal(why, "");
	assert_false(ports[0].infiniband);
	assert_int_equal(ports[0].prefix, 120);
	assert_int_equal(ports[0].mbits, 100000);
	assert_int_equal(ports[0].node, 0);
	assert_memory_equal(ports[0].gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x00\x01\x05", 16);
	assert_string_equal(interface, "eth0");
	assert_int_equal(networks_asked, 1);
}

TEST_WITH(ipv4_comes_before_ipv6_before_link_local, make_machine, remove_folder)
{
	make_port("rxe0", 1, "Ethernet", "4: ACTIVE", "2.5 Gb/sec (1X SDR)", -1);
	make_gid("rxe0", 1, 0, "RoCE v2", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
	assert_string_equal(choice(), "rxe0/1:0");
	assert_int_equal(ports[0].prefix, 64);
	assert_int_equal(ports[0].mbits, 2500);
	make_gid("rxe0", 1, 1, "RoCE v2", V4("a9fe:0101")); /* 169.254.1.1 */
	assert_string_equal(choice(), "rxe0/1:0");
	make_gid("rxe0", 1, 2, "RoCE v2", "2001:0db8:0000:0000:0000:0000:0000:0005");
	assert_string_equal(choice(), "rxe0/1:2");
	assert_int_equal(ports[0].prefix, 32);
	make_gid("rxe0", 1, 3, NULL,
		 "0000:0000:0000:0000:0000:0000:0000:0000"); /* an address that went */
	make_gid("rxe0", 1, 4, "RoCE v2", V4("0a00:0005"));
	make_gid("rxe0", 1, 5, "RoCE v2", V4("0a00:0105"));
	networks_asked = 0;
	assert_string_equal(choice(), "rxe0/1:4");
	assert_int_equal(networks_asked, 3); /* tables are long: nothing is looked at behind the
					      * first */
}

TEST_WITH(gids_of_roce_v1_are_not_used, make_machine, remove_folder)
{
	make_port("mlx4_0", 1, "Ethernet", "4: ACTIVE", "40 Gb/sec (4X QDR)", 0);
	make_gid("mlx4_0", 1, 0, "IB/RoCE v1", "fe80:0000:0000:0000:5054:00ff:fe12:3456");
	make_gid("mlx4_0", 1, 1, "IB/RoCE v1", V4("0a00:0005"));
	expect_none(&any, "mlx4_0 port 1 has no GID of RoCE v2, only of IB/RoCE v1");
}

TEST_WITH(a_port_without_gid_is_told_to_get_an_address, make_machine, remove_folder)
{
	make_port("rxe0", 1, "Ethernet", "4: ACTIVE", "2.5 Gb/sec (1X SDR)", -1);
	make_gid("rxe0", 1, 0, NULL, "0000:0000:0000:0000:0000:0000:0000:0000");
	make_gid("rxe0", 1, 1, "RoCE v2", "0000:0000:0000:0000:0000:0000:0000:0000");
	expect_none(&any, "rxe0 port 1 has no GID: give its interface an IP address");
}

TEST_WITH(an_address_of_no_interface_here_is_passed_over, make_machine, remove_folder)
{
	make_port("rxe0", 1, "Ethernet", "4: ACTIVE", "25 Gb/sec (1X EDR)", -1);
	make_gid("rxe0", 1, 0, "RoCE v2", V4("c0a8:0005"));
	expect_none(
		&any,
		"rxe0 port 1 has GID 0 of ::ffff:192.168.0.5, an address that no interface has here");
	make_gid("rxe0", 1, 1, "RoCE v2", V4("0a00:0005"));
	assert_string_equal(choice(), "rxe0/1:1");
	assert_string_equal(why, "");
}

TEST_WITH(only_active_ports_are_used, make_machine, remove_folder)
{
	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	make_file("1: DOWN", "class/infiniband/mlx5_0/ports/1/state");
	make_port("mlx5_1", 1, "InfiniBand", "2: INIT", "100 Gb/sec (4X EDR)", 0);
	assert_string_equal(choice(), "");
	assert_says(why, "mlx5_0 port 1 is DOWN, expected ACTIVE: check the cable");
	assert_says(why, "; mlx5_1 port 1 is INIT, expected ACTIVE: a subnet manager must run");
	make_roce("mlx5_2", "100 Gb/sec (4X EDR)", 0, "0a00:0205");
	assert_string_equal(choice(), "mlx5_2/1:3");
	assert_says(why, "mlx5_0 port 1 is DOWN");
	assert_null(strstr(why, "mlx5_2"));
}

TEST_WITH(on_infiniband_gid_0_is_used, make_machine, remove_folder)
{
	make_port("mlx5_0", 1, "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)", 0);
	make_file("0x2b", "class/infiniband/mlx5_0/ports/1/lid");
	make_gid("mlx5_0", 1, 0, NULL, "fe80:0000:0000:0000:506b:4b03:00b7:1b2c");
	make_gid("mlx5_0", 1, 1, NULL, "fe80:0000:0000:0001:506b:4b03:00b7:1b2c");
	assert_string_equal(choice(), "mlx5_0/1:0");
	assert_true(ports[0].infiniband);
	assert_int_equal(ports[0].lid, 0x2b);
	assert_int_equal(ports[0].prefix, 64);
	assert_int_equal(ports[0].mbits, 400000);
	struct rdma_settings asked = any;

	asked.gid = 1;
	assert_string_equal(choice_with(&asked), "mlx5_0/1:1");
	asked.gid = 2;
	expect_none(&asked, "mlx5_0 port 1 has no GID 2, which TUTTI_RDMA_GID asks for");
	assert_int_equal(networks_asked, 0);
}

TEST_WITH(what_speaks_neither_is_not_used, make_machine, remove_folder)
{
	make_roce("irdma0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	make_file("4: RNIC", "class/infiniband/irdma0/node_type");
	expect_none(&any, "irdma0 port 1 is of type RNIC, which does not speak InfiniBand or RoCE");
	make_file("1: CA", "class/infiniband/irdma0/node_type");
	make_file("Unknown", "class/infiniband/irdma0/ports/1/link_layer");
	expect_none(&any,
		    "irdma0 port 1 has link layer \"Unknown\", expected InfiniBand or Ethernet");
}

TEST_WITH(a_device_and_port_that_are_asked_for_are_the_only_ones, make_machine, remove_folder)
{
	struct rdma_settings asked = any;

	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	make_port("mlx5_0", 2, "Ethernet", "4: ACTIVE", "100 Gb/sec (4X EDR)", 0);
	make_gid("mlx5_0", 2, 0, "RoCE v2", V4("0a00:0305"));
	make_roce("mlx5_1", "100 Gb/sec (4X EDR)", 0, "0a00:0205");
	assert_string_equal(choice(), "mlx5_0/1:3 mlx5_0/2:0 mlx5_1/1:3");
	asked.port = 2;
	assert_string_equal(choice_with(&asked), "mlx5_0/2:0");
	asked.port = 3;
	expect_none(
		&asked,
		"TUTTI_RDMA_PORT is 3: this machine has mlx5_0 port 1, mlx5_0 port 2, mlx5_1 port 1");
	strcpy(asked.device, "mlx5_0");
	expect_none(
		&asked,
		"TUTTI_RDMA_DEVICE is mlx5_0 and TUTTI_RDMA_PORT is 3: this machine has mlx5_0 port 1, mlx5_0 port 2, mlx5_1 port 1");
	asked.port = 0;
	strcpy(asked.device, "mlx5_9");
	expect_none(
		&asked,
		"TUTTI_RDMA_DEVICE is mlx5_9: this machine has mlx5_0 port 1, mlx5_0 port 2, mlx5_1 port 1");
	strcpy(asked.device, "mlx5_1");
	assert_string_equal(choice_with(&asked), "mlx5_1/1:3");
	assert_string_equal(why, "");
}

TEST_WITH(a_gid_that_is_asked_for_is_used_or_said_why_not, make_machine, remove_folder)
{
	struct rdma_settings asked = any;

	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	asked.gid = 1;
	assert_string_equal(choice_with(&asked), "mlx5_0/1:1");
	asked.gid = 2;
	expect_none(
		&asked,
		"mlx5_0 port 1 has as GID 2, which TUTTI_RDMA_GID asks for, one of IB/RoCE v1: expected "
		"RoCE v2");
	asked.gid = 4;
	expect_none(&asked, "mlx5_0 port 1 has no GID 4, which TUTTI_RDMA_GID asks for");
	asked.gid = 255;
	expect_none(&asked, "mlx5_0 port 1 has no GID 255, which TUTTI_RDMA_GID asks for");
}

TEST_WITH(nearer_cards_come_first_then_faster_ones, make_machine, remove_folder)
{
	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0005");
	make_roce("mlx5_1", "200 Gb/sec (4X HDR)", 1, "0a00:0105");
	make_roce("mlx5_2", "25 Gb/sec (1X EDR)", 0, "0a00:0205");
	node = 0;
	assert_string_equal(choice(), "mlx5_0/1:3 mlx5_2/1:3 mlx5_1/1:3");
	node = 1;
	assert_string_equal(choice(), "mlx5_1/1:3 mlx5_0/1:3 mlx5_2/1:3");
	node = -1;
	assert_string_equal(choice(), "mlx5_1/1:3 mlx5_0/1:3 mlx5_2/1:3");
	/* of equal ones the lower number */
	make_roce("mlx5_10", "200 Gb/sec (4X HDR)", 1, "0a00:0305");
	assert_string_equal(choice(), "mlx5_1/1:3 mlx5_10/1:3 mlx5_0/1:3 mlx5_2/1:3");
	make_roce("mlx5_2", "200 Gb/sec (4X HDR)", 1, "0a00:0205");
	assert_string_equal(choice(), "mlx5_1/1:3 mlx5_2/1:3 mlx5_10/1:3 mlx5_0/1:3");
}

TEST_WITH(distances_are_those_of_the_kernel, make_machine, remove_folder)
{
	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 4, "0a00:0005");
	make_roce("mlx5_1", "400 Gb/sec (4X NDR)", 5, "0a00:0105");
	/* nodes 0, 4 and 5 are there; the third number is node 5's */
	make_file("10 12 32", "devices/system/node/node0/distance");
	make_file("", "devices/system/node/node4/distance");
	make_file("", "devices/system/node/node5/distance");
	node = 0;
	assert_string_equal(choice(), "mlx5_0/1:3 mlx5_1/1:3");
	make_file("10 32 12", "devices/system/node/node0/distance");
	assert_string_equal(choice(), "mlx5_1/1:3 mlx5_0/1:3");
}

TEST_WITH(the_best_four_are_used, make_machine, remove_folder)
{
	static const char *const rates[] = { "10 Gb/sec", "50 Gb/sec", "20 Gb/sec", "40 Gb/sec",
					     "30 Gb/sec" };
	struct rdma_survey survey;
	char name[16], gid[16];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "mlx5_%d", i + 8);
		snprintf(gid, sizeof(gid), "0a00:0%d05", i);
		make_roce(name, rates[i], 0, gid);
	}
	assert_string_equal(choice(), "mlx5_9/1:3 mlx5_11/1:3 mlx5_12/1:3 mlx5_10/1:3");
	assert_string_equal(why, "mlx5_8 port 1 is not among the 4 best");
	assert_ok(tt_rdma_survey_make(&machine, &any, &survey));
	assert_int_equal(survey.count, 5);
	assert_int_equal(survey.used, 4);
	assert_true(survey.all[3].used && !survey.all[4].used);
	assert_string_equal(survey.all[4].why, "is not among the 4 best");
	assert_string_equal(survey.all[4].kind, "IPv4");
	tt_rdma_survey_finish(&survey);
}

TEST_WITH(an_error_message_about_many_ports_has_an_end, make_machine, remove_folder)
{
	char name[64];

	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "a_device_with_a_rather_long_name_of_number_%d", i);
		make_port(name, 1, "Ethernet", "1: DOWN", "100 Gb/sec", 0);
	}
	assert_string_equal(choice(), "");
	assert_int_equal(strlen(why), RDMA_WHY_MAX - 1);
	assert_string_equal(why + RDMA_WHY_MAX - 4, "...");
}

TEST_WITH(want_of_descriptors_is_an_error, make_machine, remove_folder)
{
	struct shortage shortage;
	int n = 7;

	make_roce("mlx5_0", "100 Gb/sec (4X EDR)", 0, "0a00:0105");
	shortage_begin(&shortage);
	const tutti_result_t result = tt_rdma_ports(&machine, &any, ports, &n, why);
	shortage_end(&shortage);
	assert_int_equal(result, TUTTI_ERR_SYSTEM);
	assert_says(tt_thread_error(), "ulimit -n");
	assert_int_equal(n, 7);
}

/* ---------------------------------------------------------------- this machine */

TEST(networks_are_those_of_the_addresses_here)
{
	uint8_t gid[16] = { [10] = 0xff, [11] = 0xff, [12] = 203, [14] = 113, [15] = 77 };
	struct ifaddrs *all;

	assert_int_equal(tt_rdma_here.network("eth0", gid), -1);
	assert_int_equal(getifaddrs(&all), 0);
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !i->ifa_netmask)
			continue;
		const uint32_t mask =
			ntohl(((struct sockaddr_in *)i->ifa_netmask)->sin_addr.s_addr);

		memcpy(gid + 12, &((struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
		assert_int_equal(tt_rdma_here.network(i->ifa_name, gid),
				 96 + (mask ? 32 - __builtin_ctz(mask) : 0));
	}
	freeifaddrs(all);
}

TEST(the_node_of_this_thread_is_one_that_there_is)
{
	char path[64];
	const int here = tt_rdma_here.node();

	assert_string_equal(tt_rdma_here.sys, "/sys");
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d", here);
	if (access("/sys/devices/system/node/node0", F_OK) == 0)
		assert_int_equal(access(path, F_OK), 0);
}

/* ---------------------------------------------------------------- programs */

#ifdef TT_RDMA /* what a build without it says is tutti_info's test */
static void note(const tutti_rdma_port_t *port, void *context)
{
	char *text = context;

	sprintf(text + strlen(text), "%s %d %d %u %d %d %s %s|", port->device, port->port,
		port->used, port->speed_mbit, port->numa_node, port->gid_index,
		port->gid_kind ? port->gid_kind : "-", port->why_not ? port->why_not : "-");
}

TEST_WITH(programs_are_shown_every_port, make_machine, remove_folder)
{
	char text[1024] = "";

	/* tutti_rdma_ports() looks into the tree's sys/ */
	assert_int_equal(tutti_rdma_ports(folder, note, text), TUTTI_ERR_UNSUPPORTED);
	assert_string_equal(text, "");
	assert_says(tt_thread_error(), "no RDMA port can be used: this machine has no RDMA device");
	make_file("1: DOWN", "sys/class/infiniband/mlx5_0/ports/1/state");
	make_file("25 Gb/sec (1X EDR)", "sys/class/infiniband/mlx5_0/ports/2/rate");
	make_file("4: ACTIVE", "sys/class/infiniband/mlx5_0/ports/2/state");
	make_file("Ethernet", "sys/class/infiniband/mlx5_0/ports/2/link_layer");
	make_file("fe80:0000:0000:0000:5054:00ff:fe12:3456",
		  "sys/class/infiniband/mlx5_0/ports/2/gids/0");
	make_file("RoCE v2", "sys/class/infiniband/mlx5_0/ports/2/gid_attrs/types/0");
	assert_ok(tutti_rdma_ports(folder, note, text));
	assert_string_equal(
		text,
		"mlx5_0 2 1 25000 -1 0 link-local -|mlx5_0 1 0 0 -1 -1 - is DOWN, expected ACTIVE: check the "
		"cable, and that its interface is up (ip link)|");
	assert_int_equal(tutti_rdma_ports(folder, NULL, text), TUTTI_ERR_INVALID);
	assert_says(tt_thread_error(), "each is NULL");
}
#endif
