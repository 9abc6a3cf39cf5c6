/** `npm run check`: what concerns the workspace as a whole, and the command as it is built. Arguments go to vitest. */
import { suite } from './lib/suite.mjs';

await suite(['workspace'], process.argv.slice(2));
