import fc from 'fast-check';
import { expect, test } from 'vitest';
import { mapRows } from '../src/heat-map.ts';
import type { Frame, PromptSummary } from '../src/messages.ts';
import { picture } from '../src/picture.ts';

const around = { token: '', bytes: 0, peak: 0, slots: 0, prefillSpeed: 1 };
const prompt = (positions: number): PromptSummary => ({
  text: 'x'.repeat(positions),
  offsets: Array.from({ length: positions }, (_, i) => [i, i + 1] as const),
  valueTokens: [],
});
/** Cells of 5 by 5 pixels, the last row of a layer a pixel less, that a path covers. */
const cells = (svg: string, color: string): number =>
  [...svg.matchAll(new RegExp(`<path fill="${color}" d="([^"]*)"`, 'g'))]
    .flatMap(([, path = '']) => [...path.matchAll(/h(\d+)v/g)])
    .reduce((sum, [, width]) => sum + Number(width) / 5, 0);

test('a picture has as many cells as caches have slots, whatever texts say, and is one well-formed document', () => {
  const side = fc.record({
    title: fc.string({ unit: 'binary' }),
    frame: fc
      .record({ length: fc.integer({ min: 1, max: 400 }), answer: fc.string({ unit: 'binary' }), seed: fc.nat() })
      .map(
        ({ length, answer, seed }): Frame => ({
          ...{ ...around, length, answer },
          kept: Uint8Array.from({ length: 4 * length }, (_, i) => ((Math.imul(i + 1, seed | 1) >>> 7) & 1) as number),
        }),
      ),
  });
  fc.assert(
    fc.property(fc.array(side, { minLength: 1, maxLength: 6 }), fc.integer({ min: 1, max: 400 }), (sides, asked) => {
      const svg = picture(sides, prompt(asked), mapRows([1, 3])),
        kept = sides.reduce((sum, { frame }) => sum + frame.kept.reduce((a, b) => a + b, 0), 0),
        all = sides.reduce((sum, { frame }) => sum + 4 * Math.max(frame.length, asked), 0);
      expect(cells(svg, '#2f6fb8')).toBe(kept);
      expect(cells(svg, '#e8ecf0')).toBe(all - kept);
      const tags = [...svg.matchAll(/<(\/?)(\w+)[^<>]*?(\/?)>/g)];
      expect(svg.replace(/<\/?\w+[^<>]*>/g, '')).not.toMatch(/[<>]|&(?!amp;|lt;|gt;)/);
      expect(tags.filter(([, end, , empty]) => !end && !empty)).toHaveLength(tags.filter(([, end]) => end).length);
      expect(svg).not.toMatch(/[\0-\x08\x0b-\x1f\x7f]/);
    }),
  );
});
