import { expect, test } from 'vitest';
import { census, nameFaults } from '../lib/names.mjs';

test('an exported type has one meaning over all packages and says what it is; comments use the words of the field', () => {
  expect(nameFaults()).toEqual([]);
});

test('the census sees names that are there: it cannot pass over nothing', () => {
  const { exported, several } = census();
  expect(exported).toBeGreaterThan(2000);
  expect(several).toContain('Fields'); // a type in two adapters' files, exported by neither
});
