"""Layers that are networks of their own: recurrent ones and attention."""

from __future__ import annotations

from ..compositions import attention, recurrent
from ..row import Means

_INPUTS = "X, W, R, B?, sequence_lens?, initial_h?"

ROWS = (
    Means(
        recurrent.rnn, onnx=f"RNN({_INPUTS}) by recurrent", pnnx="nn.RNN(input, h0?) by recurrent"
    ),
    Means(
        recurrent.gru, onnx=f"GRU({_INPUTS}) by recurrent", pnnx="nn.GRU(input, h0?) by recurrent"
    ),
    Means(
        recurrent.lstm,
        onnx=f"LSTM({_INPUTS}, initial_c?, P?) by recurrent",
        pnnx="nn.LSTM(input, h0?, c0?) by recurrent",
    ),
    Means(
        attention.attention,
        onnx="Attention(Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?) by attention",
        pnnx=(
            "F.scaled_dot_product_attention(query, key, value, attn_mask?) by attention",
            "nn.MultiheadAttention(query, key, value, attn_mask?, key_padding_mask?) by multihead",
            "aten::_transformer_encoder_layer_fwd(src, embed_dim=_, num_heads, qkv_weight, qkv_bias, proj_weight,"
            " proj_bias, use_gelu, norm_first, eps, norm1_weight, norm1_bias, norm2_weight, norm2_bias, ffn1_weight,"
            " ffn1_bias, ffn2_weight, ffn2_bias, mask?, mask_type?) by encoder_layer",
        ),
        aten=(
            "scaled_dot_product_attention(query, key, value, attn_mask?) by attention",
            "_scaled_dot_product_flash_attention_for_cpu(query, key, value, attn_mask?) by attention_kernel",
            "_transformer_encoder_layer_fwd(src, embed_dim=_, num_heads) by encoder_layer_kernel",
        ),
    ),
)
