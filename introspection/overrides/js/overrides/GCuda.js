// SPDX-License-Identifier: LGPL-2.1-or-later
// What JavaScript expects of GCuda's objects. The library is complete without this file.
// gjs calls _init () when the namespace is imported.

/* exported _init */

// What has memory, such as an array of floats, is its bytes, and not one number for each of its items.
function asBytes(data) {
    if (ArrayBuffer.isView(data) && !(data instanceof Uint8Array))
        return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer)
        return new Uint8Array(data);
    if (Array.isArray(data) && data.some(item => !Number.isInteger(item) || item < 0 || item > 255))
        throw new TypeError('the items of an array of bytes are from 0 to 255');
    return data;
}

function _init() {
    const Buffer = this.Buffer.prototype;
    const {close, download, upload_data} = Buffer;

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

    Buffer.upload_data = function (offset, data, stream) {
        return upload_data.call(this, offset, asBytes(data), stream);
    };

    // read () or read (offset, size): a Uint8Array, which is a copy
    const HostMap = this.HostMap.prototype;
    const {read, write} = HostMap;
    HostMap.read = function (offset = 0, size = this.get_size() - offset) {
        return read.call(this, offset, size).toArray();
    };

    HostMap.write = function (offset, data) {
        return write.call(this, offset, asBytes(data));
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
