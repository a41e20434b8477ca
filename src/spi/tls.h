/* SPDX-License-Identifier: BSD-3-Clause */
/* TLS 1.3 on a connected, non-blocking socket, with the job's key as external pre-shared key
 * (RFC 8446, 2.2) and nothing else: no certificates, no tickets, no early data. Each connection
 * agrees on secrets of its own (psk_dhe_ke), which the key does not give away later.
 *
 * A process without the key cannot complete the handshake. Inside the connection, both ends say who
 * they are and what it is for. */
#ifndef TT_SPI_TLS_H
#define TT_SPI_TLS_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "key.h"
#include "tutti/tutti.h"

#define TT_TLS_FIRST_BYTE 0x16 /* of the first message of a dialer: a handshake record */

struct tt_tls;	      /* what all connections of a key share */
struct tt_tls_stream; /* a connection */

/* A connected, non-blocking socket with the stream on it, if there is one. */
struct tt_connection {
	int fd;
	struct tt_tls_stream *tls; /* NULL: plain */
};

/* `what` is a literal that names the connections in the log: "connections to the store".
 * TUTTI_ERR_INVALID: there is no key. */
tutti_result_t tt_tls_open(const struct tt_key *key, const char *what, struct tt_tls **out);
void tt_tls_close(struct tt_tls *tls); /* after its streams; NULL is fine */

/* The socket stays the caller's; one end of it dials, the other does not. `rank`: the dialer's, -1:
 * it does not say. Anybody on the way can read it. */
tutti_result_t tt_tls_stream_open(struct tt_tls *tls, int fd, bool dials, int rank,
				  struct tt_tls_stream **out);
void tt_tls_stream_close(struct tt_tls_stream *stream); /* the socket is not closed; NULL is fine */

/* Continue the handshake. TUTTI_IN_PROGRESS: call again when the socket can be written if
 * tt_tls_blocked(), else read. TUTTI_ERR_INVALID: the other end lacks the key, or does not
 * encrypt; the error message says what it did. TUTTI_ERR_PEER_LOST: it is gone. */
tutti_result_t tt_tls_handshake(struct tt_tls_stream *stream);
/* At the listener: the rank that the dialer says it is, -1: none. Not proven before the handshake is
 * done. */
int tt_tls_rank(const struct tt_tls_stream *stream);
/* The same of a dialer that encrypts where the listener does not, from what it has sent. */
int tt_tls_peek_rank(int fd);
/* At the listener, when the handshake has failed: for that alone? */
bool tt_tls_has_other_key(const struct tt_tls_stream *stream);
bool tt_tls_blocked(const struct tt_tls_stream *stream);

/* Like sendmsg() and recvmsg(): bytes moved, or -1 with errno, EAGAIN for "not now" and EPROTO
 * for what is no TLS of the other end; 0 at the end of the stream. The bytes of a stream are
 * what was offered first: after EAGAIN they are offered again, in portions of any size. A read
 * gives less than there is room for only when nothing is left, here or in the socket. */
ssize_t tt_tls_write(struct tt_tls_stream *stream, const struct iovec *iov, int n);
ssize_t tt_tls_read(struct tt_tls_stream *stream, const struct iovec *iov, int n);

/* The same of a connection, plain or not: like sendmsg(), send() and recv(), which never block or
 * signal. */
ssize_t tt_connection_send_vector(struct tt_connection connection, const struct iovec *iov, int n);
ssize_t tt_connection_send(struct tt_connection connection, const void *bytes, size_t length);
ssize_t tt_connection_receive(struct tt_connection connection, void *bytes, size_t length);

/* Does the kernel encrypt what is sent? */
bool tt_tls_in_kernel(const struct tt_tls_stream *stream);

#endif
