/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine that is simulated: its processes, their threads, and its clock.
 *
 * A thread is a task: a coroutine that runs until it calls the operating system (calls.h), where
 * the seed says who goes on. One task runs at a time, time passes only as the seed says, and
 * when nobody can run the clock goes to the next moment at which somebody can. So the same seed
 * gives the same run, to the bit. */
#ifndef TT_SIMULATE_MACHINE_H
#define TT_SIMULATE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "calls/random.h"

#define PROCESSES_MAX	16
#define MACHINE_PROCESS (PROCESSES_MAX - 1) /* of tasks that are nobody's, and never end a run */
#define FOREVER		UINT64_MAX

/* How the machine behaves, by the seed. */
struct pace {
	uint64_t step_ns;	  /* a task runs so long at most before the next one */
	uint64_t switch_one_in;	  /* of the calls after which another task may go on, one in so
				   * many lets it */
	uint64_t spurious_one_in; /* of the waits, one in so many ends for no reason; 0: none */
	unsigned weight[PROCESSES_MAX]; /* how often a process goes on, compared with the others */
};

enum end {
	END_NOT_YET,
	END_ALL,   /* every task has ended */
	END_STUCK, /* somebody waits for what will not come */
	END_LONG,  /* no end in sight */
};

/* Begin: a new machine, without processes. `switches_max`: then it ends with END_LONG. */
void machine_begin(uint64_t seed, const struct pace *pace, uint64_t switches_max);
/* A new task; gives its number, -1 if there are too many. `process` counts from 0. */
int machine_spawn(int process, void *(*main)(void *), void *argument);
/* Run until all tasks of living processes but the machine's own have ended, or nothing more
 * happens. */
enum end machine_run(void);
/* Free what the machine holds, whatever its tasks are at. */
void machine_end(void);

/* Call `event` with its argument before switch `at`, outside of any task. Events happen in the
 * order of the calls. */
void machine_at(uint64_t at, void (*event)(void *), void *argument);
/* A process dies: its tasks never go on, once each of them is where it holds nothing of others.
 * Some time later a task of nobody's is `told`. */
void machine_kill(int process, void *(*told)(void *), void *argument);
/* A process does not run for a while, or until an earlier stop of it ends. */
void machine_stop(int process, uint64_t ns);
/* The clock jumps. */
void machine_jump(uint64_t ns);
/* After machine_run(): the tasks of dead processes go on, so that they free what they hold. */
void machine_revive(void);
/* Has it died, revived or not? */
bool machine_is_dead(int process);
/* Neither dead nor stopped. */
bool machine_runs(int process);

/* ---- for tasks, and for what runs in their place */

bool machine_inside(void); /* is this code a task? */
int machine_task(void);	   /* number of the running task */
int machine_process(void); /* of the running task, -1 for none */
uint64_t machine_now(void);
/* Time passes: the clock was read. */
uint64_t machine_read_clock(void);
/* Time passes, so much at most. */
void machine_pass(uint64_t ns);
struct random *machine_random(void);
/* Another task may go on, and will if `surely`. */
void machine_yield(bool surely);
/* Wait for something, until that time at most; false when it was the time. `when` says from
 * which moment on the wait is over: 0 is now, FOREVER that somebody else must do something
 * first. The wait may end early where `may_be_spurious`. */
bool machine_wait(uint64_t (*when)(const void *), const void *argument, uint64_t until,
		  bool may_be_spurious);
void machine_sleep(uint64_t ns);
/* The running task has taken (+1) or given back (-1) a lock: of its process alone, or one that
 * others use as well. */
void machine_holds(int locks, bool of_all);
bool machine_holds_of_all(void);
bool machine_has_ended(int task);
void *machine_result(int task); /* of a task that has ended; forgets it */

/* Something happens that others may wait for. Where tasks call again and again and nothing does,
 * time passes faster. */
void machine_stir(void);

/* The running task has made a mistake that no machine would forgive: end this program. */
_Noreturn void machine_accuse(const char *what);

/* What happened, for the hash and the trace. */
void machine_note(uint64_t what);
uint64_t machine_hash(void);
uint64_t machine_switches(void);
void machine_trace_to(bool on);
void machine_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
