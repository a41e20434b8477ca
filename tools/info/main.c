/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-info: what this machine offers to a job. Owns the command line and the order of the report.
 */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tutti/tutti.h"

#include "files.h"
#include "option.h"
#include "output.h"
#include "sections.h"

static const char usage[] =
	"Usage: tutti-info [OPTION]...\n"
	"Show what this machine offers to a job of tutti, and what stands in its way.\n"
	"\n"
	"  -j, --json         one JSON object with the same content; sizes in bytes\n"
	"  -s, --sysroot DIR  read /proc and /sys below DIR (addresses, affinity and limits stay\n"
	"                     those of this process)\n"
	"  -h, --help         show this text\n"
	"  -V, --version      show the version\n"
	"\n"
	"Lines that start with \"!\" say what to do about the value above them. HWLOC_SYNTHETIC\n"
	"and HWLOC_XMLFILE replace the processors, caches and NUMA nodes of this machine.\n";

static const struct option long_options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "sysroot", required_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

struct options {
	bool json;
	const char *sysroot;
};

static void say_wrong(const char *what, const char *found)
{
	fprintf(stderr, "tutti-info: %s%s: expected --json, --sysroot DIR, --help or --version\n",
		what, found);
	exit(2);
}

/* Ends the program where there is nothing to report, or the command line is wrong. */
static void parse(struct options *options, int argc, char **argv)
{
	char why[TT_OPTION_WHY];
	int option;

	while ((option = getopt_long(argc, argv, "+:js:hV", long_options, NULL)) != -1) {
		switch (option) {
		case 'j': options->json = true; break;
		case 's': options->sysroot = optarg; break;
		case 'h': fputs(usage, stdout); exit(0);
		case 'V': printf("tutti-info %s\n", tutti_version()); exit(0);
		default: say_wrong(tt_option_why(option, argv, long_options, why), "");
		}
	}
	if (optind < argc)
		say_wrong("unknown argument ", argv[optind]);
}

static json_t *make_report(void)
{
	json_t *report = json_object();

	value_text(report, "tutti", tutti_version());
	json_object_set_new(report, "cpu", section_cpu());
	json_object_set_new(report, "memory", section_memory());
	json_object_set_new(report, "network", section_network());
	json_object_set_new(report, "rdma", section_rdma());
	json_object_set_new(report, "gpu", section_gpu());
	json_object_set_new(report, "limits", section_limits());
	json_object_set_new(report, "kernels", section_kernels());
	json_object_set_new(report, "model", section_model());
	json_object_set_new(report, "launcher", section_launcher());
	return report;
}

static void print_report(const struct options *options)
{
	json_t *report = make_report();

	if (options->json) {
		json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(10));
		putchar('\n');
	} else {
		text_print(stdout, report);
	}
	json_decref(report);
}

int main(int argc, char **argv)
{
	struct options options = { .sysroot = "/" };

	output_begin(1);
	parse(&options, argc, argv);
	if (!files_set_root(options.sysroot)) {
		fprintf(stderr,
			"tutti-info: --sysroot has \"%s\": %s; expected a directory with proc and "
			"sys\n",
			options.sysroot, strerror(errno));
		return 2;
	}
	print_report(&options);
	return 0;
}
