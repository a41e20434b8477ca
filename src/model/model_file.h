/* SPDX-License-Identifier: BSD-3-Clause */
/* The file in which a machine's figures are kept. */
#ifndef TT_MODEL_FILE_H
#define TT_MODEL_FILE_H

#include <stdbool.h>

#include "model.h"

/* TUTTI_IN_PROGRESS: there is no such file yet. TUTTI_ERR_INVALID: it is something else; some of
 * the figures may have been read then. */
tutti_result_t tt_model_read(const char *path, struct tt_model *model);

/* Can be computed with: what another rank sent may be anything. */
bool tt_model_is_sane(const struct tt_model *model);

/* Appears whole or not at all. */
tutti_result_t tt_model_write(const char *path, struct tt_model *model);

#endif
