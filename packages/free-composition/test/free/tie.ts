import { scoreTransform, unitTransform } from '@kv/core';
import type { Ops, Piece, Tensor } from '@kv/core';
import type { Scene } from '@kv/laws';
import { hostRunning } from '@kv/engine';
import type { HostModel } from '@kv/models';
import type { HostDecoder } from '@kv/engine';
import { random } from './cover.ts';

/** Relative difference, by a row's largest magnitude, within which two scores tie. */
const TIE = 1e-5;
/** Random numbers of a try; neighbouring seeds start far from each other. */
const numbersOf = (seed: number): (() => number) => random(seed * 7919 + 1);

/**
 * Moves every score by up to `TIE` of the row's largest: sets that change under this depend on a tie. Weights are raised,
 * so that they stay weights; other scores move either way, as they may pass a threshold.
 */
export function shaken(seed: number): (before: Piece) => readonly Piece[] {
  const next = numbersOf(seed);
  const shake = (ops: Ops, x: Tensor, move = next): Tensor => {
    const [rows = 0, n = 0] = x.shape,
      noise = ops.from({ data: Float32Array.from({ length: rows * n }, move), shape: [rows, n] });
    return ops.add(x, ops.mul(noise, ops.mul(ops.reduce('max', ops.map('abs', x), 'slots'), TIE)));
  };
  const slots = scoreTransform('shaken', {}, ({ ops, scores }) => shake(ops, scores))();
  const either = scoreTransform('shaken', {}, ({ ops, scores }) => shake(ops, scores, () => 2 * next() - 1))();
  const units = unitTransform('shaken', {}, ({ ops, unitScores }) => shake(ops, unitScores))();
  return ({ to, atoms }) => {
    const kind = atoms[0]?.at === 'event' ? atoms[0].kind : undefined;
    return kind === 'scorer' || kind === 'transform'
      ? [to === 'scores' ? either : slots]
      : kind === 'unit' && to === 'units'
        ? [units]
        : [];
  };
}
/**
 * Returns the same cache with every weight, key and value raised by up to `TIE` of itself, for
 * scores inside another piece.
 */
export function shakenScene({ spec, layers }: Scene, seed: number): Scene {
  const next = numbersOf(seed),
    raised = (x: Float32Array): Float32Array => x.map((v) => v * (1 + TIE * next()));
  return {
    spec,
    layers: layers.map((l) => ({
      ...l,
      attention: raised(l.attention),
      keys: raised(l.keys),
      values: raised(l.values),
    })),
  };
}
/** Returns the same model with every query, key and value raised by up to `TIE` of itself. */
export function shakenModel(model: HostModel, seed: number): HostModel {
  const next = numbersOf(seed),
    raised = (x: Float32Array): Float32Array => x.map((v) => v * (1 + TIE * next())),
    { decoder } = model;
  const shaking: HostDecoder = {
    ...decoder,
    project: async (...layer) => {
      const { q, k, v } = await decoder.project(...layer);
      return { q: raised(q), k: raised(k), v: raised(v) };
    },
  };
  return { ...model, ...hostRunning(shaking, model) };
}
