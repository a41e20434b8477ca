/* SPDX-License-Identifier: BSD-3-Clause */
#include "network.h"

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static struct {
	int bridge_side; /* a socket in the network of the bridge */
	char port[IFNAMSIZ];
} cable = { -1, "" };

static int shell(const char *command)
{
	const int status = system(command);

	return status < 0 || !WIFEXITED(status) ? -1 : WEXITSTATUS(status);
}

const char *network_refused(void)
{
	if (geteuid() != 0)
		return "network namespaces need root";
	if (shell("ip -V >/dev/null 2>&1") != 0)
		return "there is no ip(8)";
	if (shell("unshare -n ip link add veth-try type veth 2>/dev/null") != 0)
		return "the kernel gives no network namespaces or no veth pairs";
	if (shell("unshare -n ip link add bridge-try type bridge 2>/dev/null") != 0)
		return "the kernel gives no bridges";
	return NULL;
}

static bool set_up(int socket_fd, const char *name, bool up)
{
	struct ifreq request = { 0 };

	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (ioctl(socket_fd, SIOCGIFFLAGS, &request) < 0)
		return false;
	request.ifr_flags = (short)(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
	return ioctl(socket_fd, SIOCSIFFLAGS, &request) == 0;
}

/* Addresses of version 6 would be ready only a second later. */
static void forgo_ipv6(void)
{
	const int fd = open("/proc/sys/net/ipv6/conf/all/disable_ipv6", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	if (write(fd, "1", 1) < 0)
		perror("disable_ipv6");
	close(fd);
}

bool network_own(bool cables)
{
	const int fd =
		unshare(CLONE_NEWNET) == 0 ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	bool good = fd >= 0 && set_up(fd, "lo", true);

	if (fd >= 0)
		close(fd);
	if (good && cables) {
		forgo_ipv6();
		good = shell("ip link add bridge type bridge && ip link set bridge up") == 0;
	}
	return good;
}

/* The caller is in the bridge's network, and is in its host's on return. */
static bool make_host(int host)
{
	char command[512];
	const int bridge = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (bridge < 0 || unshare(CLONE_NEWNET) < 0)
		return false;
	forgo_ipv6();
	const int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	snprintf(command, sizeof(command),
		 "ip link add %s type veth peer name cable netns /proc/%d/fd/%d && "
		 "ip link set %s master bridge up",
		 cable.port, (int)getpid(), here, cable.port);
	if (here < 0 || setns(bridge, CLONE_NEWNET) < 0 || shell(command) != 0 ||
	    setns(here, CLONE_NEWNET) < 0)
		return false;
	close(bridge);
	close(here);
	snprintf(command, sizeof(command),
		 "ip link set lo up && ip addr add 10.77.0.%d/24 dev cable && ip link set cable up",
		 host + 1);
	return shell(command) == 0;
}

static bool follow_to_host(pid_t maker)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)maker);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const bool good = fd >= 0 && setns(fd, CLONE_NEWNET) == 0;

	if (fd >= 0)
		close(fd);
	return good;
}

/* Both ends are up: the kernel says so a moment later. */
static bool await_carrier(void)
{
	struct ifreq request = { .ifr_name = "cable" };
	const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool good = fd >= 0;

	while (good && !(request.ifr_flags & IFF_RUNNING)) {
		good = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
		look_again();
	}
	if (fd >= 0)
		close(fd);
	return good;
}

bool network_enter(const struct scene *s, int rank)
{
	const int ranks = case_ranks(&s->c);
	const int hosts = case_hosts(&s->c) ? case_hosts(&s->c) : ranks;
	const int host = rank % hosts;
	struct stage *stage = s->stage;
	bool good;

	cable.bridge_side = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	/* those of the rehearsal go when the kernel gets round to it */
	snprintf(cable.port, sizeof(cable.port), "%s%d", s->rehearsal ? "before" : "port",
		 host & 7);
	if (rank < hosts) {
		good = make_host(host);
		meet_at(&stage->hosts, hosts);
	} else {
		await_count(&stage->hosts, hosts);
		good = follow_to_host(atomic_load(&stage->pid[host]));
	}
	good = good && cable.bridge_side >= 0 && await_carrier();
	if (!good)
		perror("a host of its own");
	meet_at(&stage->entered, ranks);
	return good;
}

void network_unplug(void)
{
	set_up(cable.bridge_side, cable.port, false);
}
