// node run.js MODEL.onnx ROWS.f32 STEPS OUT.f32: the logits, or what MODEL.onnx.json calls the output, of an exported graph in onnxruntime, and the
// median milliseconds of a step, window or batch; with "processor" those of the process, on a machine with other work.
const fs = require("fs");
const ort = require("onnxruntime-node");

async function main([model, rows, steps, out]) {
    const session = await ort.InferenceSession.create(model, {intraOpNumThreads: 1});
    const bytes = fs.readFileSync(rows), data = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    const meta = JSON.parse(fs.readFileSync(model + ".json")), batch = meta.batch || 1, each = batch * meta.samples * meta.columns;
    let state = meta.state ? {state: new ort.Tensor("float32", new Float32Array(meta.state), [1, meta.state])} : {};
    const logits = [], times = [];
    for (let i = 0; i < steps; i++) {
        const x = new ort.Tensor("float32", data.slice(i * each, (i + 1) * each), [batch, meta.samples, meta.columns]);
        const begun = process.hrtime.bigint(), before = process.cpuUsage();
        const result = await session.run({[meta.input || "rows"]: x, ...state});
        const used = process.cpuUsage(before);
        times.push(meta.processor ? (used.user + used.system) / 1e3 : Number(process.hrtime.bigint() - begun) / 1e6);
        if (meta.state)
            state = {state: result.state_after};
        logits.push(result[meta.output || "logits"].data);
    }
    fs.writeFileSync(out, Buffer.concat(logits.map(l => Buffer.from(l.buffer, l.byteOffset, l.byteLength))));
    times.sort((a, b) => a - b);
    console.log(times[Math.floor(times.length / 2)].toFixed(3));
}

main(process.argv.slice(2));
