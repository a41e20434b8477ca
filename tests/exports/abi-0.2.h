/* SPDX-License-Identifier: BSD-3-Clause */
/* What the headers of the first version of ABI 0.2 declare: made by abi.sh --write, and left as it is. */
#include <stddef.h>
#include <stdint.h>
typedef enum tutti_result {
	TUTTI_OK = 0,
	TUTTI_IN_PROGRESS = 1,
	TUTTI_ERR_INVALID = -1,
	TUTTI_ERR_MISMATCH = -2,
	TUTTI_ERR_TIMEOUT = -3,
	TUTTI_ERR_PEER_LOST = -4,
	TUTTI_ERR_ABORTED = -5,
	TUTTI_ERR_SYSTEM = -6,
	TUTTI_ERR_NO_MEMORY = -7,
	TUTTI_ERR_UNSUPPORTED = -8
} tutti_result_t;
typedef enum tutti_dtype {
	TUTTI_INT8 = 0,
	TUTTI_UINT8 = 1,
	TUTTI_INT16 = 2,
	TUTTI_UINT16 = 3,
	TUTTI_INT32 = 4,
	TUTTI_UINT32 = 5,
	TUTTI_INT64 = 6,
	TUTTI_UINT64 = 7,
	TUTTI_FLOAT16 = 8,
	TUTTI_BFLOAT16 = 9,
	TUTTI_FLOAT32 = 10,
	TUTTI_FLOAT64 = 11,
	TUTTI_FLOAT8_E4M3 = 12,
	TUTTI_FLOAT8_E5M2 = 13,
	TUTTI_DTYPE_COUNT = 14
} tutti_dtype_t;
typedef int32_t tutti_op_t;
enum {
	TUTTI_SUM = 0,
	TUTTI_PROD = 1,
	TUTTI_MIN = 2,
	TUTTI_MAX = 3,
	TUTTI_AVG = 4,
	TUTTI_BAND = 5,
	TUTTI_BOR = 6,
	TUTTI_BXOR = 7,
	TUTTI_OP_COUNT = 8
};
typedef int32_t tutti_wire_t;
enum {
	TUTTI_WIRE_DEFAULT = 0,
	TUTTI_WIRE_FLOAT32 = 1,
	TUTTI_WIRE_BFLOAT16 = 2,
	TUTTI_WIRE_FLOAT16 = 3,
	TUTTI_WIRE_FLOAT8 = 4,
	TUTTI_WIRE_INT8 = 5,
	TUTTI_WIRE_COUNT = 6,
	TUTTI_WIRE_IF_FASTER = 256
};
typedef struct tutti_comm *tutti_comm_t;
typedef struct tutti_request *tutti_request_t;
typedef struct tutti_store *tutti_store_t;
typedef struct tutti_config {
	size_t size;
	double timeout_s;
	const char *transports;
	const char *algorithm;
	const char *host_id;
	int reproducible;
	const char *key;
	int encrypt;
	tutti_wire_t wire;
} tutti_config_t;
tutti_result_t tutti_config_check(const tutti_config_t *config);
tutti_result_t tutti_key_make(char key[64 + 1]);
tutti_result_t tutti_init(const tutti_config_t *config, tutti_comm_t *comm);
tutti_result_t tutti_comm_create(tutti_store_t store, int rank, int size,
				 const tutti_config_t *config, tutti_comm_t *comm);
tutti_result_t tutti_comm_split(tutti_comm_t comm, int color, int key, tutti_comm_t *out);
tutti_result_t tutti_comm_dup(tutti_comm_t comm, tutti_comm_t *out);
tutti_result_t tutti_comm_shrink(tutti_comm_t comm, tutti_comm_t *out);
tutti_result_t tutti_comm_grow(tutti_comm_t comm, tutti_store_t store, int newcomers,
			       tutti_comm_t *out);
tutti_result_t tutti_comm_join(tutti_store_t store, const tutti_config_t *config,
			       tutti_comm_t *comm);
void tutti_comm_destroy(tutti_comm_t comm);
tutti_result_t tutti_comm_abort(tutti_comm_t comm, const char *reason);
tutti_result_t tutti_comm_error(tutti_comm_t comm, int *rank);
int tutti_comm_rank(tutti_comm_t comm);
int tutti_comm_size(tutti_comm_t comm);
double tutti_comm_timeout(tutti_comm_t comm);
int tutti_comm_local_rank(tutti_comm_t comm);
int tutti_comm_local_size(tutti_comm_t comm);
const char *tutti_comm_transport(tutti_comm_t comm, int peer);
tutti_result_t tutti_store_open(const char *address, int serve, double timeout_s,
				tutti_store_t *store);
typedef struct tutti_store_config {
	size_t size;
	int serve;
	double timeout_s;
	const char *key;
	int encrypt;
} tutti_store_config_t;
tutti_result_t tutti_store_open_with(const char *address, const tutti_store_config_t *config,
				     tutti_store_t *store);
typedef struct tutti_store_ops {
	size_t size;
	int (*set)(void *context, const char *key, const void *value, size_t length);
	int (*get)(void *context, const char *key, void *value, size_t *length, double timeout_s);
	void (*destroy)(void *context);
} tutti_store_ops_t;
tutti_result_t tutti_store_create(const tutti_store_ops_t *ops, void *context,
				  tutti_store_t *store);
const char *tutti_store_address(tutti_store_t store);
tutti_result_t tutti_store_set(tutti_store_t store, const char *key, const void *value,
			       size_t length);
tutti_result_t tutti_store_get(tutti_store_t store, const char *key, void *value, size_t *length,
			       double timeout_s);
void tutti_store_close(tutti_store_t store);
typedef void (*tutti_reduce_fn_t)(void *inout, const void *in, size_t count, tutti_dtype_t dtype,
				  void *context);
tutti_result_t tutti_op_create(tutti_comm_t comm, tutti_reduce_fn_t function, int commutative,
			       void *context, tutti_op_t *op);
tutti_result_t tutti_op_create_premul_sum(tutti_comm_t comm, const void *scalar,
					  tutti_dtype_t dtype, tutti_op_t *op);
tutti_result_t tutti_op_destroy(tutti_comm_t comm, tutti_op_t op);
tutti_result_t tutti_broadcast(tutti_comm_t comm, const void *send, void *recv, size_t count,
			       tutti_dtype_t dtype, int root, tutti_request_t *request);
tutti_result_t tutti_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
			    tutti_dtype_t dtype, tutti_op_t op, int root, tutti_request_t *request);
tutti_result_t tutti_all_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);
tutti_result_t tutti_reduce_scatter(tutti_comm_t comm, const void *send, void *recv, size_t count,
				    tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);
tutti_result_t tutti_all_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				tutti_dtype_t dtype, tutti_request_t *request);
tutti_result_t tutti_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
			    tutti_dtype_t dtype, int root, tutti_request_t *request);
tutti_result_t tutti_scatter(tutti_comm_t comm, const void *send, void *recv, size_t count,
			     tutti_dtype_t dtype, int root, tutti_request_t *request);
tutti_result_t tutti_all_to_all(tutti_comm_t comm, const void *send, void *recv, size_t count,
				tutti_dtype_t dtype, tutti_request_t *request);
tutti_result_t tutti_reduce_scatter_v(tutti_comm_t comm, const void *send, void *recv,
				      const size_t *counts, tutti_dtype_t dtype, tutti_op_t op,
				      tutti_request_t *request);
tutti_result_t tutti_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
				  const size_t *counts, const size_t *displs, tutti_dtype_t dtype,
				  tutti_request_t *request);
tutti_result_t tutti_gather_v(tutti_comm_t comm, const void *send, size_t send_count, void *recv,
			      const size_t *counts, const size_t *displs, tutti_dtype_t dtype,
			      int root, tutti_request_t *request);
tutti_result_t tutti_scatter_v(tutti_comm_t comm, const void *send, const size_t *counts,
			       const size_t *displs, void *recv, size_t recv_count,
			       tutti_dtype_t dtype, int root, tutti_request_t *request);
tutti_result_t tutti_all_to_all_v(tutti_comm_t comm, const void *send, const size_t *send_counts,
				  const size_t *send_displs, void *recv, const size_t *recv_counts,
				  const size_t *recv_displs, tutti_dtype_t dtype,
				  tutti_request_t *request);
tutti_result_t tutti_scan(tutti_comm_t comm, const void *send, void *recv, size_t count,
			  tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);
tutti_result_t tutti_exscan(tutti_comm_t comm, const void *send, void *recv, size_t count,
			    tutti_dtype_t dtype, tutti_op_t op, tutti_request_t *request);
tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_request_t *request);
tutti_result_t tutti_send(tutti_comm_t comm, const void *send, size_t count, tutti_dtype_t dtype,
			  int peer, tutti_request_t *request);
tutti_result_t tutti_recv(tutti_comm_t comm, void *recv, size_t count, tutti_dtype_t dtype,
			  int peer, tutti_request_t *request);
typedef struct tutti_message {
	size_t size;
	int peer;
	size_t count;
} tutti_message_t;
tutti_result_t tutti_send_tagged(tutti_comm_t comm, const void *send, size_t count,
				 tutti_dtype_t dtype, int peer, int tag, tutti_request_t *request);
tutti_result_t tutti_recv_tagged(tutti_comm_t comm, void *recv, size_t count, tutti_dtype_t dtype,
				 int peer, int tag, tutti_message_t *message,
				 tutti_request_t *request);
tutti_result_t tutti_group_begin(tutti_comm_t comm);
tutti_result_t tutti_group_end(tutti_comm_t comm, tutti_request_t *request);
typedef struct tutti_call {
	size_t size;
	double timeout_s;
	const char *caller;
	tutti_wire_t wire;
} tutti_call_t;
tutti_result_t tutti_next_call(tutti_comm_t comm, const tutti_call_t *call);
tutti_result_t tutti_test(tutti_request_t *request);
tutti_result_t tutti_wait(tutti_request_t *request);
tutti_result_t tutti_wait_all(tutti_request_t *requests, size_t count);
tutti_result_t tutti_wait_any(tutti_request_t *requests, size_t count, size_t *index);
tutti_result_t tutti_wait_any_for(tutti_request_t *requests, size_t count, double timeout_s,
				  size_t *index);
typedef void (*tutti_notify_fn_t)(void *context);
tutti_result_t tutti_notify(tutti_request_t request, tutti_notify_fn_t function, void *context);
tutti_result_t tutti_notify_fd(tutti_request_t request, int fd);
typedef int (*tutti_interrupt_fn_t)(void);
void tutti_interrupt_set(tutti_interrupt_fn_t function);
tutti_result_t tutti_mem_alloc(size_t bytes, void **memory);
void tutti_mem_free(void *memory);
const char *tutti_strerror(tutti_result_t result);
const char *tutti_last_error(tutti_comm_t comm);
tutti_result_t tutti_trace_recover(const char *directory, int *count);
const char *tutti_dtype_name(tutti_dtype_t dtype);
size_t tutti_dtype_size(tutti_dtype_t dtype);
const char *tutti_op_name(tutti_op_t op);
const char *tutti_algorithm_name(int number);
const char *tutti_wire_name(tutti_wire_t wire);
size_t tutti_wire_bytes(tutti_wire_t wire, size_t count);
tutti_result_t tutti_wire_round(tutti_wire_t wire, const float *in, float *out, size_t count);
tutti_result_t tutti_wire_parse(const char *text, tutti_wire_t *wire);
const char *tutti_version(void);
const char *tutti_kernel_isa(void);
typedef enum tutti_log_level {
	TUTTI_LOG_ERROR = 0,
	TUTTI_LOG_WARN = 1,
	TUTTI_LOG_INFO = 2,
	TUTTI_LOG_DEBUG = 3,
	TUTTI_LOG_TRACE = 4
} tutti_log_level_t;
typedef void (*tutti_log_fn_t)(tutti_log_level_t level, const char *subsystem, const char *line,
			       void *context);
void tutti_log_set_sink(tutti_log_fn_t sink, void *context);
typedef struct tutti_plan_info {
	size_t size;
	const char *algorithm;
	const char *transports;
	size_t segment_bytes;
	unsigned rounds;
	tutti_wire_t wire;
} tutti_plan_info_t;
tutti_result_t tutti_comm_last_plan(tutti_comm_t comm, tutti_plan_info_t *info);
typedef struct tutti_model {
	size_t size;
	double line;
	double handover;
	double copy;
	double reduce;
	double message;
	double stream;
	const char *source;
} tutti_model_t;
tutti_result_t tutti_model(tutti_model_t *out);
typedef struct tutti_rdma_port {
	const char *device;
	int port;
	int used;
	const char *why_not;
	unsigned speed_mbit;
	int numa_node;
	int gid_index;
	unsigned char gid[16];
	const char *gid_kind;
} tutti_rdma_port_t;
typedef void (*tutti_rdma_port_fn_t)(const tutti_rdma_port_t *port, void *context);
tutti_result_t tutti_rdma_ports(const char *sysroot, tutti_rdma_port_fn_t each, void *context);
tutti_result_t tutti_rdma_dmabuf(const char *device);
tutti_result_t tutti_rdma_mtu(const char *device, int port, int *bytes);
typedef struct tutti_path {
	double latency;
	double overhead;
	double byte;
} tutti_path_t;
typedef struct tutti_cluster {
	size_t size;
	int ranks_per_host;
	tutti_path_t within;
	tutti_path_t between;
	double network_byte;
	double shared_byte;
	double sync;
	double reduced_byte;
} tutti_cluster_t;
typedef struct tutti_prediction {
	size_t size;
	unsigned algorithms;
	int chosen;
	const char *algorithm[32];
	double seconds[32];
} tutti_prediction_t;
tutti_result_t tutti_predict(const tutti_cluster_t *cluster, const char *collective, int ranks,
			     double bytes, tutti_prediction_t *out);
typedef struct tutti_window *tutti_window_t;
tutti_result_t tutti_window_create(tutti_comm_t comm, void *memory, size_t bytes, uint32_t signals,
				   tutti_window_t *window);
tutti_result_t tutti_window_destroy(tutti_window_t window);
size_t tutti_window_bytes(tutti_window_t window, int rank);
int tutti_window_direct(tutti_window_t window, int rank);
tutti_result_t tutti_put(tutti_window_t window, const void *from, size_t bytes, int rank,
			 size_t offset, tutti_request_t *request);
tutti_result_t tutti_put_signal(tutti_window_t window, const void *from, size_t bytes, int rank,
				size_t offset, uint32_t signal, uint64_t add,
				tutti_request_t *request);
tutti_result_t tutti_signal(tutti_window_t window, int rank, uint32_t signal, uint64_t add);
tutti_result_t tutti_wait_signal(tutti_window_t window, uint32_t signal, uint64_t least,
				 uint64_t *value, tutti_request_t *request);
tutti_result_t tutti_get(tutti_window_t window, void *to, size_t bytes, int rank, size_t offset,
			 tutti_request_t *request);
tutti_result_t tutti_fetch_add(tutti_window_t window, int rank, size_t offset, uint64_t add,
			       uint64_t *before, tutti_request_t *request);
tutti_result_t tutti_flush(tutti_window_t window, int rank, tutti_request_t *request);
typedef struct tutti_cuda_device {
	int number;
	const char *name;
	const char *pci;
	const char *uuid;
	int cuda_version;
	int major;
	int minor;
	int multiprocessors;
	size_t memory_bytes;
	int shared;
	int dmabuf;
	unsigned long long peers;
} tutti_cuda_device_t;
typedef void (*tutti_cuda_device_fn_t)(const tutti_cuda_device_t *device, void *context);
tutti_result_t tutti_cuda_devices(tutti_cuda_device_fn_t each, void *context);
typedef struct CUstream_st *tutti_cuda_stream_t;
typedef struct tutti_cuda_window *tutti_cuda_window_t;
tutti_result_t tutti_cuda_bind(tutti_comm_t comm, int device);
int tutti_cuda_bound(tutti_comm_t comm);
tutti_result_t tutti_cuda_broadcast(tutti_comm_t comm, const void *send, void *recv, size_t count,
				    tutti_dtype_t dtype, int root, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				 tutti_dtype_t dtype, tutti_op_t op, int root,
				 tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_all_reduce(tutti_comm_t comm, const void *send, void *recv, size_t count,
				     tutti_dtype_t dtype, tutti_op_t op,
				     tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_reduce_scatter(tutti_comm_t comm, const void *send, void *recv,
					 size_t count, tutti_dtype_t dtype, tutti_op_t op,
					 tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_all_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				     tutti_dtype_t dtype, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_gather(tutti_comm_t comm, const void *send, void *recv, size_t count,
				 tutti_dtype_t dtype, int root, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_scatter(tutti_comm_t comm, const void *send, void *recv, size_t count,
				  tutti_dtype_t dtype, int root, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_all_to_all(tutti_comm_t comm, const void *send, void *recv, size_t count,
				     tutti_dtype_t dtype, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_reduce_scatter_v(tutti_comm_t comm, const void *send, void *recv,
					   const size_t *counts, tutti_dtype_t dtype, tutti_op_t op,
					   tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_all_gather_v(tutti_comm_t comm, const void *send, void *recv,
				       const size_t *counts, const size_t *displs,
				       tutti_dtype_t dtype, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_gather_v(tutti_comm_t comm, const void *send, size_t send_count,
				   void *recv, const size_t *counts, const size_t *displs,
				   tutti_dtype_t dtype, int root, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_scatter_v(tutti_comm_t comm, const void *send, const size_t *counts,
				    const size_t *displs, void *recv, size_t recv_count,
				    tutti_dtype_t dtype, int root, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_all_to_all_v(tutti_comm_t comm, const void *send,
				       const size_t *send_counts, const size_t *send_displs,
				       void *recv, const size_t *recv_counts,
				       const size_t *recv_displs, tutti_dtype_t dtype,
				       tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_scan(tutti_comm_t comm, const void *send, void *recv, size_t count,
			       tutti_dtype_t dtype, tutti_op_t op, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_exscan(tutti_comm_t comm, const void *send, void *recv, size_t count,
				 tutti_dtype_t dtype, tutti_op_t op, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_barrier(tutti_comm_t comm, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_send(tutti_comm_t comm, const void *send, size_t count,
			       tutti_dtype_t dtype, int peer, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_recv(tutti_comm_t comm, void *recv, size_t count, tutti_dtype_t dtype,
			       int peer, tutti_cuda_stream_t stream);
tutti_result_t tutti_cuda_mem_alloc(size_t bytes, void **memory);
void tutti_cuda_mem_free(void *memory);
tutti_result_t tutti_cuda_register(tutti_comm_t comm, void *memory, size_t bytes,
				   tutti_cuda_window_t *window);
tutti_result_t tutti_cuda_deregister(tutti_cuda_window_t window);
