import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { keywords } from '../src/index.ts';
import { said } from './tokenise.ts';

const shared = process.env['KV_SHARED'];

/** Third-party words under the MIT licence, which are not part of this repository. */
test.skipIf(shared === undefined)("gitleaks' keywords are found as names and as prefixes", () => {
  const text = readFileSync(`${shared}/data/anchors/gitleaks_keywords.json`, 'utf8'),
    { rules } = JSON.parse(text) as { rules: { keywords: string[] }[] },
    words = rules.flatMap((r) => r.keywords),
    find = keywords(words);
  expect(said(find, 'ADAFRUIT_API_KEY = abc; ghp_16C7e42F')).toEqual(['ADAFRUIT_API_KEY =', 'ghp_']);
  const missed = words.filter((w) => /^[a-z0-9]/i.test(w) && said(find, `x ${w}: abc`).length === 0);
  expect(missed).toEqual([]);
});
