// npm run -s study -- papers/claims
// Writes claims.md and superseded.md of this folder from its plans and results.
import { writeFileSync } from 'node:fs';
import { claimsMarkdown } from '../dist/claims.js';

const { claims, superseded } = claimsMarkdown();
writeFileSync(new URL('claims.md', import.meta.url), claims);
writeFileSync(new URL('superseded.md', import.meta.url), superseded);
