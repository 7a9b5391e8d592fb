/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "probe.h"

void probe_ptr_device (void);
void probe_ptr_vmm (void);
void probe_range (void);
void probe_pool_use (void);
void probe_pool_device (void);
void probe_host_alloc (void);
void probe_managed_advice (void);
void probe_copy (void);
void probe_copy_wrong_source (void);
void probe_pitch_memset (void);
void probe_ctx_stack (void);
void probe_ctx_misc (void);
void probe_ctx_threads (void);
void probe_stream_make (void);
void probe_event (void);
void probe_cap_basic (void);
void probe_cap_legacy (void);
void probe_cap_merge (void);
void probe_graph_nodes (void);
void probe_graph_memory (void);
void probe_user_object (void);
void probe_user_object_over (void);
void probe_host_func (void);
void probe_device (void);
void probe_vmm_access (void);
void probe_vmm_readonly_memset (void);
void probe_vmm_create (void);
void probe_proc_address (void);
void probe_no_context (void);
void probe_default_streams (void);
void probe_allocation (void);
void probe_virtual (void);
void probe_capture_others (void);
void probe_lost (void);
void probe_lost_others (void);
void probe_lost_two_devices (void);
void probe_reset (void);
void probe_blocking_end (void);
void probe_fork (void);
void probe_graph_launch (void);
void probe_two_devices (void);
void probe_uninitialized (void);
void probe_ipc (void);
void probe_batches (void);
void probe_cap_leave (void);
void probe_graph_edit (void);
void probe_graph_params (void);
void probe_graph_use (void);
void probe_graph_keep (void);
void probe_copy_updates (void);
void probe_launch_captured (void);
void probe_instantiate_captured (void);
void probe_cap_end (void);
void probe_managed_places (void);
void probe_two_devices_copy (void);
void probe_host_pool (void);
void probe_ptr_kinds (void);
void probe_pool_props (void);
void probe_registered (void);
void probe_error_names (void);
void probe_vmm_borders (void);
void probe_host_pool_copies (void);
void probe_virtual_host (void);
void probe_managed_pool (void);
void probe_managed_parts (void);
void probe_registered_pages (void);
void probe_without_context (void);
void probe_managed_capture (void);
void probe_null (int n);

#define NULL_PROBE(n)         \
  static void null_##n (void) \
  {                           \
    probe_null (n);           \
  }

NULL_PROBE (0)
NULL_PROBE (2)
NULL_PROBE (4)
NULL_PROBE (8)
NULL_PROBE (10)
NULL_PROBE (12)
NULL_PROBE (14)
NULL_PROBE (16)
NULL_PROBE (18)
NULL_PROBE (20)
NULL_PROBE (22)
NULL_PROBE (24)
NULL_PROBE (26)
NULL_PROBE (28)
NULL_PROBE (30)
NULL_PROBE (32)
NULL_PROBE (34)
NULL_PROBE (36)
NULL_PROBE (38)
NULL_PROBE (40)
NULL_PROBE (42)
NULL_PROBE (46)
NULL_PROBE (48)
NULL_PROBE (50)
NULL_PROBE (52)
NULL_PROBE (56)

const Probe probes[] = {
  { "ptr_device", probe_ptr_device, FALSE },
  { "ptr_vmm", probe_ptr_vmm, FALSE },
  { "range", probe_range, FALSE },
  { "pool_use", probe_pool_use, FALSE },
  { "pool_device", probe_pool_device, FALSE },
  { "host_alloc", probe_host_alloc, FALSE },
  { "managed_advice", probe_managed_advice, FALSE },
  { "copy", probe_copy, FALSE },
  { "copy_wrong_source", probe_copy_wrong_source, FALSE },
  { "pitch_memset", probe_pitch_memset, FALSE },
  { "ctx_stack", probe_ctx_stack, FALSE },
  { "ctx_misc", probe_ctx_misc, FALSE },
  { "ctx_threads", probe_ctx_threads, FALSE },
  { "stream_make", probe_stream_make, FALSE },
  { "event", probe_event, FALSE },
  { "cap_basic", probe_cap_basic, FALSE },
  { "cap_legacy", probe_cap_legacy, FALSE },
  { "cap_merge", probe_cap_merge, FALSE },
  { "graph_nodes", probe_graph_nodes, FALSE },
  { "graph_memory", probe_graph_memory, FALSE },
  { "user_object", probe_user_object, FALSE },
  { "user_object_over", probe_user_object_over, FALSE },
  { "host_func", probe_host_func, FALSE },
  { "device", probe_device, FALSE },
  { "vmm_access", probe_vmm_access, FALSE },
  { "vmm_readonly_memset", probe_vmm_readonly_memset, FALSE },
  { "vmm_create", probe_vmm_create, FALSE },
  { "proc_address", probe_proc_address, TRUE },

  /* from tables */
  { "ipc", probe_ipc, TRUE },
  { "uninitialized", probe_uninitialized, TRUE },
  { "no_context", probe_no_context, FALSE },
  { "default_streams", probe_default_streams, FALSE },
  { "allocation", probe_allocation, FALSE },
  { "virtual", probe_virtual, FALSE },
  { "capture_others", probe_capture_others, FALSE },
  { "lost", probe_lost, FALSE },
  { "lost_others", probe_lost_others, FALSE },
  { "reset", probe_reset, FALSE },
  { "blocking_end", probe_blocking_end, FALSE },
  { "fork", probe_fork, FALSE },
  { "graph_launch", probe_graph_launch, FALSE },
  { "two_devices", probe_two_devices, FALSE },
  { "lost_two_devices", probe_lost_two_devices, FALSE },

  /* from programs of others */
  { "batches", probe_batches, FALSE },
  { "cap_leave", probe_cap_leave, FALSE },
  { "graph_edit", probe_graph_edit, FALSE },
  { "graph_params", probe_graph_params, FALSE },
  { "graph_use", probe_graph_use, FALSE },
  { "graph_keep", probe_graph_keep, FALSE },
  { "copy_updates", probe_copy_updates, FALSE },
  { "launch_captured", probe_launch_captured, FALSE },
  { "instantiate_captured", probe_instantiate_captured, FALSE },
  { "cap_end", probe_cap_end, FALSE },
  { "managed_places", probe_managed_places, FALSE },
  { "two_devices_copy", probe_two_devices_copy, FALSE },
  { "host_pool", probe_host_pool, FALSE },
  { "ptr_kinds", probe_ptr_kinds, FALSE },
  { "pool_props", probe_pool_props, FALSE },
  { "registered", probe_registered, FALSE },
  { "error_names", probe_error_names, FALSE },
  { "vmm_borders", probe_vmm_borders, FALSE },
  { "host_pool_copies", probe_host_pool_copies, FALSE },
  { "virtual_host", probe_virtual_host, FALSE },
  { "managed_pool", probe_managed_pool, FALSE },
  { "managed_parts", probe_managed_parts, FALSE },
  { "registered_pages", probe_registered_pages, FALSE },
  { "without_context", probe_without_context, FALSE },
  { "managed_capture", probe_managed_capture, FALSE },

  { "null00", null_0, FALSE },
  { "null02", null_2, FALSE },
  { "null04", null_4, FALSE },
  { "null08", null_8, FALSE },
  { "null10", null_10, FALSE },
  { "null12", null_12, FALSE },
  { "null14", null_14, FALSE },
  { "null16", null_16, FALSE },
  { "null18", null_18, FALSE },
  { "null20", null_20, FALSE },
  { "null22", null_22, FALSE },
  { "null24", null_24, FALSE },
  { "null26", null_26, FALSE },
  { "null28", null_28, FALSE },
  { "null30", null_30, FALSE },
  { "null32", null_32, FALSE },
  { "null34", null_34, FALSE },
  { "null36", null_36, FALSE },
  { "null38", null_38, FALSE },
  { "null40", null_40, FALSE },
  { "null42", null_42, FALSE },
  { "null46", null_46, FALSE },
  { "null48", null_48, FALSE },
  { "null50", null_50, FALSE },
  { "null52", null_52, FALSE },
  { "null56", null_56, FALSE },
  { NULL, NULL, FALSE },
};
