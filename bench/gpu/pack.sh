#!/usr/bin/env bash
# Packs what a bare x86-64 Linux machine with a GPU, and no network and no Node, needs: Node itself, Dawn (the npm package `webgpu`, in WEBGPU_DIR), the Vulkan loader, and the files named.
#
#   pack.sh OUT_DIR [FILE ...]        there: bash OUT_DIR/run.sh SCRIPT.mjs [ARG ...]
set -euo pipefail
out=${1:?usage: pack.sh OUT_DIR [FILE ...]}; shift
rm -rf "$out"; mkdir -p "$out/payload/node_modules/webgpu/dist/linux-x64" "$out/debs"
cp -L "$WEBGPU_DIR/package.json" "$WEBGPU_DIR/index.js" "$out/payload/node_modules/webgpu/"
xz -T0 -3 -c "$WEBGPU_DIR/dist/linux-x64/dawn.node" >"$out/dawn.node.xz"
xz -T0 -3 -c "$(readlink -f "$(command -v node)")" >"$out/node.xz"
for file in "$@"; do cp -L --parents "$file" "$out/payload/"; done
( cd "$out/debs" && { apt-get download libvulkan1 libegl1 libglvnd0 >/dev/null 2>&1 || echo "pack: no loader packages fetched; the GPU machine must have libvulkan.so.1" >&2; } )
cat >"$out/run.sh" <<'RUN'
#!/usr/bin/env bash
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd); box=${KV_GPU_BOX:-/tmp/kv-gpu-box}
if [ ! -x "$box/node" ]; then
  mkdir -p "$box/root"; cp -r "$here/payload/." "$box/"
  xz -dc "$here/node.xz" >"$box/node"; chmod +x "$box/node"
  xz -dc "$here/dawn.node.xz" >"$box/node_modules/webgpu/dist/linux-x64/dawn.node"
  for deb in "$here"/debs/*.deb; do [ -e "$deb" ] && dpkg -x "$deb" "$box/root"; done
fi
export LD_LIBRARY_PATH="$box/root/usr/lib/x86_64-linux-gnu:${LD_LIBRARY_PATH:-}"
for icd in /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json /usr/share/vulkan/icd.d/nvidia_icd.json; do
  [ -e "$icd" ] && export VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd" && break
done
cd "$box" && exec "$box/node" "$@"
RUN
chmod +x "$out/run.sh"
du -sh "$out" | cut -f1
