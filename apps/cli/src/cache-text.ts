import { slotLayers } from '@kv/checkpoints';
import { stateBytes, tokenBytes } from '@kv/engine';
import { bytesText } from '@kv/core/shared';
import type { CacheForm, CacheUsage, Model, ModelConfig } from '@kv/models';

/** Describes how a cache is stored: `cache q8, 12,600 bytes a token`, and the bytes of states, if layers carry them. */
export const cacheText = (form: CacheForm, config: Pick<ModelConfig, 'mixers'>): string =>
  `cache ${form}, ${tokenBytes(form, config).toLocaleString('en')} bytes a token${statesText(config)}`;

/** Returns the bytes of the states that layers without slots carry, for a text that counts those of slots. */
function statesText(config: Pick<ModelConfig, 'mixers'>): string {
  const bytes = stateBytes(config);
  return bytes === 0 ? '' : ` and ${bytes.toLocaleString('en')} of states`;
}

/** Returns a line on the layers of which a table of layers with slots says nothing, else nothing. */
export function layersText({ mixers }: Pick<ModelConfig, 'mixers'>): string {
  const slots = slotLayers({ mixers }).length,
    states = stateBytes({ mixers }),
    others = [
      ...(states > 0 ? [`the others carry states of ${states.toLocaleString('en')} bytes, which nothing evicts`] : []),
      ...sharedTexts({ mixers }),
    ];
  return slots === mixers.length
    ? ''
    : `The layers counted here are the ${slots} of ${mixers.length} that keep slots; ${others.join('; ')}.\n`;
}

/** Returns what says, for each layer whose slots others read, which these are: `layers 15-18 and 20 read the slots of 13`. */
export const sharedTexts = ({ mixers }: Pick<ModelConfig, 'mixers'>): readonly string[] =>
  slotLayers({ mixers }).flatMap((own) => {
    const others = [...mixers.keys()].filter((layer) => {
      const mixer = mixers[layer];
      return mixer.kind === 'attention' && mixer.slotsOf === own;
    });
    return others.length === 0
      ? []
      : [
          `layer${others.length === 1 ? '' : 's'} ${rangesText(others)} read${others.length === 1 ? 's' : ''} the slots of layer ${own}`,
        ];
  });

/** Returns ascending numbers, runs of them as ranges. */
function rangesText(numbers: readonly number[]): string {
  const runs: number[][] = [];
  for (const n of numbers)
    if (runs.at(-1)?.at(-1) === n - 1) runs.at(-1)!.push(n);
    else runs.push([n]);
  const texts = runs.map((run) => (run.length === 1 ? `${run[0]}` : `${run[0]}-${run.at(-1)}`));
  return texts.length === 1 ? texts[0] : `${texts.slice(0, -1).join(', ')} and ${texts.at(-1)}`;
}

/** Returns the line that names what runs a model, and how the caches of a run are stored. */
export const engineText = (
  { engine, cacheForm, config }: Pick<Model, 'engine' | 'cacheForm' | 'config'>,
  form: CacheForm = cacheForm,
): string => `engine: ${engine}; ${cacheText(form, config)}\n`;

/** Returns what a sequence holds apart from the slots of its cache: states, and what policies read. */
export function heldApart({ stateBytes, recordedBytes }: CacheUsage): readonly string[] {
  return [
    ...(stateBytes > 0 ? [`${bytesText(stateBytes)} of states`] : []),
    ...(recordedBytes > 0 ? [`${bytesText(recordedBytes)} recorded for policies`] : []),
  ];
}
