/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the command line by the table of options, and prints the help. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "option.h"
#include "options_table.h"

/* FIRST: what getopt_long() returns for the first option of the table. */
enum { HELP_INDENT = 23, HELP_WIDTH = 88, FIRST = 256 };

static void print_spec(const struct spec *spec)
{
	const char *more = spec->usual ? spec->usual : spec->variable;
	char text[640], *rest;

	if (spec->heading)
		printf("\n%s\n", spec->heading);
	int column = printf("  %4s--%s%s%s", spec->letter ? spec->letter : "", spec->name,
			    spec->value ? " " : "", spec->value ? spec->value : "");

	snprintf(text, sizeof(text), more ? "%s (%s)" : "%s", spec->help, more);
	if (column > HELP_INDENT - 2)
		column = HELP_WIDTH;
	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		if (column + 1 + (int)strlen(word) > HELP_WIDTH) {
			putchar('\n');
			column = 0;
		}
		column +=
			printf("%*s%s", column < HELP_INDENT ? HELP_INDENT - column : 1, "", word);
	}
	putchar('\n');
}

static void print_help(void)
{
	printf("Usage: tutti-train --data FILE [OPTION]...\n"
	       "Train a multilayer perceptron by data-parallel SGD. Alone it is one rank; under tutti-run\n"
	       "(tutti-run -n 4 -- tutti-train ...), torchrun, mpirun or srun it is one of many.\n"
	       "\n"
	       "tutti-train predict MODEL --data FILE [--predict FILE] classifies samples by a saved model.\n"
	       "tutti-train report LOG... [--plot FILE] compares trainings by their logs.\n"
	       "tutti-train compare --data FILE ... trains in several ways, and compares these.\n");
	for (size_t i = 0; i < options_count; i++)
		print_spec(&options_table[i]);
	printf("\nExit status: 0; 1 if the training failed, 2 if the command line is wrong.\n");
}

/* ---- the command line */

/* Is the word that option, or OPTION=VALUE? */
static bool is_option(const char *word, const char *option)
{
	const size_t length = strlen(option);

	return strncmp(word, option, length) == 0 && (word[length] == '\0' || word[length] == '=');
}

static bool refuse(int id, char **argv, const struct option *known)
{
	static const char *const launchers[] = { "-n",	    "--min-ranks", "--restart",
						 "--grace", "--bind",	   NULL };
	char text[TT_OPTION_WHY];

	for (int i = 0; launchers[i]; i++)
		if (is_option(argv[optind - 1], launchers[i]))
			return why_invalid("%s is an option of tutti-run: give it before the --",
					   launchers[i]);
	return why_invalid("%s; see --help", tt_option_why(id, argv, known, text));
}

static bool take(int id, char **argv, const struct option *known, struct options *o)
{
	if (id < FIRST)
		return refuse(id, argv, known);
	const struct spec *spec = &options_table[id - FIRST];
	const char *word = argv[optind - (spec->value && argv[optind - 1] == optarg ? 2 : 1)];

	/* "--epoch" is not taken for --epochs: a later version may have another option of that name */
	if (!is_option(word + 2, spec->name))
		return why_invalid("found the option %s, expected --%s in full; see --help", word,
				   spec->name);
	if (o->model && !(spec->scope & PREDICT))
		return why_invalid(
			"found --%s with predict, expected --data, --labels, --label-column, "
			"--data-limit or --predict; leave it out",
			spec->name);
	o->said[id - FIRST] = spec->value ? optarg : "";
	if (!option_read(spec, o->said[id - FIRST], o))
		return false;
	/* the library reads its environment when ranks join */
	return !spec->variable || setenv(spec->variable, optarg, 1) == 0 ||
	       why_no_memory("the environment");
}

/* What getopt_long() knows, and what is not said. */
static bool prepare(struct option *known, struct options *o)
{
	*o = (struct options){
		.rate = -1, .rule.momentum = -1, .scaling = -1, .staleness = STALENESS_ANY
	};
	for (size_t i = 0; i < options_count; i++) {
		const struct spec *spec = &options_table[i];

		known[i] =
			(struct option){ spec->name, spec->value ? required_argument : no_argument,
					 NULL, spec->letter ? spec->letter[1] : FIRST + (int)i };
		if (spec->usual && !option_read(spec, spec->usual, o))
			return false;
	}
	return true;
}

/* What is no option: nothing, or behind "predict" the model, which comes first. */
static bool check_words(int argc, char **argv, const struct options *o)
{
	if (o->model && !*o->model)
		return why_invalid(
			"found no model, expected tutti-train predict MODEL --data FILE, "
			"where MODEL is a file that --save wrote; see --help");
	return (optind == argc && o->source.path) ||
	       why_invalid("found %s%s, expected --data FILE and options; see --help",
			   optind < argc ? "the argument " : "no --data",
			   optind < argc ? argv[optind] : "");
}

/* By the library itself, before ranks would complain of them when they join. Of what is not said
 * here, such as the environment, they do. */
static bool names_known(const struct options *o)
{
	tutti_config_t config = TUTTI_CONFIG_INIT;

	config.transports = option_said(o, "transport");
	config.algorithm = option_said(o, "algorithm");
	if (tutti_config_check(&config) == TUTTI_OK)
		return true;
	const char *error = tutti_last_error(NULL), *option = tt_option_of_config(&error);
	return !option || why_invalid("%s%s", option, error);
}

enum options_outcome options_parse(int argc, char **argv, struct options *o)
{
	struct option known[OPTIONS_MOST + 1] = { 0 };
	int id;

	if (!prepare(known, o))
		return OPTIONS_WRONG;
	if (argc > 1 && strcmp(argv[1], "predict") == 0) {
		const int words = argc > 2 && argv[2][0] != '-' ? 2 : 1;

		o->model = words == 2 ? argv[2] : "";
		argc -= words;
		argv += words;
	}
	optind = 0; /* glibc: start afresh, so that a process may parse twice */
	while ((id = getopt_long(argc, argv, ":hV", known, NULL)) != -1) {
		if (id == 'h' || id == 'V') {
			if (id == 'h')
				print_help();
			else
				printf("tutti-train %s\n", tutti_version());
			return OPTIONS_DONE;
		}
		if (!take(id, argv, known, o))
			return OPTIONS_WRONG;
	}
	return check_words(argc, argv, o) && options_check(o) && names_known(o) ? OPTIONS_RUN
										: OPTIONS_WRONG;
}
