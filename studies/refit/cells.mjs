// What plan.md says, as data: selections, hooks, shares, cells and seeds.
import { KvError } from '@kv/core';
import { parsePolicy } from '@kv/policies';

/** What chooses the slots. */
export const SELECTIONS = [
  { name: 'snapkv', policy: 'snapkv(window=16,kernel=17,pooling=max) | topK' },
  { name: 'h2o', policy: 'h2o | topK' },
  { name: 'outstandingSentences', policy: 'outstandingSentences' },
  { name: 'taFast', policy: 'taFast' },
];
/** Selections that `snapkv` is compared with, plain alone. */
export const BESIDE = [
  { name: 'gate', policy: 'gate | topK' },
  { name: 'kvzip', policy: 'kvzip | topK' },
];
/** What follows a selection. */
export const HOOKS = ['plain', 'fit', 'moments', 'fit | moments'];
/** Kept slots in percent; at `MORE` plain alone, for what `AT` percent with a hook is compared with. */
export const SHARES = [2, 5, 10, 20],
  AT = 5,
  MORE = 15;

/** Every third document has all cells, the others those of the question that counts: both shares, at `AT` each hook. */
export const hasAll = (i) => i % 3 === 0;

/** Tokens of a document, and of the prose after it; the loss is that of each after the first. */
export const TOKENS = 1024,
  AFTER = 33;
/** The part of the novel's sentences that documents are of; a gate is trained on the others. */
export const DOCUMENTS = 0.5;

/** Seed of a document: those of the set `confirm` were never run before the plan was committed. */
export const seedOf = (set, i) => `refit/${set}/${i}`;
/** Ten depths in turn, from 5 % to 95 % of the document. */
export const depthOf = (i) => ((i % 10) + 0.5) / 10;

/** Returns the name of a cell: a selection, a hook, and the share that it keeps in percent. */
export const nameOf = (selection, hook, share) => `${selection}, ${hook}, ${share}`;
/** Returns the name of a plain cell with the bytes of the same selection with `moments` at this share. */
export const equalTo = (selection, share) => nameOf(selection, 'plain in the bytes of moments', share);

/**
 * All cells of the plan: name, policy, a share or the cell whose bytes they take, whether every document has them, and
 * whether attention reads bytes beside slots.
 */
export function cells() {
  const one = (selection, policy, hook, share) => ({
      ...{ name: nameOf(selection, hook, share), share, remembers: hook.includes('moments') },
      policy: hook === 'plain' ? policy : `${policy} | ${hook}`,
    }),
    plain = ({ name, policy }) => SHARES.map((share) => one(name, policy, 'plain', share));
  return [
    ...SELECTIONS.flatMap(({ name, policy }) => [
      ...HOOKS.flatMap((hook) => SHARES.map((share) => ({ ...one(name, policy, hook, share), always: share === AT }))),
      { ...one(name, policy, 'plain', MORE), always: true },
      { name: equalTo(name, AT), policy, bytesOf: nameOf(name, 'moments', AT), always: true },
    ]),
    ...BESIDE.flatMap(plain),
  ];
}

/**
 * Returns the cells that this build and this model can run, with their policies parsed, and why other policies are left
 * out: a piece that the build does not know, a file that is not next to the model. A cell in another's bytes needs that one.
 * @param {(policy: object) => Promise<void>} tried runs a policy once on a few tokens
 */
export async function cellsFor(tried) {
  const all = cells(),
    parsed = new Map(),
    left = new Map();
  for (const { policy: text } of all)
    if (!parsed.has(text) && !left.has(text))
      try {
        const policy = parsePolicy(text);
        await tried(policy);
        parsed.set(text, policy);
      } catch (cause) {
        if (!(cause instanceof KvError)) throw cause;
        left.set(text, cause.message);
      }
  const can = ({ policy }) => parsed.has(policy),
    names = new Set(all.filter(can).map(({ name }) => name)),
    known = all.filter((cell) => can(cell) && (cell.bytesOf === undefined || names.has(cell.bytesOf)));
  return { known: known.map((cell) => ({ ...cell, policy: parsed.get(cell.policy) })), left };
}
