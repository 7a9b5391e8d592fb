/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the program itself does to host memory. No call tells, so the pages that
 * streams work on are protected until the program has waited: against writing
 * while a stream reads them, against all while a stream writes them. Whoever
 * touches them nevertheless is reported, and may go on. The kernel does not go
 * on, but answers EFAULT: so a page of which only a part is worked on is left
 * alone, the rest of it being the program's. */

#include "checker.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

typedef struct
{
  guint64 start, end; /* whole pages */
  guint slot;
  guint64 epoch;
  gboolean writes;
  gboolean open; /* for a function of the program that touched it, until that returns */
} Guard;

/* More than these would cost more than they find. */
#define MAX_GUARDS 4096

static GArray *guards;
static gint n_guards;  /* atomic */
static gint n_changes; /* atomic: of what is protected */
static gboolean any_open;
static struct sigaction previous[2];
static guint64 page;

static void
protect (guint64 start, guint64 end, int protection)
{
  if (end <= start)
    return;
  mprotect ((gpointer) start, end - start, protection);
  g_atomic_int_inc (&n_changes);
}

/* The guards that are left decide about these pages. What stays guarded is never open meanwhile: other threads are at work. */
static void
apply (guint64 start, guint64 end)
{
  while (start < end)
    {
      gint protection = PROT_READ | PROT_WRITE;
      guint64 next = end;

      for (guint i = 0; i < guards->len; i++)
        {
          Guard *guard = &g_array_index (guards, Guard, i);

          if (guard->open || guard->end <= start || guard->start >= next)
            continue;
          if (guard->start > start)
            {
              next = guard->start;
              continue;
            }
          next = MIN (next, guard->end);
          protection &= guard->writes ? PROT_NONE : PROT_READ;
        }
      protect (start, next, protection);
      start = next;
    }
}

static void
remove_guard (guint i)
{
  Guard guard = g_array_index (guards, Guard, i);

  g_array_remove_index_fast (guards, i);
  g_atomic_int_set (&n_guards, (gint) guards->len);
  apply (guard.start, guard.end);
}

static void
touched (guint64 address, gboolean writes)
{
  const CheckClock *clock;
  CheckOp *op = check_program_op (writes ? CHECK_WRITE : CHECK_READ, "host access", &clock);

  check_access (op, clock, address, 1, 0, 1);
  check_op_unref (op);
}

/* Another thread may have lifted a guard between the fault and this: then it is tried again. What comes back at once with no
 * guard changed in between was none of them. Where guards change all the time, a driver's memory is taken for usable as long as
 * it is there; other memory is not, if that happens too often. */
#define TRIES           1000
#define TRIES_UNCHANGED 100
#define AT_ONCE         (10 * 1000) /* microseconds */

static gboolean
is_of_driver (guint64 address, gboolean locks)
{
  const CheckObject *object;
  guint64 offset, length;
  gboolean is;

  if (locks)
    pthread_mutex_lock (&sim.lock);
  object = check_lookup (address, &offset, &length);
  is = object != NULL && object->memory != CHECK_MEMORY_REGISTERED &&
       (check_is_of_host (object) || object->memory == CHECK_MEMORY_MANAGED_POOL || object->memory == CHECK_MEMORY_HOST_POOL);
  if (locks)
    pthread_mutex_unlock (&sim.lock);
  return is;
}

static gboolean
may_be_lifted (guint64 address, gboolean locks)
{
  static __thread guint64 last;
  static __thread gint64 when;
  static __thread guint times, unchanged;
  static __thread gint seen;
  const gint64 now = g_get_monotonic_time ();
  const gint changes = g_atomic_int_get (&n_changes);
  const gboolean again = address == last && now - when < AT_ONCE;

  if (g_atomic_int_get (&sim.forked))
    return FALSE;
  times = again ? times + 1 : 1;
  unchanged = again && changes == seen ? unchanged + 1 : 0;
  last = address;
  when = now;
  seen = changes;
  if (unchanged == 0 && times < TRIES)
    return TRUE;
  return unchanged < TRIES_UNCHANGED && is_of_driver (address, locks);
}

static void
on_fault (int number, siginfo_t *info, void *context)
{
  struct sigaction *before = &previous[number == SIGBUS];
  guint64 address = (guintptr) info->si_addr;
  SimThread *thread = sim_thread ();
  gboolean ours = FALSE, locks = !thread->locked, writes = FALSE;
  int saved = errno;

  /* Nobody is asked anything in a forked child, and who had the lock is not there. */
  if (g_atomic_int_get (&sim.forked))
    {
      for (guint i = 0; g_atomic_int_get (&n_guards) > 0 && i < guards->len; i++)
        {
          Guard *guard = &g_array_index (guards, Guard, i);

          if (address < guard->start || address >= guard->end)
            continue;
          protect (guard->start, guard->end, PROT_READ | PROT_WRITE);
          ours = TRUE;
        }
    }
  else if (g_atomic_int_get (&n_guards) > 0)
    {
      if (locks)
        pthread_mutex_lock (&sim.lock);
      for (guint i = guards->len; i > 0; i--)
        {
          Guard *guard = &g_array_index (guards, Guard, i - 1);

          if (address < guard->start || address >= guard->end)
            continue;
          /* What may be read was written. */
          writes |= !guard->writes;
          ours = TRUE;
        }
#ifdef __x86_64__
      writes |= (((ucontext_t *) context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
      (void) context;
#endif
      /* Of a function that a graph runs it is not known where that is. */
      if (ours && locks && (!thread->driver_thread || check_place_is_here ()))
        {
          check_stack_capture (TRUE);
          touched (address, writes);
        }
      for (guint i = guards->len; i > 0; i--)
        {
          Guard *guard = &g_array_index (guards, Guard, i - 1);

          if (address < guard->start || address >= guard->end)
            continue;
          if (thread->driver_thread)
            {
              /* Another function, of another place, may touch it after this one, which is in order. */
              guard->open = any_open = TRUE;
              apply (guard->start, guard->end);
            }
          else
            remove_guard (i - 1);
        }
      if (locks)
        pthread_mutex_unlock (&sim.lock);
    }
  if (!ours)
    ours = may_be_lifted (address, locks);
  errno = saved;
  if (ours)
    return;
  if (before->sa_flags & SA_SIGINFO)
    before->sa_sigaction (number, info, context);
  else if (before->sa_handler != SIG_DFL && before->sa_handler != SIG_IGN)
    before->sa_handler (number);
  else
    /* It happens once more, and then for good. */
    signal (number, SIG_DFL);
}

static void
start (void)
{
  struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };

  page = (guint64) sysconf (_SC_PAGESIZE);
  guards = g_array_new (FALSE, FALSE, sizeof (Guard));
  sigemptyset (&action.sa_mask);
  sigaction (SIGSEGV, &action, &previous[0]);
  sigaction (SIGBUS, &action, &previous[1]);
}

/* OP works on these bytes of memory that begins at BASE. */
void
check_guard_add (const CheckObject *object, guint64 base, guint64 address, guint64 size, const CheckOp *op)
{
  /* Before a pool's memory is there, nobody may touch it. */
  Guard guard = { 0, 0, op->slot, op->epoch, op->what != CHECK_READ, FALSE };
  guint64 end;

  if (!sim.check_host || (!check_is_of_host (object) && object->memory != CHECK_MEMORY_MANAGED_POOL && object->memory != CHECK_MEMORY_HOST_POOL))
    return;
  if (guards == NULL)
    start ();
  guard.start = SIM_ALIGN_UP (address, page);
  guard.end = (address + size) & ~(page - 1);
  /* Memory of the driver's own has its last page for itself. */
  end = base + object->size;
  if (object->memory != CHECK_MEMORY_REGISTERED && address + size == end)
    guard.end = SIM_ALIGN_UP (end, page);
  if (guard.start >= guard.end)
    return;
  for (guint i = 0; i < guards->len; i++)
    {
      Guard *other = &g_array_index (guards, Guard, i);

      /* The newer one of a stream stands for the older one. */
      if (other->slot == guard.slot && other->start == guard.start && other->end == guard.end && (other->writes == guard.writes || guard.writes))
        {
          other->epoch = guard.epoch;
          other->writes = guard.writes;
          other->open = FALSE;
          apply (guard.start, guard.end);
          return;
        }
    }
  if (guards->len == MAX_GUARDS)
    remove_guard (0);
  g_array_append_val (guards, guard);
  g_atomic_int_set (&n_guards, (gint) guards->len);
  apply (guard.start, guard.end);
}

/* A function of the program returned. */
void
sim_check_guards_close (void)
{
  if (!any_open)
    return;
  any_open = FALSE;
  for (guint i = 0; i < guards->len; i++)
    {
      Guard *guard = &g_array_index (guards, Guard, i);

      if (!guard->open)
        continue;
      guard->open = FALSE;
      apply (guard->start, guard->end);
    }
}

/* The program waited. */
void
check_guard_learnt (void)
{
  if (g_atomic_int_get (&n_guards) == 0)
    return;
  for (guint i = guards->len; i > 0; i--)
    {
      Guard *guard = &g_array_index (guards, Guard, i - 1);

      if (check_is_old (guard->slot, guard->epoch))
        remove_guard (i - 1);
    }
}

/* The memory is about to go, or all of it. */
void
check_guard_drop (guint64 address, guint64 size)
{
  if (g_atomic_int_get (&n_guards) == 0)
    return;
  for (guint i = guards->len; i > 0; i--)
    {
      Guard *guard = &g_array_index (guards, Guard, i - 1);

      if (guard->start < address + size && guard->end > address)
        remove_guard (i - 1);
    }
}

/* While the driver itself works on memory. */
void
sim_check_guards (guint64 address, gsize size, gboolean on)
{
  if (g_atomic_int_get (&n_guards) == 0)
    return;
  for (guint i = 0; i < guards->len; i++)
    {
      Guard *guard = &g_array_index (guards, Guard, i);

      if (guard->start >= address + size || guard->end <= address)
        continue;
      if (on)
        apply (guard->start, guard->end);
      else
        protect (guard->start, guard->end, PROT_READ | PROT_WRITE);
    }
}
