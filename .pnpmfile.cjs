/** pnpm's hooks: what a packed manifest says beside the one in its folder. */
module.exports = {
  hooks: {
    /** The published cli brings every piece of the workspace, so that no manifest here lists them. */
    async beforePacking(packed) {
      if (packed.name !== '@kv/cli') return packed;
      const { piecePackages } = await import('./tools/lib/manifests.mjs');
      const pieces = piecePackages().map(({ manifest: { name, version } }) => [name, `^${version}`]);
      return { ...packed, dependencies: { ...packed.dependencies, ...Object.fromEntries(pieces) } };
    },
  },
};
