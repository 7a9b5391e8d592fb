/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#define GCUDA_INSIDE

#include <gcudamem/base/gcuda-version.h>
#include <gcudamem/base/gcuda-macros.h>
#include <gcudamem/base/gcuda-error.h>
#include <gcudamem/base/gcuda-diagnostics.h>
#include <gcudamem/driver/gcuda-driver-info.h>
#include <gcudamem/driver/gcuda-reclaimer.h>
#include <gcudamem/device/gcuda-memory-info.h>
#include <gcudamem/device/gcuda-device.h>
#include <gcudamem/device/gcuda-context.h>
#include <gcudamem/stream/gcuda-stream.h>
#include <gcudamem/stream/gcuda-event.h>
#include <gcudamem/memory/gcuda-memory-resource.h>
#include <gcudamem/memory/gcuda-buffer.h>
#include <gcudamem/memory/gcuda-location.h>
#include <gcudamem/memory/gcuda-buffer-managed.h>
#include <gcudamem/memory/gcuda-host-map.h>
#include <gcudamem/resources/gcuda-pool-statistics.h>
#include <gcudamem/resources/gcuda-device-memory-resource.h>
#include <gcudamem/resources/gcuda-synchronous-memory-resource.h>
#include <gcudamem/resources/gcuda-pinned-memory-resource.h>
#include <gcudamem/resources/gcuda-managed-memory-resource.h>
#include <gcudamem/resources/gcuda-registered-memory.h>
#include <gcudamem/resources/gcuda-virtual-memory-options.h>
#include <gcudamem/resources/gcuda-virtual-memory-resource.h>
#include <gcudamem/resources/gcuda-current-resource.h>
#include <gcudamem/adaptors/gcuda-memory-resource-adaptor.h>
#include <gcudamem/adaptors/gcuda-allocation-statistics.h>
#include <gcudamem/adaptors/gcuda-statistics-memory-resource.h>
#include <gcudamem/adaptors/gcuda-limiting-memory-resource.h>
#include <gcudamem/adaptors/gcuda-logging-memory-resource.h>
#include <gcudamem/adaptors/gcuda-trace.h>
#include <gcudamem/adaptors/gcuda-failure-callback-memory-resource.h>
#include <gcudamem/adaptors/gcuda-aligned-memory-resource.h>
#include <gcudamem/adaptors/gcuda-thread-bound-memory-resource.h>
#include <gcudamem/adaptors/gcuda-binning-memory-resource.h>
#include <gcudamem/graph/gcuda-graph-node.h>
#include <gcudamem/graph/gcuda-graph-definition.h>
#include <gcudamem/graph/gcuda-graph.h>
#include <gcudamem/graph/gcuda-graph-builder.h>
#include <gcudamem/graph/gcuda-graph-memory-resource.h>
#include <gcudamem/gcuda-enum-types.h>

#undef GCUDA_INSIDE
