/* SPDX-License-Identifier: BSD-3-Clause */
/* One step of the plan, as a rank carries it out, or does something else in its place. */
#ifndef TT_SIMULATE_STEPS_H
#define TT_SIMULATE_STEPS_H

#include "flight.h"

/* False when the communicator is of no more use. */
bool take_step(const struct use *use, int number, struct flights *flights, struct random *random);

#endif
