/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of each step on a GPU. Weights, velocity, gradients and all of the data lie
 * in its memory; to the host come only an epoch's state and the sums of a validation.
 *
 * There are two streams. The model's own does the passes and updates; the other one the
 * all-reduces, each of which begins when the backward pass has finished its bucket, and ends
 * before the bucket's update. The host puts a step on them in one go, and is at most TURNS steps
 * ahead of the GPU.
 *
 * The GPU has one copy of the state: a step that fails leaves nothing to go on from. The host
 * has the one of the last fetch(), which is what ranks that are left go on from when another is
 * lost. */
#include <stdlib.h>

#include "cuda_model.h"
#include "train.h"
#include "tutti/cuda.h"

enum { TURNS = 2 };

/* What is noted: of each bucket, that it may be summed, and is; of a step, and each bucket of it, when its
 * wait for the sum began and ended; and when all of it has. */
struct notes {
	gpu_event_t ready[MODEL_LAYERS_MAX], summed[MODEL_LAYERS_MAX];
	struct turn {
		gpu_event_t before[MODEL_LAYERS_MAX], after[MODEL_LAYERS_MAX], end;
	} turns[TURNS];
};

enum { NOTES = sizeof(struct notes) / sizeof(gpu_event_t) };

struct cuda {
	int device;
	struct cuda_model model;
	gpu_stream_t sums; /* the all-reduces */
	union {
		struct notes notes;
		gpu_event_t events[NOTES];
	};
	bool used[TURNS]; /* by a step that is under way */
	size_t fetched;	  /* steps that the host's state has seen */
	size_t epoch;	  /* whose order the GPU has */
};

static bool gpu_failed(const char *what)
{
	return why_set(TUTTI_ERR_SYSTEM, "the GPU failed to %s: %s", what, gpu_error());
}

/* ---- its life */

/* Ranks of a host take the GPUs in turn. */
static bool choose_gpu(struct cuda *cuda, const struct team *team)
{
	if (!gpu_open())
		return why_set(TUTTI_ERR_UNSUPPORTED, "--device cuda: %s", gpu_error());
	const int count = gpu_count(), local = tutti_comm_local_rank(team->comm);

	if (count == 0)
		return why_set(
			TUTTI_ERR_UNSUPPORTED,
			"--device cuda: CUDA shows this process no GPU, expected at least one; is CUDA_VISIBLE_DEVICES right?");
	cuda->device = (local < 0 ? 0 : local) % count;
	return gpu_enter(cuda->device) || gpu_failed("begin");
}

static bool make_events(struct cuda *cuda)
{
	bool made = (cuda->sums = gpu_stream()) != NULL;

	for (int i = 0; i < NOTES && made; i++)
		made = (cuda->events[i] = gpu_event()) != NULL;
	return made || gpu_failed("make a stream and events");
}

static bool cuda_renew_gradients(struct training *t)
{
	const size_t bytes = (t->model.parameters + SUMS_NUMBERS) * sizeof(double);
	void *gradients;
	const tutti_result_t result = tutti_cuda_mem_alloc(bytes, &gradients);

	if (result != TUTTI_OK)
		return why_set(result, "no memory of the GPU for the gradients: %s",
			       tutti_last_error(NULL));
	t->cuda->model.gradients = gradients;
	return true;
}

static bool cuda_create(struct training *t)
{
	t->cuda = calloc(1, sizeof(*t->cuda));
	if (!t->cuda)
		return why_no_memory("the training");
	return choose_gpu(t->cuda, t->team) &&
	       cuda_model_create(&t->model, &t->data, &t->split, &t->cuda->model) &&
	       make_events(t->cuda) && cuda_renew_gradients(t);
}

static void cuda_finish(struct training *t)
{
	struct cuda *cuda = t->cuda;

	if (!cuda)
		return;
	for (int i = 0; i < NOTES; i++)
		if (cuda->events[i])
			gpu_event_free(cuda->events[i]);
	if (cuda->sums)
		gpu_stream_free(cuda->sums);
	tutti_cuda_mem_free(cuda->model.gradients);
	cuda_model_finish(&cuda->model);
	free(cuda);
}

/* The communicator is a new one: at the start, and when ranks were lost. */
static bool cuda_begin(struct training *t)
{
	const size_t bytes = (t->model.parameters + SUMS_NUMBERS) * sizeof(double);
	struct cuda_model *m = &t->cuda->model;
	tutti_cuda_window_t window; /* the communicator's end is the window's */

	if (!TEAM_CALL(t->team, tutti_cuda_bind(t->team->comm, t->cuda->device),
		       "binding to a GPU") ||
	    !TEAM_CALL(t->team, tutti_cuda_register(t->team->comm, m->gradients, bytes, &window),
		       "sharing the gradients' memory"))
		return false;
	cuda_model_copy(m, m->state, t->state.now, state_bytes(&t->state));
	t->cuda->fetched = t->state.step;
	t->cuda->epoch = SIZE_MAX;
	return !m->failed;
}

/* ---- a step */

/* Wait for the step that had the turn, and count how long the GPU's own work stood still for its
 * sums. */
static bool end_turn(struct training *t, int turn)
{
	const struct turn *of = &t->cuda->notes.turns[turn];

	if (!t->cuda->used[turn])
		return true;
	t->cuda->used[turn] = false;
	if (!gpu_wait(of->end))
		return gpu_failed("end a step");
	for (unsigned i = 0; i < t->buckets.count; i++) {
		const double seconds = gpu_seconds(of->before[i], of->after[i]);

		if (seconds < 0)
			return gpu_failed("time a step");
		t->team->blocked_s += seconds;
	}
	return true;
}

/* Of numbers on the GPU, behind what its stream has. */
static bool start_sum(struct training *t, double *values, size_t count)
{
	team_count_sum(t->team, count * sizeof(*values));
	return TEAM_CALL(t->team,
			 tutti_cuda_all_reduce(t->team->comm, values, values, count, TUTTI_FLOAT64,
					       TUTTI_SUM, t->cuda->sums),
			 "the all-reduce");
}

/* The gradients of `layer` are on their way to being there: behind them comes the all-reduce of
 * its bucket if that is complete. */
static bool layer_ready(struct training *t, unsigned layer)
{
	struct cuda *cuda = t->cuda;

	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *bucket = &t->buckets.bucket[i];

		if (bucket->last_layer != layer)
			continue;
		if (!gpu_record(cuda->notes.ready[i], cuda->model.stream) ||
		    !gpu_follow(cuda->sums, cuda->notes.ready[i]))
			return gpu_failed("order two streams");
		return start_sum(t, cuda->model.gradients + bucket->first,
				 bucket->count + (layer == 0 ? t->buckets.tail : 0)) &&
		       (gpu_record(cuda->notes.summed[i], cuda->sums) ||
			gpu_failed("order two streams"));
	}
	return true;
}

/* Each bucket is updated as it arrives, while the next are under way. */
static bool update(struct training *t, const struct turn *turn, double rate)
{
	struct cuda *cuda = t->cuda;
	const gpu_stream_t stream = cuda->model.stream;

	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];

		if (!gpu_record(turn->before[i], stream) ||
		    !gpu_follow(stream, cuda->notes.summed[i]) ||
		    !gpu_record(turn->after[i], stream))
			return gpu_failed("order two streams");
		cuda_model_update(&cuda->model, b->first, b->count, rate, t->options->momentum,
				  t->options->weight_decay);
	}
	return true;
}

/* The order of the epoch, which is the same until its last step. */
static void take_order(struct training *t)
{
	const size_t epoch = t->state.step / t->steps_per_epoch;
	struct cuda_model *m = &t->cuda->model;

	if (epoch != t->cuda->epoch)
		cuda_model_copy(m, m->order, t->order, t->split.train_rows * sizeof(*t->order));
	t->cuda->epoch = epoch;
}

static bool pass(struct training *t, size_t place, size_t count)
{
	const struct slice mine = slice_of(count, t->team->rank, t->team->size);
	struct cuda_model *m = &t->cuda->model;

	cuda_model_gather(m, &t->data, m->order + place + mine.first, mine.count);
	cuda_model_forward(m, mine.count);
	cuda_model_loss(m, mine.count, 1.0 / (double)count, 0, m->gradients + t->model.parameters);
	for (unsigned l = t->model.layers; l-- > 0;) {
		cuda_model_backward(m, l, mine.count);
		if (m->failed || !layer_ready(t, l))
			return false;
	}
	return true;
}

static bool cuda_step(struct training *t, size_t place, size_t count, int first)
{
	struct cuda *cuda = t->cuda;
	const int at = (int)(t->state.step % TURNS);
	const struct turn *turn = &cuda->notes.turns[at];

	if (!end_turn(t, at))
		return false;
	take_order(t);
	if (!pass(t, place, count) || !update(t, turn, rate_at(&t->plan, t->state.step)))
		return false;
	cuda_model_count(&cuda->model, first);
	if (!gpu_record(turn->end, cuda->model.stream))
		return gpu_failed("note the end of a step");
	cuda->used[at] = true;
	t->state.step++;
	return !cuda->model.failed;
}

/* ---- what comes back */

/* What streams did after a fault of the communicator is undefined: it is asked when they are
 * done. */
static bool cuda_fetch(struct training *t)
{
	struct cuda *cuda = t->cuda;
	struct cuda_model *m = &cuda->model;

	for (int turn = 0; turn < TURNS; turn++)
		if (!end_turn(t, turn))
			return false;
	cuda_model_copy(m, t->state.next, m->state, state_bytes(&t->state));
	if (m->failed)
		return false;
	if (!gpu_finish(m->stream))
		return gpu_failed("end its steps");
	if (!team_ended(t->team, tutti_comm_error(t->team->comm, NULL), "the all-reduce"))
		return false;
	state_adopt(&t->state, t->state.step);
	cuda->fetched = t->state.step;
	return true;
}

static bool cuda_validate(struct training *t, struct sums *sums)
{
	const struct slice mine = slice_of(t->split.test_rows, t->team->rank, t->team->size);
	struct cuda_model *m = &t->cuda->model;
	size_t done = 0;

	do { /* also without a sample */
		const size_t left = mine.count - done,
			     count = left < t->model.rows_max ? left : t->model.rows_max;

		cuda_model_gather(m, &t->data, m->test + mine.first + done, count);
		cuda_model_forward(m, count);
		cuda_model_loss(m, count, 0, done > 0, m->validated);
		done += count;
	} while (done < mine.count);
	cuda_model_copy(m, sums, m->validated, sizeof(*sums));
	if (!m->failed && !gpu_finish(m->stream))
		return gpu_failed("validate");
	return !m->failed;
}

static void cuda_drain(struct training *t)
{
	struct cuda *cuda = t->cuda;

	gpu_finish(cuda->sums);
	gpu_finish(cuda->model.stream);
	for (int turn = 0; turn < TURNS; turn++)
		cuda->used[turn] = false;
	cuda->model.failed = false;
	t->state.step = cuda->fetched;
}

const struct engine engine_cuda = {
	.name = "cuda",
	.create = cuda_create,
	.begin = cuda_begin,
	.step = cuda_step,
	.fetch = cuda_fetch,
	.validate = cuda_validate,
	.drain = cuda_drain,
	.renew_gradients = cuda_renew_gradients,
	.finish = cuda_finish,
};
