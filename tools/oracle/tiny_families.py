"""Checkpoints of make_tiny.py for families of 2025 and 2026, in the format of tiny_models.py."""
from tiny_settings import rope

SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
COMPRESSED = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=3, q_lora_rank=10,
                  kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=7,
                  intermediate_size=30, moe_intermediate_size=9, n_routed_experts=5,
                  num_experts_per_tok=2, n_shared_experts=1, num_hidden_layers=2,
                  tie_word_embeddings=False)

MODELS = {
    "minimax-m2": ("MiniMaxM2", "bfloat16", True, dict(
        hidden_size=28, num_attention_heads=4, num_key_value_heads=2, head_dim=12,
        intermediate_size=10, num_hidden_layers=2, num_local_experts=5, num_experts_per_tok=2,
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    "glm4-lite": ("Glm4MoeLite", "bfloat16", True, COMPRESSED | dict(
        routed_scaling_factor=1.8, rope_parameters=rope(), mlp_layer_types=["dense", "sparse"])),
    "mistral4": ("Mistral4", "bfloat16", False, COMPRESSED | dict(
        first_k_dense_replace=1, routed_scaling_factor=1.3,
        rope_parameters=rope("yarn", factor=8.0, original_max_position_embeddings=8,
                             max_position_embeddings=64, mscale=1.0, mscale_all_dim=1.0,
                             beta_fast=32.0, beta_slow=1.0, llama_4_scaling_beta=0.3))),
    "exaone-moe": ("ExaoneMoe", "float16", False, dict(
        hidden_size=26, num_attention_heads=4, num_key_value_heads=1, head_dim=8,
        intermediate_size=30, moe_intermediate_size=9, num_hidden_layers=3, num_experts=6,
        num_experts_per_tok=2, num_shared_experts=1, n_group=2, topk_group=1, sliding_window=5,
        layer_types=[SLIDING, SLIDING, FULL], mlp_layer_types=["dense", "sparse", "sparse"],
        rope_parameters=rope(), tie_word_embeddings=False)),
    "afmoe": ("Afmoe", "bfloat16", True, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=30, moe_intermediate_size=9, num_dense_layers=1, num_hidden_layers=3,
        num_experts=5, num_experts_per_tok=2, num_shared_experts=2, route_scale=2.8,
        global_attn_every_n_layers=3, sliding_window=5, mup_enabled=True, rope_parameters=rope(),
        tie_word_embeddings=False)),
    "cohere2moe": ("Cohere2Moe", "bfloat16", False, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=9, prefix_dense_intermediate_size=30, num_hidden_layers=3, num_experts=5,
        num_experts_per_tok=2, num_shared_experts=2, layer_types=[FULL, SLIDING, FULL],
        mlp_layer_types=["dense", "sparse", "sparse"], sliding_window=5, logit_scale=0.8,
        rope_parameters=rope(), tie_word_embeddings=True)),
    "cohere2moe-rms": ("Cohere2Moe", "float16", False, dict(
        hidden_size=26, num_attention_heads=5, num_key_value_heads=1, head_dim=6,
        intermediate_size=11, num_hidden_layers=2, num_experts=4, num_experts_per_tok=2,
        num_shared_experts=1, shared_expert_combination_strategy="sum", norm_topk_prob=False,
        expert_selection_fn="sigmoid", rms_norm_eps=1e-5, attention_bias=True,
        layer_types=[SLIDING, FULL], mlp_layer_types=["sparse", "sparse"], sliding_window=6,
        logit_scale=1.2, rope_parameters=rope(), tie_word_embeddings=False)),
    # RoPE bases that differ between layers; 0: a layer without RoPE.
    "granite-swa": ("GraniteSWA", "bfloat16", False, dict(
        hidden_size=28, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=34, num_hidden_layers=4, layer_types=[FULL, SLIDING, SLIDING, FULL],
        layer_rope_theta=[0, 1e4, 1e4, 1e6], sliding_window=5, rope_parameters=rope(),
        embedding_multiplier=2.0, attention_multiplier=0.3, residual_multiplier=0.7,
        logits_scaling=0.6, tie_word_embeddings=True)),
    "granitemoe-swa": ("GraniteMoeSWA", "float16", False, dict(
        hidden_size=30, num_attention_heads=5, num_key_value_heads=1, intermediate_size=9,
        shared_intermediate_size=14, num_hidden_layers=3, layer_types=[FULL, SLIDING, SLIDING],
        layer_rope_theta=[0, 1e4, 5e4], sliding_window=6, rope_parameters=rope(),
        num_local_experts=5, num_experts_per_tok=2, attention_multiplier=0.3,
        logits_scaling=0.6, tie_word_embeddings=False)),
    # Layers with one mixer or MLP each; experts on full rows or on a latent projection of them.
    "nemotron-h": ("NemotronH", "bfloat16", False, dict(
        hidden_size=26, layers_block_type=[LINEAR, "mlp", FULL, LINEAR], num_attention_heads=3,
        num_key_value_heads=1, head_dim=8, intermediate_size=30, mamba_num_heads=4,
        mamba_head_dim=6, n_groups=2, ssm_state_size=7, conv_kernel=4, chunk_size=16,
        num_experts_per_tok=2, tie_word_embeddings=False)),
    "nemotron-h-moe": ("NemotronH", "float16", False, dict(
        hidden_size=24, layers_block_type=[LINEAR, "moe", FULL, "moe"], num_attention_heads=4,
        num_key_value_heads=2, head_dim=6, intermediate_size=30, mamba_num_heads=3,
        mamba_head_dim=10, n_groups=1, ssm_state_size=5, conv_kernel=3, use_bias=True,
        chunk_size=64, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
        moe_latent_size=14, moe_intermediate_size=9, moe_shared_expert_intermediate_size=11,
        routed_scaling_factor=2.5, tie_word_embeddings=False)),
    # Attention and Mamba in parallel, with and without a norm after Mamba.
    "falcon-h1": ("FalconH1", "bfloat16", True, dict(
        hidden_size=26, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        num_hidden_layers=2, intermediate_size=30, mamba_d_ssm=36, mamba_n_heads=6, mamba_d_head=6,
        mamba_n_groups=2, mamba_d_state=7, mamba_d_conv=4, mamba_chunk_size=16,
        mamba_rms_norm=True, mamba_norm_before_gate=False, rope_parameters=rope(theta=1e5),
        lm_head_multiplier=0.6, embedding_multiplier=1.5, mlp_multipliers=[0.8, 0.6],
        key_multiplier=0.5, attention_in_multiplier=1.3, attention_out_multiplier=0.7,
        ssm_multipliers=[0.7, 0.9, 0.6, 1.2, 0.8], ssm_in_multiplier=1.25, ssm_out_multiplier=0.6,
        tie_word_embeddings=False)),
    "falcon-h1-tied": ("FalconH1", "float16", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
        num_hidden_layers=2, intermediate_size=22, mamba_d_ssm=30, mamba_n_heads=5, mamba_d_head=6,
        mamba_n_groups=1, mamba_d_state=9, mamba_d_conv=3, mamba_rms_norm=False,
        mamba_proj_bias=True, projectors_bias=True, attention_bias=True, mlp_bias=True,
        rope_parameters=rope(theta=1e11), embedding_multiplier=1.5, key_multiplier=0.7,
        ssm_multipliers=[0.9, 1.1, 0.8, 1.2, 0.7], tie_word_embeddings=True)),
    "falcon-h1-mlx": ("FalconH1", "float32", False, dict(
        hidden_size=24, num_attention_heads=3, num_key_value_heads=1, head_dim=6,
        num_hidden_layers=2, intermediate_size=22, mamba_d_ssm=30, mamba_n_heads=5, mamba_d_head=6,
        mamba_n_groups=1, mamba_d_state=9, mamba_d_conv=4, mamba_rms_norm=False,
        rope_parameters=rope(theta=1e5), lm_head_multiplier=0.7, embedding_multiplier=1.5,
        mlp_multipliers=[0.8, 0.6], key_multiplier=0.5, attention_in_multiplier=1.3,
        attention_out_multiplier=0.7, ssm_multipliers=[0.7, 0.9, 0.6, 1.2, 0.8],
        ssm_in_multiplier=1.25, ssm_out_multiplier=0.6, tie_word_embeddings=True)),
    "qwen35-mlx": ("Qwen3_5", "float32", False, dict(
        hidden_size=20, num_attention_heads=3, num_key_value_heads=1, head_dim=8,
        intermediate_size=26, num_hidden_layers=2, linear_num_key_heads=1, linear_num_value_heads=3,
        linear_key_head_dim=6, linear_value_head_dim=6, linear_conv_kernel_dim=4,
        layer_types=["linear_attention", "full_attention"],
        rope_parameters=rope(partial_rotary_factor=0.5), tie_word_embeddings=False)),
    # Post-norms, head gates, and sliding windows with separate RoPE, besides wide convolutions.
    "lfm3": ("Lfm3", "bfloat16", False, dict(
        hidden_size=26, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
        intermediate_size=30, num_hidden_layers=4, layer_types=["conv", SLIDING, FULL, "conv"],
        conv_L_cache=7, sliding_window=5,
        rope_parameters={FULL: rope("proportional", 5e4, partial_rotary_factor=0.5),
                         SLIDING: rope()},
        tie_word_embeddings=True)),
    "jamba": ("Jamba", "float16", False, dict(
        hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=20,
        num_hidden_layers=3, num_experts=3, num_experts_per_tok=2, expert_layer_period=2,
        expert_layer_offset=1, attn_layer_period=3, attn_layer_offset=1, mamba_d_state=7,
        mamba_dt_rank=5, tie_word_embeddings=False)),
}
