/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-location.h>

#include "device/gcuda-device-private.h"

G_BEGIN_DECLS

/* What the driver calls the place; FALSE, with INVALID_ARGUMENT or CLOSED, for no location, and one that isn't there. */
gboolean _gcuda_location_resolve (GCudaLocation *self,
                                  CUmemLocation *location,
                                  const char *what,
                                  GError **error);

/* Of a type and an id that the driver told; NULL: nowhere. */
GCudaLocation *_gcuda_location_new_for_answer (int type,
                                               int id);

/* Whether the host has this NUMA node; TRUE where the system does not say. */
gboolean _gcuda_numa_node_may_exist (int node);

G_END_DECLS
