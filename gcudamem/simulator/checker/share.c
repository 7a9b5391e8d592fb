/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Memory and events that several processes use. */

#include "checker.h"

void
check_shared_access (CheckObject *object, guint64 offset, guint64 size, CheckOp *op, const CheckClock *clock)
{
  (void) object;
  (void) offset;
  (void) size;
  (void) op;
  (void) clock;
}

void
check_shared_event_recorded (CheckEvent *event)
{
  (void) event;
}

void
check_shared_event_wait (CheckEvent *event, CheckClock *clock)
{
  (void) event;
  (void) clock;
}
