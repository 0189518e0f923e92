"""LFM2: gated short convolutions and attention, each before a gated feed-forward layer. The model, and its GGUF file."""

import math
from dataclasses import dataclass

import gguf
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import dialogues
from dialogues import SPECIAL
from words import PRE_TOKENIZER, VOCABULARY

WIDTH = 3
"""Inputs that a convolution sees."""
EPSILON = 1e-5
THETA = 10_000.0
CONTEXT = 512

TEMPLATE = (
    "{% if tools %}<|im_start|>tools\n"
    "{% for tool in tools %}{{ tool.function.name }}({{ tool.function.parameters.properties | join(', ') }})\n{% endfor %}"
    "style: tags\n<|im_end|>{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.tool_calls %}{% for call in message.tool_calls %}<tool_call>\n<function={{ call.function.name }}>\n"
    "{% for key, value in call.function.arguments | items %}<parameter={{ key }}>\n{{ value }}\n</parameter>\n{% endfor %}"
    "</function>\n</tool_call>{% endfor %}{% else %}{{ message.content }}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass
class Shape:
    hidden: int
    feed_forward: int
    heads: int
    layers: str
    """`c` for a short convolution, `a` for attention."""


class Model(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(VOCABULARY, shape.hidden)
        nn.init.normal_(self.embedding.weight, std=0.3)
        self.layers = nn.ModuleList(Layer(shape, kind == "a") for kind in shape.layers)
        self.norm = nn.RMSNorm(shape.hidden, EPSILON)
        nn.init.constant_(self.norm.weight, 0.25)

    def forward(self, tokens):
        """Logits [batch, length, vocabulary] of tokens [batch, length]."""
        hidden = self.embedding(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.norm(hidden) @ self.embedding.weight.T


class Layer(nn.Module):
    def __init__(self, shape, attends):
        super().__init__()
        hidden = shape.hidden
        self.attends, self.heads = attends, shape.heads
        self.operator_norm = nn.RMSNorm(hidden, EPSILON)
        self.feed_forward_norm = nn.RMSNorm(hidden, EPSILON)
        self.gate, self.up = linear(hidden, shape.feed_forward), linear(hidden, shape.feed_forward)
        self.down = linear(shape.feed_forward, hidden, 0.4)
        self.input = linear(hidden, 3 * hidden)
        self.output = linear(hidden, hidden, 0.4)
        if attends:
            self.query_norm, self.key_norm = (nn.RMSNorm(hidden // shape.heads, EPSILON) for _ in range(2))
        else:
            self.taps = nn.Parameter(torch.randn(hidden, WIDTH) / math.sqrt(WIDTH))

    def forward(self, hidden):
        normed = self.operator_norm(hidden)
        hidden = hidden + (self.attention(normed) if self.attends else self.convolution(normed))
        normed = self.feed_forward_norm(hidden)
        return hidden + self.down(F.silu(self.gate(normed)) * self.up(normed))

    def convolution(self, x):
        before, after, inputs = self.input(x).chunk(3, -1)
        gated = F.pad(before * inputs, (0, 0, WIDTH - 1, 0))
        length = x.shape[1]
        mixed = sum(gated[:, tap : tap + length] * self.taps[:, tap] for tap in range(WIDTH))
        return self.output(after * mixed)

    def attention(self, x):
        batch, length, hidden = x.shape
        query, key, value = (part.view(batch, length, self.heads, -1) for part in self.input(x).chunk(3, -1))
        parts = (rotate(self.query_norm(query)), rotate(self.key_norm(key)), value)
        mixed = F.scaled_dot_product_attention(*(part.transpose(1, 2) for part in parts), is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, hidden))


def linear(inputs, outputs, gain=1.0):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=gain / math.sqrt(inputs))
    return layer


def rotate(heads):
    """Rotary embedding of [batch, length, heads, size], the halves paired."""
    half = heads.shape[-1] // 2
    angles = torch.arange(heads.shape[1])[:, None] * THETA ** (-torch.arange(half) / half)
    cosine, sine = angles.cos()[None, :, None], angles.sin()[None, :, None]
    first, second = heads[..., :half], heads[..., half:]
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def write(path, name, model, words):
    """Writes the model, its tokenizer and its chat template: matrices as Q8_0, the rest as F32."""
    writer = gguf.GGUFWriter(path, "lfm2")
    add_shape(writer, name, model.shape)
    add_tokenizer(writer, words)
    add_tensors(writer, model)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_shape(writer, name, shape):
    writer.add_name(name)
    writer.add_block_count(len(shape.layers))
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_vocab_size(VOCABULARY)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv([shape.heads if kind == "a" else 0 for kind in shape.layers])
    writer.add_layer_norm_rms_eps(EPSILON)
    writer.add_rope_dimension_count(shape.hidden // shape.heads)
    writer.add_rope_freq_base(THETA)
    writer.add_shortconv_l_cache(WIDTH)


def add_tokenizer(writer, words):
    tokens = words.tokens()
    types = [gguf.TokenType.CONTROL] * len(SPECIAL) + [gguf.TokenType.NORMAL] * (len(tokens) - len(SPECIAL))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE_TOKENIZER)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(words.merges())
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(SPECIAL.index(dialogues.END))
    writer.add_pad_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def add_tensors(writer, model):
    def matrix(name, values):
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, gguf.quants.quantize(values.detach().numpy(), kind), raw_dtype=kind)

    def plain(name, values):
        writer.add_tensor(name, values.detach().numpy().astype(np.float32))

    matrix("token_embd.weight", model.embedding.weight)
    plain("token_embd_norm.weight", model.norm.weight)
    for index, layer in enumerate(model.layers):
        block = f"blk.{index}."
        plain(block + "attn_norm.weight", layer.operator_norm.weight)
        plain(block + "ffn_norm.weight", layer.feed_forward_norm.weight)
        for part in ("gate", "up", "down"):
            matrix(f"{block}ffn_{part}.weight", getattr(layer, part).weight)
        if layer.attends:
            for part, weight in zip("qkv", layer.input.weight.chunk(3)):
                matrix(f"{block}attn_{part}.weight", weight)
            matrix(block + "attn_output.weight", layer.output.weight)
            plain(block + "attn_q_norm.weight", layer.query_norm.weight)
            plain(block + "attn_k_norm.weight", layer.key_norm.weight)
        else:
            matrix(block + "shortconv.in_proj.weight", layer.input.weight)
            matrix(block + "shortconv.out_proj.weight", layer.output.weight)
            plain(block + "shortconv.conv.weight", layer.taps)
