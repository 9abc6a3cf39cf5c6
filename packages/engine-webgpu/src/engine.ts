import { count, flag, KvError, maybe } from '@kv/core';
import { settleOwn } from '@kv/core/engine';
import type { OptionValues, Tensor } from '@kv/core';
import type { Commands, Gpu, OpenScope, Recordable } from '@kv/gpu';
import type { Engine, Instruction, PreparedProgram, Program } from '@kv/engine';
import type { Matrix } from '@kv/checkpoints';
import { encodeExperts, MOST_EXPERTS, type DeviceExperts } from './experts.ts';
import { encodeLinear } from './linear.ts';
import {
  encodeAdd,
  encodeGated,
  encodeGatedRows,
  encodeHeads,
  encodeNorm,
  encodeScale,
  encodeSoftcap,
  type DeviceAngles,
} from './operations.ts';
import { plan, type PlannedStep } from './plan.ts';
import { columns, isWhole, rowsOf, type DeviceRowView } from './rows.ts';
import { uploadMatrix, type DeviceMatrix } from './weights/device-matrix.ts';

export const GPU_RUNTIME = {
  bindingBytes: maybe(count(1, 'bytes', 'Most bytes of one binding of weights.'), "the device's limit"),
  half: flag(
    false,
    'Multiply products of more than 8 rows in f16 and accumulate in f32: less exact, for adapters with `shader-f16`.',
  ),
};
/** Options of `gpuRuntime`. */
export interface GpuRuntimeOptions extends OptionValues<typeof GPU_RUNTIME> {}

/** A program on the device. */
export interface DeviceRunnable extends PreparedProgram {
  /**
   * Records the program: inputs `[m, width]` on the device to outputs, which the scope of `commands` owns. Nothing is
   * submitted, read or waited for, so that later work of a sequence follows it.
   * @throws KvError for a program that was destroyed, or that rotates heads and gets no angles that fit
   */
  encode(commands: Commands, inputs: readonly Tensor[], m: number, angles?: DeviceAngles): readonly Tensor[];
  /**
   * Returns a matrix on the device: the program's own if it multiplies by it, else uploaded once and freed with the
   * program.
   */
  matrix(matrix: Matrix): DeviceMatrix;
  /** Returns an array on the device, uploaded once and freed with the program. */
  array(numbers: Float32Array, shape: readonly number[]): Tensor;
  /** Returns the weight of the product of this name. @throws KvError where the program has none */
  weight(name: string): DeviceMatrix;
}

/** State shared by the steps of one run. */
interface ProgramRun {
  readonly commands: Commands;
  readonly m: number;
  readonly angles: DeviceAngles | undefined;
  readonly values: Map<number, DeviceRowView>;
}

/** Computes the value of one step. */
type Compute = (run: ProgramRun) => DeviceRowView;

/**
 * Returns an engine that runs programs on a WebGPU device: each is a list of dispatches over weights that were uploaded
 * once, 8- and 4-bit blocks as stored.
 */
export function gpuEngine(gpu: Gpu, options: GpuRuntimeOptions = {}): Engine<DeviceRunnable> {
  const { bindingBytes, half } = settleOwn('gpuRuntime', GPU_RUNTIME, options);
  const { maxStorageBufferBindingSize, maxBufferSize } = gpu.device.limits;
  const most =
    2 ** Math.floor(Math.log2(Math.min(bindingBytes ?? Infinity, maxStorageBufferBindingSize, maxBufferSize)));
  if (half && !gpu.device.features.has('shader-f16'))
    throw new KvError('gpuRuntime', `expected an adapter with shader-f16 for half, got ${gpu.name}`);
  return {
    name: `webgpu, ${gpu.name}${half ? ', f16' : ''}`,
    expect({ experts }) {
      if (experts && experts.count > MOST_EXPERTS)
        throw new KvError(
          'gpuRuntime',
          `expected at most ${MOST_EXPERTS} experts in a layer, which a workgroup can count, got ${experts.count}: run the model on the CPU`,
        );
    },
    prepare: async (program) => prepareProgram(gpu, program, (commands, of) => uploadMatrix(commands, of, most, half)),
  };
}

/** Prepares a program; `upload` puts its matrices on the device. */
export function prepareProgram(
  gpu: Recordable,
  program: Program,
  upload: (commands: Commands, of: Matrix) => DeviceMatrix,
): DeviceRunnable {
  const weights = gpu.open();
  try {
    return runnable(program, weights, (of) => upload(weights.commands, of));
  } catch (error) {
    weights.end();
    throw error;
  }
}

function runnable(program: Program, weights: OpenScope, upload: (of: Matrix) => DeviceMatrix): DeviceRunnable {
  const uploaded = new WeakMap<Matrix, DeviceMatrix>(),
    arrays = new WeakMap<Float32Array, Tensor>();
  const matrix: DeviceRunnable['matrix'] = (of) => {
    const found = uploaded.get(of) ?? upload(of);
    uploaded.set(of, found);
    return found;
  };
  const { name, inputs, outputs } = program,
    steps = plan(program).map((step) => ({
      out: step.instruction.out.id,
      spent: step.spent,
      compute: computeOf(step, program.name, weights.commands, matrix),
    }));
  const products = new Map(
    program.instructions.flatMap((each) => (each.op === 'linear' ? [[each.name, matrix(each.weight)]] : [])),
  );
  const widths = inputs.map(({ width }) => width),
    ids = inputs.map(({ id }) => id),
    wanted = outputs.map(({ id }) => id);
  let alive = true;
  const encode: DeviceRunnable['encode'] = (commands, given, m, angles) => {
    if (!alive) throw new KvError(name, 'the program was destroyed');
    const run: ProgramRun = {
      commands,
      m,
      angles,
      values: new Map(given.map((tensor, i) => [ids[i], rowsOf(tensor, widths[i])])),
    };
    for (const { compute, out, spent } of steps) {
      run.values.set(out, compute(run));
      for (const id of spent) commands.free(valueIn(run, { id }).tensor);
    }
    const done = new Set(given);
    return wanted.map((id) => {
      const value = valueIn(run, { id }),
        own =
          isWhole(value, m) && !done.has(value.tensor) ? value : encodeHeads(commands, value, m, value.width, 'rows');
      done.add(own.tensor);
      return own.tensor;
    });
  };
  return {
    encode,
    matrix,
    array(numbers, shape) {
      const found = arrays.get(numbers) ?? weights.commands.upload(numbers, shape);
      arrays.set(numbers, found);
      return found;
    },
    weight(of) {
      const found = products.get(of);
      if (found === undefined)
        throw new KvError(
          name,
          `expected a product of the name '${of}', got ${[...products.keys()].join(', ') || 'none'}`,
        );
      return found;
    },
    destroy() {
      alive = false;
      weights.end();
    },
  };
}

// A step reads what an earlier one wrote.
const valueIn = ({ values }: ProgramRun, { id }: { readonly id: number }): DeviceRowView => values.get(id)!;

/** Returns the computation of a step, with its weights on the device. */
function computeOf(
  { instruction, absorbed }: PlannedStep,
  program: string,
  weights: Commands,
  matrix: DeviceRunnable['matrix'],
): Compute {
  const { x, out } = instruction;
  switch (instruction.op) {
    case 'rmsNorm': {
      const gain = weights.upload(instruction.gain, [instruction.gain.length]);
      return (run) => encodeNorm(run.commands, valueIn(run, x), run.m, gain, instruction.eps, instruction.run);
    }
    case 'linear':
      return linearOf(instruction, weights, matrix);
    case 'columns':
      return (run) => columns(valueIn(run, x), instruction.from, out.width);
    case 'rope':
      return (run) =>
        encodeHeads(
          run.commands,
          valueIn(run, x),
          run.m,
          instruction.headDim,
          'rows',
          fitting(run, instruction, program),
        );
    case 'heads':
      if (absorbed?.op !== 'rope')
        return (run) => encodeHeads(run.commands, valueIn(run, x), run.m, instruction.headDim, 'heads');
      return (run) =>
        encodeHeads(
          run.commands,
          valueIn(run, absorbed.x),
          run.m,
          instruction.headDim,
          'heads',
          fitting(run, absorbed, program),
        );
    case 'gated': {
      const { width } = out;
      return (run) => {
        const rows = valueIn(run, x);
        return encodeGated(
          run.commands,
          columns(rows, 0, width),
          columns(rows, width, width),
          run.m,
          instruction.activation,
        );
      };
    }
    case 'gatedBy': {
      const { y, activation } = instruction;
      return (run) => encodeGated(run.commands, valueIn(run, x), valueIn(run, y), run.m, activation);
    }
    case 'add': {
      const { y } = instruction;
      if (absorbed?.op === 'linear') return linearOf(absorbed, weights, matrix, absorbed.out.id === y.id ? x.id : y.id);
      return (run) => encodeAdd(run.commands, valueIn(run, x), valueIn(run, y), run.m);
    }
    case 'experts':
      return expertsOf(instruction, weights, matrix);
    case 'gateRows':
      return (run) => encodeGatedRows(run.commands, valueIn(run, x), valueIn(run, instruction.gate), run.m);
    case 'scale':
      return (run) => encodeScale(run.commands, valueIn(run, x), run.m, instruction.by);
    case 'softcap':
      return (run) => encodeSoftcap(run.commands, valueIn(run, x), run.m, instruction.cap);
  }
}

function linearOf(
  { x, weight, bias }: Extract<Instruction, { op: 'linear' }>,
  weights: Commands,
  upload: DeviceRunnable['matrix'],
  residual?: number,
): Compute {
  const matrix = upload(weight),
    { outputs } = matrix,
    shift = bias && weights.upload(bias, [bias.length]); // nothing below keeps the weight's bytes
  return (run) => {
    const { commands, m } = run,
      out = commands.make([m, outputs]);
    encodeLinear(
      commands,
      valueIn(run, x),
      m,
      matrix,
      out,
      shift,
      residual === undefined ? undefined : valueIn(run, { id: residual }),
    );
    return rowsOf(out, outputs);
  };
}

function expertsOf(
  {
    x,
    scores,
    routing,
    activation,
    selectionBias,
    weightScale,
    gateUp,
    gateUpBias,
    down,
    downBias,
  }: Extract<Instruction, { op: 'experts' }>,
  weights: Commands,
  upload: DeviceRunnable['matrix'],
): Compute {
  const array = (numbers: Float32Array | undefined): Tensor | undefined =>
    numbers && weights.upload(numbers, [numbers.length]);
  const experts: DeviceExperts = {
    ...{ experts: scores.width, routing, activation },
    ...{ gateUp: upload(gateUp), down: upload(down) },
    ...{ selectionBias: array(selectionBias), weightScale: array(weightScale) },
    ...{ gateUpBias: array(gateUpBias), downBias: array(downBias) },
  };
  return (run) => encodeExperts(run.commands, valueIn(run, x), valueIn(run, scores), run.m, experts);
}

/** Returns the run's angles, if they fit a rotation of this many numbers of a head. */
function fitting(
  { angles, m }: ProgramRun,
  { headDim, rotary, scaled = false }: Extract<Instruction, { op: 'rope' }>,
  name: string,
): DeviceAngles {
  if (angles === undefined) throw new KvError(name, 'expected the angles of its rows, got none');
  if (rotary !== undefined && angles.rotary !== rotary)
    throw new KvError(name, `expected angles for ${rotary} numbers of a head, got ${angles.rotary}`);
  if (angles.rotary > headDim || angles.cos.shape[0] !== m)
    throw new KvError(
      name,
      `expected angles of ${m} rows for at most ${headDim} numbers of a head, got ${angles.cos.shape[0]} rows for ${angles.rotary}`,
    );
  const { scales, ...plain } = angles;
  return scaled && scales ? angles : plain;
}
