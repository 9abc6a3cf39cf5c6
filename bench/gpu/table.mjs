const line = (cells) => `| ${cells.join(' | ')} |`;
const table = (head, rows) =>
  rows.length === 0 ? '' : `${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}\n\n`;
const round = (x, digits = 3) =>
  x === undefined || !Number.isFinite(x) ? '' : Number(x.toPrecision(digits)).toLocaleString('en');
const percent = (x) => (Number.isFinite(x) ? `${round(100 * x, 2)} %` : '');

/**
 * Writes all results as Markdown. Shares are of --peak-…, or else of what the adapter's own copy, reading or
 * multiply-adds reached in the same run.
 */
export function tableOf(results) {
  const runs = results.filter(({ kind }) => kind === 'run'),
    run = runs.at(-1),
    adapter = results.find(({ kind }) => kind === 'adapter');
  const bandwidth = run['peak-bandwidth'] ?? Math.max(adapter?.copyGBs ?? NaN, adapter?.readGBs ?? NaN),
    flops = (half) => (half ? (run['peak-f16'] ?? adapter?.f16TFLOPs) : (run['peak-f32'] ?? adapter?.f32TFLOPs));
  const torch = results
      .filter(({ kind }) => kind === 'torch')
      .flatMap(({ lines, ...one }) => lines.map((each) => ({ ...one, ...each }))),
    cases = results.filter(({ kind }) => kind === 'case');
  const rate = (tokens, ms) => round((1000 * tokens) / ms),
    full = (one, length) =>
      cases
        .find(
          (other) =>
            other.policy === 'full' && other.shape === one.shape && other.type === one.type && other.half === one.half,
        )
        ?.points.find((point) => point.length === length);
  return `# Speed on ${run.adapter}

${run.software ? '**A software adapter: this shows that the program runs, no time here means anything.**\n\n' : ''}${runs.map(({ name, cpu, node, arguments: given }) => `${name}: ${cpu}, Node ${node}, \`bench/gpu.mjs ${given.join(' ')}\``).join('\n')}

${
  adapter
    ? table(
        ['adapter', 'measured', 'given'],
        [
          [
            'copy, read + written',
            `${round(adapter.copyGBs)} GB/s`,
            run['peak-bandwidth'] === undefined ? '' : `${run['peak-bandwidth']} GB/s`,
          ],
          ['reading', `${round(adapter.readGBs)} GB/s`, ''],
          ['f32 multiply-adds', `${round(adapter.f32TFLOPs)} TFLOP/s`, run['peak-f32'] ?? ''],
          ...(adapter.f16TFLOPs === undefined
            ? []
            : [['f16 multiply-adds', `${round(adapter.f16TFLOPs)} TFLOP/s`, run['peak-f16'] ?? '']]),
          ['a dispatch that waits for the one before', `${round(adapter.dispatchUs)} µs`, ''],
          ['submit, read-back', `${round(adapter.roundTripUs)} µs`, ''],
        ],
      )
    : ''
}${table(
  ['product', 'rows', 'outputs x inputs', 'ours', 'of the peak', 'torch'],
  results
    .filter(({ kind }) => kind === 'products')
    .flatMap(({ products }) => products)
    .map((p) => [
      `${p.type}${p.half ? ', f16' : ', f32'}`,
      p.m,
      `${p.outputs} x ${p.inputs}`,
      p.GBs ? `${round(p.GBs)} GB/s` : `${round(p.TFLOPs)} TFLOP/s`,
      percent(p.GBs ? p.GBs / bandwidth : p.TFLOPs / flops(p.half)),
      torch
        .filter((t) => t.peer === 'product' && t.m === p.m && t.outputs === p.outputs && t.inputs === p.inputs)
        .map((t) => `${t.kind} ${round(t.GBs ?? t.TFLOPs)}`)
        .join(', '),
    ]),
)}${table(
  [
    'shape',
    'weights',
    'products in',
    'policy',
    'tokens',
    'prefill, tokens/s',
    'decoding, tokens/s',
    'of full',
    'traffic a token',
    'of the bandwidth',
    "the host's CPU, ms a token",
    'dispatches',
    'submits',
    'slots',
  ],
  cases.flatMap((one) =>
    one.points.map((p) => [
      one.shape,
      one.type,
      one.half ? 'f16' : 'f32',
      `${one.policy}${one.budget === undefined ? '' : ` ${one.budget}`}`,
      p.length.toLocaleString('en'),
      rate(p.prefillTokens, p.prefillMs),
      rate(1, p.decodeMs),
      one.policy === 'full' ? '' : round(full(one, p.length)?.decodeMs / p.decodeMs),
      `${round(p.trafficBytes / 1e9)} GB`,
      percent(p.trafficBytes / 1e6 / p.decodeMs / bandwidth),
      round(p.cpuMs),
      round(p.dispatches, 4),
      round(p.submits),
      Math.round(p.slots),
    ]),
  ),
)}${table(
  ['torch, f16, full cache', 'tokens', 'prefill, tokens/s', 'decoding, tokens/s', 'as a graph'],
  torch
    .filter((t) => t.peer === 'model' && t.prefillTokensPerSecond !== undefined)
    .map((t) => [
      t.shape,
      t.length.toLocaleString('en'),
      round(t.prefillTokensPerSecond),
      rate(1, t.decodeMs),
      t.decodeGraphMs === undefined ? '' : rate(1, t.decodeGraphMs),
    ]),
)}${table(
  ['profile', 'policy', 'phase', 'ms a token', 'score + select + compact', 'kernels, ms a token'],
  results
    .filter(({ kind }) => kind === 'profile')
    .flatMap(({ shape, length, phases }) =>
      phases.map((p) => [
        `${shape}, ${length}`,
        p.policy,
        p.of,
        round(p.ms / p.tokens),
        percent(p.eventMs / (p.ms - p.eventMs)),
        p.kernels
          .slice(0, 6)
          .map(({ kernel, ms }) => `${kernel} ${round(ms / p.tokens, 2)}`)
          .join(', '),
      ]),
    ),
)}${[
  ...cases
    .filter(({ stopped }) => stopped)
    .map(
      ({ name, stopped: { seconds, tokens, prefillMs } }) =>
        `- ${name}: stopped after ${round(seconds)} s at ${tokens.toLocaleString('en')} tokens${prefillMs === undefined ? '' : ` (${round(prefillMs / 1000)} s of prefill)`}`,
    ),
  ...results.filter(({ skipped }) => skipped).map(({ name, skipped }) => `- ${name}: ${skipped}`),
  ...torch.filter(({ skipped }) => skipped).map(({ shape = 'products', skipped }) => `- torch, ${shape}: ${skipped}`),
].join('\n')}
`;
}
