import { id, hide } from '@kv/core';
import type { HookPiece } from '@kv/core';
import { schedule } from '../../src/schedule.ts';
import { field } from './field.ts';
import type { Field } from './field.ts';

const made = (name: string, lower: (depth: number, t: number) => number, sinks = 4): HookPiece =>
  hide(name, { during: 'both' }, ({ at }) => ({
    sinks,
    lower: (t) => Math.floor(lower((at.layer + 1) / at.layers, t)),
  }))();
export const schedules: Field = field('schedule', schedule, {
  good: made('window', (depth, t) => (1 - 0.7 ** depth) * t),
  mutants: {
    acts: id as HookPiece,
    depth: made('widens', (depth, t) => 0.7 ** depth * t),
    time: made('opens again', (_, t) => (t % 10) / 2),
    sinks: made('no sinks', (depth, t) => (1 - 0.7 ** depth) * t, 0),
    current: made('blind', (_, t) => t + 1),
  },
});
