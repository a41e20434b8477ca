/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns CUDA's driver library: where it is, that it is started once, what its errors are called, and
 * whose memory it says that a pointer points to. */
#include "driver.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "device_table.h"
#include "log.h"

#define WHAT_MAX 320 /* bytes of what an error message says was tried */

struct cuda_driver tt_cu;
static struct {
	pthread_mutex_t lock;
	bool open, started;
} cuda = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* It stays open, as programs may use it, too. */
static void note_open(void)
{
	cuda.open = true;
	atomic_store_explicit(&tt_device_is_there, true,
			      memory_order_release); /* pairs with the acquire in
						      * is_open() */
	tt_log(DEBUG, CUDA, "%s is CUDA's driver", tt_library_name(&tt_cuda_library));
}

static tutti_result_t open_library(void)
{
	char why[TT_LIBRARY_WHY];

	if (!tt_library_open(&tt_cuda_library, &tt_cu, why))
		return tt_fail(TUTTI_ERR_UNSUPPORTED, CUDA, "%s", why);
	note_open();
	return TUTTI_OK;
}

/* But perhaps not started. */
static bool is_open(void)
{
	/* acquire: pairs with the release in note_open() */
	return atomic_load_explicit(&tt_device_is_there, memory_order_acquire);
}

void tt_cuda_probe(void)
{
	if (is_open() ||
	    pthread_mutex_trylock(&cuda.lock) !=
		    0) /* somebody is opening it; or was when this process was forked */
		return;
	if (!cuda.open && tt_library_find(&tt_cuda_library, &tt_cu))
		note_open();
	pthread_mutex_unlock(&cuda.lock);
}

static tutti_result_t start(void)
{
	const cuda_result error = tt_cu.init(0);

	cuda.started = error == 0;
	if (error == CUDA_NO_DEVICE)
		return tt_fail(
			TUTTI_ERR_UNSUPPORTED, CUDA,
			"CUDA has no GPU for this process: there is none, or CUDA_VISIBLE_DEVICES or the container leaves it out");
	return tt_cuda_check(error, "start CUDA's driver");
}

tutti_result_t tt_cuda_driver(void)
{
	tutti_result_t result = TUTTI_OK;

	pthread_mutex_lock(&cuda.lock);
	if (!cuda.open)
		result = open_library();
	if (!result && !cuda.started)
		result = start();
	pthread_mutex_unlock(&cuda.lock);
	return result;
}

tutti_result_t tt_cuda_check(cuda_result error, const char *what, ...)
{
	const char *name = NULL, *text = NULL;
	char tried[WHAT_MAX];
	va_list arguments;

	if (!error)
		return TUTTI_OK;
	va_start(arguments, what);
	vsnprintf(tried, sizeof(tried), what, arguments);
	va_end(arguments);
	/* of an error that it does not know the driver leaves them as they are, or sets NULL */
	tt_cu.get_error_name(error, &name);
	tt_cu.get_error_string(error, &text);
	return tt_fail(TUTTI_ERR_SYSTEM, CUDA, "%s: %s (%s, %u)", tried,
		       text ? text : "an error that this driver has no text for",
		       name ? name : "no name", error);
}

int tt_cuda_attribute(unsigned attribute, cuda_device device)
{
	int value = 0;

	return tt_cu.device_get_attribute(&value, attribute, device) ? 0 : value;
}

/* ---- whose memory a pointer points to */

/* CUDA has no memory in this process: it was not started here, or before a fork(), or has ended,
 * or can do nothing; or it does not say so of a pointer that it does not know, but fails. */
static bool means_host(cuda_result error)
{
	return error == CUDA_INVALID_VALUE || error == CUDA_NOT_INITIALIZED ||
	       error == CUDA_DEINITIALIZED || error == CUDA_STUB_LIBRARY ||
	       error == CUDA_NO_DEVICE || error == CUDA_INVALID_CONTEXT;
}

tutti_result_t tt_cuda_pointer(const void *pointer, enum tt_cuda_memory *kind, int *device)
{
	unsigned attributes[] = { CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_IS_MANAGED,
				  CUDA_POINTER_DEVICE };
	unsigned type = 0, managed = 0; /* of what it does not know CUDA leaves or clears them */
	int number = -1;
	void *values[] = { &type, &managed, &number };
	const cuda_result error =
		is_open() ? tt_cu.pointer_get_attributes(3, attributes, values, cuda_at(pointer))
			  : CUDA_NOT_INITIALIZED;

	*kind = TT_CUDA_HOST;
	*device = -1;
	if (error)
		return means_host(error) ? TUTTI_OK
					 : tt_cuda_check(error, "ask whose memory a buffer is");
	if (!managed && type != CUDA_MEMORY_DEVICE)
		return TUTTI_OK;
	*kind = managed ? TT_CUDA_MANAGED : TT_CUDA_DEVICE;
	*device = number < 0 ? 0 : number; /* managed memory may be at home with none */
	return TUTTI_OK;
}

bool tt_cuda_peers_have(const void *pointer)
{
	unsigned attributes[] = { CUDA_POINTER_IS_MANAGED, CUDA_POINTER_IS_IPC_CAPABLE };
	unsigned managed = 0, capable = 0;
	void *values[] = { &managed, &capable };

	return tt_cu.pointer_get_attributes(2, attributes, values, cuda_at(pointer)) == 0 &&
	       (managed || capable);
}
