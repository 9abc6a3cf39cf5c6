/** `npm test`: every check and every test; the last line counts them. Arguments go to vitest. */
import { suite } from './lib/suite.mjs';

await suite(process.argv.slice(2));
