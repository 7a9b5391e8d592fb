/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gcudamem/memory/gcuda-buffer.h>

G_BEGIN_DECLS

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_replay_trace (GFile *file,
                             GCudaMemoryResource *resource,
                             GCancellable *cancellable,
                             GError **error);

G_END_DECLS
