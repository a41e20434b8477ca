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
static void complain(const struct team *team, struct report *report, const struct alike *alike)
{
	report_interrupt(report);
	if (alike && alike->repeats)
		return;
	if (team->size > 1 && alike && *alike->ranks)
		fprintf(stderr, "tutti-train: %s: %s\n", alike->ranks, why.text);
	else if (team->size > 1)
		fprintf(stderr, "tutti-train: rank %d: %s\n", team->origin, why.text);
	else
		fprintf(stderr, "tutti-train: %s\n", why.text);
}

/* Prepare on each rank, and agree that all could. */
static bool prepare(const struct options *options, struct team *team, struct report *report,
		    struct training *training)
{
	struct alike alike = { 0 };
	bool ok = report_create(options, report) &&
		  (team->rank > 0 || (save_check(options) && report_open(report))) &&
		  training_create(options, team, report, training);

	ok = team_agree(team, ok, options_hash(options), training->data_hash, &alike);
	if (ok && options->shard) {
		alike = (struct alike){ 0 };
		ok = team_agree(team, training_share(training), 0, training->data_hash, &alike);
	}
	if (ok)
		return true;
	/* launchers end a job when the first rank fails: all errors are printed before */
	complain(team, report, &alike);
	tutti_barrier(team->comm, NULL);
	return false;
}

/* If this rank alone fails after the start, the others are told by tutti_comm_abort(), rather than
 * left to wait for it. If all do alike, rank 0 says so, and nobody ends before. */
static void report_failure(const struct team *team, struct report *report,
			   const struct training *training)
{
	const struct alike alike = { .repeats = team->rank > 0, .ranks = "all ranks" };

	complain(team, report, training->failed_alike ? &alike : NULL);
	if (training->failed_alike)
		tutti_barrier(team->comm, NULL);
	else
		tutti_comm_abort(team->comm, why.text);
}

static bool train(const struct options *options, struct team *team, struct report *report,
		  struct training *training)
{
	if (!prepare(options, team, report, training))
		return false;
	if (training_run(training))
		return true;
	report_failure(team, report, training);
	return false;
}

/* After the others have gone: they need not wait for the pictures. */
static bool finish(const struct team *team, struct report *report, struct training *training)
{
	const bool predicts = report->on && training->options->predict;

	if (report_end(report) && (!predicts || save_predictions(training)))
		return true;
	complain(team, report, NULL);
	return false;
}

/* The others were done, or have gone on without a replacement: that fails nobody. */
static int say_not_needed(void)
{
	fprintf(stderr, "tutti-train: this replacement was not needed: %s\n", why.text);
	return 0;
}

/* Launchers give all ranks the same options and end a job when the first rank fails. So the ranks
 * join, one prints the error of all, and no rank exits before. If they do not join soon, each
 * prints its own. */
static void refuse(void)
{
	const struct why wrong = why;
	struct team team = { 0 };
	struct report none = { 0 };
	struct alike alike = { 0 };
	const bool joined = !team_is_newcomer() && team_join(&team, SOON_S);

	why = wrong;
	if (joined)
		team_agree(&team, false, 0, 0, &alike);
	complain(&team, &none, &alike);
	if (team.comm)
		tutti_barrier(team.comm, NULL);
	team_leave(&team);
}

/* The library reads its environment when ranks join. */
static bool start_as_said(const struct start *start)
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
			return why_no_memory("the environment");
	/* the library would speak of a launcher that has set one of them */
	if (start->rank && !getenv("TUTTI_SIZE"))
		return why_set(
			TUTTI_ERR_INVALID,
			"found --rank, expected --size and --store as well; give all, or none "
			"to run alone");
	if (start->size && !getenv("TUTTI_RANK"))
		return why_set(
			TUTTI_ERR_INVALID,
			"found --size, expected --rank and --store as well; give all, or none "
			"to run alone");
	return true;
}

int main(int argc, char **argv)
{
	struct options options;
	struct team team = { 0 };
	struct report report = { 0 };
	struct training training = { 0 };
	bool ok;

	output_begin(EXIT_FAILED);
	/* a reader that leaves and a file as large as they may be (ulimit -f) are errors, not our
	 * end */
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	if (argc > 1 && (strcmp(argv[1], "report") == 0 || strcmp(argv[1], "compare") == 0))
		return compare_exec(argc - 1, argv + 1);
	if (argc > 1 && strcmp(argv[1], "predict") == 0)
		return predict_main(argc - 1, argv + 1);
	switch (options_parse(argc, argv, &options)) {
	case OPTIONS_DONE: return 0;
	case OPTIONS_WRONG: refuse(); return EXIT_USAGE;
	case OPTIONS_RUN: break;
	}
	if (!start_as_said(&options.start)) {
		complain(&team, &report, NULL);
		return EXIT_USAGE;
	}
	ok = team_join(&team, 0);
	if (!ok && why.result == TUTTI_ERR_TIMEOUT && team.newcomer)
		return say_not_needed();
	if (!ok)
		complain(&team, &report, NULL);
	ok = ok && train(&options, &team, &report, &training);
	grid_finish(&training.grid);
	team_leave(&team);
	ok = ok && finish(&team, &report, &training);
	training_finish(&training);
	report_finish(&report);
	return ok ? 0 : EXIT_FAILED;
}
