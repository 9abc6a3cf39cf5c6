import { commonHeads } from '@kv/engine';
/**
 * Facts of every piece and method for their pages, as JSON in the file `KV_FACTS`: from declarations, predictions and
 * runs.
 */
import { writeFileSync } from 'node:fs';
import { predict } from '../../apps/cli/src/explain/predict.ts';
import { compile } from '../../packages/core/src/engine.ts';
import { entries, parsePolicy } from '../../packages/core/src/index.ts';
import type { Description, Policy } from '../../packages/core/src/index.ts';
import { generate, loadModel } from '../../packages/models/src/index.ts';
import { catalogue, recommendedPolicies } from '../../packages/policies/src/index.ts';
import { uses } from './uses.ts';

const prompt = `${'The boys walked on in silence. '.repeat(12)}The secret code is: XK7M9P2Q. ${'The river was wide. '.repeat(12)}The secret code is:`;
const BUDGET = 48;
const [LENGTH, SHARE] = [512, '25%'] as const;

const model = await loadModel('embedded');
const { ids, offsets } = model.tokenizer.encode(prompt);
const from = prompt.indexOf('XK7M9P2Q');
const isSecret = offsets.map(([start, end]) => start < from + 8 && end > from);

const all = entries(catalogue).map(({ factory, package: at }) => ({ ...factory.description, package: at }));
const ofKind = (kind: string): readonly Description[] => all.filter((piece) => piece.kind === kind);

/** What the line that runs a method asks; it runs here too. */
const ASKED = 'The secret code is: XK7M9P2Q. The river was wide. The secret code is:';
const SNAPKV = 'snapkv(window=16,kernel=17,pooling=max)';
const ASKED_SHARE = '75%';

/** Returns a call with options that suit the model and a small budget. */
function call({ name, takes, options }: Description): string {
  const args = {
    nothing: [],
    scorer: ['knorm'],
    scorers: ['knorm', 'recency'],
    terms: ['0.5*knorm', '0.5*recency'],
    policy: [SNAPKV],
  }[takes];
  const all = [
    ...args,
    ...('window' in options ? ['window=16'] : []),
    ...('kernel' in options ? ['kernel=17'] : []),
    ...('pooling' in options ? ['pooling=max'] : []),
  ];
  return all.length === 0 ? name : `${name}(${all.join(',')})`;
}

const parsed = (text: string): Policy | undefined => {
  try {
    const policy = parsePolicy(text, catalogue);
    compile(policy);
    return policy;
  } catch {
    return undefined; // it does not compose
  }
};
const examples = (piece: Description): readonly string[] => {
  const own = uses[piece.name]?.policy ?? call(piece);
  return piece.kind === 'method'
    ? [own]
    : [`${own} | topK`, `${SNAPKV} | ${own} | topK`, `${SNAPKV} | ${own}`, `${SNAPKV} | topK | ${own}`];
};

/** Returns the names that compose with a piece, by kind. */
function beside(piece: Description): Readonly<Record<string, readonly string[]>> {
  const own = call(piece);
  const places: Readonly<Record<string, (other: string) => readonly string[]>> =
    piece.kind === 'method'
      ? {}
      : piece.kind === 'scorer'
        ? {
            transform: (other) => [`${own} | ${other} | topK`],
            allocator: (other) => [`${own} | ${other} | topK`],
            unit: (other) => [`${own} | ${other} | topK`],
            selector: (other) => [`${own} | ${other}`],
          }
        : { scorer: (other) => [`${other} | ${own} | topK`, `${other} | ${own}`, `${other} | topK | ${own}`] };
  return Object.fromEntries(
    Object.entries(places).map(([kind, texts]) => [
      kind,
      ofKind(kind)
        .filter((other) => texts(call(other)).some(parsed))
        .map(({ name }) => name)
        .sort(),
    ]),
  );
}

async function facts(piece: (typeof all)[number]): Promise<object> {
  const { name, kind, says, source, signals, takes, from: after, to: leaves, options } = piece;
  const told = {
    ...{ name, kind, says, source, signals, takes, after, leaves, package: piece.package },
    options: Object.entries(options).map(([key, { default: value, as, form, says: meaning }]) => ({
      key,
      value: String(
        as ?? (typeof value === 'object' && value !== null && 'label' in value ? value.label : (value ?? '')),
      ),
      want: form.want,
      says: meaning,
    })),
    beside: beside(piece),
    use: uses[name],
  };
  const example = examples(piece).find(parsed),
    policy = example === undefined ? undefined : parsed(example);
  if (example === undefined || policy === undefined) return told;
  return {
    ...{ ...told, example, cost: await costOf(policy), ...(await kept(policy)) },
    ...(uses[name] && { line: await lineOf(example) }),
  };
}

/** Returns the line that runs a method; the same runs here, so that it works. */
async function lineOf(policy: string): Promise<string> {
  await generate(model, { prompt: ASKED, policy, budget: ASKED_SHARE, maxNewTokens: 1 });
  return `run "${ASKED}" \\\n  --policy '${policy}' --budget ${ASKED_SHARE} --stop .`;
}

async function costOf(policy: Policy): Promise<object | undefined> {
  try {
    const { config, cacheForm } = model,
      { passes, multiplyAdds, bytes, device, when } = await predict(compile(policy), config, LENGTH, SHARE, cacheForm);
    return {
      when,
      passes,
      passShare: multiplyAdds.passes / multiplyAdds.prefill,
      bytes,
      eventShare: device?.shares.operations,
      length: LENGTH,
      budget: SHARE,
    };
  } catch {
    return undefined; // it cannot be planned for this model
  }
}

async function kept(policy: Policy): Promise<{ svg?: string; answer?: string; asked?: number; label?: string }> {
  try {
    const { text, report } = await generate(model, { prompt, policy, budget: BUDGET, maxNewTokens: 12, stop: ['.'] });
    return {
      svg: drawing(report.kept, policy.label),
      answer: text.trim(),
      asked: BUDGET,
      label: policy.label || 'full',
    };
  } catch {
    return {}; // it needs more than a prompt
  }
}

/** Draws one row per layer, the first on top; runs of equal tokens are one rectangle. */
function drawing(kept: readonly (readonly (readonly number[])[])[], label: string): string {
  const [cell, high] = [3, 12],
    shapes: string[] = [];
  for (const [layer, heads] of kept.entries()) {
    const sets = heads.map((slots) => new Set(slots)),
      shades = ids.map(
        (_, i) =>
          `${isSecret[i] ? '#e8590c' : '#1c7ed6'} ${(sets.filter((set) => set.has(i)).length / sets.length).toFixed(2)}`,
      );
    for (let start = 0; start < shades.length; ) {
      let end = start;
      while (shades[end] === shades[start] && end < shades.length) end++;
      const [color, share] = shades[start].split(' ');
      if (Number(share) > 0)
        shapes.push(
          `<rect x="${start * cell}" y="${layer * high}" width="${(end - start) * cell}" height="${high - 1}" fill="${color}" fill-opacity="${share}"/>`,
        );
      start = end;
    }
  }
  const [width, height] = [ids.length * cell, kept.length * high],
    first = isSecret.indexOf(true) * cell,
    long = isSecret.filter(Boolean).length * cell;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}"><title>What ${label.replace(/[<>&]/g, '')} keeps</title><rect width="100%" height="100%" fill="#f1f3f5"/><rect x="${first}" width="${long}" height="100%" fill="#ffd8a8"/>${shapes.join('')}</svg>\n`;
}

const pieces: object[] = [];
for (const piece of all) pieces.push(await facts(piece));
writeFileSync(
  process.env.KV_FACTS ?? 'facts.json',
  JSON.stringify({
    tokens: ids.length,
    layers: model.config.layers,
    heads: commonHeads(model.config, 'facts').kvHeads,
    recommended: recommendedPolicies,
    pieces,
  }),
);
