/* SPDX-License-Identifier: BSD-3-Clause */
/* Owns the use of OpenSSL's TLS.
 *
 * A certificate would let a stranger in: both ends insist on the pre-shared key, and check that
 * it was used. The key that TLS gets is derived from the job's (a proof in a role of its own),
 * so that neither use says anything to the other.
 *
 * Bytes go through a BIO of our own, OpenSSL's socket BIO but for two things: it writes with
 * MSG_NOSIGNAL, and the kernel is only asked to encrypt, never to decrypt, which goes with
 * neither reading ahead nor changes of the key. Short writes are put together first, so that a
 * header and its payload are one record.
 *
 * Once the kernel encrypts what is sent, data goes to the socket as over plain TCP; what OpenSSL
 * writes from then on are its own messages (alerts), and the kernel is told so, or the other end
 * would read them as data.
 *
 * A record for which the socket has no room is OpenSSL's until it is written, while the caller,
 * told of nothing, may offer the same bytes in other portions: of those that turn out to be
 * written already, it is told without writing. */
#include "tls.h"

#include <errno.h>
#include <linux/tls.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "log.h"

#ifndef SSL_OP_ENABLE_KTLS /* before OpenSSL 3.0, which encrypts by itself … */
#define SSL_OP_ENABLE_KTLS     0
#define BIO_get_ktls_send(bio) 0
#endif
#ifndef SSL_OP_IGNORE_UNEXPECTED_EOF /* … and tells an end without a word as failed() has it */
#define SSL_OP_IGNORE_UNEXPECTED_EOF 0
#endif

#define IDENTITY     "tutti" /* of the key; behind it the dialer's rank: "tutti 3" */
#define IDENTITY_MAX 20
#define RECORD	     16384 /* bytes of a record, at most */
#define RECORD_HEAD  5
#define MESSAGE_HEAD 4
#define GREETING_MAX 2048 /* bytes of a dialer's record, until it has shown that it has the key */
#ifndef RECORDS_PER_KEY	  /* the limit for AES-GCM is 2^24.5 (RFC 8446, 5.5) */
#define RECORDS_PER_KEY (1u << 24)
#endif

/* What OpenSSL asks a socket BIO for; bio.h keeps the numbers, but not the names. */
#define SET_KERNEL     72 /* encrypt (1) or decrypt (0) in the kernel from now on */
#define NEXT_IS_OWN    74 /* the next write is a message of TLS's own, of the type given */
#define NEXT_IS_NO_OWN 75

struct tt_tls {
	SSL_CTX *context;
	BIO_METHOD *method;
	const char *what; /* is encrypted */
	atomic_uint said; /* bit 1 << in_kernel: in the log; relaxed, it orders nothing */
	uint8_t psk[TT_PROOF_BYTES];
};

/* What comes from a dialer before it has shown that it has the key. OpenSSL makes room for a
 * first message of 128 KiB as soon as four bytes announce it; a rank's has some 300, in one
 * record. */
struct gate {
	uint8_t head[RECORD_HEAD + MESSAGE_HEAD]; /* of the record that is coming, and of its
						   * message */
	size_t have, skip;			  /* bytes of the head; to come behind it */
	bool open; /* an encrypted record comes: OpenSSL takes it from those alone who have the
		    * key */
	bool refused;
};

struct tt_tls_stream {
	SSL *ssl;
	bool other_key; /* of the dialer, at the listener */
	int rank;	/* of the dialer, as it says; -1: it does not */
	struct gate gate;
	bool in_kernel;	  /* what is sent */
	bool writing;	  /* the handshake waits to write */
	size_t kept;	  /* bytes of `record` that are to be written before anything else */
	size_t ahead;	  /* bytes of the last record that the caller has not been told of */
	uint32_t records; /* written with this key */
	char identity[IDENTITY_MAX];
	uint8_t *record; /* RECORD bytes, once the handshake is done: until then anybody may be
			   * at the other end */
};

/* ---- the socket below */

/* A message of this type to the kernel, which makes it a record. */
static ssize_t send_own(int fd, uint8_t type, const char *bytes, size_t length)
{
	union {
		struct cmsghdr header; /* for its alignment */
		char bytes[CMSG_SPACE(sizeof(uint8_t))];
	} control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)bytes, length };
	const struct msghdr message = { .msg_iov = &iov,
					.msg_iovlen = 1,
					.msg_control = &control,
					.msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_TLS;
	header->cmsg_type = TLS_SET_RECORD_TYPE;
	header->cmsg_len = CMSG_LEN(sizeof(type));
	*CMSG_DATA(header) = type;
	return sendmsg(fd, &message, MSG_NOSIGNAL);
}

static int quiet_write(BIO *bio, const char *bytes, int length)
{
	const uint8_t type = (uint8_t)(uintptr_t)BIO_get_data(bio);
	int fd = -1;

	BIO_get_fd(bio, &fd);
	const ssize_t sent = type ? send_own(fd, type, bytes, (size_t)length)
				  : send(fd, bytes, (size_t)length, MSG_NOSIGNAL);
	BIO_clear_retry_flags(bio);
	if (sent < 0 && BIO_sock_should_retry(-1))
		BIO_set_retry_write(bio);
	if (sent >= 0)
		BIO_set_data(bio, NULL);
	return (int)sent;
}

/* Of a record or of its message the head is whole: false if what it announces is not a rank's. */
static bool announce(struct gate *gate)
{
	const size_t record = (size_t)gate->head[3] << 8 | gate->head[4];
	const size_t message =
		(size_t)gate->head[6] << 16 | (size_t)gate->head[7] << 8 | gate->head[8];

	gate->open = gate->head[0] == SSL3_RT_APPLICATION_DATA;
	if (gate->open)
		return true;
	if (gate->head[0] == SSL3_RT_HANDSHAKE) {
		if (gate->have == RECORD_HEAD)
			return record > MESSAGE_HEAD && record <= GREETING_MAX;
		gate->skip = record - MESSAGE_HEAD;
		gate->have = 0;
		return message == gate->skip;
	}
	gate->skip = record;
	gate->have = 0;
	return record <= GREETING_MAX;
}

static bool pass(struct gate *gate, const uint8_t *bytes, size_t length)
{
	while (length > 0 && !gate->open) {
		const size_t skipped = gate->skip < length ? gate->skip : length;

		gate->skip -= skipped;
		bytes += skipped;
		length -= skipped;
		if (length == 0)
			return true;
		gate->head[gate->have++] = *bytes++;
		length--;
		if ((gate->have == RECORD_HEAD || gate->have == sizeof(gate->head)) &&
		    !announce(gate))
			return false;
	}
	return true;
}

/* Of a listener during the handshake, whose stream is the BIO's application data, little at a
 * time: OpenSSL's buffer is larger. */
static int gated_read(BIO *bio, char *bytes, int length)
{
	struct tt_tls_stream *stream = BIO_get_app_data(bio);
	const int most = stream && length > GREETING_MAX ? GREETING_MAX : length;
	const int got = BIO_meth_get_read(BIO_s_socket())(bio, bytes, most);

	if (!stream || got <= 0 || pass(&stream->gate, (const uint8_t *)bytes, (size_t)got))
		return got;
	stream->gate.refused = true;
	BIO_clear_retry_flags(bio);
	return -1;
}

/* The type of the next write is kept as the BIO's data. */
static long socket_control(BIO *bio, int command, long number, void *argument)
{
	if (command == SET_KERNEL && number == 0)
		return 0;
	if (command == NEXT_IS_OWN || command == NEXT_IS_NO_OWN) {
		BIO_set_data(bio, command == NEXT_IS_OWN ? (void *)(uintptr_t)number : NULL);
		return 0;
	}
	return BIO_meth_get_ctrl(BIO_s_socket())(bio, command, number, argument);
}

static BIO_METHOD *make_method(void)
{
	const BIO_METHOD *socket = BIO_s_socket();
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOCKET, "socket without SIGPIPE");

	if (method && BIO_meth_set_write(method, quiet_write) &&
	    BIO_meth_set_read(method, gated_read) &&
	    BIO_meth_set_puts(method, BIO_meth_get_puts(socket)) &&
	    BIO_meth_set_ctrl(method, socket_control) &&
	    BIO_meth_set_create(method, BIO_meth_get_create(socket)) &&
	    BIO_meth_set_destroy(method, BIO_meth_get_destroy(socket)))
		return method;
	BIO_meth_free(method);
	return NULL;
}

/* ---- the key */

/* A session in which nothing is known but the key: what TLS calls external. */
static SSL_SESSION *make_session(SSL *ssl)
{
	static const unsigned char cipher[2] = { 0x13, 0x01 }; /* TLS_AES_128_GCM_SHA256 */
	const struct tt_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	const SSL_CIPHER *suite = SSL_CIPHER_find(ssl, cipher);
	SSL_SESSION *session = SSL_SESSION_new();

	if (session && suite && SSL_SESSION_set1_master_key(session, tls->psk, sizeof(tls->psk)) &&
	    SSL_SESSION_set_cipher(session, suite) &&
	    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
		return session;
	SSL_SESSION_free(session);
	return NULL;
}

static int offer_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity, size_t *length,
		     SSL_SESSION **session)
{
	struct tt_tls_stream *stream = SSL_get_app_data(ssl);

	(void)digest; /* there is one suite */
	*session = make_session(ssl);
	*length = (size_t)snprintf(stream->identity, sizeof(stream->identity),
				   stream->rank < 0 ? IDENTITY : IDENTITY " %d", stream->rank);
	*identity = (const unsigned char *)stream->identity;
	return *session != NULL;
}

/* Whoever knows the rank's number may say it: the key is proven later. */
static int find_key(SSL *ssl, const unsigned char *identity, size_t length, SSL_SESSION **session)
{
	struct tt_tls_stream *stream = SSL_get_app_data(ssl);
	char text[IDENTITY_MAX] = "";
	int end = 0;

	*session = NULL;
	if (length < sizeof(text))
		memcpy(text, identity, length);
	if (sscanf(text, IDENTITY " %9d%n", &stream->rank, &end) != 1 || stream->rank < 0)
		stream->rank = -1;
	if (strcmp(text, IDENTITY) == 0 || (stream->rank >= 0 && (size_t)end == length))
		*session = make_session(ssl);
	return 1; /* without one, the handshake fails for want of a certificate */
}

/* ---- life */

/* The last of OpenSSL's errors, all of which are forgotten. */
static const char *reason(bool *other_key)
{
	const char *text = NULL;
	unsigned long code;

	while ((code = ERR_get_error()) != 0) {
		text = ERR_reason_error_string(code) ? ERR_reason_error_string(code) : text;
		*other_key |= ERR_GET_REASON(code) == SSL_R_BINDER_DOES_NOT_VERIFY;
	}
	return text ? text : "no reason given";
}

static bool set_up(struct tt_tls *tls)
{
	SSL_CTX *context = tls->context;

	SSL_CTX_set_app_data(context, tls);
	SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
					     SSL_OP_NO_COMPRESSION | SSL_OP_ENABLE_KTLS |
					     SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_mode(context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_psk_use_session_callback(context, offer_key);
	SSL_CTX_set_psk_find_session_callback(context, find_key);
	SSL_CTX_set_default_read_buffer_len(context, 4 * RECORD);
	SSL_CTX_set_read_ahead(context, 1); /* one recv() for several records */
	return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) &&
	       SSL_CTX_set_num_tickets(context, 0) &&
	       SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") &&
	       SSL_CTX_set1_groups_list(context, "X25519:P-256");
}

tutti_result_t tt_tls_open(const struct tt_key *key, const char *what, struct tt_tls **out)
{
	struct tt_tls *tls;

	if (!tt_key_is_set(key))
		return tt_fail(
			TUTTI_ERR_INVALID, COMM,
			"TUTTI_ENCRYPT asks for encryption, which needs a key, and there is none: set TUTTI_KEY or "
			"TUTTI_KEY_FILE, alike on all ranks");
	tls = calloc(1, sizeof(*tls));
	if (!tls)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for TLS");
	tls->what = what;
	tt_key_prove(key, "tls pre-shared key", NULL, 0, tls->psk);
	/* No configuration file of the machine's is to weaken this. A program may exit() while our
	 * threads still read: OpenSSL is not to free before them what they use. */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
	tls->method = make_method();
	tls->context = SSL_CTX_new(TLS_method());
	if (!tls->method || !tls->context || !set_up(tls)) {
		const tutti_result_t result =
			tt_fail(TUTTI_ERR_UNSUPPORTED, COMM,
				"OpenSSL cannot do what TUTTI_ENCRYPT asks for: %s",
				reason(&(bool){ false }));

		tt_tls_close(tls);
		return result;
	}
	*out = tls;
	return TUTTI_OK;
}

void tt_tls_close(struct tt_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->context);
	BIO_meth_free(tls->method);
	OPENSSL_cleanse(tls, sizeof(*tls));
	free(tls);
}

tutti_result_t tt_tls_stream_open(struct tt_tls *tls, int fd, bool dials, int rank,
				  struct tt_tls_stream **out)
{
	struct tt_tls_stream *stream = calloc(1, sizeof(*stream));
	BIO *bio = BIO_new(tls->method);

	if (stream)
		stream->ssl = SSL_new(tls->context);
	if (!stream || !stream->ssl || !bio) {
		BIO_free(bio);
		tt_tls_stream_close(stream);
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for an encrypted connection");
	}
	BIO_set_fd(bio, fd, BIO_NOCLOSE);
	SSL_set_bio(stream->ssl, bio, bio);
	SSL_set_app_data(stream->ssl, stream);
	stream->rank = rank;
	if (dials) {
		/* no certificate is good enough */
		SSL_set_verify(stream->ssl, SSL_VERIFY_PEER, NULL);
		SSL_set_connect_state(stream->ssl);
	} else {
		BIO_set_app_data(bio, stream);
		SSL_set_accept_state(stream->ssl);
	}
	*out = stream;
	return TUTTI_OK;
}

void tt_tls_stream_close(struct tt_tls_stream *stream)
{
	if (!stream)
		return;
	SSL_free(stream->ssl);
	free(stream->record);
	free(stream);
}

/* ---- the handshake */

static tutti_result_t refuse(struct tt_tls_stream *stream, int error, int number)
{
	const bool gone = !stream->gate.refused &&
			  (error == SSL_ERROR_ZERO_RETURN || error == SSL_ERROR_SYSCALL);
	const char *what = reason(&stream->other_key);

	if (stream->gate.refused)
		what = "its first message is longer than a rank's, or fragmented";
	if (gone)
		what = error == SSL_ERROR_SYSCALL && number ? strerror(number)
							    : "it closed the connection";
	return tt_fail(
		gone ? TUTTI_ERR_PEER_LOST : TUTTI_ERR_INVALID, COMM,
		"did not get through the TLS handshake (%s): give all ranks the same TUTTI_KEY and TUTTI_ENCRYPT",
		what);
}

/* Log once whether the kernel encrypts: it is alike for all connections, unless a module has been
 * loaded meanwhile. */
static void log_who_encrypts(const struct tt_tls_stream *stream)
{
	struct tt_tls *tls = SSL_CTX_get_app_data(SSL_get_SSL_CTX(stream->ssl));
	const unsigned bit = 1u << stream->in_kernel;

	if (!(atomic_fetch_or_explicit(&tls->said, bit, memory_order_relaxed) & bit))
		tt_log(INFO, COMM,
		       "%s are encrypted (%s): what is sent by %s, what is received by OpenSSL",
		       tls->what, SSL_get_cipher_name(stream->ssl),
		       stream->in_kernel ? "the kernel" : "OpenSSL");
}

tutti_result_t tt_tls_handshake(struct tt_tls_stream *stream)
{
	ERR_clear_error();
	errno = 0;
	const int result = SSL_do_handshake(stream->ssl), number = errno;
	const int error = result == 1 ? SSL_ERROR_NONE : SSL_get_error(stream->ssl, result);

	stream->writing = error == SSL_ERROR_WANT_WRITE;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		return TUTTI_IN_PROGRESS;
	if (error != SSL_ERROR_NONE)
		return refuse(stream, error, number);
	if (!SSL_session_reused(stream->ssl))
		return tt_fail(TUTTI_ERR_INVALID, COMM,
			       "did not use the job's key in the TLS handshake");
	stream->record = malloc(RECORD);
	if (!stream->record)
		return tt_fail(TUTTI_ERR_NO_MEMORY, COMM, "no memory for an encrypted connection");
	BIO_set_app_data(SSL_get_rbio(stream->ssl), NULL);
	stream->in_kernel = BIO_get_ktls_send(SSL_get_wbio(stream->ssl));
	log_who_encrypts(stream);
	return TUTTI_OK;
}

int tt_tls_rank(const struct tt_tls_stream *stream)
{
	return stream->rank;
}

int tt_tls_peek_rank(int fd)
{
	char bytes[GREETING_MAX + 1] = "";
	const ssize_t length = recv(fd, bytes, GREETING_MAX, MSG_PEEK | MSG_DONTWAIT);
	const char *said =
		length > 0 ? memmem(bytes, (size_t)length, IDENTITY " ", sizeof(IDENTITY)) : NULL;
	int rank;

	return said && sscanf(said, IDENTITY " %9d", &rank) == 1 ? rank : -1;
}

bool tt_tls_has_other_key(const struct tt_tls_stream *stream)
{
	return stream->other_key;
}

bool tt_tls_blocked(const struct tt_tls_stream *stream)
{
	return stream->writing;
}

bool tt_tls_in_kernel(const struct tt_tls_stream *stream)
{
	return stream->in_kernel;
}

/* ---- bytes */

static ssize_t failed(struct tt_tls_stream *stream, int result, int number)
{
	const int error = SSL_get_error(stream->ssl, result);

	if (error == SSL_ERROR_ZERO_RETURN || (error == SSL_ERROR_SYSCALL && number == 0))
		return 0;
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE)
		number = EAGAIN;
	else if (error != SSL_ERROR_SYSCALL)
		number = EPROTO;
	ERR_clear_error();
	errno = number;
	return -1;
}

/* What of iov comes next: at most a record, in place or, if in several pieces, put together. */
static const void *next_record(struct tt_tls_stream *stream, const struct iovec *iov, int n,
			       size_t at, size_t *length)
{
	if (n == 1 || iov->iov_len - at >= RECORD) {
		*length = iov->iov_len - at < RECORD ? iov->iov_len - at : RECORD;
		return (const uint8_t *)iov->iov_base + at;
	}
	*length = 0;
	for (int i = 0; i < n && *length < RECORD; i++, at = 0) {
		const size_t capacity = RECORD - *length, left = iov[i].iov_len - at,
			     part = left < capacity ? left : capacity;

		if (part)
			memcpy(stream->record + *length, (const uint8_t *)iov[i].iov_base + at,
			       part);
		*length += part;
	}
	return stream->record;
}

/* A key has had its records. A message that says so is written first, and until it is, OpenSSL
 * would not read either: only when there is room. */
static void change_key(struct tt_tls_stream *stream)
{
	struct pollfd socket = { .fd = SSL_get_fd(stream->ssl), .events = POLLOUT };

	if (stream->kept || poll(&socket, 1, 0) != 1 || !(socket.revents & POLLOUT))
		return;
	if (SSL_key_update(stream->ssl, SSL_KEY_UPDATE_NOT_REQUESTED)) {
		SSL_do_handshake(stream->ssl);
		stream->records = 0;
	}
}

/* A record; false: errno. One for which there was no room is kept, as OpenSSL wants to be given
 * it again. */
static bool write_record(struct tt_tls_stream *stream, const void *bytes, size_t length)
{
	size_t written;

	if (stream->records >= RECORDS_PER_KEY)
		change_key(stream);
	ERR_clear_error();
	errno = 0;
	if (SSL_write_ex(stream->ssl, bytes, length, &written)) {
		stream->kept = 0;
		stream->ahead = length;
		stream->records++;
		return true;
	}
	if (failed(stream, 0, errno) == 0)
		errno = EPIPE;
	if (errno == EAGAIN && bytes != stream->record)
		memcpy(stream->record, bytes, length);
	stream->kept = errno == EAGAIN ? length : 0;
	return false;
}

/* `*at` of `*iov` are done. */
static void advance(const struct iovec **iov, int *n, size_t *at, size_t bytes)
{
	*at += bytes;
	while (*n > 0 && *at >= (*iov)->iov_len) {
		*at -= (*iov)->iov_len;
		(*iov)++;
		(*n)--;
	}
}

/* Bytes that went with a record before they were offered again. */
static size_t skip_ahead(struct tt_tls_stream *stream, const struct iovec **iov, int *n, size_t *at)
{
	size_t skipped = 0;

	while (stream->ahead > 0 && *n > 0) {
		const size_t left = (*iov)->iov_len - *at,
			     part = left < stream->ahead ? left : stream->ahead;

		stream->ahead -= part;
		skipped += part;
		advance(iov, n, at, part);
	}
	return skipped;
}

ssize_t tt_tls_write(struct tt_tls_stream *stream, const struct iovec *iov, int n)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)n };
	size_t at = 0, done = 0;

	if (stream->in_kernel)
		return sendmsg(SSL_get_fd(stream->ssl), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	advance(&iov, &n, &at, 0);
	done = skip_ahead(stream, &iov, &n, &at);
	while (n > 0) {
		size_t length = stream->kept;
		const void *record =
			length ? stream->record : next_record(stream, iov, n, at, &length);

		if (!write_record(stream, record, length))
			return done ? (ssize_t)done : -1;
		done += skip_ahead(stream, &iov, &n, &at);
	}
	return (ssize_t)done;
}

ssize_t tt_tls_read(struct tt_tls_stream *stream, const struct iovec *iov, int n)
{
	size_t at = 0, done = 0;

	advance(&iov, &n, &at, 0);
	while (n > 0) {
		size_t got;

		ERR_clear_error();
		errno = 0;
		if (!SSL_read_ex(stream->ssl, (uint8_t *)iov->iov_base + at, iov->iov_len - at,
				 &got)) {
			const ssize_t end = failed(stream, 0, errno);

			return done ? (ssize_t)done : end;
		}
		done += got;
		advance(&iov, &n, &at, got);
	}
	return (ssize_t)done;
}
