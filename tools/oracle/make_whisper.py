"""Makes tiny random checkpoints of Whisper and records the results of transformers in float32.

usage: make_whisper.py OUT [SEED]

OUT/a and OUT/b: config.json and model.safetensors. Widths and heads are odd, encoder and decoder
differ in depth and width; b has weights in bf16. reference.json: `tokens`, and as lists of numbers
`hidden` (the output of the encoder) and `logits` of all tokens. The input features [frames][bands]
are ((i * 7919) mod 1000) / 500 - 1 for element i.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration

SIZES = {
    "a": dict(d_model=48, encoder_layers=3, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=4,
              encoder_ffn_dim=72, decoder_ffn_dim=80, num_mel_bins=10, max_source_positions=37, max_target_positions=24,
              vocab_size=151),
    "b": dict(d_model=40, encoder_layers=1, decoder_layers=3, encoder_attention_heads=2, decoder_attention_heads=5,
              encoder_ffn_dim=56, decoder_ffn_dim=56, num_mel_bins=8, max_source_positions=300, max_target_positions=20,
              vocab_size=130, scale_embedding=True),
}


def make(folder, name, seed):
    torch.manual_seed(seed)
    config = WhisperConfig(**SIZES[name], pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2,
                           suppress_tokens=None, begin_suppress_tokens=None)
    model = WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.3 if parameter.dim() > 1 else 0.2) + (parameter.dim() == 1) * 0.5)
        if name == "b":
            for parameter in model.parameters():
                parameter.copy_(parameter.to(torch.bfloat16).float())
    count = config.max_source_positions * 2 * config.num_mel_bins
    features = ((torch.arange(count) * 7919 % 1000) / 500 - 1).reshape(1, -1, config.num_mel_bins).transpose(1, 2)
    tokens = [int(x) for x in torch.randint(0, config.vocab_size, (13,))]
    with torch.no_grad():
        out = model(input_features=features, decoder_input_ids=torch.tensor([tokens]))
    (model if name == "a" else model.to(torch.bfloat16)).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    numbers = lambda x: [float(f"{v:.6g}") for v in x.flatten().tolist()]
    reference = {"tokens": tokens, "hidden": numbers(out.encoder_last_hidden_state[0]), "logits": numbers(out.logits[0])}
    (folder / "reference.json").write_text(json.dumps(reference, separators=(",", ":")) + "\n")


for i, name in enumerate(SIZES):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True, exist_ok=True)
    make(folder, name, int(sys.argv[2] if len(sys.argv) > 2 else 0) + i)
