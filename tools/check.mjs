/** `npm run check`: what concerns the workspace as a whole, without the packages' own tests. */
import { suite } from './lib/suite.mjs';

await suite(['--project', 'workspace', ...process.argv.slice(2)]);
