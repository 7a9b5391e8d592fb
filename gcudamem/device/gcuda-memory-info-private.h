/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/device/gcuda-memory-info.h>

G_BEGIN_DECLS

GCudaMemoryInfo *_gcuda_memory_info_new (guint64 free,
                                         guint64 total);

G_END_DECLS
