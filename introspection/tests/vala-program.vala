// SPDX-License-Identifier: LGPL-2.1-or-later
// Uses the library as a Vala program does: it must compile, and run.

class Counting : GCuda.MemoryResource {
    public int live = 0;
    private GCuda.MemoryResource upstream;

    public Counting (GCuda.MemoryResource upstream) {
        this.upstream = upstream;
    }

    public override uint64 allocate_address (uint64 size, uint64 alignment, GCuda.Stream stream) throws Error {
        var address = upstream.allocate_address (size, alignment, stream);
        live++;
        return address;
    }

    public override void deallocate_address (uint64 address, uint64 size, uint64 alignment, GCuda.Stream stream) {
        live--;
        try {
            upstream.free_address (address, size, alignment, stream);
        } catch (Error error) {
            assert_not_reached ();
        }
    }
}

GCuda.Device? first_device () {
    try {
        var devices = GCuda.get_devices ();
        if (devices.get_n_items () > 0)
            return (GCuda.Device) devices.get_item (0);
        Test.skip ("no CUDA device");
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
    return null;
}

void round_trip () {
    var device = first_device ();
    if (device == null)
        return;
    try {
        var stream = new GCuda.Stream.for_device (device);
        var resource = new GCuda.DeviceMemoryResource (device);
        var buffer = resource.allocate (5, stream);
        assert (buffer.size == 5 && !buffer.closed);
        buffer.upload (0, new Bytes ({ 1, 2, 3, 4, 5 }), stream);
        assert (buffer.download (1, 3, stream).compare (new Bytes ({ 2, 3, 4 })) == 0);
        buffer.close (stream);
        assert (buffer.closed);
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
}

void errors () {
    var device = first_device ();
    if (device == null)
        return;
    try {
        var stream = new GCuda.Stream.for_device (device);
        stream.close ();
        stream.synchronize ();
        assert_not_reached ();
    } catch (GCuda.Error.CLOSED error) {
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
}

void resource_of_a_program () {
    var device = first_device ();
    if (device == null)
        return;
    try {
        var stream = new GCuda.Stream.for_device (device);
        var counting = new Counting (new GCuda.DeviceMemoryResource (device));
        var buffer = counting.allocate (64, stream);
        assert (counting.live == 1);
        buffer.close (null);
        GCuda.reclaim (null);
        assert (counting.live == 0);
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
}

void virtual_memory () {
    var device = first_device ();
    if (device == null)
        return;
    try {
        var stream = new GCuda.Stream.for_device (device);
        var options = new GCuda.VirtualMemoryOptions ();
        options.set_max_size (1 << 30);
        var resource = new GCuda.VirtualMemoryResource (device, options);
        var buffer = resource.allocate (64, stream);
        var address = buffer.get_address ();
        resource.resize (buffer, 2 * resource.get_granularity (), GCuda.ResizeFlags.NONE, stream);
        assert (buffer.get_address () == address);
        assert (resource.get_capacity (buffer) == 2 * resource.get_granularity ());
        buffer.close (null);
        assert (GCuda.reclaim (null));
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
}

void graphs () {
    var device = first_device ();
    if (device == null)
        return;
    try {
        var stream = new GCuda.Stream.for_device (device);
        var buffer = new GCuda.DeviceMemoryResource (device).allocate (64, stream);
        stream.synchronize ();
        var builder = new GCuda.GraphBuilder (stream.get_context (), GCuda.CaptureMode.RELAXED);
        buffer.fill (5, 1, builder);
        var captured = builder.finish ().instantiate (GCuda.GraphFlags.NONE, null);
        assert (builder.closed);
        captured.launch (stream);
        assert (buffer.download (0, 1, stream).compare (new Bytes ({ 5 })) == 0);
        var definition = new GCuda.GraphDefinition (stream.get_context ());
        var first = definition.add_fill ({}, buffer, 0, 64, 6, 1);
        definition.add_fill ({ first }, buffer, 0, 64, 7, 1);
        definition.instantiate (GCuda.GraphFlags.NONE, null).launch (stream);
        assert (buffer.download (0, 1, stream).compare (new Bytes ({ 7 })) == 0);
        buffer.close (stream);
    } catch (Error error) {
        Test.message ("%s", error.message);
        Test.fail ();
    }
}

int main (string[] args) {
    Test.init (ref args);
    Test.add_func ("/vala/round-trip", round_trip);
    Test.add_func ("/vala/errors", errors);
    Test.add_func ("/vala/resource-of-a-program", resource_of_a_program);
    Test.add_func ("/vala/virtual-memory", virtual_memory);
    Test.add_func ("/vala/graphs", graphs);
    return Test.run ();
}
