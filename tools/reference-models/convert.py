"""GGUF files of tiny checkpoints, made by llama.cpp's own converter: see README.md in this folder.

    python convert.py LLAMA_CPP CHECKPOINT_FOLDER ...

Writes model.gguf (f16) into each folder. The converter knows a tokenizer by the hash of what it makes of a text; ours has two dozen letters and is of no
known kind, so that one question is answered here: gpt-2.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path


def convert(folder, out):
    from conversion import base, get_model_class  # of the folder of llama.cpp

    base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "gpt-2"
    config = json.loads((folder / "config.json").read_text())
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("config.json", "tokenizer.json", "model.safetensors"):
            shutil.copy(folder / name, scratch)
        special = {f"{kind}_token": text for kind, text in (("bos", "<s>"), ("eos", "</s>"), ("unk", "<unk>"))}
        if config["model_type"].startswith("qwen3_5"):  # its tokenizer would add a token to pad with
            special["pad_token"] = "<unk>"
        (Path(scratch) / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "GPT2Tokenizer" if config["model_type"] == "phi3" else "PreTrainedTokenizerFast", **special}))
        kind = get_model_class(config["architectures"][0])
        kind.no_mtp = "mtp_num_hidden_layers" not in config.get("text_config", config)
        model = kind(dir_model=Path(scratch), ftype=base.gguf.LlamaFileType.MOSTLY_F16, fname_out=out, hparams=None)
        model.write()


def main(llama_cpp, *folders):
    sys.path[:0] = [llama_cpp, str(Path(llama_cpp) / "gguf-py")]
    for folder in map(Path, folders):
        convert(folder, folder / "model.gguf")
        print(folder.name, (folder / "model.gguf").stat().st_size)


main(*sys.argv[1:])
