/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams over TCP, IPv4 and IPv6, between ranks that have an address in common. */
#ifndef TT_TCP_H
#define TT_TCP_H

#include "transport.h"

extern const struct tt_transport tt_transport_tcp;

#endif
