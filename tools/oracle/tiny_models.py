"""The checkpoints of make_tiny.py: families, storage types and configurations.

Sizes are odd on purpose: heads do not divide the width, and most sizes are not multiples of 32.
"""
import tiny_families
from tiny_settings import VOCABULARY, rope

COMMON = dict(vocab_size=VOCABULARY, bos_token_id=1, eos_token_id=2, pad_token_id=0,
              max_position_embeddings=128)
LLAMA3 = rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
LONG = rope("longrope", partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3],
            long_factor=[1.0, 2.0, 5.0], original_max_position_embeddings=24)

# Widths are multiples of the group sizes of quantised weights.
QUANTISED_LLAMA = dict(
    hidden_size=64, num_attention_heads=4, num_key_value_heads=1, head_dim=32, intermediate_size=64,
    num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=False)
QUANTISED_DEEPSEEK = dict(
    hidden_size=32, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=32, kv_lora_rank=64,
    qk_nope_head_dim=32, qk_rope_head_dim=8, v_head_dim=32, intermediate_size=64,
    moe_intermediate_size=32, n_routed_experts=6, n_group=3, topk_group=2, num_experts_per_tok=2,
    n_shared_experts=1, first_k_dense_replace=1, routed_scaling_factor=2.5, norm_topk_prob=True,
    num_hidden_layers=2, rope_parameters=rope(), num_mtp_layers=0, tie_word_embeddings=False)

# name: (family, type of the weights, whether to write keys of transformers 4, configuration)
MODELS = {
    "llama-llama3": ("Llama", "float32", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
        intermediate_size=44, num_hidden_layers=2, rope_parameters=LLAMA3,
        tie_word_embeddings=False)),
    "llama-bias": ("Llama", "bfloat16", True, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, head_dim=6,
        intermediate_size=50, num_hidden_layers=2, rope_parameters=rope(theta=500000.0),
        tie_word_embeddings=True, attention_bias=True, mlp_bias=True)),
    "llama-linear": ("Llama", "float16", True, dict(
        hidden_size=40, num_attention_heads=5, num_key_value_heads=5, intermediate_size=36,
        num_hidden_layers=2, rope_parameters=rope("linear", factor=4.0),
        tie_word_embeddings=False)),
    "llama-yarn": ("Llama", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=3, num_key_value_heads=1, head_dim=16,
        intermediate_size=40, num_hidden_layers=2,
        rope_parameters=rope("yarn", 150000.0, factor=8.0, original_max_position_embeddings=16,
                             beta_fast=4.0, beta_slow=1.0, truncate=False),
        tie_word_embeddings=False)),
    "mistral": ("Mistral", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=60, num_hidden_layers=2, rope_parameters=rope(), sliding_window=6,
        tie_word_embeddings=False)),
    "qwen2": ("Qwen2", "float16", True, dict(
        hidden_size=42, num_attention_heads=7, num_key_value_heads=1, intermediate_size=52,
        num_hidden_layers=2, rope_parameters=rope(theta=1e6), tie_word_embeddings=True)),
    "qwen2-yarn": ("Qwen2", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=40,
        num_hidden_layers=3, rope_parameters=YARN, use_sliding_window=True, sliding_window=5,
        max_window_layers=1, tie_word_embeddings=False)),
    "qwen3": ("Qwen3", "float32", False, dict(
        hidden_size=30, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=44, num_hidden_layers=2, rope_parameters=rope(theta=1e6),
        tie_word_embeddings=False)),
    "qwen3-tied": ("Qwen3", "bfloat16", True, dict(
        hidden_size=26, num_attention_heads=7, num_key_value_heads=1, head_dim=8,
        intermediate_size=44, num_hidden_layers=2, rope_parameters=rope(theta=1e6),
        tie_word_embeddings=True)),
    "mixtral": ("Mixtral", "bfloat16", True, dict(
        hidden_size=28, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=22, num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2,
        rope_parameters=rope(theta=1e6), tie_word_embeddings=False)),
    "qwen2moe": ("Qwen2Moe", "bfloat16", False, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=1, intermediate_size=34,
        num_hidden_layers=3, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=14,
        shared_expert_intermediate_size=18, mlp_only_layers=[1], rope_parameters=rope(),
        tie_word_embeddings=True)),
    "qwen3moe": ("Qwen3Moe", "bfloat16", True, dict(
        hidden_size=26, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=34, num_hidden_layers=3, num_experts=7, num_experts_per_tok=3,
        moe_intermediate_size=13, norm_topk_prob=True, decoder_sparse_step=2,
        rope_parameters=rope(theta=1e6), tie_word_embeddings=False)),
    "deepseek-v2": ("DeepseekV2", "bfloat16", True, dict(
        hidden_size=27, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=None,
        kv_lora_rank=16, qk_nope_head_dim=10, qk_rope_head_dim=4, v_head_dim=7,
        intermediate_size=34, moe_intermediate_size=12, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1,
        routed_scaling_factor=1.5, num_hidden_layers=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "deepseek-v2-groups": ("DeepseekV2", "float16", True, dict(
        hidden_size=26, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=11,
        kv_lora_rank=14, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=10,
        intermediate_size=30, moe_intermediate_size=10, n_routed_experts=6, n_group=3,
        topk_group=2, topk_method="group_limited_greedy", num_experts_per_tok=2,
        n_shared_experts=1, first_k_dense_replace=0, routed_scaling_factor=2.0,
        num_hidden_layers=2, attention_bias=True,
        rope_parameters=YARN | {"mscale": 0.707, "mscale_all_dim": 0.707},
        tie_word_embeddings=False)),
    "deepseek-v3": ("DeepseekV3", "bfloat16", False, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=14,
        kv_lora_rank=32, qk_nope_head_dim=7, qk_rope_head_dim=16, v_head_dim=9,
        intermediate_size=34, moe_intermediate_size=13, n_routed_experts=8, n_group=4,
        topk_group=2, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, num_hidden_layers=2,
        rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0},
        num_mtp_layers=0, tie_word_embeddings=False)),
    "olmoe": ("Olmoe", "bfloat16", True, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=14,
        num_hidden_layers=2, num_experts=6, num_experts_per_tok=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "granitemoe": ("GraniteMoe", "bfloat16", True, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=14,
        num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2, rope_parameters=rope(),
        embedding_multiplier=0.8, residual_multiplier=0.6, attention_multiplier=0.3,
        logits_scaling=0.6, tie_word_embeddings=True)),
    "granitemoeshared": ("GraniteMoeShared", "float16", False, dict(
        hidden_size=20, num_attention_heads=5, num_key_value_heads=1, intermediate_size=14,
        num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2,
        shared_intermediate_size=22, rope_parameters=rope(), attention_multiplier=0.4,
        tie_word_embeddings=True)),
    "granitemoehybrid": ("GraniteMoeHybrid", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=14,
        num_hidden_layers=2, num_local_experts=0, num_experts_per_tok=0,
        shared_intermediate_size=30, layer_types=["attention", "attention"], mamba_n_heads=4,
        position_embedding_type="rope", rope_parameters=rope(), attention_multiplier=0.4,
        residual_multiplier=0.7, tie_word_embeddings=True)),
    "dots1": ("Dots1", "bfloat16", False, dict(
        hidden_size=20, num_attention_heads=5, num_key_value_heads=1, head_dim=6,
        intermediate_size=30, moe_intermediate_size=10, num_hidden_layers=3, n_routed_experts=6,
        n_group=3, topk_group=2, num_experts_per_tok=2, n_shared_experts=1, max_window_layers=2,
        sliding_window=6, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5,
        rope_parameters=rope(), tie_word_embeddings=False)),
    "glm4moe": ("Glm4Moe", "bfloat16", False, dict(
        hidden_size=20, num_attention_heads=5, num_key_value_heads=1, head_dim=8,
        intermediate_size=30, moe_intermediate_size=10, num_hidden_layers=2, n_routed_experts=6,
        num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1, attention_bias=True,
        use_qk_norm=True, routed_scaling_factor=1.5, num_mtp_layers=0,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "glm": ("Glm", "float16", True, dict(
        hidden_size=28, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
        intermediate_size=30, num_hidden_layers=2, attention_bias=True,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "glm4": ("Glm4", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
        intermediate_size=30, num_hidden_layers=2, attention_bias=True,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "ernie4_5": ("Ernie4_5", "float16", True, dict(
        hidden_size=28, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
        intermediate_size=34, num_hidden_layers=2, use_bias=True, rope_parameters=rope(),
        tie_word_embeddings=True)),
    "exaone4": ("Exaone4", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=34,
        num_hidden_layers=4, sliding_window=6, sliding_window_pattern=4, rope_parameters=rope(),
        tie_word_embeddings=True)),
    "seed-oss": ("SeedOss", "float16", False, dict(
        hidden_size=28, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
        intermediate_size=34, num_hidden_layers=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "llama4": ("Llama4", "bfloat16", False, dict(
        hidden_size=20, num_attention_heads=5, num_key_value_heads=1, head_dim=6,
        intermediate_size=11, intermediate_size_mlp=30, num_hidden_layers=4, num_local_experts=4,
        num_experts_per_tok=2, interleave_moe_layer_step=2, attention_chunk_size=6, floor_scale=3,
        attn_scale=0.4, no_rope_layer_interval=3, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "llama4-plain": ("Llama4", "float16", False, dict(
        hidden_size=18, num_attention_heads=3, num_key_value_heads=3, head_dim=8,
        intermediate_size=10, num_hidden_layers=4, num_local_experts=3,
        rope_parameters=rope(theta=5e5), tie_word_embeddings=False)),
    "gpt-oss-mxfp4": ("GptOss", "bfloat16", False, dict(
        hidden_size=32, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
        intermediate_size=32, num_hidden_layers=2, num_local_experts=3, num_experts_per_tok=2,
        sliding_window=6, rope_parameters=rope(), tie_word_embeddings=True)),
    "qwen3moe-mlx": ("Qwen3Moe", "float32", False, dict(
        hidden_size=32, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
        intermediate_size=20, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=32, norm_topk_prob=True, rope_parameters=rope(),
        tie_word_embeddings=True)),
    # Sparse attention: an indexer selects index_topk positions; shorter contexts use all positions.
    "deepseek-v32-sparse": ("DeepseekV32", "bfloat16", False, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=14,
        kv_lora_rank=32, qk_nope_head_dim=7, qk_rope_head_dim=16, v_head_dim=9,
        intermediate_size=34, moe_intermediate_size=13, n_routed_experts=8, n_group=4,
        topk_group=2, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, num_hidden_layers=2, index_topk=9,
        index_head_dim=32, index_n_heads=7,
        rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, tie_word_embeddings=False)),
    "glm5-sparse": ("GlmMoeDsa", "float32", False, dict(
        hidden_size=26, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=14,
        kv_lora_rank=24, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=11,
        intermediate_size=34, moe_intermediate_size=13, n_routed_experts=6, n_group=1,
        topk_group=1, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
        routed_scaling_factor=1.5, norm_topk_prob=True, num_hidden_layers=4, index_topk=11,
        index_head_dim=12, index_n_heads=6, indexer_types=["full", "shared", "full", "shared"],
        rope_parameters=rope(), tie_word_embeddings=False)),
    "deepseek-v32": ("DeepseekV32", "bfloat16", False, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=14,
        kv_lora_rank=32, qk_nope_head_dim=7, qk_rope_head_dim=16, v_head_dim=9,
        intermediate_size=34, moe_intermediate_size=13, n_routed_experts=8, n_group=4,
        topk_group=2, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
        routed_scaling_factor=2.5, norm_topk_prob=True, num_hidden_layers=2, index_topk=96,
        index_head_dim=20, index_n_heads=2,
        rope_parameters=YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}, tie_word_embeddings=False)),
    "glm5": ("GlmMoeDsa", "float32", False, dict(
        hidden_size=26, num_attention_heads=2, num_key_value_heads=2, q_lora_rank=14,
        kv_lora_rank=24, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=11,
        intermediate_size=34, moe_intermediate_size=13, n_routed_experts=6, n_group=1,
        topk_group=1, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
        routed_scaling_factor=1.5, norm_topk_prob=True, num_hidden_layers=3, index_topk=96,
        index_head_dim=12, index_n_heads=2, index_topk_freq=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "deepseek-v3-fp8": ("DeepseekV3", "float32", False, QUANTISED_DEEPSEEK),
    "deepseek-v3-mlx": ("DeepseekV3", "float32", False, QUANTISED_DEEPSEEK),
    "llama-mlx3": ("Llama", "float32", False, QUANTISED_LLAMA | {
        "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1}),
    "llama-mlx6": ("Llama", "float32", False, QUANTISED_LLAMA),
    "llama-mlx8": ("Llama", "float32", False, QUANTISED_LLAMA | {"intermediate_size": 96}),
    "llama-mlx8-f32": ("Llama", "float32", False, QUANTISED_LLAMA),
    "llama-mxfp8": ("Llama", "float32", False, QUANTISED_LLAMA | {"intermediate_size": 96}),
    "llama-fp8": ("Llama", "float32", False, QUANTISED_LLAMA | {"intermediate_size": 128}),
    "llama-fp8-blocks": ("Llama", "float32", False, QUANTISED_LLAMA | {"intermediate_size": 160}),
    "gpt-oss": ("GptOss", "bfloat16", False, dict(
        hidden_size=26, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=14, num_hidden_layers=3, num_local_experts=5, num_experts_per_tok=2,
        sliding_window=6, rope_parameters=rope("yarn", 150000.0, factor=4.0,
        original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0, truncate=False),
        tie_word_embeddings=False)),
    "gemma": ("Gemma", "bfloat16", True, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
        intermediate_size=50, num_hidden_layers=2, rope_parameters=rope(),
        tie_word_embeddings=True)),
    "gemma2": ("Gemma2", "bfloat16", True, dict(
        hidden_size=30, num_attention_heads=6, num_key_value_heads=2, head_dim=12,
        intermediate_size=46, num_hidden_layers=3, rope_parameters=rope(), sliding_window=6,
        query_pre_attn_scalar=20, attn_logit_softcapping=3.0, final_logit_softcapping=8.0,
        tie_word_embeddings=True)),
    "gemma3": ("Gemma3", "float32", False, dict(
        hidden_size=27, num_attention_heads=3, num_key_value_heads=1, head_dim=12,
        intermediate_size=38, num_hidden_layers=2, sliding_window=6, query_pre_attn_scalar=13,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"full_attention": rope("linear", 1e6, factor=8.0),
                         "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "gemma4": ("Gemma4", "float32", False, dict(
        hidden_size=20, num_attention_heads=4, num_key_value_heads=2, head_dim=6, global_head_dim=10,
        intermediate_size=18, num_hidden_layers=6, sliding_window=5, num_kv_shared_layers=3,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"] * 2,
        use_double_wide_mlp=True, hidden_size_per_layer_input=4,
        vocab_size_per_layer_input=VOCABULARY, final_logit_softcapping=9.0,
        rope_parameters={"full_attention": rope("proportional", 5e4, partial_rotary_factor=0.3),
                         "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "gemma4-published": ("Gemma4", "bfloat16", False, dict(
        hidden_size=22, num_attention_heads=4, num_key_value_heads=1, head_dim=16,
        global_head_dim=32, intermediate_size=18, num_hidden_layers=4, sliding_window=6,
        num_kv_shared_layers=2, layer_types=["sliding_attention", "full_attention"] * 2,
        hidden_size_per_layer_input=6, vocab_size_per_layer_input=VOCABULARY,
        final_logit_softcapping=12.0,
        rope_parameters={"full_attention": rope("proportional", 1e6, partial_rotary_factor=0.25),
                         "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "gemma4-unified": ("Gemma4Unified", "bfloat16", False, dict(
        hidden_size=18, num_attention_heads=4, num_key_value_heads=2, head_dim=6, global_head_dim=8,
        num_global_key_value_heads=1, attention_k_eq_v=True, intermediate_size=26,
        num_hidden_layers=3, sliding_window=5,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        final_logit_softcapping=10.0,
        rope_parameters={"full_attention": rope("proportional", 5e4, partial_rotary_factor=0.5),
                         "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "gemma4-moe": ("Gemma4", "bfloat16", False, dict(
        hidden_size=18, num_attention_heads=4, num_key_value_heads=2, head_dim=6, global_head_dim=8,
        num_global_key_value_heads=1, attention_k_eq_v=True, intermediate_size=14,
        num_hidden_layers=3, sliding_window=5, hidden_size_per_layer_input=0,
        layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        enable_moe_block=True, num_experts=5, top_k_experts=2, moe_intermediate_size=7,
        final_logit_softcapping=10.0,
        rope_parameters={"full_attention": rope("proportional", 5e4, partial_rotary_factor=0.5),
                         "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "gemma3-pattern": ("Gemma3", "bfloat16", True, dict(
        hidden_size=28, num_attention_heads=4, num_key_value_heads=1, head_dim=10,
        intermediate_size=38, num_hidden_layers=4, sliding_window=5, query_pre_attn_scalar=10,
        layer_types=["sliding_attention", "sliding_attention", "full_attention",
                     "sliding_attention"],
        rope_parameters={"full_attention": rope(theta=1e6), "sliding_attention": rope()},
        tie_word_embeddings=True)),
    "phi3": ("Phi3", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=rope(), sliding_window=6,
        original_max_position_embeddings=128, tie_word_embeddings=False)),
    "phi3-longrope": ("Phi3", "float16", False, dict(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=4, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=LONG, sliding_window=None,
        original_max_position_embeddings=24, tie_word_embeddings=True)),
    "smollm3": ("SmolLM3", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=4, rope_parameters=rope(theta=5e4), no_rope_layers=[0, 1, 1, 0],
        use_sliding_window=True, sliding_window=6, tie_word_embeddings=True)),
    "smollm3-interval": ("SmolLM3", "float32", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, intermediate_size=30,
        num_hidden_layers=4, rope_parameters=rope(theta=5e4), tie_word_embeddings=False)),
    "granite": ("Granite", "float16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=True,
        embedding_multiplier=0.8, residual_multiplier=0.6, attention_multiplier=0.3,
        logits_scaling=0.6)),
    "olmo": ("Olmo", "float16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=False)),
    "olmo2": ("Olmo2", "float16", True, dict(
        hidden_size=42, num_attention_heads=7, num_key_value_heads=1, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=rope(theta=5e5), tie_word_embeddings=False)),
    "olmo3": ("Olmo3", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=40,
        num_hidden_layers=4, sliding_window=6,
        rope_parameters={"full_attention": YARN, "sliding_attention": rope()},
        tie_word_embeddings=False)),
    "mistral3": ("Ministral3", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=44, num_hidden_layers=2, sliding_window=None,
        rope_parameters=rope("yarn", 1e4, factor=8.0, original_max_position_embeddings=8,
                             beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             llama_4_scaling_beta=0.3),
        tie_word_embeddings=False)),
    "helium": ("Helium", "bfloat16", True, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=1, head_dim=10,
        intermediate_size=44, num_hidden_layers=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "cohere": ("Cohere", "float16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=40,
        num_hidden_layers=2, rope_parameters=rope(), use_qk_norm=True, logit_scale=1.5,
        tie_word_embeddings=True)),
    "cohere2": ("Cohere2", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, intermediate_size=44,
        num_hidden_layers=4, rope_parameters=rope(theta=5e4), logit_scale=1.5, sliding_window=5,
        layer_types=["sliding_attention", "sliding_attention", "sliding_attention",
                     "full_attention"],
        tie_word_embeddings=True)),
    "gpt2": ("GPT2", "float16", False, dict(
        n_embd=30, n_head=3, n_layer=2, n_positions=48, tie_word_embeddings=True)),
    "gpt-neox": ("GPTNeoX", "float16", True, dict(
        hidden_size=36, num_attention_heads=3, intermediate_size=52, num_hidden_layers=2,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "gpt-neox-serial": ("GPTNeoX", "bfloat16", False, dict(
        hidden_size=40, num_attention_heads=5, intermediate_size=44, num_hidden_layers=2,
        rope_parameters=rope(partial_rotary_factor=0.25), use_parallel_residual=False,
        tie_word_embeddings=False)),
    "starcoder2": ("Starcoder2", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=52,
        num_hidden_layers=2, rope_parameters=rope(), sliding_window=6,
        tie_word_embeddings=True)),
    "phi2": ("Phi", "float16", True, dict(
        hidden_size=40, num_attention_heads=5, num_key_value_heads=1, intermediate_size=52,
        num_hidden_layers=2, rope_parameters=rope(partial_rotary_factor=0.5),
        qk_layernorm=True, tie_word_embeddings=False)),
    "stablelm": ("StableLm", "float16", True, dict(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, intermediate_size=36,
        num_hidden_layers=2, rope_parameters=rope(partial_rotary_factor=0.25), use_qkv_bias=True,
        tie_word_embeddings=False)),
    "stablelm-parallel": ("StableLm", "bfloat16", False, dict(
        hidden_size=40, num_attention_heads=5, num_key_value_heads=1, intermediate_size=36,
        num_hidden_layers=2, rope_parameters=rope(partial_rotary_factor=0.5),
        use_parallel_residual=True, tie_word_embeddings=True)),
    "hunyuan": ("HunYuanDenseV1", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=34, num_hidden_layers=2,
        rope_parameters=rope("dynamic", alpha=50.0, factor=1.0), tie_word_embeddings=True)),
    "hunyuanmoe": ("HunYuanMoEV1", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=22, num_hidden_layers=2, num_experts=5, moe_topk=2,
        rope_parameters=rope("dynamic", alpha=50.0, factor=1.0), tie_word_embeddings=True)),
    "nemotron": ("Nemotron", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=8,
        intermediate_size=44, num_hidden_layers=2,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "nemotron-f32": ("Nemotron", "float32", False, dict(
        hidden_size=27, num_attention_heads=3, num_key_value_heads=3, head_dim=12,
        intermediate_size=34, num_hidden_layers=2, attention_bias=True, mlp_bias=True,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "arcee": ("Arcee", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, head_dim=10,
        intermediate_size=50, num_hidden_layers=2, rope_parameters=YARN,
        tie_word_embeddings=False)),
    "arcee-f32": ("Arcee", "float32", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, head_dim=8,
        intermediate_size=30, num_hidden_layers=2, rope_parameters=rope(), mlp_bias=True,
        tie_word_embeddings=True)),
    "apertus": ("Apertus", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=3, rope_parameters=LLAMA3, tie_word_embeddings=False)),
    "apertus-f32": ("Apertus", "float32", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, intermediate_size=30,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=True)),
    "phimoe": ("Phimoe", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=1, intermediate_size=14,
        num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2, attention_bias=True,
        lm_head_bias=True, router_jitter_noise=0.2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    # Beyond the original context, the class of transformers keeps using the first set of factors.
    "phimoe-longrope": ("Phimoe", "float32", False, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=14,
        num_hidden_layers=2, num_local_experts=4, num_experts_per_tok=2, sliding_window=6,
        rope_parameters=rope("longrope", short_factor=[1.0, 1.1, 1.3],
                             long_factor=[1.0, 2.0, 5.0], short_mscale=1.2, long_mscale=1.2,
                             factor=2.0, original_max_position_embeddings=64),
        original_max_position_embeddings=64, tie_word_embeddings=False)),
    "opt": ("OPT", "float16", False, dict(
        hidden_size=30, num_attention_heads=3, ffn_dim=44, num_hidden_layers=2,
        word_embed_proj_dim=30, tie_word_embeddings=True)),
    "bitnet": ("BitNet", "bfloat16", False, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=44,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=True)),
    "falcon": ("Falcon", "bfloat16", True, dict(
        hidden_size=40, num_attention_heads=5, ffn_hidden_size=52, num_hidden_layers=2,
        rope_parameters=rope(), tie_word_embeddings=True)),
    "falcon-new": ("Falcon", "float32", False, dict(
        hidden_size=36, num_attention_heads=6, num_kv_heads=2, new_decoder_architecture=True,
        ffn_hidden_size=40, num_hidden_layers=2, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "falcon-serial": ("Falcon", "float16", False, dict(
        hidden_size=24, num_attention_heads=3, multi_query=False, parallel_attn=False, bias=True,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=True)),
    "gptj": ("GPTJ", "float16", False, dict(
        n_embd=30, n_head=3, n_layer=2, n_positions=128, rotary_dim=4,
        tie_word_embeddings=False)),
    "mpt": ("Mpt", "bfloat16", False, dict(
        d_model=36, n_heads=6, n_layers=2, max_seq_len=128)),
    "bloom": ("Bloom", "float16", False, dict(
        hidden_size=36, n_head=3, n_layer=2, seq_length=128, tie_word_embeddings=False)),
    "stablelm-heads": ("StableLm", "bfloat16", False, dict(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, intermediate_size=36,
        num_hidden_layers=2, rope_parameters=rope(partial_rotary_factor=0.25), qk_layernorm=True,
        use_parallel_residual=True, tie_word_embeddings=False)),
    "ernie4_5moe": ("Ernie4_5_Moe", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=34,
        moe_intermediate_size=10, moe_num_experts=6, moe_k=2, moe_num_shared_experts=2,
        moe_layer_start_index=1, num_hidden_layers=3, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "internlm3": ("Qwen2", "float16", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, intermediate_size=34,
        num_hidden_layers=2, rope_parameters=rope(), tie_word_embeddings=False)),
    "internlm2": ("Llama", "bfloat16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=34,
        num_hidden_layers=2, rope_parameters=rope(theta=1e6), tie_word_embeddings=False)),
    "exaone": ("Llama", "float16", True, dict(
        hidden_size=36, num_attention_heads=6, num_key_value_heads=2, intermediate_size=34,
        num_hidden_layers=2, rope_parameters=LLAMA3, tie_word_embeddings=True)),
    "minicpm": ("Granite", "bfloat16", True, dict(
        hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=34,
        num_hidden_layers=2, rope_parameters=rope(), attention_multiplier=8 ** -0.5,
        embedding_multiplier=1.5, residual_multiplier=1.2 / 2 ** 0.5, logits_scaling=0.5,
        tie_word_embeddings=True)),
    # Recurrent layers and gated attention; 2 and 3 value heads per key head.
    "qwen35": ("Qwen3_5", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
        intermediate_size=38, num_hidden_layers=3, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=6, linear_value_head_dim=6, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        rope_parameters=rope(partial_rotary_factor=0.25), tie_word_embeddings=False)),
    "qwen35moe": ("Qwen3_5Moe", "float16", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=16,
        num_hidden_layers=3, linear_num_key_heads=3, linear_num_value_heads=3,
        linear_key_head_dim=5, linear_value_head_dim=5, linear_conv_kernel_dim=3, num_experts=5,
        num_experts_per_tok=2, moe_intermediate_size=11, shared_expert_intermediate_size=13,
        layer_types=["linear_attention", "linear_attention", "full_attention"],
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=True)),
    "qwen3next": ("Qwen3Next", "bfloat16", False, dict(
        hidden_size=26, num_attention_heads=4, num_key_value_heads=1, head_dim=8,
        intermediate_size=30, num_hidden_layers=4, linear_num_key_heads=2, linear_num_value_heads=6,
        linear_key_head_dim=4, linear_value_head_dim=4, linear_conv_kernel_dim=4, num_experts=4,
        num_experts_per_tok=2, moe_intermediate_size=10, shared_expert_intermediate_size=12,
        layer_types=["linear_attention", "linear_attention", "full_attention", "linear_attention"],
        mlp_only_layers=[1], rope_parameters=rope(partial_rotary_factor=0.5),
        tie_word_embeddings=False)),
    "mamba2": ("Mamba2", "bfloat16", False, dict(
        hidden_size=26, expand=2, num_heads=4, head_dim=13, n_groups=2, state_size=9,
        conv_kernel=4, chunk_size=8, num_hidden_layers=3, tie_word_embeddings=False)),
    "mamba2-limits": ("Mamba2", "float16", False, dict(
        hidden_size=24, expand=2, num_heads=3, head_dim=16, n_groups=1, state_size=7,
        conv_kernel=3, chunk_size=64, num_hidden_layers=2, use_bias=True, use_conv_bias=False,
        time_step_limit=(0.1, 0.5), tie_word_embeddings=True)),
    "lfm2": ("Lfm2", "bfloat16", False, dict(
        hidden_size=30, num_attention_heads=3, num_key_value_heads=1, intermediate_size=60,
        block_multiple_of=8, block_ffn_dim_multiplier=1.1, conv_L_cache=3, num_hidden_layers=3,
        layer_types=["conv", "full_attention", "conv"], rope_parameters=rope(),
        tie_word_embeddings=True)),
    "lfm2moe": ("Lfm2Moe", "float16", False, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=30,
        moe_intermediate_size=10, num_experts=5, num_experts_per_tok=2, num_dense_layers=1,
        routed_scaling_factor=1.5, conv_L_cache=3, num_hidden_layers=3,
        layer_types=["conv", "full_attention", "conv"], rope_parameters=rope(),
        tie_word_embeddings=True)),
    "xlstm": ("xLSTM", "bfloat16", False, dict(
        hidden_size=30, num_heads=3, num_blocks=2, qk_dim_factor=0.6, ffn_proj_factor=1.3,
        ffn_round_up_to_multiple_of=4, gate_soft_cap=8.0, output_logit_soft_cap=12.0, use_bias=True,
        chunk_size=16, autocast_kernel_dtype="float32", tie_word_embeddings=False)),
    "xlstm-fused": ("xLSTM", "float32", False, dict(
        hidden_size=24, num_heads=4, num_blocks=2, qk_dim_factor=0.5, ffn_proj_factor=1.5,
        ffn_round_up_to_multiple_of=8, chunk_size=64, autocast_kernel_dtype="float32",
        tie_word_embeddings=False)),
    "kimi-linear": ("KimiLinear", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=3, head_dim=8, kv_lora_rank=12,
        q_lora_rank=None, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7,
        intermediate_size=30, moe_intermediate_size=9, num_experts=5, num_experts_per_token=2,
        num_shared_experts=1, routed_scaling_factor=2.4, linear_num_heads=2, linear_head_dim=8,
        linear_conv_kernel_dim=4, num_hidden_layers=3,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        mlp_layer_types=["dense", "sparse", "sparse"], tie_word_embeddings=False)),
    "granite4h": ("GraniteMoeHybrid", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=7, num_key_value_heads=1, intermediate_size=14,
        num_hidden_layers=3, num_local_experts=0, num_experts_per_tok=0, shared_intermediate_size=30,
        layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_head=14,
        mamba_n_groups=1, mamba_d_state=6, mamba_d_conv=4, mamba_expand=2, mamba_proj_bias=True,
        position_embedding_type="rope", rope_parameters=rope(), attention_multiplier=0.4,
        embedding_multiplier=2.0, residual_multiplier=0.7, logits_scaling=0.6,
        attention_bias=True, tie_word_embeddings=True)),
    "granite4h-moe": ("GraniteMoeHybrid", "float16", False, dict(
        hidden_size=24, num_attention_heads=6, num_key_value_heads=2, intermediate_size=10,
        num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2, shared_intermediate_size=12,
        layer_types=["mamba", "mamba", "attention"], mamba_n_heads=6, mamba_d_head=8,
        mamba_n_groups=2, mamba_d_state=5, mamba_d_conv=3, mamba_expand=2, mamba_chunk_size=8,
        position_embedding_type="nope", rope_parameters=rope(), attention_multiplier=0.3,
        tie_word_embeddings=True)),
    "bamba": ("Bamba", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=1, intermediate_size=30,
        num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=6, mamba_d_head=8,
        mamba_n_groups=3, mamba_d_state=6, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
}
MODELS |= tiny_families.MODELS
# Values of sliding_window_pattern for configurations with old keys.
PATTERNS = {"gemma3-pattern": 3}
