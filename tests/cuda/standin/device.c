/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns what every function begins with, the names of errors, and what is said of the GPUs. */
#include "standin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNTED 32 /* functions that STANDIN_FAILS may name at once */

pthread_mutex_t standin_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t standin_changed = PTHREAD_COND_INITIALIZER;
unsigned standin_kept;

static struct {
	_Atomic pid_t process; /* that has started the driver; 0: none. Its children cannot use
				* it, as with the driver */
	char fails[1024];      /* STANDIN_FAILS and STANDIN_ERROR at the last call */
	cuda_result error;
	unsigned calls[COUNTED]; /* of what `fails` names, in its order */
} standin;

static const struct {
	cuda_result error;
	const char *name, *text; /* NULL: nothing but the name */
} errors[] = {
	{ 0, "CUDA_SUCCESS", "no error" },
	{ CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
	{ INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ MAP_FAILED_THERE, "CUDA_ERROR_MAP_FAILED", "mapping of buffer object failed" },
	{ CUDA_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU" },
	{ PEER_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" },
	{ CUDA_UNSUPPORTED_PTX_VERSION, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION" },
	{ INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE" },
	{ NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
	{ CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ 700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ CUDA_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" },
	{ CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed" },
	{ LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
	{ CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
	{ CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" },
	{ CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" },
	{ CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE" },
	{ CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" },
	{ CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED" },
	{ CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION" },
	{ CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" },
	{ CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT" },
	{ CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" },
	{ UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error" },
};

long standin_setting(const char *name, long otherwise)
{
	const char *set = getenv(name);

	return set && *set ? atol(set) : otherwise;
}

int standin_devices(void)
{
	const long devices =
		getenv("CUDA_VISIBLE_DEVICES") ? 1 : standin_setting("STANDIN_DEVICES", 2);

	return devices < DEVICES_MAX ? (int)devices : DEVICES_MAX;
}

int standin_first(void)
{
	return (int)standin_setting("CUDA_VISIBLE_DEVICES", 0);
}

size_t standin_memory_bytes(void)
{
	return (size_t)standin_setting("STANDIN_MEMORY", 1l << 30);
}

bool standin_is_apart(void)
{
	return getenv("STANDIN_APART") != NULL;
}

/* The variables are read in calls alone: threads of streams might read them while a test sets
 * them. */
static void read_failures(void)
{
	const char *fails = getenv("STANDIN_FAILS");

	standin.error = (cuda_result)standin_setting("STANDIN_ERROR", UNKNOWN);
	if (strncmp(fails ? fails : "", standin.fails, sizeof(standin.fails) - 1) == 0)
		return;
	snprintf(standin.fails, sizeof(standin.fails), "%s", fails ? fails : "");
	memset(standin.calls, 0, sizeof(standin.calls));
}

/* Called with the lock: the calls are counted. */
cuda_result standin_failing(const char *function)
{
	const size_t length = strlen(function);
	const char *at = standin.fails;

	for (int i = 0; at && *at && i < COUNTED; at = strchr(at, ','), i++) {
		at += *at == ',';
		if (strncmp(at, function, length) != 0 || !strchr(":,", at[length]))
			continue;
		const unsigned from = at[length] == ':' ? (unsigned)atoi(at + length + 1) : 1;
		if (++standin.calls[i] >= from)
			return standin.error;
	}
	return 0;
}

/* It does not take the lock: a thread of its parent may have held it. */
static bool in_child(void)
{
	const pid_t process = atomic_load(&standin.process);

	return process && process != getpid();
}

static cuda_result enter_unstarted(const char *function)
{
	if (in_child())
		return CUDA_NOT_INITIALIZED;
	pthread_mutex_lock(&standin_lock);
	while (standin_kept)
		pthread_cond_wait(&standin_changed, &standin_lock);
	read_failures();
	return standin_failing(function);
}

cuda_result standin_enter(const char *function)
{
	const cuda_result error = enter_unstarted(function);

	return error ? error : atomic_load(&standin.process) ? 0 : CUDA_NOT_INITIALIZED;
}

cuda_result standin_leave(cuda_result result)
{
	if (!in_child())
		pthread_mutex_unlock(&standin_lock);
	return result;
}

bool standin_has(cuda_device device)
{
	return device >= 0 && device < standin_devices();
}

/* There is such a GPU, and what is asked for has a place. */
static cuda_result device_error(cuda_device device, const void *out)
{
	return !standin_has(device) ? INVALID_DEVICE : out ? 0 : CUDA_INVALID_VALUE;
}

API cuda_result cuInit(unsigned flags)
{
	cuda_result error = enter_unstarted(__func__);

	if (!error && flags)
		error = CUDA_INVALID_VALUE;
	if (!error && standin_devices() <= 0)
		error = CUDA_NO_DEVICE;
	if (!error)
		atomic_store(&standin.process, getpid());
	return standin_leave(error);
}

static const char *said_of(cuda_result error, bool name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].error == error)
			return name || !errors[i].text ? errors[i].name : errors[i].text;
	}
	return NULL;
}

/* Of an error that there is not NULL is said. */
static cuda_result say(const char *function, cuda_result error, bool name, const char **out)
{
	const cuda_result entered = enter_unstarted(function),
			  failing = in_child() ? 0 : entered; /* needs no cuInit() */

	if (failing || !out)
		return standin_leave(failing ? failing : CUDA_INVALID_VALUE);
	*out = said_of(error, name);
	return standin_leave(*out ? 0 : CUDA_INVALID_VALUE);
}

API cuda_result cuGetErrorName(cuda_result error, const char **name)
{
	return say(__func__, error, true, name);
}

API cuda_result cuGetErrorString(cuda_result error, const char **text)
{
	return say(__func__, error, false, text);
}

/* Needs no cuInit(). */
API cuda_result cuDriverGetVersion(int *version)
{
	const cuda_result error = enter_unstarted(__func__);

	if (!error && version)
		*version = 13000;
	return standin_leave(error || version ? error : CUDA_INVALID_VALUE);
}

CALL_AFTER(device_error(0, count), cuDeviceGetCount, (count), int *count)
{
	*count = standin_devices();
	return 0;
}

CALL_AFTER(device_error(number, device), cuDeviceGet, (device, number), cuda_device *device,
	   int number)
{
	*device = number;
	return 0;
}

CALL_AFTER(device_error(device, name), cuDeviceGetName, (name, room, device), char *name, int room,
	   cuda_device device)
{
	snprintf(name, (size_t)room, "Stand-in %d", device);
	return 0;
}

CALL_AFTER(device_error(device, uuid), cuDeviceGetUuid, (uuid, device), struct CUuuid_st *uuid,
	   cuda_device device)
{
	for (int i = 0; i < CUDA_UUID_BYTES; i++)
		((unsigned char *)uuid)[i] = (unsigned char)(0x10 * (standin_first() + device) + i);
	return 0;
}

CALL_AFTER(device_error(device, id), cuDeviceGetPCIBusId, (id, room, device), char *id, int room,
	   cuda_device device)
{
	snprintf(id, (size_t)room, "0000:%02x:00.0", 0x17 + standin_first() + device);
	return 0;
}

CALL_AFTER(device_error(device, bytes), cuDeviceTotalMem_v2, (bytes, device), size_t *bytes,
	   cuda_device device)
{
	*bytes = standin_memory_bytes();
	return 0;
}

CALL_AFTER(device_error(device, value), cuDeviceGetAttribute, (value, attribute, device),
	   int *value, unsigned attribute, cuda_device device)
{
	switch (attribute) {
	case CUDA_MULTIPROCESSORS: *value = 8; return 0;
	case CUDA_COMPUTE_MODE:
		*value = device == 1 ? 3 : CUDA_MODE_DEFAULT;
		return 0; /* of exclusive process */
	case CUDA_CAPABILITY_MAJOR: *value = 9; return 0;
	case CUDA_CAPABILITY_MINOR: *value = 0; return 0;
	case CUDA_DMA_BUF: *value = device == 0; return 0;
	case CUDA_MPS: *value = getenv("STANDIN_MPS") != NULL; return 0;
	case CUDA_MULTICAST: *value = getenv("STANDIN_MULTICAST") != NULL; return 0;
	default: return CUDA_INVALID_VALUE;
	}
}

bool standin_reaches(cuda_device device, cuda_device peer)
{
	const char *peers = getenv("STANDIN_PEERS");

	if (device == peer || (peers && strcmp(peers, "none") == 0))
		return false;
	if (peers && (strcmp(peers, "pairs") == 0 || strcmp(peers, "threes") == 0)) {
		const int together = *peers == 'p' ? 2 : 3;

		return device / together == peer / together;
	}
	return (peers && strcmp(peers, "all") == 0) || device == peer + 1;
}

CALL_AFTER(device_error(device, can), cuDeviceCanAccessPeer, (can, device, peer), int *can,
	   cuda_device device, cuda_device peer)
{
	const cuda_result error = device_error(peer, can);

	if (!error)
		*can = standin_reaches(device, peer);
	return error;
}
