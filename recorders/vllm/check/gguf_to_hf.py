"""Makes a Hugging Face folder of a small llama GGUF, for vLLM to load: weights dequantized to float32.

    python check/gguf_to_hf.py MODEL.gguf FOLDER
"""

import json
import sys
from pathlib import Path

import numpy
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = [
    ("token_embd", "model.embed_tokens"),
    ("output_norm", "model.norm"),
    ("blk.", "model.layers."),
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
]
CONTROL = 3
"""GGUF's type of a token that stands for itself."""


def main(source: str, folder: str) -> None:
    reader, target = GGUFReader(source), Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    field = lambda key: reader.fields[key].contents()  # noqa: E731
    save_file(weights(reader, field), target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config(field)))
    tokenizer(field).save(str(target / "tokenizer.json"))
    (target / "tokenizer_config.json").write_text(
        json.dumps(
            {
                "tokenizer_class": "PreTrainedTokenizerFast",
                "eos_token": "<|im_end|>",
                "bos_token": "<|im_start|>",
                "pad_token": "<|im_end|>",
                "chat_template": field("tokenizer.chat_template"),
                "model_max_length": field("llama.context_length"),
            }
        )
    )


def weights(reader: GGUFReader, field) -> dict[str, torch.Tensor]:
    heads = {"q_proj": field("llama.attention.head_count"), "k_proj": field("llama.attention.head_count_kv")}
    found = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        values = values.reshape(tuple(reversed(tensor.shape.tolist())))
        name = tensor.name
        for theirs, ours in NAMES:
            name = name.replace(theirs, ours)
        for part, count in heads.items():
            if part in name:
                values = unpermuted(values, count)
        found[name] = torch.from_numpy(numpy.ascontiguousarray(values))
    return found


def unpermuted(values: numpy.ndarray, heads: int) -> numpy.ndarray:
    """GGUF interleaves the halves of each head's rotary dimensions."""
    out, inputs = values.shape
    return values.reshape(heads, out // heads // 2, 2, inputs).swapaxes(1, 2).reshape(out, inputs)


def config(field) -> dict:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": field("llama.attention.head_count"),
        "num_key_value_heads": field("llama.attention.head_count_kv"),
        "vocab_size": field("llama.vocab_size"),
        "max_position_embeddings": field("llama.context_length"),
        "rms_norm_eps": field("llama.attention.layer_norm_rms_epsilon"),
        "rope_theta": field("llama.rope.freq_base"),
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }


def tokenizer(field) -> Tokenizer:
    tokens, types = field("tokenizer.ggml.tokens"), field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in field("tokenizer.ggml.merges")]
    found = Tokenizer(models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=merges))
    found.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    found.decoder = decoders.ByteLevel()
    found.add_special_tokens(
        [AddedToken(token, special=True) for token, kind in zip(tokens, types) if kind == CONTROL]
    )
    return found


if __name__ == "__main__":
    main(*sys.argv[1:3])
