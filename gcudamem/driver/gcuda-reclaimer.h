/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <gio/gio.h>
#include <gcudamem/base/gcuda-macros.h>

G_BEGIN_DECLS

GCUDA_AVAILABLE_IN_0_1
gboolean gcuda_reclaim (GCancellable *cancellable,
                        GError **error);

G_END_DECLS
