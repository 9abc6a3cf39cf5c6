import { encodeLinear, rowsOf, uploadMatrix } from '@kv/engine-webgpu';
import { secondsOf } from './clock.mjs';
import { randomMatrix } from './shapes.mjs';

const BINDINGS = (types) =>
  types
    .map(([name, type, access], i) => `@group(0) @binding(${i}) var<storage, ${access}> ${name}: array<${type}>;`)
    .join('\n');
const START = `struct Params { count: u32, times: u32 }
@group(1) @binding(0) var<uniform> params: Params;`;
const AT = 'let at = (here.y * groups.x + here.x) * 256u + lane;';
const MAIN =
  '@compute @workgroup_size(256) fn main(@builtin(workgroup_id) here: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32)';

/** Workgroups of a shader by itself. */
const record = (commands, shader, bound, scalars, groups) =>
  commands.record({ key: shader.id, shader: () => shader, bound, scalars, groups });

const copy = {
  id: 'bench:copy',
  writes: [false, true],
  code: `${START}
${BINDINGS([
  ['a', 'vec4<f32>', 'read'],
  ['b', 'vec4<f32>', 'read_write'],
])}
${MAIN} { ${AT} if (at < params.count) { b[at] = a[at]; } }`,
};
/** Reads 16 vectors per thread, adjacent within a workgroup, and writes one number for all of them. */
const reading = {
  id: 'bench:read',
  writes: [false, true],
  code: `${START}
${BINDINGS([
  ['a', 'vec4<f32>', 'read'],
  ['b', 'f32', 'read_write'],
])}
${MAIN} {
  let first = (here.y * groups.x + here.x) * 4096u + lane;
  var sum = vec4<f32>();
  for (var i = 0u; i < 16u; i++) { let at = first + i * 256u; if (at < params.count) { sum += a[at]; } }
  if (dot(sum, vec4<f32>(1.0)) == 0.12345) { b[0] = 1.0; }
}`,
};
const fused = (type) => ({
  id: `bench:fma:${type}`,
  writes: [true],
  code: `${type === 'f16' ? 'enable f16;' : ''}
${START}
${BINDINGS([['b', 'f32', 'read_write']])}
${MAIN} {
  let x = vec4<${type}>(${type}(f32(lane) * 0.001), ${type}(0.5), ${type}(0.25), ${type}(0.125));
  ${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => `var s${i} = x + ${type}(${i});`).join(' ')}
  for (var i = 0u; i < params.times; i++) { ${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => `s${i} = fma(s${i}, x, x);`).join(' ')} }
  let all = ${[0, 1, 2, 3, 4, 5, 6, 7].map((i) => `s${i}`).join(' + ')};
  if (f32(all.x + all.y + all.z + all.w) == 0.12345) { b[here.x] = 1.0; }
}`,
});
const nothing = {
  id: 'bench:nothing',
  writes: [true],
  code: `${START}
${BINDINGS([['b', 'f32', 'read_write']])}
${MAIN} { if (lane == 0u && params.times == 1u) { b[0] = b[0] + 1.0; } }`,
};

/**
 * Measures the adapter: GB/s of a copy and of reading alone, TFLOP/s of fused multiply-adds in f32 and, if supported,
 * f16, microseconds of a dispatch.
 */
export async function limitsOf(gpu, tiny) {
  const { maxStorageBufferBindingSize, maxBufferSize } = gpu.device.limits,
    bytes = Math.min(
      tiny ? 2 ** 20 : 2 ** 30,
      2 ** Math.floor(Math.log2(Math.min(maxStorageBufferBindingSize, maxBufferSize))),
    );
  const options = tiny ? { least: 0.02, turns: 3 } : {};
  return gpu.scope(async ({ commands }) => {
    const a = commands.make([bytes / 4]),
      b = commands.make([bytes / 4]),
      small = commands.make([4]),
      vectors = bytes / 16,
      out = {};
    const some = noise(Math.min(2 ** 22, bytes / 4)); // zeros may be faster
    for (let at = 0; at < bytes / 4; at += some.length) commands.write(a, some, at);
    const copied = await secondsOf(
      gpu,
      () => record(commands, copy, [a, b], Uint32Array.of(vectors, 0), vectors / 256),
      options,
    );
    out.copyGBs = (2 * bytes) / copied.seconds / 1e9;
    out.readGBs =
      bytes /
      (
        await secondsOf(
          gpu,
          () => record(commands, reading, [a, small], Uint32Array.of(vectors, 0), Math.ceil(vectors / 4096)),
          options,
        )
      ).seconds /
      1e9;
    const groups = tiny ? 4 : 8192,
      times = tiny ? 64 : 1024;
    for (const type of gpu.device.features.has('shader-f16') ? ['f32', 'f16'] : ['f32']) {
      const { seconds } = await secondsOf(
        gpu,
        () => record(commands, fused(type), [small], Uint32Array.of(0, times), groups),
        options,
      );
      out[`${type}TFLOPs`] = (2 * 4 * 8 * times * 256 * groups) / seconds / 1e12;
    }
    const empty = { ...options, turns: 9 },
      one = Uint32Array.of(0, 1);
    out.dispatchUs = 1e6 * (await secondsOf(gpu, () => record(commands, nothing, [small], one, 1), empty)).seconds;
    const round = await secondsOf(gpu, () => {}, { least: 0, turns: tiny ? 9 : 101 });
    out.roundTripUs = 1e6 * round.seconds;
    return { bytes, ...out };
  });
}

function noise(count) {
  const out = new Float32Array(count);
  let state = 1;
  for (let i = 0; i < count; i++)
    out[i] = ((state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) >>> 8) / 2 ** 24 - 0.5;
  return out;
}

/** Measures the engine's products. One row: GB/s of weights that exceed the device's cache; many rows: TFLOP/s. */
export async function productsOf(gpu, tiny, types) {
  const options = tiny ? { least: 0.02, turns: 3 } : {},
    shapes = tiny
      ? [
          [1, 256, 256],
          [64, 256, 256],
        ]
      : [
          [1, 4096, 4096],
          [1, 28_672, 4096],
          [1, 4096, 14_336],
          [512, 4096, 4096],
          [512, 28_672, 4096],
          [2048, 4096, 14_336],
        ];
  const f16 = gpu.device.features.has('shader-f16'),
    most =
      2 **
      Math.floor(Math.log2(Math.min(gpu.device.limits.maxStorageBufferBindingSize, gpu.device.limits.maxBufferSize))),
    found = [];
  for (const type of types)
    for (const [m, outputs, inputs] of shapes)
      for (const half of m > 8 && f16 ? [false, true] : [false])
        await gpu.scope(async ({ commands }) => {
          const before = gpu.ledger.live,
            matrix = randomMatrix(type, outputs, inputs),
            first = uploadMatrix(commands, matrix, most, half),
            bytes = gpu.ledger.live - before;
          const copies = m > 1 || tiny ? 1 : Math.min(32, Math.ceil(2 ** 29 / bytes)),
            all = [first, ...Array.from({ length: copies - 1 }, () => uploadMatrix(commands, matrix, most, half))];
          const x = commands.upload(noise(m * inputs), [m, inputs]),
            out = commands.make([m, outputs]);
          const { seconds, lowest, highest } = await secondsOf(
            gpu,
            (i) => encodeLinear(commands, rowsOf(x, inputs), m, all[i % all.length], out),
            options,
          );
          found.push({
            type,
            half,
            m,
            outputs,
            inputs,
            seconds,
            lowest,
            highest,
            ...(m === 1 ? { GBs: bytes / seconds / 1e9 } : { TFLOPs: (2 * m * outputs * inputs) / seconds / 1e12 }),
          });
        });
  return found;
}
