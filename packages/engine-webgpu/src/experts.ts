import type { Tensor } from '@kv/core';
import type { ExpertActivation, Routing } from '@kv/checkpoints';
import type { Commands } from '@kv/gpu';
import { dispatch } from '@kv/gpu';
import { expertMatmul, expertMatvec } from './kernels/expert-products.wgsl.ts';
import { expertTiles, TILE_WORDS } from './kernels/expert-tiles.wgsl.ts';
import { MATMUL_TILE } from './kernels/matmul.wgsl.ts';
import { MATVEC_OUTPUTS } from './kernels/matvec.wgsl.ts';
import { route } from './kernels/route.wgsl.ts';
import { weighExperts } from './kernels/weigh-experts.wgsl.ts';
import { FEW_ROWS } from './linear.ts';
import { encodeGated } from './operations.ts';
import { columns, readRows, rowsOf, type DeviceRowView } from './rows.ts';
import type { DeviceMatrix } from './weights/device-matrix.ts';
import { octetsOf } from './weights/repack.ts';

/** The largest number of experts whose counts the memory of a workgroup holds on every adapter, 16 KiB. */
export const MOST_EXPERTS = 2048;

/** The routed experts of a layer on the device. */
export interface DeviceExperts {
  readonly experts: number;
  readonly routing: Routing;
  /** Added to scores for choosing only, `[experts]`. */
  readonly selectionBias: Tensor | undefined;
  /** Multiplies the shares of chosen experts, `[experts]`. */
  readonly weightScale: Tensor | undefined;
  /** Gate and up of one expert after the other, `[experts * 2 * width, D]`. */
  readonly gateUp: DeviceMatrix;
  readonly gateUpBias: Tensor | undefined;
  /** `[experts * D, width]` */
  readonly down: DeviceMatrix;
  readonly downBias: Tensor | undefined;
  readonly activation: ExpertActivation;
}

/** Rows and their experts: pair `r * active + i` is row r with the i-th of its experts, in the order of their numbers. */
interface Pairs {
  readonly experts: number;
  readonly active: number;
  readonly count: number;
  /** `[pairs]` */
  readonly chosen: Tensor;
  /** Present for many rows: pairs in the order of experts, and tiles of these. */
  readonly grouped: { readonly order: Tensor; readonly tiles: Tensor; readonly most: number } | undefined;
}

/**
 * Records what the experts that scores `[m, experts]` choose for m rows of x give, times their shares, `[m, D]`. Few rows
 * read the chosen experts' weights each for themselves; more are grouped by expert on the device.
 */
export function encodeExperts(
  commands: Commands,
  x: DeviceRowView,
  scores: DeviceRowView,
  m: number,
  layer: DeviceExperts,
): DeviceRowView {
  const { experts, routing, selectionBias, weightScale, gateUp, down } = layer,
    { active, scores: kind, normalised, scale } = routing,
    D = down.outputs / experts,
    count = m * active,
    chosen = commands.make([count], 'u32'),
    shares = commands.make([count]),
    out = commands.make([m, D]);
  dispatch(
    commands,
    route({
      ...{ experts, sigmoid: kind === 'sigmoid', normalised },
      ...{ biased: selectionBias !== undefined, scaled: weightScale !== undefined },
    }),
    { x: readRows(scores, m), bias: selectionBias, factors: weightScale, chosen, shares },
    { x_at: scores.at, x_stride: scores.stride, ranks: active, scale },
    m,
  );
  const pairs: Pairs = {
    ...{ experts, active, count, chosen },
    grouped: m <= FEW_ROWS ? undefined : group(commands, chosen, count, experts),
  };
  const both = products(commands, x, pairs, gateUp, layer.gateUpBias, true),
    half = both.width / 2,
    gated = encodeGated(commands, columns(both, 0, half), columns(both, half, half), count, layer.activation),
    each = products(commands, gated, pairs, down, layer.downBias, false);
  dispatch(commands, weighExperts, { x: readRows(each, count), shares, out }, { ranks: active, width: D }, m * D);
  const { order, tiles } = pairs.grouped ?? {};
  for (const spent of [chosen, shares, both.tensor, gated.tensor, each.tensor, order, tiles])
    if (spent) commands.free(spent);
  return rowsOf(out, D);
}

/** Records the order of pairs by expert, and their tiles: as many as there may be, since the host does not know. */
function group(commands: Commands, chosen: Tensor, pairs: number, experts: number): NonNullable<Pairs['grouped']> {
  const size = MATMUL_TILE,
    most = Math.floor((pairs + Math.min(pairs, experts) * (size - 1)) / size),
    order = commands.make([pairs], 'u32'),
    tiles = commands.make([most * TILE_WORDS], 'u32');
  dispatch(commands, expertTiles(experts), { chosen, order, tiles }, { pairs, size, most }, 1);
  return { order, tiles, most };
}

/**
 * Records the product of each pair with its expert's matrix, `[pairs, outputs]`, of row `pair / active` of x if rows are
 * shared, else of its own; one dispatch per part of the weight.
 */
function products(
  commands: Commands,
  x: DeviceRowView,
  { experts, active, count, chosen, grouped }: Pairs,
  { outputs: rows, inputs, parts, half }: DeviceMatrix,
  bias: Tensor | undefined,
  shared: boolean,
): DeviceRowView {
  const outputs = rows / experts,
    share = shared ? active : 1,
    whole = inputs % 8 === 0 && x.at % 4 === 0 && x.stride % 4 === 0,
    out = commands.make([count, outputs]);
  /** Bytes are those of as many experts as there may be. */
  const read = (all: Tensor): Tensor => ({
    ...all,
    shape: [Math.ceil((all.shape[0] * Math.min(count, experts)) / experts)],
  });
  for (const { form, from, rows: stored, weights, scales } of parts) {
    const buffers = {
        x: readRows(x, count / share),
        weights: read(weights),
        scales: scales && read(scales),
        bias: bias && read(bias),
        out: parts.length === 1 ? out : { ...out, shape: [Math.ceil((count * outputs * stored) / rows)] },
      },
      scalars = {
        ...{ outputs, inputs, octets: octetsOf(inputs), x_at: x.at, x_stride: x.stride },
        ...{ first: from, stored, share },
      };
    if (grouped)
      dispatch(
        commands,
        expertMatmul(form, whole, bias !== undefined, half),
        { ...buffers, order: grouped.order, tiles: grouped.tiles },
        scalars,
        grouped.most * Math.ceil(outputs / MATMUL_TILE),
      );
    else
      dispatch(
        commands,
        expertMatvec(form, whole, bias !== undefined),
        { ...buffers, chosen },
        scalars,
        count * Math.ceil(outputs / MATVEC_OUTPUTS),
      );
  }
  return rowsOf(out, outputs);
}
