/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "sim-private.h"

#include <stdlib.h>

static const struct
{
  int value;
  const char *name;
  const char *text;
} results[] = {
#define SIM_RESULT(name, value, text) { value, #name, text },
#include "results.h"
};

static int
find (int value)
{
  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      if (results[i].value == value)
        return (int) i;
    }
  return -1;
}

/* Without CUDA_ERROR_ or CUDA_. */
const char *
sim_result_name (CUresult result)
{
  int i = find ((int) result);

  if (i < 0)
    return "?";
  return results[i].name + (g_str_has_prefix (results[i].name, "CUDA_ERROR_") ? 11 : 5);
}

gboolean
sim_result_parse (const char *text, CUresult *result)
{
  char *end = NULL;
  long number;

  for (guint i = 0; i < G_N_ELEMENTS (results); i++)
    {
      if (strcmp (text, results[i].name) == 0 || strcmp (text, sim_result_name ((CUresult) results[i].value)) == 0)
        {
          *result = (CUresult) results[i].value;
          return TRUE;
        }
    }
  number = strtol (text, &end, 0);
  if (end == text || *end != '\0' || number < 0)
    return FALSE;
  *result = (CUresult) number;
  return TRUE;
}

SIM_ENTRY (cuGetErrorName, SIM_ANYTIME | SIM_CALLBACK | SIM_PURE, (CUresult, error), (const char **, pStr))
{
  int i = find ((int) error);

  if (pStr == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = i >= 0 ? results[i].name : NULL;
  return i >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SIM_ENTRY (cuGetErrorString, SIM_ANYTIME | SIM_CALLBACK | SIM_PURE, (CUresult, error), (const char **, pStr))
{
  int i = find ((int) error);

  if (pStr == NULL)
    return CUDA_ERROR_INVALID_VALUE;
  *pStr = i >= 0 ? results[i].text : NULL;
  return i >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
