/** `npm run -s architecture`: draws packages, and what each builds on as manifests say, into docs/architecture.svg. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { architecture } from './lib/architecture.mjs';
import { published } from './lib/manifests.mjs';
import { root } from './lib/process.mjs';

writeFileSync(join(root, 'docs/architecture.svg'), architecture(published()));
