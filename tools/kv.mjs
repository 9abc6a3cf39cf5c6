/** `npm run -s kv -- ARGS`: the kv command from a clone. */
import { kv } from './lib/kv.mjs';

await kv(process.argv.slice(2));
