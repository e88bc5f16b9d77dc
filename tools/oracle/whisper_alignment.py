"""Records token timestamps of a tiny checkpoint of make_whisper.py: whisper_alignment.py FOLDER

FOLDER/alignment.json:
  start, text     token ids of the prompt and of the text
  positions       number of encoder positions that contain audio
  starts          first position of each token of the text, and of the end token after it
  probabilities   of the tokens of the text, among all text tokens
transformers computes attention and logits; the functions of OpenAI's package (openai-whisper)
compute the alignment from them. The input features are those of make_whisper.py.
"""

import json
import random
import sys
from pathlib import Path

import torch
from transformers import WhisperForConditionalGeneration
from whisper.timing import dtw, median_filter

folder = Path(sys.argv[1])
END, START, NO_TIMES, POSITIONS = 104, [105, 106, 109], 112, 31
model = WhisperForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").float().eval()
heads = json.loads((folder / "generation_config.json").read_text())["alignment_heads"]
bands = model.config.num_mel_bins
count = model.config.max_source_positions * 2 * bands
features = ((torch.arange(count) * 7919 % 1000) / 500 - 1).reshape(1, -1, bands).transpose(1, 2)
random.seed(24)  # a seed whose tokens start at different positions
text = [random.randrange(3, END) for _ in range(15)]
tokens = START + [NO_TIMES] + text + [END]
with torch.no_grad():
    hidden = model.model.encoder(features, output_attentions=False).last_hidden_state
    queries = {}
    for layer in model.model.decoder.layers:
        attention = layer.encoder_attn
        attention.q_proj.register_forward_hook(lambda _, __, out, a=attention: queries.__setitem__(a, out))
    logits = model(encoder_outputs=(hidden,), decoder_input_ids=torch.tensor([tokens])).logits[0]
    weights = []
    for layer, head in heads:
        attention = model.model.decoder.layers[layer].encoder_attn
        size = attention.head_dim
        q = queries[attention][0][:, head * size : (head + 1) * size] * size**-0.5
        k = attention.k_proj(hidden)[0][:, head * size : (head + 1) * size]
        weights.append((q @ k.T)[:, :POSITIONS].softmax(dim=-1))
    weights = torch.stack(weights)
    deviation, mean = torch.std_mean(weights, dim=-2, keepdim=True, unbiased=False)
    matrix = median_filter((weights - mean) / deviation, 7).mean(dim=0)[len(START) : -1]
    path_tokens, path_positions = dtw(-matrix)
starts = [int(path_positions[list(path_tokens).index(i)]) for i in range(len(text) + 1)]
rows = logits[len(START) : -2, :END].softmax(dim=-1)
known = {"start": START, "text": text, "positions": POSITIONS, "starts": starts,
         "probabilities": [float(f"{float(rows[i, id]):.6g}") for i, id in enumerate(text)]}
(folder / "alignment.json").write_text(json.dumps(known) + "\n")
print(known)
