/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#if !defined(GCUDA_INSIDE) && !defined(GCUDA_COMPILATION)
#error "Only <gcudamem/gcudamem.h> can be included directly."
#endif

#include <glib.h>
#include <gcudamem/base/gcuda-version.h>

#ifndef _GCUDA_EXTERN
#define _GCUDA_EXTERN __attribute__ ((visibility ("default"))) extern
#endif

/*
 * A program that defines GCUDA_VERSION_MAX_ALLOWED is warned when it uses a symbol that is newer than that. Each
 * release adds a GCUDA_VERSION_x_y, a GCUDA_AVAILABLE_IN_x_y and, for the symbols it retires, a GCUDA_DEPRECATED_IN_x_y.
 */
#define GCUDA_VERSION_0_1 (G_ENCODE_VERSION (0, 1))

#ifndef GCUDA_VERSION_MAX_ALLOWED
#define GCUDA_VERSION_MAX_ALLOWED GCUDA_VERSION_0_1
#endif

#if GCUDA_VERSION_MAX_ALLOWED < GCUDA_VERSION_0_1
#define GCUDA_AVAILABLE_IN_0_1 G_UNAVAILABLE (0, 1) _GCUDA_EXTERN
#else
#define GCUDA_AVAILABLE_IN_0_1 _GCUDA_EXTERN
#endif
