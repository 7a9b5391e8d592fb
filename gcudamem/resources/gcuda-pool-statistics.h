/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_POOL_STATISTICS (gcuda_pool_statistics_get_type ())

typedef struct _GCudaPoolStatistics GCudaPoolStatistics;

GCUDA_AVAILABLE_IN_0_1
GType gcuda_pool_statistics_get_type (void) G_GNUC_CONST;

GCUDA_AVAILABLE_IN_0_1
GCudaPoolStatistics *gcuda_pool_statistics_ref (GCudaPoolStatistics *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_pool_statistics_unref (GCudaPoolStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_pool_statistics_get_used (GCudaPoolStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_pool_statistics_get_used_high (GCudaPoolStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_pool_statistics_get_reserved (GCudaPoolStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_pool_statistics_get_reserved_high (GCudaPoolStatistics *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaPoolStatistics, gcuda_pool_statistics_unref)

G_END_DECLS
