/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/resources/gcuda-pool-statistics.h>

G_BEGIN_DECLS

GCudaPoolStatistics *_gcuda_pool_statistics_new (guint64 used,
                                                 guint64 used_high,
                                                 guint64 reserved,
                                                 guint64 reserved_high);

G_END_DECLS
