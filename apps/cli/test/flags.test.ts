import { Readable } from 'node:stream';
import { schemas } from '@kv/engine';
import { EXPORT } from '@kv/engine-onnx';
import { NEEDLE } from '@kv/evaluation';
import { LIMITS, SERVER } from '@kv/server';
import { count, list, text } from '@kv/core';
import type { Options } from '@kv/core';
import { Command } from 'commander';
import { describe, expect, test } from 'vitest';
import { CHAT } from '../src/commands/chat.ts';
import { BENCH } from '../src/commands/bench.ts';
import { FIT_GATE } from '@kv/evaluation/gate';
import { CALIBRATE } from '../src/commands/calibrate.ts';
import { GATE } from '../src/commands/gate.ts';
import { CHOOSE } from '../src/commands/choose.ts';
import { DOCTOR } from '../src/commands/doctor.ts';
import { EVAL } from '../src/commands/eval.ts';
import { EXPLAIN } from '../src/commands/explain.ts';
import { EXPORT_FLAGS } from '../src/commands/export.ts';
import { NEEDLE_FLAGS } from '../src/commands/needle.ts';
import { PIECES } from '../src/commands/pieces.ts';
import { RUN } from '../src/commands/run.ts';
import { SERVE } from '../src/commands/serve.ts';
import { TRACE } from '../src/commands/trace.ts';
import { WORKER } from '../src/commands/worker.ts';
import { flagOf, withFlags } from '../src/flags.ts';
import { KV } from '../src/main.ts';
import { createProgram } from '../src/program.ts';

const ALWAYS = ['--quiet', '--unredacted'];
const terminal = {
  stdout: { write: () => true },
  stderr: { write: () => true },
  signal: new AbortController().signal,
  cwd: '.',
  debug: false,
  input: { stream: Readable.from([]), interrupt: () => {}, takeInterrupts: () => () => {} },
};
const program = await createProgram(KV, terminal as never, { onFlags: () => {}, onStop: () => {} });

describe.each<[string, Options, Options]>([
  ['run', RUN, schemas.GENERATE],
  ['chat', CHAT, schemas.SAMPLING],
  ['trace', TRACE, schemas.GENERATE],
  ['serve', SERVE, { ...LIMITS, ...SERVER }],
  ['needle', NEEDLE_FLAGS, NEEDLE],
  ['export', EXPORT_FLAGS, EXPORT],
  ['bench', BENCH, {}],
  ['choose', CHOOSE, {}],
  ['calibrate', CALIBRATE, {}],
  ['gate', GATE, FIT_GATE],
  ['doctor', DOCTOR, {}],
  ['eval', EVAL, {}],
  ['explain', EXPLAIN, {}],
  ['pieces', PIECES, {}],
  ['worker', WORKER, {}],
])('kv %s', (name, options, library) => {
  const { options: flags } = program.commands.find((command) => command.name() === name)!;

  test('has the flags of its options, and no other', () => {
    expect(flags.map(({ long }) => long)).toEqual([...Object.keys(options).map(flagOf), ...ALWAYS]);
  });
  test('gives each default as the option has it', () => {
    for (const [key, option] of Object.entries(options))
      expect(flags.find(({ long }) => long === flagOf(key))?.defaultValue, key).toEqual(
        option.required ? undefined : option.default,
      );
  });
  test('reads a text that looks like a number as a text, and refuses an empty name', () => {
    for (const [key, option] of Object.entries(options)) {
      const { form } = option;
      if (form.sort !== 'text' || form.read) continue;
      const parse = (given: string): unknown =>
        withFlags(new Command().exitOverride(), { [key]: { ...option, required: false } })
          .parse([flagOf(key), given], { from: 'user' })
          .opts()[key];
      for (const given of ['42', '-1', '.5', '2024']) expect(parse(given), key).toBe(given);
      if (!form.want.endsWith('text'))
        expect(() => parse(''), key).toThrow(`${flagOf(key)}: expected ${form.want}, got an empty text`);
    }
  });
  test('means by a name of the library what the library does', () => {
    const common = Object.keys(options).filter((key) => Object.hasOwn(library, key));
    expect(common.length).toBeGreaterThan(Object.keys(library).length > 0 ? 1 : -1);
    for (const key of common) {
      if (
        ['policy', 'decodePolicy', 'memory', 'certify', 'prompt', 'fixedPolicy', 'model', 'conversations'].includes(key)
      )
        continue; // as text, or a switch
      expect(options[key]!.form, key).toBe(library[key]!.form);
      expect(options[key]!.says, key).toBe(library[key]!.says);
    }
  });
});

describe('a list', () => {
  const parse = (...words: string[]): unknown => {
    const command = new Command().exitOverride();
    withFlags(command, { tokens: list(count(1, 'tokens', 'A length.'), [8, 16], 'Lengths.') });
    return command.parse(words, { from: 'user' }).opts().tokens;
  };
  test('is its default, or what all flags name between commas, once each', () => {
    expect(parse()).toEqual([8, 16]);
    expect(parse('--tokens', '1,2', '--tokens', ' 2, 3')).toEqual([1, 2, 3]);
  });
  test('names its flag and what a value must be', () => {
    expect(() => parse('--tokens', '1,0')).toThrow('--tokens: must be a positive whole number of tokens, got 0');
    expect(() => parse('--tokens', '1,')).toThrow("--tokens: must be a positive whole number of tokens, got ''");
  });
  test('of texts may name words between commas, and is one text otherwise', () => {
    const command = withFlags(new Command(), { protect: schemas.PROTECT });
    command.parse(['--protect', 'system, tools', '--protect', 'system,QX-44', '--protect', 'a,b'], { from: 'user' });
    expect(command.opts().protect).toEqual(['system', 'tools', 'system,QX-44', 'a,b']);
  });
  test('splits outside brackets and quotes', () => {
    const command = withFlags(new Command(), { policies: list(text('', 'a policy', 'A policy.'), [], 'Policies.') });
    command.parse(['--policies', 'a(x=1,y="(,"),b'], { from: 'user' });
    expect(command.opts().policies).toEqual(['a(x=1,y="(,")', 'b']);
  });
});
