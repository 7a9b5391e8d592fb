/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "gcuda-device-list-private.h"

#include <gcudamem/device/gcuda-device.h>

/* A type of our own and not a GListStore: nobody can cast it to one and change it. */
struct _GCudaDeviceList
{
  GObject parent_instance;

  GPtrArray *devices;
};

static GType
device_list_get_item_type (GListModel *model)
{
  return GCUDA_TYPE_DEVICE;
}

static guint
device_list_get_n_items (GListModel *model)
{
  GCudaDeviceList *self = GCUDA_DEVICE_LIST (model);

  return self->devices != NULL ? self->devices->len : 0;
}

static gpointer
device_list_get_item (GListModel *model,
                      guint position)
{
  GCudaDeviceList *self = GCUDA_DEVICE_LIST (model);

  if (position >= device_list_get_n_items (model))
    return NULL;
  return g_object_ref (g_ptr_array_index (self->devices, position));
}

static void
device_list_iface_init (GListModelInterface *iface)
{
  iface->get_item_type = device_list_get_item_type;
  iface->get_n_items = device_list_get_n_items;
  iface->get_item = device_list_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (GCudaDeviceList, _gcuda_device_list, G_TYPE_OBJECT, G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, device_list_iface_init))

static void
device_list_finalize (GObject *object)
{
  GCudaDeviceList *self = GCUDA_DEVICE_LIST (object);

  g_clear_pointer (&self->devices, g_ptr_array_unref);

  G_OBJECT_CLASS (_gcuda_device_list_parent_class)->finalize (object);
}

static void
_gcuda_device_list_class_init (GCudaDeviceListClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = device_list_finalize;
}

static void
_gcuda_device_list_init (GCudaDeviceList *self)
{
}

GListModel *
_gcuda_device_list_new (GPtrArray *devices)
{
  GCudaDeviceList *self = g_object_new (GCUDA_TYPE_DEVICE_LIST, NULL);

  self->devices = g_ptr_array_ref (devices);
  return G_LIST_MODEL (self);
}
