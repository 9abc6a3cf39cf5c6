import { KvError } from '@kv/core';
import { filesOf, isInputSignal, isInputState, runProvider, signalKey, slotState, union } from '@kv/core/engine';
import type { AnySignal, InputSignal, ProviderEngine, State } from '@kv/core';
import type { CompiledPolicy } from '@kv/core/engine';
import type { SequenceContext } from './context.ts';

/** What a layer keeps of input signals, by the id of their state. */
interface RecordedSlots {
  has(id: string): boolean;
  start(signal: State): void;
  dropInputs(except?: (id: string) => boolean): void;
}
/** A layer that keeps input signals. */
interface RecordedLayer {
  readonly states: RecordedSlots;
}

/** Frees the numbers of input signals among states, by id, except of some. */
export function dropInputEntries(
  entries: Map<string, { readonly rows: { destroy(): void } }>,
  except: (id: string) => boolean = () => false,
): void {
  for (const [id, { rows }] of entries)
    if (isInputState(id) && !except(id)) {
      rows.destroy();
      entries.delete(id);
    }
}

/**
 * The input signals that a sequence records while tokens pass, and the files that they read. A signal is recorded from the
 * first token on, or never: a slot without its number would look like one that is worth nothing.
 */
export class InputRecording {
  #signals: readonly InputSignal[] = [];
  /** The policy that was settled last. */
  #settled: CompiledPolicy | undefined;
  /** Values of files, by signal, for each layer. */
  readonly #files: Map<string, readonly unknown[]>;

  constructor(files: Map<string, readonly unknown[]> = new Map()) {
    this.#files = files;
  }

  /** Signals that are recorded, of all layers that still keep their numbers. */
  get signals(): readonly InputSignal[] {
    return this.#signals;
  }

  /** Records what is read of these signals too: all where nothing was read yet, else what layers keep already. */
  begin(signals: readonly AnySignal[], layers: readonly RecordedLayer[], unread: boolean): void {
    const some = signals
      .filter(isInputSignal)
      .filter((signal) => unread || layers.every(({ states }) => states.has(slotState(signal).id)));
    for (const { states } of layers) for (const signal of some) states.start(slotState(signal));
    this.#settled = undefined;
    this.#add(some);
  }

  #add(signals: readonly InputSignal[]): void {
    this.#signals = union(this.#signals, signals) as readonly InputSignal[];
  }

  /**
   * Settles what the next tokens record, before any of them passes: what is recorded already, of a loaded sequence what its
   * policy reads, and nothing that no layer keeps. Reads the files.
   *
   * @throws KvError for a file that is missing or of another model
   */
  async prepare(
    policy: CompiledPolicy,
    layers: readonly RecordedLayer[],
    { model: { sidecar }, signal: abort }: SequenceContext,
  ): Promise<void> {
    if (this.#settled === policy && this.#signals.length === 0) return; // as in most steps
    const kept = (signal: InputSignal): boolean => layers.some(({ states }) => states.has(signalKey(signal)));
    this.#add(inputSignalsOf(policy).filter(kept));
    this.#signals = this.#signals.filter(kept);
    const ids = new Set(this.#signals.map(signalKey));
    for (const { states } of layers) states.dropInputs((id) => ids.has(id));
    try {
      await this.#readFiles(layers.length, sidecar, abort);
    } catch (cause) {
      // what is not recorded from the first token on never is
      this.clear();
      for (const { states } of layers) states.dropInputs();
      throw cause;
    }
    this.#settled = policy;
  }

  async #readFiles(layers: number, sidecar: ProviderEngine['artifact'], abort: AbortSignal | undefined): Promise<void> {
    for (const file of filesOf(this.#signals)) {
      const key = signalKey(file);
      if (this.#files.has(key)) continue;
      const engine = filesOnly(key, sidecar),
        values: unknown[] = [];
      for (let layer = 0; layer < layers; layer++) values.push(await runProvider(file, engine, layer, abort));
      this.#files.set(key, values);
    }
  }

  /** Returns a reader of the files that were read, for a layer. */
  reader(layer: number): (signal: AnySignal) => unknown {
    return (signal) => this.#files.get(signalKey(signal))?.[layer];
  }

  clear(): void {
    this.#settled = undefined;
    this.#signals = [];
  }

  fork(): InputRecording {
    const copy = new InputRecording(this.#files);
    copy.#signals = this.#signals;
    return copy;
  }
}

/** Returns the input signals that a policy reads, each once. */
export const inputSignalsOf = ({ needs, hooks }: CompiledPolicy): readonly InputSignal[] =>
  union(needs, ...[...hooks('view'), ...hooks('step')].map((hook) => hook.needs)).filter(isInputSignal);

/** What a provider of a file may read: the file. */
function filesOnly(key: string, artifact: ProviderEngine['artifact']): ProviderEngine {
  const refuse = async (): Promise<never> => {
    throw new KvError(key, 'reads more than a file next to the model, which nothing gives when a token is read');
  };
  return {
    ids: [],
    promptLength: 0,
    encode: () => [],
    decode: () => '',
    observeMax: refuse,
    queriesOf: refuse,
    attentionRows: refuse,
    hiddenNumbers: refuse,
    artifact,
  };
}
