/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-train: trains a multilayer perceptron on many ranks as if on one. Start reading at train.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compare.h"
#include "output.h"
#include "predict.h"
#include "save.h"
#include "train.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

#define SOON_S 3.0

/* `alike`: NULL, or the ranks that have this error. */
static void complain(const struct team *team, struct report *report, const struct alike *alike,
		     const struct why *why)
{
	report_interrupt(report);
	if (alike && alike->repeats)
		return;
	if (team->size > 1 && alike && *alike->ranks)
		fprintf(stderr, "tutti-train: %s: %s\n", alike->ranks, why->text);
	else if (team->size > 1)
		fprintf(stderr, "tutti-train: rank %d: %s\n", team->origin, why->text);
	else
		fprintf(stderr, "tutti-train: %s\n", why->text);
}

/* Prepare on each rank, and agree that all could. */
static tutti_result_t prepare(const struct options *options, struct team *team,
			      struct report *report, struct training *training, struct why *why)
{
	tutti_result_t result = report_create(options, report, why);
	struct alike alike = { 0 };

	if (result == TUTTI_OK && team->rank == 0)
		result = save_check(options, why);
	if (result == TUTTI_OK && team->rank == 0)
		result = report_open(report, why);
	if (result == TUTTI_OK)
		result = training_create(options, team, report, training, why);
	result = team_agree(team, result, options_hash(options), training->data_hash, &alike, why);
	if (result == TUTTI_OK && options->shard) {
		alike = (struct alike){ 0 };
		result = training_share(training, why);
		result = team_agree(team, result, 0, training->data_hash, &alike, why);
	}
	if (result == TUTTI_OK)
		return TUTTI_OK;
	/* launchers end a job when the first rank fails: all errors are printed before */
	complain(team, report, &alike, why);
	tutti_barrier(team->comm, NULL);
	return result;
}

/* If this rank alone fails after the start, the others are told by tutti_comm_abort(), rather than
 * left to wait for it. If all do alike, rank 0 says so, and nobody ends before. */
static void report_failure(const struct team *team, struct report *report,
			   const struct training *training, const struct why *why)
{
	const struct alike alike = { .repeats = team->rank > 0, .ranks = "all ranks" };

	complain(team, report, training->failed_alike ? &alike : NULL, why);
	if (training->failed_alike)
		tutti_barrier(team->comm, NULL);
	else
		tutti_comm_abort(team->comm, why->text);
}

static tutti_result_t train(const struct options *options, struct team *team, struct report *report,
			    struct training *training, struct why *why)
{
	tutti_result_t result = prepare(options, team, report, training, why);

	if (result != TUTTI_OK)
		return result;
	result = training_run(training, why);
	if (result != TUTTI_OK)
		report_failure(team, report, training, why);
	return result;
}

/* After the others have gone: they need not wait for the pictures. */
static tutti_result_t finish(const struct team *team, struct report *report,
			     struct training *training, struct why *why)
{
	tutti_result_t result = report_end(report, why);

	if (result == TUTTI_OK && report->on && training->options->predict)
		result = save_predictions(training, why);
	if (result != TUTTI_OK)
		complain(team, report, NULL, why);
	return result;
}

/* The others were done, or have gone on without a replacement: that fails nobody. */
static int say_not_needed(const struct why *why)
{
	fprintf(stderr, "tutti-train: this replacement was not needed: %s\n", why->text);
	return 0;
}

/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join, one prints the error of all, and no rank exits before. If they do not join soon, each
 * prints its own. */
static void refuse(struct why *why)
{
	struct team team = { 0 };
	struct report none = { 0 };
	struct alike alike = { 0 };
	struct why unimportant;

	if (!team_is_newcomer() && team_join(&team, SOON_S, &unimportant) == TUTTI_OK)
		team_agree(&team, TUTTI_ERR_INVALID, 0, 0, &alike, why);
	complain(&team, &none, &alike, why);
	if (team.comm)
		tutti_barrier(team.comm, NULL);
	team_leave(&team);
}

/* The library reads its environment when ranks join. */
static tutti_result_t start_as_said(const struct start *start, struct why *why)
{
	const struct {
		const char *name, *value;
	} said[] = {
		{ "TUTTI_RANK", start->rank },		 { "TUTTI_SIZE", start->size },
		{ "TUTTI_STORE", start->store },	 { "TUTTI_TRANSPORT", start->transport },
		{ "TUTTI_ALGORITHM", start->algorithm }, { "TUTTI_TIMEOUT", start->timeout },
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (said[i].value && setenv(said[i].name, said[i].value, 1) < 0)
			return why_no_memory(why, "the environment");
	/* the library would speak of a launcher that has set one of them */
	if (start->rank && !getenv("TUTTI_SIZE"))
		return why_set(
			why, TUTTI_ERR_INVALID,
			"found --rank, expected --size and --store as well; give all, or none "
			"to run alone");
	if (start->size && !getenv("TUTTI_RANK"))
		return why_set(
			why, TUTTI_ERR_INVALID,
			"found --size, expected --rank and --store as well; give all, or none "
			"to run alone");
	return TUTTI_OK;
}

int main(int argc, char **argv)
{
	struct options options;
	struct team team = { 0 };
	struct report report = { 0 };
	struct training training = { 0 };
	struct why why = { "" };
	tutti_result_t result = TUTTI_OK;

	output_begin(EXIT_FAILED);
	/* a reader that leaves and a file as large as they may be (ulimit -f) are errors, not our
	 * end */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (argc > 1 && (strcmp(argv[1], "report") == 0 || strcmp(argv[1], "compare") == 0))
		return compare_exec(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "predict") == 0)
		return predict_main(argc - 1, argv + 1);
	switch (options_parse(argc, argv, &options, &why)) {
	case OPTIONS_DONE: return 0;
	case OPTIONS_WRONG: refuse(&why); return EXIT_USAGE;
	case OPTIONS_RUN: break;
	}
	if (start_as_said(&options.start, &why) != TUTTI_OK) {
		complain(&team, &report, NULL, &why);
		return EXIT_USAGE;
	}
	result = team_join(&team, 0, &why);
	if (result == TUTTI_ERR_TIMEOUT && team.newcomer)
		return say_not_needed(&why);
	if (result != TUTTI_OK)
		complain(&team, &report, NULL, &why);
	else
		result = train(&options, &team, &report, &training, &why);
	grid_finish(&training.grid);
	team_leave(&team);
	if (result == TUTTI_OK)
		result = finish(&team, &report, &training, &why);
	training_finish(&training);
	report_finish(&report);
	return result == TUTTI_OK ? 0 : EXIT_FAILED;
}
