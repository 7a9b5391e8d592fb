/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <glib-object.h>
#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

#define GCUDA_TYPE_MEMORY_INFO (gcuda_memory_info_get_type ())

typedef struct _GCudaMemoryInfo GCudaMemoryInfo;

GCUDA_AVAILABLE_IN_0_1
GType gcuda_memory_info_get_type (void) G_GNUC_CONST;

GCUDA_AVAILABLE_IN_0_1
GCudaMemoryInfo *gcuda_memory_info_ref (GCudaMemoryInfo *self);

GCUDA_AVAILABLE_IN_0_1
void gcuda_memory_info_unref (GCudaMemoryInfo *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_memory_info_get_free (GCudaMemoryInfo *self);

GCUDA_AVAILABLE_IN_0_1
guint64 gcuda_memory_info_get_total (GCudaMemoryInfo *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (GCudaMemoryInfo, gcuda_memory_info_unref)

G_END_DECLS
