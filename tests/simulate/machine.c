/* SPDX-License-Identifier: BSD-3-Clause */
#include "machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coroutine.h"

#define TASKS_MAX  256
#define EVENTS_MAX 64
#define START_NS   1000000000000ull /* any time but 0, which means "not set" to many */
#define IDLE_CALLS                                                                                 \
	128 /* calls at which nothing happens, after which time passes twice as fast, and so on, */
#define IDLE_STEP_NS 20000u /* up to steps of this length */

enum state { UNUSED, ALIVE, ENDED };

struct task {
	enum state state;
	int process;
	void *(*main)(void *);
	void *argument, *result;
	struct coroutine coroutine;
	/* waits for this, or until then; when NULL: can go on */
	uint64_t (*when)(const void *);
	const void *what;
	uint64_t until;
	bool in_time;
	int own_locks, locks_of_all;
	bool at_rest; /* outside of every lock that others use */
};

struct process {
	bool dead, doomed, revived;
	uint64_t stopped_until;
	void *(*told)(void *);
	void *argument;
};

struct event {
	uint64_t at;
	void (*event)(void *);
	void *argument;
};

static struct {
	struct random random;
	struct pace pace;
	uint64_t now, switches, switches_max, hash;
	uint64_t switch_up_to; /* random numbers that mean to switch */
	uint64_t idle;	       /* calls since something happened */
	struct task tasks[TASKS_MAX];
	int ntasks, current; /* current -1: none */
	struct process processes[PROCESSES_MAX];
	int ndoomed; /* of them */
	struct event events[EVENTS_MAX];
	int nevents, next_event;
	enum end end;
	bool trace;
} machine = { .current = -1 };

/* ---- who goes on */

/* The moment from which on it can, FOREVER for one that nobody knows. */
static uint64_t can_go_on(struct task *task)
{
	const uint64_t when = task->when ? task->when(task->what) : 0;

	task->in_time = when <= machine.now;
	return when < task->until ? when : task->until;
}

static bool is_stopped(int process)
{
	return machine.processes[process].stopped_until > machine.now;
}

static bool is_at_rest(int process)
{
	for (int i = 0; i < machine.ntasks; i++)
		if (machine.tasks[i].state == ALIVE && machine.tasks[i].process == process &&
		    !machine.tasks[i].at_rest)
			return false;
	return true;
}

static void bury_the_doomed(void)
{
	for (int i = 0; i < PROCESSES_MAX && machine.ndoomed > 0; i++) {
		struct process *process = &machine.processes[i];

		if (!process->doomed || !is_at_rest(i))
			continue;
		process->doomed = false;
		machine.ndoomed--;
		process->dead = true;
		machine_trace("process %d is dead", i);
		machine_note(0xdead0000u + (uint64_t)i);
		machine_spawn(MACHINE_PROCESS, process->told, process->argument);
	}
}

static void let_happen(void)
{
	const int running = machine.current;

	machine.current = -1;
	while (machine.next_event < machine.nevents &&
	       machine.events[machine.next_event].at <= machine.switches) {
		const struct event *event = &machine.events[machine.next_event++];

		event->event(event->argument);
	}
	bury_the_doomed();
	machine.current = running;
}

/* Number of one of those that can go on now, by their weights; -1: none can, and *next is when
 * one may. */
static int draw(uint64_t *next)
{
	int able[TASKS_MAX], count = 0;
	uint64_t total = 0;

	*next = FOREVER;
	for (int i = 0; i < machine.ntasks; i++) {
		struct task *task = &machine.tasks[i];
		const struct process *process = &machine.processes[task->process];

		if (task->state != ALIVE || (process->dead && !process->revived))
			continue;
		const uint64_t when =
			is_stopped(task->process) ? process->stopped_until : can_go_on(task);

		if (when <= machine.now) {
			able[count++] = i;
			total += machine.pace.weight[task->process];
		} else if (when < *next) {
			*next = when;
		}
	}
	if (count == 0)
		return -1;
	uint64_t lot = random_below(&machine.random, total);
	for (int i = 0;; i++) {
		const unsigned weight = machine.pace.weight[machine.tasks[able[i]].process];

		if (lot < weight)
			return able[i];
		lot -= weight;
	}
}

static bool all_have_ended(void)
{
	for (int i = 0; i < machine.ntasks; i++) {
		const struct task *task = &machine.tasks[i];
		const struct process *process = &machine.processes[task->process];

		if (task->state == ALIVE && task->process != MACHINE_PROCESS &&
		    (!process->dead || process->revived))
			return false;
	}
	return true;
}

/* How long a task may run before the next one: longer where all that go on wait by looking again
 * and again. */
static uint64_t step_ns(void)
{
	const uint64_t doublings = machine.idle / IDLE_CALLS;
	uint64_t step = machine.pace.step_ns;

	for (uint64_t i = 0; i < doublings && step < IDLE_STEP_NS; i++)
		step *= 2;
	return step;
}

/* Who goes on; -1: nobody, machine.end says why. */
static int choose(void)
{
	uint64_t next = 0;
	int chosen = -1;

	for (; chosen < 0; machine.now = chosen < 0 ? next : machine.now) {
		machine.switches++;
		let_happen();
		machine.now += 1 + random_below(&machine.random, step_ns());
		chosen = draw(&next);
		machine.end = all_have_ended()				? END_ALL
			      : chosen < 0 && next == FOREVER		? END_STUCK
			      : machine.switches > machine.switches_max ? END_LONG
									: END_NOT_YET;
		if (machine.end != END_NOT_YET)
			return -1;
	}
	machine_note((uint64_t)chosen << 48 ^ machine.now);
	return chosen;
}

/* ---- switching */

/* The running task stops here, until it is chosen again. */
static void go_on_with(int next)
{
	struct task *self = &machine.tasks[machine.current];

	machine.current = next;
	coroutine_go_on(&self->coroutine, self->state == ENDED,
			next >= 0 ? &machine.tasks[next].coroutine : NULL);
}

static void go_on_with_another(void)
{
	const int next = choose();

	if (next != machine.current)
		go_on_with(next);
}

static void task_main(void)
{
	struct task *self = &machine.tasks[machine.current];

	self->result = self->main(self->argument);
	self->state = ENDED;
	machine_stir();
	self->when = NULL;
	go_on_with(choose());
}

/* ---- the machine */

void machine_begin(uint64_t seed, const struct pace *pace, uint64_t switches_max)
{
	machine.random = random_stream(seed, 1);
	machine.pace = *pace;
	machine.switch_up_to = UINT64_MAX / pace->switch_one_in;
	machine.now = START_NS;
	machine.switches = machine.idle = 0;
	machine.switches_max = switches_max;
	machine.hash = 0xcbf29ce484222325u;
	machine.ntasks = 0;
	machine.current = -1;
	machine.nevents = machine.next_event = machine.ndoomed = 0;
	memset(machine.processes, 0, sizeof(machine.processes));
}

int machine_spawn(int process, void *(*main)(void *), void *argument)
{
	int number = 0;

	while (number < machine.ntasks && machine.tasks[number].state != UNUSED)
		number++;
	if (number == TASKS_MAX)
		return -1;
	machine_stir();
	if (number == machine.ntasks)
		machine.ntasks++;
	struct task *task = &machine.tasks[number];

	*task = (struct task){ .state = ALIVE,
			       .process = process,
			       .main = main,
			       .argument = argument,
			       .coroutine = task->coroutine,
			       .at_rest = true };
	coroutine_make(&task->coroutine, task_main);
	return number;
}

enum end machine_run(void)
{
	const int first = choose();

	if (first < 0)
		return machine.end;
	machine.current = first;
	coroutine_run(&machine.tasks[first].coroutine);
	machine.current = -1;
	return machine.end;
}

void machine_end(void)
{
	for (int i = 0; i < machine.ntasks; i++)
		machine.tasks[i].state = UNUSED;
	machine.ntasks = 0;
}

void machine_at(uint64_t at, void (*event)(void *), void *argument)
{
	int i = machine.nevents++;

	if (i == EVENTS_MAX) {
		fprintf(stderr, "simulate: more than %d events\n", EVENTS_MAX);
		exit(2);
	}
	for (; i > 0 && machine.events[i - 1].at > at; i--)
		machine.events[i] = machine.events[i - 1];
	machine.events[i] = (struct event){ at, event, argument };
}

void machine_kill(int process, void *(*told)(void *), void *argument)
{
	machine.ndoomed += !machine.processes[process].doomed;
	machine.processes[process].doomed = true;
	machine.processes[process].told = told;
	machine.processes[process].argument = argument;
}

void machine_stop(int process, uint64_t ns)
{
	machine_trace("process %d is stopped for %g s", process, (double)ns / 1e9);
	if (machine.processes[process].stopped_until < machine.now + ns)
		machine.processes[process].stopped_until = machine.now + ns;
}

void machine_jump(uint64_t ns)
{
	machine_trace("the clock jumps by %g s", (double)ns / 1e9);
	machine.now += ns;
}

void machine_revive(void)
{
	machine.ndoomed = 0;
	for (int i = 0; i < PROCESSES_MAX; i++) {
		machine.processes[i].revived = true;
		machine.processes[i].doomed = false;
		machine.processes[i].stopped_until = 0;
	}
}

bool machine_is_dead(int process)
{
	return machine.processes[process].dead;
}

bool machine_runs(int process)
{
	const struct process *at = &machine.processes[process];

	return (!at->dead || at->revived) && !is_stopped(process);
}

/* ---- for tasks */

bool machine_inside(void)
{
	return machine.current >= 0;
}

int machine_task(void)
{
	return machine.current;
}

int machine_process(void)
{
	return machine.current >= 0 ? machine.tasks[machine.current].process : -1;
}

uint64_t machine_now(void)
{
	return machine.now;
}

uint64_t machine_read_clock(void)
{
	if (machine.current >= 0)
		machine.now += 1 + random_below(&machine.random, machine.pace.step_ns / 16 + 1);
	return machine.now;
}

void machine_pass(uint64_t ns)
{
	machine.now += random_below(&machine.random, ns);
}

struct random *machine_random(void)
{
	return &machine.random;
}

void machine_yield(bool surely)
{
	struct task *self = &machine.tasks[machine.current];

	machine.idle++;
	if (!surely && random_next(&machine.random) > machine.switch_up_to)
		return;
	/* between two calls of a transport a task holds the lock of its own process at most; a
	 * process that dies there dies in the middle of a pass */
	self->at_rest = self->locks_of_all == 0 &&
			(self->own_locks == 0 || (!surely && self->own_locks == 1));
	self->when = NULL;
	go_on_with_another();
}

bool machine_wait(uint64_t (*when)(const void *), const void *argument, uint64_t until,
		  bool may_be_spurious)
{
	struct task *self = &machine.tasks[machine.current];

	machine_stir();
	if (may_be_spurious && random_one_in(&machine.random, machine.pace.spurious_one_in)) {
		machine_yield(true);
		return true;
	}
	self->at_rest = self->locks_of_all == 0 && self->own_locks == 0;
	self->when = when;
	self->what = argument;
	self->until = until;
	go_on_with_another();
	self->when = NULL;
	return self->in_time;
}

static uint64_t never(const void *argument)
{
	return FOREVER;
}

void machine_sleep(uint64_t ns)
{
	machine_wait(never, NULL, machine.now + ns, false);
}

void machine_holds(int locks, bool of_all)
{
	struct task *self = &machine.tasks[machine.current];

	*(of_all ? &self->locks_of_all : &self->own_locks) += locks;
}

bool machine_holds_of_all(void)
{
	return machine.current >= 0 && machine.tasks[machine.current].locks_of_all > 0;
}

bool machine_has_ended(int task)
{
	return machine.tasks[task].state == ENDED;
}

void *machine_result(int task)
{
	machine.tasks[task].state = UNUSED;
	return machine.tasks[task].result;
}

void machine_accuse(const char *what)
{
	fflush(stdout);
	fprintf(stderr, "simulate: process %d %s\n", machine_process(), what);
	abort();
}

/* ---- what happened */

void machine_note(uint64_t what)
{
	machine.hash = (machine.hash ^ what) * 0x100000001b3u;
	machine.hash ^= machine.hash >> 29;
}

uint64_t machine_hash(void)
{
	return machine.hash;
}

uint64_t machine_switches(void)
{
	return machine.switches;
}

void machine_stir(void)
{
	machine.idle = 0;
}

void machine_trace_to(bool on)
{
	machine.trace = on;
}

void machine_trace(const char *format, ...)
{
	va_list args;

	if (!machine.trace)
		return;
	printf("%14.9f %8llu ", (double)(machine.now - START_NS) / 1e9,
	       (unsigned long long)machine.switches);
	if (machine.current >= 0)
		printf("process %d task %d: ", machine_process(), machine.current);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}
