"""Writes a checkpoint as a Hugging Face folder in float16: python export.py --run RUN --out DIR"""
import argparse
import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from hybrid import Config as HybridConfig, Hybrid
from model import Config, Llama


def hybrid_json(config):
    attends = config.attention_layers
    return {
        "architectures": ["Lfm2ForCausalLM"],
        "model_type": "lfm2",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "block_auto_adjust_ff_dim": False,
        "num_hidden_layers": config.num_hidden_layers,
        "layer_types": ["full_attention" if i in attends else "conv" for i in range(config.num_hidden_layers)],
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "conv_L_cache": config.conv_L_cache,
        "conv_bias": False,
        "vocab_size": config.vocab_size,
        "norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": True,
        "use_cache": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float16",
    }


def config_json(config):
    if isinstance(config, HybridConfig):
        return hybrid_json(config)
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "torch_dtype": "float16",
    }


def tokenizer_config(config):
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": "</s>",
        "model_max_length": config.max_position_embeddings,
        "clean_up_tokenization_spaces": False,
    }


def read_config(fields):
    if fields["model_type"] != "lfm2":
        return Config(**{name: fields[name] for name in Config.__dataclass_fields__})
    attends = tuple(i for i, kind in enumerate(fields["layer_types"]) if kind == "full_attention")
    derived = {"attention_layers": attends, "head_dim": fields["hidden_size"] // fields["num_attention_heads"]}
    return HybridConfig(**{name: derived.get(name, fields.get(name)) for name in HybridConfig.__dataclass_fields__})


def load_model(path):
    """(model in float32, tokenizer) of an exported folder or of a run's checkpoint.pt."""
    path = Path(path)
    if path.suffix == ".pt":
        folder = path.parent
        saved = torch.load(path, weights_only=False)
        weights, config = saved["model"], saved["config"]
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    else:
        weights = {name: w.float() for name, w in load_file(path / "model.safetensors").items()}
        tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))
        fields = json.loads((path / "config.json").read_text())
        config = read_config(fields)
    model = Hybrid(config) if isinstance(config, HybridConfig) else Llama(config)
    model.load_state_dict(weights)
    return model.eval(), tokenizer


def downsample(curve, points=300):
    step = max(1, len(curve) // points)
    return curve[::step] + ([curve[-1]] if curve and (len(curve) - 1) % step else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", required=True, help="folder with checkpoint.pt and tokenizer.json")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    run, out = Path(args.run), Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    checkpoint = torch.load(run / "checkpoint.pt", weights_only=False)
    shutil.copy(run / "tokenizer.json", out / "tokenizer.json")
    weights = {name: w.half().contiguous() for name, w in checkpoint["model"].items()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    model, _ = load_model(run / "checkpoint.pt")
    (out / "config.json").write_text(json.dumps(config_json(model.config), indent=1) + "\n")
    (out / "tokenizer_config.json").write_text(json.dumps(tokenizer_config(model.config), indent=1) + "\n")
    state = checkpoint["state"]
    curve = ",\n".join(json.dumps(row) for row in downsample(state["curve"]))
    (out / "curve.json").write_text(f"[\n{curve}\n]\n")
    print(out, sum(w.numel() for w in weights.values()), "parameters, step", state["step"], "tokens", state["tokens"])


if __name__ == "__main__":
    main()
