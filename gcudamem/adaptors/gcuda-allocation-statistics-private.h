/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/adaptors/gcuda-allocation-statistics.h>

G_BEGIN_DECLS

typedef enum
{
  GCUDA_STATISTIC_CURRENT_BYTES,
  GCUDA_STATISTIC_PEAK_BYTES,
  GCUDA_STATISTIC_TOTAL_BYTES,
  GCUDA_STATISTIC_CURRENT_COUNT,
  GCUDA_STATISTIC_PEAK_COUNT,
  GCUDA_STATISTIC_TOTAL_COUNT,
  GCUDA_STATISTIC_FAILED_COUNT,
  GCUDA_N_STATISTICS,
} GCudaStatistic;

GCudaAllocationStatistics *_gcuda_allocation_statistics_new (const guint64 values[GCUDA_N_STATISTICS]);

G_END_DECLS
