/** `npm run check`: checks the whole workspace and tests the built command. Arguments go to vitest. */
import { suite } from './lib/suite.mjs';

await suite(['workspace'], process.argv.slice(2));
