/** `npm start`: the needle experiment on the embedded model, from a bare clone. */
import { kv } from './lib/kv.mjs';

await kv(['needle', ...process.argv.slice(2)]);
