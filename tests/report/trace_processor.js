// Answers of Perfetto's own trace processor: node trace_processor.js FOLDER_OF_ENGINE TRACE SQL -> the one string that SQL gives.
"use strict";
const fs = require("fs"), path = require("path");
const [folder, trace, sql] = process.argv.slice(2);
Object.assign(globalThis, { self: globalThis, WorkerGlobalScope: function () {}, location: { href: "" }, importScripts() {} });
process.type = "renderer";
globalThis.XMLHttpRequest = class { open(_, name) { this.name = name; } send() { const data = fs.readFileSync(path.join(folder, path.basename(String(this.name)))); this.status = 200; this.response = data.buffer.slice(data.byteOffset, data.byteOffset + data.length); } };
globalThis.fetch = async (name) => new Response(fs.readFileSync(path.join(folder, path.basename(String(name)))), { headers: { "content-type": "application/wasm" } });
const varint = (value) => { const out = []; for (; value > 127; value = Math.floor(value / 128)) { out.push(value % 128 + 128); } out.push(value); return Buffer.from(out); };
const bytes = (field, data) => Buffer.concat([varint(field * 8 + 2), varint(data.length), data]);
const call = (number, ...parts) => new Uint8Array(bytes(1, Buffer.concat([varint(8), varint(number + 1), varint(16), varint(number), ...parts])));
function* fields(data) {
  for (let at = 0; at < data.length;) {
    const read = () => { let value = 0, scale = 1, byte; do { byte = data[at++]; value += (byte & 127) * scale; scale *= 128; } while (byte > 127); return value; };
    const tag = read(), kind = tag % 8;
    if (kind === 2) { const size = read(); yield [Math.floor(tag / 8), data.subarray(at, at += size)]; }
    else if (kind === 0) { yield [Math.floor(tag / 8), read()]; } else { at += kind === 1 ? 8 : 4; }
  }
}
const inside = (data, field) => [...fields(data)].filter(([number]) => number === field).map(([, value]) => value);
const log = console.log;
console.log = console.warn = console.error;
process.on("uncaughtException", (error) => { console.error(error); process.exit(1); });
eval(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
let waiting = Buffer.alloc(0);
const port = { postMessage(reply) {
  waiting = Buffer.concat([waiting, Buffer.from(reply)]);
  for (const message of inside(waiting, 1)) {
    for (const result of inside(message, 203)) {
      for (const error of inside(result, 2)) { console.error(String(error)); process.exit(1); }
      for (const batch of inside(result, 3)) { for (const text of inside(batch, 5)) { if (text.length) { log(String(text).replace(/\0$/, "")); process.exit(0); } } }
    }
  }
} };
globalThis.onmessage({ data: port });
setTimeout(() => {
  port.onmessage({ data: call(1, bytes(101, fs.readFileSync(trace))) });
  port.onmessage({ data: call(2) });
  port.onmessage({ data: call(3, bytes(103, bytes(1, Buffer.from(sql)))) });
}, 4000);
