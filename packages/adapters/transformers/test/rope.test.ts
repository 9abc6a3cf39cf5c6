import { expect, test } from 'vitest';
import { ropeOf } from '../src/rope.ts';

test('angles of the plain kind, of a share of the channels, and scaled', () => {
  const { rotary, angles } = ropeOf({ rope_theta: 10_000, partial_rotary_factor: 0.5 }, 8),
    { cos, sin } = angles(Uint32Array.of(3));
  expect(rotary).toBe(4);
  expect(Array.from(cos)).toEqual([Math.cos(3), Math.cos(0.03)].map((x) => expect.closeTo(x, 6)));
  expect(Array.from(sin)).toEqual([Math.sin(3), Math.sin(0.03)].map((x) => expect.closeTo(x, 6)));
  const linear = ropeOf({ rope_parameters: { rope_type: 'linear', factor: 4, rope_theta: 10_000 } }, 4);
  expect(linear.angles(Uint32Array.of(8)).cos[0]).toBeCloseTo(Math.cos(2), 6);
});

test.each([
  ['Gemma 3 by its name', { model_type: 'gemma3_text' }, 'expected layers that turn alike, got gemma3_text'],
  ['a base of local layers', { model_type: 'x', rope_local_base_freq: 1e4 }, 'expected layers that turn alike, got x'],
  [
    'parameters of each kind of layer',
    {
      model_type: 'x',
      rope_parameters: { full_attention: { rope_theta: 1e6 }, sliding_attention: { rope_theta: 1e4 } },
    },
    'expected layers that turn alike, got x',
  ],
  ['layers without rope', { model_type: 'x', no_rope_layers: [1, 1, 0] }, 'expected layers that turn alike, got x'],
  ['SmolLM3, whose list is not written', { model_type: 'smollm3' }, 'expected layers that turn alike, got smollm3'],
  [
    'another scaling',
    { rope_scaling: { type: 'yarn', factor: 4 } },
    'expected rotary embeddings of type default, linear or llama3, got yarn',
  ],
])('refused: %s', (_, config, sentence) => {
  expect(() => ropeOf(config, 8)).toThrow(sentence);
});

test('a list of layers that all turn is none that differ', () => {
  expect(ropeOf({ model_type: 'smollm3', no_rope_layers: [1, 1] }, 8).rotary).toBe(8);
});
