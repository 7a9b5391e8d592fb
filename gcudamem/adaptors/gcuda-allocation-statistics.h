/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

typedef struct _GCudaAllocationStatistics GCudaAllocationStatistics;

#define GCUDA_TYPE_ALLOCATION_STATISTICS (gcuda_allocation_statistics_get_type ())

GCUDA_AVAILABLE_IN_0_1
GType gcuda_allocation_statistics_get_type (void) G_GNUC_CONST;

GCUDA_AVAILABLE_IN_0_1
GCudaAllocationStatistics *gcuda_allocation_statistics_ref (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_allocation_statistics_unref (GCudaAllocationStatistics *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaAllocationStatistics, gcuda_allocation_statistics_unref)

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_current_bytes (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_peak_bytes (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_total_bytes (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_current_count (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_peak_count (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_total_count (GCudaAllocationStatistics *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_allocation_statistics_get_failed_count (GCudaAllocationStatistics *self);

G_END_DECLS
