const { relative } = require('node:path');

/** pnpm's hooks: what a packed manifest says beside the one in its folder. */
module.exports = {
  hooks: {
    /** What all packages have in common stands here alone; the published cli brings every piece of the workspace. */
    async beforePacking({ files = [], keywords = [], ...packed }, folder) {
      const { piecePackages } = await import('./tools/lib/manifests.mjs');
      const { repository } = await import('./tools/lib/release.mjs');
      const pieces = piecePackages().map(({ manifest: { name, version } }) => [name, `^${version}`]);
      const url = repository();
      return {
        ...packed,
        files: [...files, 'CHANGELOG.md'],
        keywords: [...new Set([...keywords, 'kv-cache', 'llm', ...(packed.kv?.pieces ? ['kv-piece'] : [])])],
        ...(url && { repository: { type: 'git', url, directory: relative(__dirname, folder) } }),
        ...(packed.name === '@kv/cli' && { dependencies: { ...packed.dependencies, ...Object.fromEntries(pieces) } }),
      };
    },
  },
};
