import { describe, expect, test } from 'vitest';
import * as core from '@kv/core';
import type { Piece } from '@kv/core';
import * as pieces from './pieces.ts';
import { WRONG } from './wrong.ts';

const { cadence, compose, id, KvError } = core;
/** `compose` as plain JavaScript sees it. */
const plain = compose as (...pieces: unknown[]) => Piece;
const names = { ...core, ...pieces };
const evaluate = (source: string): Piece =>
  new Function(...Object.keys(names), `return compose(${source})`)(...Object.values(names)) as Piece;

describe('a wrong order throws when composed, with its sentence', () => {
  test.each(WRONG)('compose(%s)', (source, sentence) => {
    expect(() => evaluate(source)).toThrow(new KvError('compose', sentence));
  });
});

describe('what is no piece', () => {
  test('a function that was not called', () =>
    expect(() => plain(pieces.snapkv(), pieces.topK)).toThrow(
      'compose: argument 2 must be a piece ({ protocol: 1, atoms, ... }), got the function topK: call it, as in topK()',
    ));
  test('an anonymous function', () =>
    expect(() => plain(() => 1)).toThrow('got the function (anonymous): call it, as in piece()'));
  test.each([
    [null, 'null'],
    [undefined, 'undefined'],
    ['topK', `the text 'topK': policy("topK") of @kv/policies makes a policy of it`],
    [3, 'number'],
  ])('%j', (x, shown) =>
    expect(() => plain(pieces.snapkv(), x)).toThrow(
      `argument 2 must be a piece ({ protocol: 1, atoms, ... }), got ${shown}`,
    ),
  );
  test.each([
    [2, 'update @kv/core'],
    [0, "update the package that brings 'mine'"],
  ])('protocol %d', (protocol, update) =>
    expect(() => plain(pieces.snapkv(), { ...pieces.topK(), protocol, name: 'mine' })).toThrow(
      `compose: 'mine' speaks protocol ${protocol} of pieces and this @kv/core protocol 1: ${update}`,
    ),
  );
  test('a combination of what is no scorer', () =>
    expect(() => (core.sum as (...x: unknown[]) => Piece)(pieces.snapkv(), pieces.topK())).toThrow(
      "sum: takes scorers, but 'topK' leaves kept",
    ));
});

test('64 steps and hooks are composed, one more is refused', () => {
  const many = (count: number): Piece =>
    plain(pieces.knorm(), ...Array.from({ length: count - 1 }, () => core.minMax()));
  expect(many(64).atoms).toHaveLength(64);
  expect(() => many(65)).toThrow(
    new KvError('compose', 'expected at most 64 steps and hooks in a policy, got 65: leave some out'),
  );
});

describe('hooks that can stand only once', () => {
  const freeze = core.freeze('etf', {}, () => ({ sinks: 4, below: 8 }))(),
    compact = core.onCompact('merge', {}, () => ({}))(),
    wrap = core.wrapSelect('cis', {}, ({ inner }) => ({ kept: inner().kept }))();
  test.each([
    ['cadence', cadence({ every: 8 }), cadence({ block: 4 })],
    ['freeze', freeze, freeze],
    ['compact', compact, compact],
    ['wrapSelect', wrap, wrap],
  ])('two of the sort %s are an error', (sort, a, b) => {
    expect(() => plain(a, pieces.snapkv(), b)).toThrow(
      `has two pieces of the sort '${sort}' (${a.label}, ${b.label}), expected at most one`,
    );
  });
  test('views and step hooks stand side by side', () =>
    expect(
      compose(
        core.hide('a', { during: 'decode' }, () => ({}))(),
        core.hide('b', { during: 'decode' }, () => ({}))(),
        core.onStep('c', {}, () => ({}))(),
        core.onStep('d', {}, () => ({}))(),
      ).atoms,
    ).toHaveLength(4));
  test('the same step hook twice is one', () => {
    const hook = core.onStep('decay', { needs: [core.state('mass', { kind: 'slot', rows: 'kv' })] }, () => ({}))();
    expect(compose(hook, pieces.snapkv(), hook).atoms.filter((a) => a.at === 'step')).toHaveLength(1);
  });
});

describe('what compose makes', () => {
  test('a label with options, a name without', () => {
    const policy = compose(core.pool({ kernel: 3 }), compose(core.zScore(), pieces.topK()));
    expect(policy.label).toBe('pool(kernel=3) ∘ zScore ∘ topK');
    expect(policy.name).toBe('pool ∘ zScore ∘ topK');
  });
  test('options that are undefined or at their default stay out of the label', () =>
    expect(core.pool({ kernel: 5, kind: undefined, except: 2 }).label).toBe('pool(except=2)'));
  test('labels of combinations name their parts', () =>
    expect(core.weighted([0.5, pieces.snapkv()], [-1, core.sum(pieces.knorm(), core.max())]).label).toBe(
      'weighted(0.5*snapkv,-1*sum(knorm,max))',
    ));
  test('phases of a scorer, a transform, a policy and a timed one', () => {
    expect(compose(pieces.snapkv(), pieces.caote())).toMatchObject({ from: ['start'], to: 'weights' });
    expect(compose(core.zScore(), core.softmax())).toMatchObject({ from: ['scores', 'weights'], to: 'weights' });
    expect(compose(pieces.knorm(), pieces.pyramidal(), pieces.topK())).toMatchObject({ from: ['start'], to: 'kept' });
    expect(compose(cadence({ every: 4 }), pieces.snapkv(), pieces.topK())).toMatchObject({
      from: ['start'],
      to: 'kept',
    });
    expect(compose(cadence({ every: 4 }), id)).toMatchObject({ to: 'same' });
  });
  test('sums of weights are weights, with a scorer among them scores; weighted sums are scores', () => {
    expect(core.sum(pieces.snapkv(), pieces.rarity()).to).toBe('weights');
    expect(core.sum(pieces.snapkv(), pieces.knorm()).to).toBe('scores');
    expect(core.max().to).toBe('scores');
    expect(core.weighted([1, pieces.snapkv()]).to).toBe('scores');
  });
  test('a copy of a piece from another copy of core is a piece', () =>
    expect(compose(structuredCloneOf(pieces.snapkv()), pieces.topK()).label).toBe('snapkv ∘ topK'));
});
const structuredCloneOf = <P extends Piece>(piece: P): P => ({ ...piece, atoms: [...piece.atoms] });
