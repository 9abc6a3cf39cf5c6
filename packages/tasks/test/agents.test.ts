import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { AGENT_CALL, agentDomains, agentTrace, saysFact } from '../src/index.ts';
import type { AgentTrace } from '../src/index.ts';

const options = fc.record({
  domain: fc.constantFrom(...agentDomains),
  turns: fc.integer({ min: 8, max: 200 }),
  seed: fc.string(),
});
const textOf = ({ turns }: AgentTrace): string => turns.map(({ user, rest }) => user + rest).join('');

describe("agents' traces", () => {
  it('tell three facts early, once, each answered by its value alone', () =>
    fc.assert(
      fc.property(options, (given) => {
        const trace = agentTrace(given),
          text = textOf(trace);
        expect(trace.turns).toHaveLength(given.turns);
        expect(trace.facts.map(({ kind }) => kind)).toEqual(['credential', 'order', 'instruction']);
        expect(new Set(trace.facts.map(({ turn }) => turn)).size).toBe(3);
        for (const fact of trace.facts) {
          const { value, turn, question } = fact,
            told = trace.turns[turn].user + trace.turns[turn].rest;
          expect(turn).toBeLessThan(4);
          expect(text.split(value)).toHaveLength(2);
          expect(told).toContain(value);
          expect(question).not.toContain(value);
          // right alone, in quotes, and with more after it; wrong when cut, changed or late
          for (const right of [` ${value}.\nUser:`, `"${value}", they wrote`, `${value}`])
            expect(saysFact(fact, right)).toBe(true);
          for (const wrong of [` ${value.slice(0, -1)}`, ` ${value}7`, ` it is ${value}`, `\n${value}`, ''])
            expect(saysFact(fact, wrong)).toBe(false);
        }
      }),
      { numRuns: 60 },
    ));
  it('are the same for the same seed, and others for another', () =>
    fc.assert(
      fc.property(options, (given) => {
        expect(agentTrace(given)).toEqual(agentTrace(given));
        expect(textOf(agentTrace({ ...given, seed: `${given.seed}+` }))).not.toBe(textOf(agentTrace(given)));
      }),
      { numRuns: 20 },
    ));
  it('write calls whose arguments are JSON, in four of five turns of a short trace', () => {
    const { turns } = agentTrace({ domain: 'operations', turns: 40, seed: 1 }),
      calls = turns.filter(({ calls }) => calls);
    expect(calls.length).toBeGreaterThan(20);
    for (const { rest } of calls) {
      expect(rest.startsWith(AGENT_CALL)).toBe(true);
      const call = JSON.parse(rest.split('\n')[0].slice('Tool call: '.length)) as object;
      expect(Object.keys(call)).toEqual(['name', 'arguments']);
    }
  });
  it('refuse fewer turns than the facts need', () =>
    expect(() => agentTrace({ domain: 'support', turns: 7, seed: 0 })).toThrow(
      /^agentTrace: expected a whole number of turns, at least 8, got 7$/,
    ));
});
