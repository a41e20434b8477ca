/* SPDX-License-Identifier: BSD-3-Clause */
/* A port for a server that a rank will start. */
#ifndef RUN_PORT_H
#define RUN_PORT_H

/* A TCP port that nobody listens on now. */
int port_choose(void);

#endif
