/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti-info reports, on this machine and on made-up ones. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <jansson.h>

#include "launched.h"

static const char *tutti_info, *cuda_standin, *nvml_standin;
static char root[] = "/tmp/tutti-info-XXXXXX"; /* a made-up machine */

/* ---------------------------------------------------------------- helpers */

static json_t *report(const char *sysroot)
{
	struct launched l;
	const char *argv[] = { tutti_info, "--json", sysroot ? "--sysroot" : NULL, sysroot, NULL };
	json_error_t error;
	json_t *parsed;

	assert_int_equal(launched_run(&l, argv), 0);
	assert_string_equal(launched_err(&l), "");
	parsed = json_loads(launched_out(&l), 0, &error);
	if (!parsed)
		fail_msg("line %d: %s:\n%s", error.line, error.text, launched_out(&l));
	launched_free(&l);
	return parsed;
}

static const json_t *member(const json_t *json, const char *section, const char *key)
{
	const json_t *value = json_object_get(json_object_get(json, section), key);

	if (!value)
		fail_msg("the report has no %s.%s", section, key);
	return value;
}

static long long number(const json_t *json, const char *section, const char *key)
{
	assert_true(json_is_integer(member(json, section, key)));
	return json_integer_value(member(json, section, key));
}

static const char *string(const json_t *json, const char *section, const char *key)
{
	assert_true(json_is_string(member(json, section, key)));
	return json_string_value(member(json, section, key));
}

static const char *hint(const json_t *object, const char *key)
{
	const char *text =
		json_string_value(json_object_get(json_object_get(object, "hints"), key));

	return text ? text : "";
}

/* The entry of a list in a section that has this name. */
static const json_t *entry(const json_t *json, const char *section, const char *list,
			   const char *name)
{
	size_t i;
	json_t *value;

	json_array_foreach(member(json, section, list), i, value)
	{
		const char *found = json_string_value(json_object_get(value, "name"));

		if (found && strcmp(found, name) == 0)
			return value;
	}
	fail_msg("%s.%s has no \"%s\"", section, list, name);
	return NULL;
}

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "(null)";
}

/* Write a file of the made-up machine and the directories above it. */
static void make_file(const char *path, const char *content)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", root, path);
	for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		assert_true(mkdir(full, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(full, "we");
	assert_non_null(file);
	assert_true(fputs(content, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
	return remove(path);
}

static int make_root(void **state)
{
	return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
	return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---------------------------------------------------------------- this machine */

static void text_has_every_section(void **state)
{
	static const char *const sections[] = { "\ncpu\n",	 "\nmemory\n",	 "\nnetwork\n",
						"\nrdma\n",	 "\ngpu\n",	 "\nlimits\n",
						"\nkernels\n",	 "\nlauncher\n", "allowed cores",
						"memlock limit", "used",	 "isa" };
	struct launched l;
	const char *argv[] = { tutti_info, NULL };

	assert_int_equal(launched_run(&l, argv), 0);
	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++)
		assert_contains(launched_out(&l), sections[i]);
	launched_free(&l);
}

static void values_are_those_of_the_system(void **state)
{
	json_t *json = report(NULL);
	struct rlimit files;
	struct utsname name;
	cpu_set_t own;

	assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
	assert_int_equal(number(json, "cpu", "allowed_threads"), CPU_COUNT(&own));
	assert_int_equal(number(json, "memory", "total_bytes") / sysconf(_SC_PAGESIZE),
			 sysconf(_SC_PHYS_PAGES));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(number(json, "limits", "open_files_limit"), files.rlim_cur);
	assert_int_equal(uname(&name), 0);
	assert_string_equal(string(json, "limits", "kernel"), name.release);
	assert_true(strlen(string(json, "kernels", "isa")) > 0);
	json_decref(json);
}

static void affinity_shows_in_the_allowed_cpus(void **state)
{
	cpu_set_t own, one;
	char expected[32];
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
	while (cpu < CPU_SETSIZE && !CPU_ISSET(cpu, &own))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	json_t *json = report(NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
	snprintf(expected, sizeof(expected), "%d", cpu);
	assert_string_equal(string(json, "cpu", "allowed_cpus"), expected);
	assert_int_equal(number(json, "cpu", "allowed_cores"), 1);
	json_decref(json);
}

static void a_low_limit_of_open_files_has_a_hint(void **state)
{
	struct rlimit before, low;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	low = before;
	low.rlim_cur = 256;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	json_t *json = report(NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(number(json, "limits", "open_files_limit"), 256);
	assert_contains(hint(json_object_get(json, "limits"), "open_files_limit"), "ulimit -n");
	json_decref(json);
}

static void loopback_is_used_unless_left_out(void **state)
{
	json_t *json = report(NULL);
	const json_t *lo = entry(json, "network", "interfaces", "lo");
	const bool used = json_is_true(json_object_get(lo, "used"));

	assert_non_null(strstr(text_of(lo, "reason"), used ? "used between ranks" : "it is down"));
	json_decref(json);
	setenv("TUTTI_INTERFACE", "^lo", 1);
	json = report(NULL);
	unsetenv("TUTTI_INTERFACE");
	lo = entry(json, "network", "interfaces", "lo");
	assert_true(json_is_false(json_object_get(lo, "used")));
	assert_contains(text_of(lo, "reason"), "TUTTI_INTERFACE leaves it out");
	json_decref(json);
}

static void hosts_that_have_no_key_are_told_so(void **state)
{
	json_t *json = report(NULL);
	const json_t *network = json_object_get(json, "network");

	if (json_integer_value(json_object_get(network, "usable_between_hosts")) > 0)
		assert_contains(hint(network, "usable_between_hosts"),
				"the same TUTTI_KEY or TUTTI_KEY_FILE");
	json_decref(json);
	setenv("TUTTI_KEY_FILE", "/nowhere", 1);
	json = report(NULL);
	unsetenv("TUTTI_KEY_FILE");
	network = json_object_get(json, "network");
	if (json_integer_value(json_object_get(network, "usable_between_hosts")) > 0)
		assert_string_equal(hint(network, "usable_between_hosts"), "");
	json_decref(json);
}

static void the_launcher_is_recognised(void **state)
{
	json_t *json;

	setenv("RANK", "3", 1);
	setenv("WORLD_SIZE", "8", 1);
	json = report(NULL);
	assert_string_equal(string(json, "launcher", "name"), "torchrun");
	assert_string_equal(string(json, "launcher", "rank"), "3");
	assert_contains(hint(json_object_get(json, "launcher"), "store"), "MASTER_ADDR");
	json_decref(json);
	setenv("TUTTI_RANK", "1", 1);
	json = report(NULL);
	assert_string_equal(string(json, "launcher", "name"), "tutti-run");
	assert_contains(hint(json_object_get(json, "launcher"), "name"), "incomplete");
	json_decref(json);
	unsetenv("RANK");
	unsetenv("WORLD_SIZE");
	unsetenv("TUTTI_RANK");
}

static void the_key_is_not_shown(void **state)
{
	json_t *json;

	setenv("TUTTI_KEY", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 1);
	json = report(NULL);
	unsetenv("TUTTI_KEY");
	char *all = json_dumps(json, 0);
	assert_null(strstr(all, "0102"));
	assert_non_null(strstr(all, "\"TUTTI_KEY\": "));
	free(all);
	json_decref(json);
}

/* ---------------------------------------------------------------- made-up machines */

static void a_synthetic_topology_is_reported(void **state)
{
	json_t *json;

	setenv("HWLOC_SYNTHETIC", "pack:2 [numa] l3:1 core:4 pu:2", 1);
	json = report(NULL);
	unsetenv("HWLOC_SYNTHETIC");
	assert_int_equal(number(json, "cpu", "packages"), 2);
	assert_int_equal(number(json, "cpu", "cores"), 8);
	assert_int_equal(number(json, "cpu", "threads"), 16);
	assert_string_equal(string(json, "cpu", "allowed_cpus"), "0-15");
	assert_int_equal(json_array_size(member(json, "cpu", "numa_nodes")), 2);
	const json_t *l3 = entry(json, "cpu", "caches", "L3");
	assert_int_equal(json_integer_value(json_object_get(l3, "count")), 2);
	assert_int_equal(json_integer_value(json_object_get(l3, "threads_each")), 8);
	json_decref(json);
}

static void rdma_ports_tell_state_and_link_layer(void **state)
{
	json_t *json;

	make_file("sys/class/infiniband/mlx5_0/node_type", "1: CA\n");
	make_file("sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002\n");
	make_file("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
	make_file("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
	make_file("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n");
	json = report(root);
	const json_t *device = entry(json, "rdma", "devices", "mlx5_0");
	const json_t *ports = json_object_get(device, "ports");
	assert_string_equal(text_of(device, "firmware"), "28.39.1002");
	assert_int_equal(json_array_size(ports), 2);
	assert_string_equal(text_of(json_array_get(ports, 0), "state"), "ACTIVE");
	assert_string_equal(text_of(json_array_get(ports, 0), "link_layer"), "Ethernet");
	assert_string_equal(hint(json_array_get(ports, 0), "state"), "");
	assert_string_equal(text_of(json_array_get(ports, 1), "state"), "DOWN");
	assert_contains(hint(json_array_get(ports, 1), "state"), "ACTIVE");
	assert_contains(text_of(json_array_get(ports, 0), "reason"), "not usable: it has no GID");
	assert_contains(text_of(json_array_get(ports, 1), "reason"), "not usable: it is DOWN");
	assert_true(json_is_null(
		json_object_get(json_array_get(json_object_get(device, "ports"), 0), "mtu")));
	assert_true(json_is_null(json_object_get(device, "dmabuf")));
	assert_string_equal(text_of(device, "dmabuf_reason"),
			    "not asked: the device is not of this machine");
	json_decref(json);
}

/* Why no port can be used, in a build that has RDMA. */
static const char *unless_left_out(const char *why)
{
#ifdef TT_RDMA
	return why;
#else
	return "RDMA is not in this build";
#endif
}

static void usable_rdma_ports_show_their_gid(void **state)
{
	json_t *json;

	make_file("sys/class/infiniband/rxe7/node_type", "1: CA\n");
	make_file("sys/class/infiniband/rxe7/device/numa_node", "0\n");
	make_file("sys/class/infiniband/rxe7/ports/1/state", "4: ACTIVE\n");
	make_file("sys/class/infiniband/rxe7/ports/1/link_layer", "Ethernet\n");
	make_file("sys/class/infiniband/rxe7/ports/1/rate", "25 Gb/sec (1X EDR)\n");
	make_file("sys/class/infiniband/rxe7/ports/1/gids/0",
		  "0000:0000:0000:0000:0000:0000:0000:0000\n");
	make_file("sys/class/infiniband/rxe7/ports/1/gids/1",
		  "fe80:0000:0000:0000:5054:00ff:fe12:3456\n");
	make_file("sys/class/infiniband/rxe7/ports/1/gid_attrs/types/1", "RoCE v2\n");
	make_file("sys/class/infiniband/rxe7/ports/1/gid_attrs/ndevs/1", "eth7\n");
	json = report(root);
	const json_t *port =
		json_array_get(json_object_get(entry(json, "rdma", "devices", "rxe7"), "ports"), 0);
#ifdef TT_RDMA
	assert_true(json_is_true(json_object_get(port, "usable")));
	assert_contains(text_of(port, "reason"), "usable: it is active");
	assert_string_equal(hint(json_object_get(json, "rdma"), "usable_ports"), "");
	assert_int_equal(json_array_size(member(json, "rdma", "usable_ports")), 1);
	assert_string_equal(
		json_string_value(json_array_get(member(json, "rdma", "usable_ports"), 0)),
		"rxe7 port 1");
#else
	assert_true(json_is_false(json_object_get(port, "usable")));
	assert_contains(text_of(port, "reason"), "this build, which is without RDMA");
	assert_contains(hint(json_object_get(json, "rdma"), "usable_ports"),
			"RDMA is not in this build");
	assert_int_equal(json_array_size(member(json, "rdma", "usable_ports")), 0);
#endif
	assert_string_equal(text_of(port, "gid"), "fe80::5054:ff:fe12:3456");
	assert_string_equal(text_of(port, "gid_kind"), "link-local");
	assert_int_equal(json_integer_value(json_object_get(port, "gid_index")), 1);
	assert_int_equal(json_integer_value(json_object_get(port, "speed_mbit")), 25000);
	assert_int_equal(json_integer_value(json_object_get(port, "numa_node")), 0);
	json_decref(json);

	setenv("TUTTI_RDMA_GID", "0", 1);
	json = report(root);
	port = json_array_get(json_object_get(entry(json, "rdma", "devices", "rxe7"), "ports"), 0);
	assert_true(json_is_false(json_object_get(port, "usable")));
	assert_string_equal(text_of(port, "reason"),
			    "not usable: it has no GID 0, which TUTTI_RDMA_GID asks for");
	assert_int_equal(json_array_size(member(json, "rdma", "usable_ports")), 0);
	assert_contains(hint(json_object_get(json, "rdma"), "usable_ports"),
			unless_left_out("rxe7 port 1 has no GID 0"));
	json_decref(json);
	setenv("TUTTI_RDMA_GID", "first", 1);
	json = report(root);
	unsetenv("TUTTI_RDMA_GID");
	assert_contains(hint(json_object_get(json, "rdma"), "usable_ports"),
			"TUTTI_RDMA_GID is \"first\": expected the index");
	port = json_array_get(json_object_get(entry(json, "rdma", "devices", "rxe7"), "ports"), 0);
	assert_true(json_is_null(json_object_get(port, "gid")));
	json_decref(json);
}

static void gpus_are_named_with_their_driver(void **state)
{
	json_t *json;

	make_file("sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
	make_file("sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
	make_file("sys/bus/pci/devices/0000:17:00.0/numa_node", "1\n");
	make_file("sys/bus/pci/devices/0000:00:02.0/class", "0x020000\n");
	make_file("sys/bus/pci/devices/0000:00:02.0/vendor", "0x8086\n");
	make_file("proc/driver/nvidia/gpus/0000:17:00.0/information",
		  "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 55\n");
	make_file("proc/driver/nvidia/version",
		  "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release\n");
	json = report(root);
	assert_int_equal(json_array_size(member(json, "gpu", "devices")), 1);
	const json_t *gpu = entry(json, "gpu", "devices", "0000:17:00.0");
	assert_string_equal(text_of(gpu, "vendor"), "NVIDIA");
	assert_string_equal(text_of(gpu, "model"), "NVIDIA H100 80GB HBM3");
	assert_contains(hint(gpu, "driver"), "no driver has the device");
	assert_string_equal(string(json, "gpu", "nvidia_driver_version"), "570.86.15");
	assert_true(json_is_null(member(json, "gpu", "cuda")));
	assert_contains(string(json, "gpu", "cuda_reason"), "not asked");
	json_decref(json);
}

/* With the variables set, until they are taken back by the next call. */
static json_t *report_with_cuda(const char *library, const char *devices, const char *fails,
				const char *error)
{
	setenv("TUTTI_CUDA_LIBRARY", library, 1);
	setenv("STANDIN_DEVICES", devices, 1);
	setenv("STANDIN_FAILS", fails, 1);
	setenv("STANDIN_ERROR", error, 1);
	json_t *json = report(NULL);

	unsetenv("TUTTI_CUDA_LIBRARY");
	return json;
}

static void gpus_that_cuda_shows_are_described(void **state)
{
	json_t *json = report_with_cuda(cuda_standin, "2", "", "");
	const json_t *cuda = member(json, "gpu", "cuda"),
		     *devices = json_object_get(cuda, "devices");
	const json_t *first = json_array_get(devices, 0), *second = json_array_get(devices, 1);

	assert_string_equal(text_of(cuda, "version"), "13.0");
	assert_int_equal(json_array_size(devices), 2);
	assert_string_equal(text_of(first, "name"), "Stand-in 0");
	assert_string_equal(text_of(first, "pci"), "0000:17:00.0");
	assert_string_equal(text_of(first, "compute_capability"), "9.0");
	assert_int_equal(json_integer_value(json_object_get(first, "multiprocessors")), 4);
	assert_int_equal(json_integer_value(json_object_get(first, "memory_bytes")), 1 << 30);
	assert_true(json_is_true(json_object_get(first, "several_processes")));
	assert_true(json_is_true(json_object_get(first, "dmabuf")));
	assert_int_equal(json_array_size(json_object_get(first, "reaches")), 0);
	assert_string_equal(text_of(second, "uuid"), "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
	assert_int_equal(json_integer_value(json_object_get(second, "number")), 1);
	assert_true(json_is_false(json_object_get(second, "several_processes")));
	assert_true(json_is_false(json_object_get(second, "dmabuf")));
	assert_int_equal(json_integer_value(json_array_get(json_object_get(second, "reaches"), 0)),
			 0);
	json_decref(json);
}

static void a_driver_of_cuda_that_fails_says_why(void **state)
{
	const struct {
		const char *library, *devices, *fails, *error, *says;
	} cases[] = {
		{ "/nonexistent/libcuda.so.1", "2", "", "",
		  "CUDA's driver cannot be opened: /nonexistent/libcuda.so.1: " },
		{ "libjansson.so.4", "2", "", "",
		  "libjansson.so.4 has no cuInit: expected the driver of CUDA 12.1 or newer" },
		{ cuda_standin, "0", "", "",
		  "CUDA has no GPU for this process: there is none, or CUDA_VISIBLE_DEVICES" },
		{ cuda_standin, "2", "cuInit", "999",
		  "start CUDA's driver: unknown error (CUDA_ERROR_UNKNOWN, 999)" },
		{ cuda_standin, "2", "cuDeviceGetCount", "999", "count the GPUs: unknown error" },
		{ cuda_standin, "2", "cuDeviceGetName", "77",
		  "ask about GPU 0: an error that this driver has no text for (no name, 77)" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *json = report_with_cuda(cases[i].library, cases[i].devices, cases[i].fails,
						cases[i].error);

		assert_true(json_is_null(member(json, "gpu", "cuda")));
		assert_contains(string(json, "gpu", "cuda_reason"), cases[i].says);
		json_decref(json);
	}
}

/* "cuda" of the report, with GPUs that are joined so. */
static json_t *report_with_links(const char *devices, const char *links, const char *ancestor,
				 const char *version, const char *fails)
{
	setenv("TUTTI_NVML_LIBRARY", nvml_standin, 0);
	setenv("STANDIN_LINKS", links, 1);
	setenv("STANDIN_ANCESTOR", ancestor, 1);
	setenv("STANDIN_VERSION", version, 1);
	setenv("STANDIN_NVML_FAILS", fails, 1);
	json_t *json = report_with_cuda(cuda_standin, devices, "", ""),
	       *cuda = json_incref(json_object_get(json_object_get(json, "gpu"), "cuda"));

	unsetenv("TUTTI_NVML_LIBRARY");
	json_decref(json);
	assert_true(json_is_object(cuda));
	return cuda;
}

static void assert_link(const json_t *link, const char *topo, int nvlinks, bool nvswitch,
			const char *version, const char *pcie)
{
	assert_string_equal(text_of(link, "topo"), topo);
	assert_int_equal(json_integer_value(json_object_get(link, "nvlinks")), nvlinks);
	assert_int_equal(json_is_true(json_object_get(link, "nvswitch")), nvswitch);
	assert_string_equal(text_of(link, "nvlink_version"), version);
	assert_string_equal(text_of(link, "pcie"), pcie);
}

static void what_joins_two_gpus_is_shown_as_topo_has_it(void **state)
{
	const struct {
		const char *links, *ancestor, *topo;
		int nvlinks;
		bool nvswitch;
		const char *version, *pcie;
	} cases[] = {
		{ "0-1:4", "50", "NV4", 4, false, "4.0", "several NUMA nodes" },
		{ "1-X:2,0-1:4,0-D:3", "20", "NV4", 4, false, "4.0", "several PCIe switches" },
		{ "0-S:18,1-S:18", "50", "NV18", 18, true, "4.0", "several NUMA nodes" },
		{ "0-S:18,1-S:12", "50", "NV12", 12, true, "4.0", "several NUMA nodes" },
		{ "0-S:18,1-D:18", "50", "SYS", 0, false, "(null)", "several NUMA nodes" },
		{ "0-H:6,1-H:6", "30", "NV6", 6, true, "4.0", "a host bridge" },
		{ "0-X:4,1-X:4", "40", "NODE", 0, false, "(null)",
		  "host bridges of one NUMA node" },
		{ "", "0", "PIX", 0, false, "(null)", "one board" },
		{ "", "10", "PIX", 0, false, "(null)", "one PCIe switch" },
		{ "", "20", "PXB", 0, false, "(null)", "several PCIe switches" },
		{ "", "30", "PHB", 0, false, "(null)", "a host bridge" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *cuda = report_with_links("2", cases[i].links, cases[i].ancestor, "6", "");
		const json_t *links = json_object_get(cuda, "links"),
			     *link = json_array_get(links, 0);

		assert_int_equal(json_array_size(links), 1);
		assert_string_equal(text_of(cuda, "links_reason"), "NVML shows these");
		assert_string_equal(text_of(link, "name"), "0 and 1");
		assert_int_equal(
			json_integer_value(json_array_get(json_object_get(link, "gpus"), 1)), 1);
		assert_link(link, cases[i].topo, cases[i].nvlinks, cases[i].nvswitch,
			    cases[i].version, cases[i].pcie);
		json_decref(cuda);
	}
}

static void each_two_of_several_gpus_are_shown_once(void **state)
{
	json_t *cuda = report_with_links("4", "0-1:2,0-2:1,3-1:2", "50", "2", "");
	const json_t *links = json_object_get(cuda, "links");
	const char *const names[] = { "0 and 1", "0 and 2", "0 and 3",
				      "1 and 2", "1 and 3", "2 and 3" };
	const char *const topos[] = { "NV2", "NV1", "SYS", "SYS", "NV2", "SYS" };

	assert_int_equal(json_array_size(links), 6);
	for (size_t i = 0; i < 6; i++) {
		assert_string_equal(text_of(json_array_get(links, i), "name"), names[i]);
		assert_string_equal(text_of(json_array_get(links, i), "topo"), topos[i]);
	}
	assert_string_equal(text_of(json_array_get(links, 0), "nvlink_version"), "2.0");
	json_decref(cuda);

	cuda = report_with_links("1", "0-S:18", "50", "6", "");
	assert_int_equal(json_array_size(json_object_get(cuda, "links")), 0);
	assert_string_equal(text_of(cuda, "links_reason"), "there are no two GPUs");
	json_decref(cuda);
}

static void links_that_nvml_does_not_tell_have_a_reason(void **state)
{
	const struct {
		const char *library, *fails, *says;
	} cases[] = {
		{ "/nonexistent/libnvidia-ml.so.1", "",
		  "NVML cannot be opened: /nonexistent/libnvidia-ml.so.1: " },
		{ "libjansson.so.4", "",
		  "libjansson.so.4 has no nvmlInit_v2: expected NVML of CUDA 12 or newer" },
		{ nvml_standin, "nvmlInit_v2:999", "start NVML: Unknown Error (NVML, 999)" },
		{ nvml_standin, "nvmlInit_v2:77",
		  "start NVML: an error that it has no text for (NVML, 77)" },
		{ nvml_standin, "nvmlDeviceGetHandleByPciBusId_v2:6",
		  "find GPU 0000:17:00.0: Not Found (NVML, 6)" },
		{ nvml_standin, "nvmlDeviceGetNvLinkState:999",
		  "ask about NVLink 0 of GPU 0000:17:00.0: Unknown Error (NVML, 999)" },
		{ nvml_standin, "nvmlDeviceGetNvLinkRemoteDeviceType:999",
		  "ask about NVLink 0 of GPU 0000:17:00.0" },
		{ nvml_standin, "nvmlDeviceGetNvLinkRemotePciInfo_v2:999",
		  "ask about NVLink 0 of GPU 0000:17:00.0" },
		{ nvml_standin, "nvmlDeviceGetTopologyCommonAncestor:999",
		  "ask what is between GPUs 0000:17:00.0 and 0000:18:00.0: Unknown Error" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setenv("TUTTI_NVML_LIBRARY", cases[i].library, 1);
		json_t *cuda = report_with_links("2", "0-1:4", "50", "6", cases[i].fails);

		assert_int_equal(json_array_size(json_object_get(cuda, "devices")), 2);
		assert_int_equal(json_array_size(json_object_get(cuda, "links")), 0);
		assert_contains(text_of(cuda, "links_reason"), cases[i].says);
		json_decref(cuda);
	}
}

static void what_nvml_does_not_know_of_a_link_is_null(void **state)
{
	const struct {
		const char *links, *ancestor, *version, *fails, *topo;
		int nvlinks;
		const char *named, *pcie;
	} cases[] = {
		{ "0-1:4", "50", "6", "nvmlDeviceGetNvLinkVersion:3", "NV4", 4, "(null)",
		  "several NUMA nodes" },
		{ "0-1:4", "50", "99", "", "NV4", 4, "(null)", "several NUMA nodes" },
		{ "0-1:4", "50", "6", "nvmlDeviceGetTopologyCommonAncestor:3", "NV4", 4, "4.0",
		  "(null)" },
		{ "", "50", "6", "nvmlDeviceGetTopologyCommonAncestor:3", "(null)", 0, "(null)",
		  "(null)" },
		{ "", "77", "6", "", "(null)", 0, "(null)", "(null)" },
		{ "0-1:4", "10", "6", "nvmlDeviceGetNvLinkState:3", "PIX", 0, "(null)",
		  "one PCIe switch" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *cuda = report_with_links("2", cases[i].links, cases[i].ancestor,
						 cases[i].version, cases[i].fails);

		assert_link(json_array_get(json_object_get(cuda, "links"), 0), cases[i].topo,
			    cases[i].nvlinks, false, cases[i].named, cases[i].pcie);
		json_decref(cuda);
	}
}

/* Of a link that is up NVML may not say where it ends. What it does say is told, and no pair is
 * said to have PCIe alone that may have more. */
static void ends_of_links_that_nvml_does_not_tell_may_be_anywhere(void **state)
{
	static const char *const kind_fails = "nvmlDeviceGetNvLinkRemoteDeviceType:3",
				 *const address_fails = "nvmlDeviceGetNvLinkRemotePciInfo_v2:3";
	const struct {
		const char *links, *fails, *topo;
		int nvlinks; /* -1: not known */
		bool nvswitch;
	} cases[] = {
		{ "0-U:4,1-U:4", "", "(null)", -1, false },
		{ "0-1:4", address_fails, "(null)", -1, false },
		{ "0-S:4,1-S:4", kind_fails, "(null)", -1, false },
		{ "0-U:4,1-S:4", "", "(null)", -1, false },
		{ "0-S:4,1-U:4", "", "(null)", -1, false },
		/* told by one thing that NVML says, or by one end */
		{ "0-1:4", kind_fails, "NV4", 4, false },
		{ "0-H:4,1-H:4", kind_fails, "NV4", 4, true },
		{ "0-S:4,1-S:4", address_fails, "NV4", 4, true },
		{ "0>1:4", "", "NV4", 4, false },
		{ "1>0:4", "", "NV4", 4, false },
		{ "0-1:3,0-U:1,1-U:1", "", "NV3", 3, false },
		{ "0-S:3,0-U:1,1-S:3", "", "NV3", 3, true },
		/* the other GPU has none that could be it */
		{ "0-U:4", "", "SYS", 0, false },
		{ "0-U:4,1-X:4", "", "SYS", 0, false },
		{ "0-U:4,1-D:4", "", "SYS", 0, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *cuda = report_with_links("2", cases[i].links, "50", "6", cases[i].fails);
		const json_t *link = json_array_get(json_object_get(cuda, "links"), 0),
			     *nvlinks = json_object_get(link, "nvlinks");
		const bool known = cases[i].nvlinks >= 0;

		assert_string_equal(text_of(cuda, "links_reason"), "NVML shows these");
		assert_link(link, cases[i].topo, known ? cases[i].nvlinks : 0, cases[i].nvswitch,
			    cases[i].nvlinks > 0 ? "4.0" : "(null)", "several NUMA nodes");
		assert_int_equal(json_is_integer(nvlinks), known);
		assert_int_equal(json_is_boolean(json_object_get(link, "nvswitch")), known);
		assert_int_equal(json_object_size(json_object_get(link, "hints")), !known);
		if (!known)
			assert_contains(hint(link, "nvlinks"), "NVML does not say where");
		json_decref(cuda);
	}
}

static void the_smallest_limit_of_the_control_groups_counts(void **state)
{
	json_t *json;

	make_file("proc/self/cgroup", "0::/jobs/one\n");
	make_file("sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
	make_file("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
	make_file("sys/fs/cgroup/jobs/one/memory.max", "536870912\n");
	make_file("sys/fs/cgroup/jobs/memory.max", "max\n");
	json = report(root);
	assert_true(json_real_value(member(json, "cpu", "quota_limit_cpus")) == 0.5);
	assert_contains(hint(json_object_get(json, "cpu"), "quota_limit_cpus"),
			"more than 1 rank will");
	assert_int_equal(number(json, "limits", "memory_limit_bytes"), 536870912);
	json_decref(json);

	make_file("proc/self/cgroup", "4:memory:/job\n3:cpuacct,cpu:/job\n0::/\n");
	make_file("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
	make_file("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
	make_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	json = report(root);
	assert_true(json_real_value(member(json, "cpu", "quota_limit_cpus")) == 1.5);
	assert_true(json_is_null(member(json, "limits", "memory_limit_bytes")));
	json_decref(json);
}

static void settings_that_slow_a_job_have_hints(void **state)
{
	json_t *json;

	make_file("proc/sys/kernel/yama/ptrace_scope", "1\n");
	make_file("proc/sys/net/ipv4/tcp_congestion_control", "cubic\n");
	make_file("proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic\n");
	make_file("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
	json = report(root);
	assert_int_equal(number(json, "limits", "ptrace_scope"), 1);
	assert_contains(hint(json_object_get(json, "limits"), "ptrace_scope"), "process_vm_readv");
	assert_string_equal(string(json, "limits", "tcp_congestion_control"), "cubic");
	assert_int_equal(
		json_array_size(member(json, "limits", "tcp_congestion_control_available")), 2);
	assert_string_equal(string(json, "memory", "transparent_huge_pages"), "never");
	assert_contains(hint(json_object_get(json, "memory"), "transparent_huge_pages"), "madvise");
	json_decref(json);
}

static void variables_that_nobody_reads_have_a_hint(void **state)
{
	json_t *json = report(root);

	assert_string_equal(hint(json_object_get(json, "launcher"), "settings"), "");
	json_decref(json);
	setenv("TUTTI_TIMEOOT", "3", 1);
	json = report(root);
	unsetenv("TUTTI_TIMEOOT");
	assert_contains(hint(json_object_get(json, "launcher"), "settings"),
			"TUTTI_TIMEOOT (did you mean TUTTI_TIMEOUT?): correct");
	json_decref(json);
}

static void a_kernel_that_encrypts_is_seen(void **state)
{
	json_t *json;

	make_file("proc/sys/net/ipv4/tcp_available_ulp", "espintcp mptcp\n");
	json = report(root);
	assert_true(json_is_false(member(json, "network", "kernel_tls")));
	assert_string_equal(hint(json_object_get(json, "network"), "kernel_tls"), "");
	json_decref(json);
	setenv("TUTTI_ENCRYPT", "1", 1);
	json = report(root);
	assert_contains(hint(json_object_get(json, "network"), "kernel_tls"), "modprobe tls");
	json_decref(json);
	make_file("proc/sys/net/ipv4/tcp_available_ulp", "espintcp mptcp tls\n");
	json = report(root);
	assert_true(json_is_true(member(json, "network", "kernel_tls")));
	assert_string_equal(hint(json_object_get(json, "network"), "kernel_tls"), "");
	json_decref(json);
	unsetenv("TUTTI_ENCRYPT");
}

static void a_machine_that_tells_nothing_has_the_same_keys(void **state)
{
	char empty[] = "/tmp/tutti-info-empty-XXXXXX";
	json_t *here = report(NULL), *nowhere;
	const char *section, *key;
	json_t *values, *value;

	assert_non_null(mkdtemp(empty));
	nowhere = report(empty);
	assert_int_equal(rmdir(empty), 0);
	assert_contains(hint(json_object_get(nowhere, "rdma"), "usable_ports"),
			unless_left_out("this machine has no RDMA device"));
	json_object_foreach(here, section, values) json_object_foreach(values, key, value)
		assert_non_null(member(nowhere, section, key));
	json_decref(here);
	json_decref(nowhere);
}

static void wrong_arguments_say_what_is_expected(void **state)
{
	static const struct {
		const char *arguments[2];
		const char *message;
	} cases[] = {
		{ { "--xml", NULL }, "unknown option --xml: expected --json, --sysroot DIR" },
		{ { "--jsno", NULL }, "unknown option --jsno (did you mean --json?): expected" },
		{ { "--json=yes", NULL }, "--json takes no value" },
		{ { "all", NULL }, "unknown argument all: expected" },
		{ { "--sysroot", NULL }, "--sysroot needs a value" },
		{ { "--sysroot", "/nowhere" }, "--sysroot has \"/nowhere\": No such file" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct launched l;
		const char *argv[] = { tutti_info, cases[i].arguments[0], cases[i].arguments[1],
				       NULL };

		assert_int_equal(launched_run(&l, argv), 2);
		assert_contains(launched_err(&l), cases[i].message);
		launched_free(&l);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_has_every_section),
		cmocka_unit_test(values_are_those_of_the_system),
		cmocka_unit_test(affinity_shows_in_the_allowed_cpus),
		cmocka_unit_test(a_low_limit_of_open_files_has_a_hint),
		cmocka_unit_test(loopback_is_used_unless_left_out),
		cmocka_unit_test(hosts_that_have_no_key_are_told_so),
		cmocka_unit_test(the_launcher_is_recognised),
		cmocka_unit_test(the_key_is_not_shown),
		cmocka_unit_test(a_synthetic_topology_is_reported),
		cmocka_unit_test(rdma_ports_tell_state_and_link_layer),
		cmocka_unit_test(usable_rdma_ports_show_their_gid),
		cmocka_unit_test(gpus_are_named_with_their_driver),
		cmocka_unit_test(gpus_that_cuda_shows_are_described),
		cmocka_unit_test(a_driver_of_cuda_that_fails_says_why),
		cmocka_unit_test(what_joins_two_gpus_is_shown_as_topo_has_it),
		cmocka_unit_test(each_two_of_several_gpus_are_shown_once),
		cmocka_unit_test(links_that_nvml_does_not_tell_have_a_reason),
		cmocka_unit_test(what_nvml_does_not_know_of_a_link_is_null),
		cmocka_unit_test(ends_of_links_that_nvml_does_not_tell_may_be_anywhere),
		cmocka_unit_test(the_smallest_limit_of_the_control_groups_counts),
		cmocka_unit_test(settings_that_slow_a_job_have_hints),
		cmocka_unit_test(variables_that_nobody_reads_have_a_hint),
		cmocka_unit_test(a_kernel_that_encrypts_is_seen),
		cmocka_unit_test(a_machine_that_tells_nothing_has_the_same_keys),
		cmocka_unit_test(wrong_arguments_say_what_is_expected),
	};

	tutti_info = argc > 1 ? argv[1] : "tutti-info";
	cuda_standin = argc > 2 ? argv[2] : "libcuda_standin.so";
	nvml_standin = argc > 3 ? argv[3] : "libnvml_standin.so";
	return cmocka_run_group_tests(tests, make_root, remove_root);
}
