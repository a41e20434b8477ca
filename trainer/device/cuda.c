/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns a rank's part of each step on a GPU. The model is model.c's, with the arithmetic of
 * numbers_cuda.h. Weights, velocity, gradients and all of the data lie in the GPU's memory; to the
 * host come only an epoch's state and the sums of a validation.
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

#include "numbers_cuda.h"
#include "train.h"
#include "tutti/cuda.h"

enum { TURNS = 2 };

/* Which event pairs with which. Of each bucket one stream notes what the other one waits for:
 * `ready`, by the model's stream when the gradients are complete, is before their sum; `summed`, by
 * the other one, before the update. The next backward pass writes the same gradients: it is behind
 * all updates on its own stream, and so behind all sums. What a stream has begun to wait for stays
 * the same when the event is noted again, so one of each is enough for all steps.
 * Of a step, for the host: `before` and `after` the wait for `summed` of each bucket, by the
 * model's stream, to tell how long it was; and `end`. The host waits for `end` of the step that had
 * a turn before it has the next one note anything in that turn. */
struct notes {
	gpu_event_t ready[MODEL_LAYERS_MAX], summed[MODEL_LAYERS_MAX];
	struct turn {
		gpu_event_t before[MODEL_LAYERS_MAX], after[MODEL_LAYERS_MAX], end;
	} turns[TURNS];
};

enum { NOTES = sizeof(struct notes) / sizeof(gpu_event_t) };

/* Memory of the GPU. */
struct memory {
	void *state;
	struct sums *sums; /* of a step so far, or a validation */
	void *x;	   /* samples at hand … */
	uint32_t *y;	   /* … and their labels */
	float *data_x;	   /* all samples, in the order of the file … */
	uint32_t *data_y;
	uint32_t *order, *test; /* … and those of an epoch, and of a validation */
};

enum { PARTS = sizeof(struct memory) / sizeof(void *) };

struct cuda {
	int device;
	gpu_stream_t stream, sums; /* the model's; the all-reduces */
	struct model model;
	struct state state; /* whose `now` is of the GPU, and its only copy */
	union {
		struct notes notes;
		gpu_event_t events[NOTES];
	};
	union {
		struct memory memory;
		void *parts[PARTS];
	};
	bool used[TURNS]; /* by a step that is under way */
	size_t unseen;	  /* steps that the host's state counts, and has not seen */
	unsigned ordered; /* the epoch whose order the GPU has, as in training; 0: none */
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

static bool make_streams(struct cuda *cuda)
{
	bool made = (cuda->stream = gpu_stream()) && (cuda->sums = gpu_stream());

	for (int i = 0; i < NOTES && made; i++)
		made = (cuda->events[i] = gpu_event()) != NULL;
	return made || gpu_failed("make streams and events");
}

static bool make_model(struct training *t)
{
	struct cuda *cuda = t->cuda;
	const struct model *host = &t->model;
	const size_t rows = host->rows_max, index = sizeof(uint32_t), features = t->data.features;
	const struct numbers *numbers = numbers_cuda_open(host->numbers, rows, cuda->stream);
	const size_t bytes[PARTS] = { state_bytes(&t->state),
				      sizeof(struct sums),
				      rows * features * host->numbers->size,
				      rows * index,
				      t->data.rows * features * sizeof(float),
				      t->data.rows * index,
				      t->split.train_rows * index,
				      t->split.test_rows * index };
	size_t all = 2 * model_output_bytes(host);
	bool taken;

	if (!numbers)
		return false;
	taken = model_create(numbers, host->width, host->cut, rows, &cuda->model);
	for (int i = 0; i < PARTS; i++) {
		all += bytes[i];
		taken = taken && (cuda->parts[i] = numbers->take(bytes[i]));
	}
	return taken ||
	       why_set(TUTTI_ERR_NO_MEMORY,
		       "--device cuda: the GPU has no %zu bytes for the model, %zu samples at a time and all %zu of the data: %s; use a smaller --hidden or "
		       "--batch, or less data",
		       all, rows, t->data.rows, gpu_error());
}

static size_t gradients_bytes(const struct training *t)
{
	return numbers_sums_end(t->model.numbers, t->model.parameters);
}

static bool cuda_renew_gradients(struct training *t)
{
	void *gradients;
	const tutti_result_t result = tutti_cuda_mem_alloc(gradients_bytes(t), &gradients);

	if (result != TUTTI_OK)
		return why_set(result, "no memory of the GPU for the gradients: %s",
			       tutti_last_error(NULL));
	t->cuda->model.gradients = gradients;
	return true;
}

static bool cuda_create(struct training *t)
{
	struct cuda *cuda = t->cuda = calloc(1, sizeof(*cuda));
	const struct memory *memory;

	if (!cuda)
		return why_no_memory("the training");
	if (!choose_gpu(cuda, t->team) || !make_streams(cuda) || !make_model(t))
		return false;
	memory = &cuda->memory;
	cuda->state = t->state;
	cuda->state.now = cuda->model.weights = memory->state;
	cuda->state.next = NULL;
	numbers_cuda_copy(memory->data_x, t->data.x,
			  t->data.rows * t->data.features * sizeof(*t->data.x));
	numbers_cuda_copy(memory->data_y, t->data.y, t->data.rows * sizeof(*t->data.y));
	numbers_cuda_copy(memory->test, t->split.test, t->split.test_rows * sizeof(*t->split.test));
	return numbers_cuda_well() && cuda_renew_gradients(t);
}

static void cuda_finish(struct training *t)
{
	struct cuda *cuda = t->cuda;

	if (!cuda)
		return;
	tutti_cuda_mem_free(cuda->model.gradients);
	for (int i = 0; i < PARTS && cuda->parts[i]; i++)
		gpu_free(cuda->parts[i]);
	model_finish(&cuda->model);
	numbers_cuda_close();
	for (int i = 0; i < NOTES; i++)
		if (cuda->events[i])
			gpu_event_free(cuda->events[i]);
	if (cuda->sums)
		gpu_stream_free(cuda->sums);
	if (cuda->stream)
		gpu_stream_free(cuda->stream);
	free(cuda);
}

/* The host's state has seen all steps. Predictions are made there. */
static void take_weights(struct training *t)
{
	t->cuda->unseen = 0;
	t->model.weights = state_now(&t->state, 0).weights;
}

/* The communicator is a new one: at the start, and when ranks were lost. */
static bool cuda_begin(struct training *t)
{
	struct cuda *cuda = t->cuda;
	tutti_cuda_window_t window; /* the communicator's end is the window's */

	if (!TEAM_CALL(t->team, tutti_cuda_bind(t->team->comm, cuda->device), "binding to a GPU") ||
	    !TEAM_CALL(t->team,
		       tutti_cuda_register(t->team->comm, cuda->model.gradients, gradients_bytes(t),
					   &window),
		       "sharing the gradients' memory"))
		return false;
	numbers_cuda_copy(cuda->state.now, t->state.now, state_bytes(&t->state));
	take_weights(t);
	cuda->ordered = 0;
	return numbers_cuda_well();
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

/* Of gradients on the GPU, behind what the stream of sums has. */
static bool start_sum(struct training *t, void *values, size_t count)
{
	const struct numbers *numbers = t->cuda->model.numbers;

	team_count_sum(t->team, count * numbers->size);
	return TEAM_CALL(t->team,
			 tutti_cuda_all_reduce(t->team->comm, values, values, count, numbers->dtype,
					       TUTTI_SUM, t->cuda->sums),
			 "the all-reduce");
}

/* The gradients of `layer` are on their way to being there: behind them comes the all-reduce of
 * its bucket if that is complete. */
static bool layer_ready(struct training *t, unsigned layer)
{
	struct cuda *cuda = t->cuda;
	const struct bucket *bucket = buckets_find(&t->buckets, layer);
	const ptrdiff_t i = bucket - t->buckets.bucket;
	const struct numbers *numbers = cuda->model.numbers;

	if (bucket->last_layer != layer)
		return true;
	if (!gpu_record(cuda->notes.ready[i], cuda->stream) ||
	    !gpu_follow(cuda->sums, cuda->notes.ready[i]))
		return gpu_failed("order two streams");
	return start_sum(t, numbers_at(numbers, cuda->model.gradients, bucket->first),
			 bucket->count + (layer == 0 ? SUMS_NUMBERS : 0)) &&
	       (gpu_record(cuda->notes.summed[i], cuda->sums) || gpu_failed("order two streams"));
}

/* The `last` part of a slice completes its gradients, and sums. */
static bool backward(struct training *t, size_t rows, bool add, bool last)
{
	struct model *m = &t->cuda->model;

	if (last)
		m->numbers->store(model_sums(m), (double *)t->cuda->memory.sums, SUMS_NUMBERS);
	for (unsigned l = m->layers; l-- > 0;) {
		model_backward(m, l, rows, add);
		if (!numbers_cuda_well() || (last && !layer_ready(t, l)))
			return false;
	}
	return true;
}

/* Of a slice of `all` rows, in parts of at most rows_max: loss and hits, and gradients where it
 * `trains`. */
static bool pass(struct training *t, const uint32_t *all, struct slice slice, double scale,
		 bool trains)
{
	const struct memory *memory = &t->cuda->memory;
	struct model *m = &t->cuda->model;
	const size_t features = t->data.features;
	size_t done = 0, rows;

	if (!gpu_fill(memory->sums, 0, sizeof(*memory->sums), t->cuda->stream))
		return gpu_failed("begin a pass");
	do { /* also without a sample */
		const uint32_t *at = all + slice.first + done;
		const size_t left = slice.count - done;

		rows = left < m->rows_max ? left : m->rows_max;
		m->numbers->gather(memory->x, memory->data_x, features, features, at, rows);
		numbers_cuda_labels(memory->y, memory->data_y, at, rows);
		model_forward(m, memory->x, rows);
		model_loss(m, memory->y, rows, scale, memory->sums);
		if (trains && !backward(t, rows, done > 0, rows == left))
			return false;
		done += rows;
	} while (done < slice.count);
	return numbers_cuda_well();
}

/* Each bucket is updated as it arrives, while the next are under way. */
static bool update(struct training *t, const struct turn *turn)
{
	struct cuda *cuda = t->cuda;
	const struct numbers *numbers = cuda->model.numbers;
	const struct rule rule = sync_rule(t);

	for (unsigned i = 0; i < t->buckets.count; i++) {
		const struct bucket *b = &t->buckets.bucket[i];
		const struct trained place = state_now(&cuda->state, b->first);

		if (!gpu_record(turn->before[i], cuda->stream) ||
		    !gpu_follow(cuda->stream, cuda->notes.summed[i]) ||
		    !gpu_record(turn->after[i], cuda->stream))
			return gpu_failed("order two streams");
		optimizer_update(t->options->optimizer, numbers, &rule, place,
				 numbers_at(numbers, cuda->model.gradients, b->first), b->count,
				 place);
	}
	return true;
}

/* The order of the epoch, which is the same until its last step. */
static void take_order(struct training *t)
{
	if (t->ordered != t->cuda->ordered)
		numbers_cuda_copy(t->cuda->memory.order, t->order,
				  t->split.train_rows * sizeof(*t->order));
	t->cuda->ordered = t->ordered;
}

static bool cuda_step(struct training *t, struct slice batch)
{
	struct cuda *cuda = t->cuda;
	const int at = (int)(t->state.step % TURNS);
	const struct turn *turn = &cuda->notes.turns[at];
	struct slice mine = slice_of(batch.count, t->team->rank, t->team->size);

	mine.first += batch.first;
	if (!end_turn(t, at))
		return false;
	take_order(t);
	if (!pass(t, cuda->memory.order, mine, 1.0 / (double)batch.count, true) || !update(t, turn))
		return false;
	numbers_cuda_count(state_sums(&cuda->state), model_sums(&cuda->model),
			   t->state.step % t->plan.epoch_steps == 0);
	if (!gpu_record(turn->end, cuda->stream))
		return gpu_failed("note the end of a step");
	cuda->used[at] = true;
	t->state.step++;
	cuda->unseen++;
	return numbers_cuda_well();
}

/* ---- what comes back */

/* What streams did after a fault of the communicator is undefined: it is asked when they are
 * done. */
static bool cuda_fetch(struct training *t)
{
	struct cuda *cuda = t->cuda;

	for (int turn = 0; turn < TURNS; turn++)
		if (!end_turn(t, turn))
			return false;
	numbers_cuda_copy(t->state.next, cuda->state.now, state_bytes(&t->state));
	if (!numbers_cuda_well())
		return false;
	if (!gpu_finish(cuda->stream))
		return gpu_failed("end its steps");
	if (!team_ended(t->team, tutti_comm_error(t->team->comm, NULL), "the all-reduce"))
		return false;
	state_adopt(&t->state, t->state.step);
	take_weights(t);
	return true;
}

static bool cuda_validate(struct training *t, struct sums *sums)
{
	const struct memory *memory = &t->cuda->memory;
	const struct slice mine = slice_of(t->split.test_rows, t->team->rank, t->team->size);

	if (!pass(t, memory->test, mine, 0, false))
		return false;
	numbers_cuda_copy(sums, memory->sums, sizeof(*sums));
	return numbers_cuda_well() && (gpu_finish(t->cuda->stream) || gpu_failed("validate"));
}

static void cuda_drain(struct training *t)
{
	struct cuda *cuda = t->cuda;

	gpu_finish(cuda->sums);
	gpu_finish(cuda->stream);
	for (int turn = 0; turn < TURNS; turn++)
		cuda->used[turn] = false;
	numbers_cuda_renew();
	t->state.step -= cuda->unseen;
	cuda->unseen = 0;
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
