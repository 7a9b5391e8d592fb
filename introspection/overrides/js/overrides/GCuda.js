// SPDX-License-Identifier: LGPL-2.1-or-later
// What JavaScript expects of GCuda's objects. The library is complete without this file.
// gjs calls _init () when the namespace is imported.

/* exported _init */

function _init() {
    const Buffer = this.Buffer.prototype;
    const {close, download} = Buffer;

    // close () or close (stream)
    Buffer.close = function (stream = null) {
        return close.call(this, stream);
    };

    // download (stream) or download (offset, size, stream): a Uint8Array
    Buffer.download = function (...args) {
        if (args.length === 1)
            args.unshift(0, this.get_size());
        return download.apply(this, args).toArray();
    };

    // read () or read (offset, size): a Uint8Array, which is a copy
    const HostMap = this.HostMap.prototype;
    const {read} = HostMap;
    HostMap.read = function (offset = 0, size = this.get_size() - offset) {
        return read.call(this, offset, size).toArray();
    };

    // for (const device of GCuda.get_devices ())
    const getDevices = this.get_devices;
    this.get_devices = function () {
        const devices = getDevices();
        devices[Symbol.iterator] = function* () {
            for (let i = 0; i < devices.get_n_items(); i++)
                yield devices.get_item(i);
        };
        return devices;
    };
}
