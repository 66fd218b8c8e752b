// One recording through brr.v1.Stream/Run with stock @grpc/grpc-js, over TLS and with a token. Prints one JSON object.
//
//   BRR_ENDPOINT=host:port BRR_TLS_CA=ca.crt BRR_TOKEN_FILE=token BRR_PROTO=proto node stream.js SPEC.json
//
// SPEC: {model, channels, rate_hz, rows: file of float32 rows, samples: of each row, chunk, pause_ms: between chunks}. A connection that
// is lost is opened again with the session's token.
"use strict";
const crypto = require("crypto");
const fs = require("fs");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const spec = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const rows = fs.readFileSync(spec.rows);

function stub() {
  const definition = loader.loadSync("brr/v1/stream.proto", { includeDirs: [process.env.BRR_PROTO], keepCase: true, longs: Number, defaults: true, oneofs: true });
  const token = fs.readFileSync(process.env.BRR_TOKEN_FILE, "ascii").trim();
  const bearer = grpc.credentials.createFromMetadataGenerator((_, done) => {
    const metadata = new grpc.Metadata();
    metadata.add("authorization", `Bearer ${token}`);
    done(null, metadata);
  });
  const secure = grpc.credentials.createSsl(fs.readFileSync(process.env.BRR_TLS_CA));
  return new (grpc.loadPackageDefinition(definition).brr.v1.Stream)(process.env.BRR_ENDPOINT, grpc.credentials.combineChannelCredentials(secure, bearer),
    { "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 500 });
}

// Samples [first, first + n) of every channel, channel after channel.
function chunk(first, n) {
  const parts = spec.channels.map((_, c) => rows.subarray((c * spec.samples + first) * 4, (c * spec.samples + first + n) * 4));
  return { chunk: { first_sample: first, samples: n, data: Buffer.concat(parts) } };
}

function send(call, first) {
  if (call.lost) return;
  if (first >= spec.samples) {
    call.end();
    return;
  }
  const n = Math.min(spec.chunk, spec.samples - first);
  const next = () => setTimeout(() => send(call, first + n), spec.pause_ms);
  if (call.write(chunk(first, n))) next();
  else call.once("drain", next);
}

const state = { token: "", next: 0, resumed: 0, lost: 0, acks: 0, probabilities: crypto.createHash("sha256"), samples: 0, events: [], summary: null };

// grpc-js on Node.js 18 names a connection that ends under a write INTERNAL.
const isCut = (error) => error.code === grpc.status.UNAVAILABLE || (error.code === grpc.status.INTERNAL && error.details.startsWith("Write error"));

// One connection; ends with "done" or "lost".
function run(client) {
  return new Promise((done, fail) => {
    const call = client.Run();
    call.on("data", (m) => {
      if (m.opened) {
        state.resumed += m.opened.resumed;
        state.token = m.opened.resume_token;
        send(call, m.opened.next_sample);
      } else if (m.ack) {
        state.acks += 1;
      } else if (m.result && m.result.result_seq === state.next) {
        state.next += 1;
        state.samples += m.result.samples;
        state.probabilities.update(m.result.probabilities);
        state.events.push(...m.result.events);
      } else if (m.result && m.result.result_seq > state.next) {
        fail(new Error(`result ${m.result.result_seq} came where ${state.next} was due`));
      } else if (m.summary) {
        state.summary = m.summary;
      }
    });
    call.on("error", (error) => {
      call.lost = true;
      if (isCut(error) && state.lost++ < 200) done("lost");
      else fail(error);
    });
    call.on("end", () => state.summary && done("done"));
    call.write({ open: { model: spec.model, channels: spec.channels, rate_hz: spec.rate_hz, format: "SAMPLE_FORMAT_F32_UV", client_name: "grpc-js", alarm_hop_s: -1,
      want_probabilities: true, resumable: true, resume_token: state.token, next_result_seq: state.next } });
  });
}

async function main() {
  const client = stub();
  try {
    while ((await run(client)) === "lost") await new Promise((go) => setTimeout(go, 100));
    console.log(JSON.stringify({ ...state, token: undefined, probabilities: state.probabilities.digest("hex") }));
  } catch (error) {
    console.log(JSON.stringify({ code: error.code, details: error.details || String(error) }));
    process.exitCode = 1;
  }
  client.close();
}

main();
